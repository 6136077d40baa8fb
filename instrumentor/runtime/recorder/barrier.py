"""Waits until the device that holds the loss is idle, and says how that was done."""

import itertools
import sys
from typing import Any, Iterable, NamedTuple, Optional

from instrumentor.runtime.recorder.records import Records


class Waited(NamedTuple):
    """What the barrier did: the type of the device, and the call that waited ('' for none)."""

    device: str
    method: str


class Barrier:
    """Finds the device by what it is given; never opens another one."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.device: Optional[str] = None
        self.looked_in = True  # no attribute of the script's has raised yet

    def wait(self, values: Iterable[Any], synced: bool) -> Waited:
        """Cut the graph where nobody has, then wait.

        Args:
            values: what the step produced, the nearest first; one of them tells the device.
            synced: the script's own sync stands right before.
        """
        kind = None
        for value in values:
            found = self.device_of(value)
            if found is not None and (kind is None or found != "cpu"):
                kind = found
            if kind not in (None, "cpu"):
                break
        kind = kind or opened_device() or self.device
        if kind is None:
            kind = "unknown"
            self.records.warn("no tensor at the barrier: not waited for")
        self.device = kind
        if kind == "xla" and not synced:
            cut_graph()
        return Waited(kind, self.drain())

    def drain(self) -> str:
        """Wait for the device of the last barrier, by the call that is returned."""
        if self.device == "xla":
            import torch_xla.core.xla_model

            torch_xla.core.xla_model.wait_device_ops()
            return "torch_xla.core.xla_model.wait_device_ops"
        if self.device in ("cuda", "mps", "xpu"):
            getattr(sys.modules["torch"], self.device).synchronize()
            return "torch.%s.synchronize" % self.device
        return ""

    def device_of(self, value: Any) -> Optional[str]:
        """The accelerator that holds a part of a value, else "cpu" if that does, else None."""
        found, parts = None, [value]
        try:
            for part in parts:  # grows by what the part holds: the nearest come first
                kind = getattr(getattr(part, "device", None), "type", None)
                is_tensor = isinstance(kind, str) and hasattr(part, "dtype")
                if is_tensor and not is_module(part):
                    if kind not in ("cpu", "meta"):
                        return kind
                    found = "cpu" if kind == "cpu" else found
                elif len(parts) < 400:
                    parts.extend(itertools.islice(inside(part), 64))
        except Exception as error:  # an attribute of the script's own
            if self.looked_in:
                self.looked_in = False
                self.records.warn("the barrier cannot look in: %r" % (error,))
        return found


def is_module(value: Any) -> bool:
    """Whether a value has parameters of its own, as a model does."""
    return callable(getattr(type(value), "parameters", None))


def inside(value: Any) -> Iterable[Any]:
    """What a value holds: a module's parameters, items, or what its attributes hold."""
    if isinstance(value, (type, type(sys))):
        return ()
    if is_module(value):
        return itertools.islice(value.parameters(), 8)
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple)):
        return value
    return list((getattr(value, "__dict__", None) or {}).values())


def cut_graph() -> None:
    """Sync XLA's pending graph, which advances the seed on the device: that is put back."""
    import torch_xla
    import torch_xla.core.xla_model

    seed = torch_xla.core.xla_model.get_rng_state()
    if hasattr(torch_xla, "sync"):
        torch_xla.sync(wait=True)
    else:
        torch_xla.core.xla_model.mark_step(wait=True)
    torch_xla.core.xla_model.set_rng_state(seed)


def opened_device() -> Optional[str]:
    """The accelerator that the script has opened, None when it has opened none."""
    lowest = getattr(sys.modules.get("torch_xla"), "_XLAC", None)
    if getattr(lowest, "_xla_runtime_is_initialized", bool)():
        return "xla"
    for kind in ("cuda", "xpu"):
        module = getattr(sys.modules.get("torch"), kind, None)
        if getattr(module, "is_initialized", bool)():
            return kind
    return None
