"""The ways in which a device is waited for, the cheapest first."""

from typing import Any, Callable, List, NamedTuple

from instrumentor.runtime.recorder.runtimes import runtime_of
from instrumentor.runtime.recorder.step_tensors import read_all


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
    runtime = runtime_of(kind)
    ways = [calling(*wait) for wait in runtime.waits()]
    return [*ways, *READS] if runtime.readable else ways


def calling(name: str, call: Callable[[], Any]) -> Way:
    """A function that waits for all of a device."""

    def wait(loss: Any, leaves: List[Any]) -> None:
        call()

    return Way(name, wait)


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


#: For devices whose tensors can be read.
READS = (
    Way("reading the loss", read_loss),
    Way("reading the loss, the first and the last gradient and parameter", read_ends),
    Way("reading the loss, each gradient and each parameter", read_each),
)
