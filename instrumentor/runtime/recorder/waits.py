"""The ways in which a device is waited for, the cheapest first."""

import sys
from typing import Any, Callable, Iterator, List, NamedTuple, Tuple

from instrumentor.runtime.recorder.produced import read_all


class Way(NamedTuple):
    """One way to wait.

    Attributes:
        name: for the reader of the result.
        wait: is given the loss (or None) and the trained tensors of the last step.
    """

    name: str
    wait: Callable[[Any, List[Any]], None]


def ways_to_wait(kind: str) -> List[Way]:
    """What may make a device of that type idle; each later one waits for more.

    A function called synchronize may do nothing, and a read may wait for that tensor alone: which
    way is good enough is found out by :class:`.barrier.Barrier`.
    """
    if kind in OTHERS:
        return [calling(*OTHERS[kind])]
    return [
        *(calling(*found) for found in synchronizers(sys.modules.get("torch"), kind)),
        Way("reading the loss", read_loss),
        Way("reading the loss, the first and the last gradient and parameter", read_ends),
        Way("reading the loss, each gradient and each parameter", read_each),
    ]


def calling(name: str, call: Callable[[], Any]) -> Way:
    """A function that waits for all of a device."""

    def wait(loss: Any, leaves: List[Any]) -> None:
        call()

    return Way(name, wait)


def synchronizers(torch: Any, kind: str) -> Iterator[Tuple[str, Callable[[], Any]]]:
    """The device module's own function, or torch's for the accelerator that it is."""
    own = getattr(getattr(torch, kind, None), "synchronize", None)
    if callable(own):
        yield "torch.%s.synchronize" % kind, own
        return
    accelerator: Any = getattr(torch, "accelerator", None)
    current = getattr(accelerator, "current_accelerator", lambda: None)()
    if getattr(current, "type", None) == kind:
        yield "torch.accelerator.synchronize", accelerator.synchronize


def read_loss(loss: Any, leaves: List[Any]) -> None:
    """The loss; without one, the last trained tensor."""
    read_all([loss] if loss is not None else required(leaves)[-1:])


def read_ends(loss: Any, leaves: List[Any]) -> None:
    """What a backward makes last, and what an update writes last."""
    read_all(required(([] if loss is None else [loss]) + leaves[:1] + leaves[-1:]))


def read_each(loss: Any, leaves: List[Any]) -> None:
    """A part of everything."""
    read_all(required(([] if loss is None else [loss]) + leaves))


def required(tensors: List[Any]) -> List[Any]:
    """The tensors, of which there must be one."""
    if not tensors:
        raise RuntimeError("no tensor of the step is in sight that could be read")
    return tensors


def wait_for_xla() -> None:
    """Wait for torch_xla's queues: its sync alone does not.

    On torch_xla 2.9 (CPU) `sync(wait=True)` returned after 1 ms with 305 ms of work still pending.
    """
    import torch_xla.core.xla_model

    torch_xla.core.xla_model.wait_device_ops()


def wait_for_jax() -> None:
    """Wait for every array that lives."""
    for array in sys.modules["jax"].live_arrays():
        array.block_until_ready()


def wait_for_ttml() -> None:
    """Wait for the command queues of ttml's device."""
    device = sys.modules["ttml"].autograd.AutoContext.get_instance().get_device()
    sys.modules["ttnn"].synchronize_device(device)


#: Devices that are not torch's own, by the module that has them: what waits, and how it is called.
OTHERS = {
    "xla": ("torch_xla.core.xla_model.wait_device_ops", wait_for_xla),
    "jax": ("block_until_ready of every jax array", wait_for_jax),
    "ttml": ("ttnn.synchronize_device", wait_for_ttml),
}
