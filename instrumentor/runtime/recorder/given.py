"""What the model of the step is given, for a batch that the script makes in the call itself.

`model(torch.randn(64, 32))` has no name for its batch. The one model whose parameters the step
trains is found after the first sample; from then on a hook on it alone notes the shape of what
enters, within each sample, so that the model is as it was outside of them. Where a graph was
compiled there is no hook: it would have it compiled again.
"""

from typing import Any, Dict, List, Optional, Tuple

from instrumentor.runtime.recorder.model import models_of
from instrumentor.runtime.recorder.produced import trained

_Shape = Tuple[Optional[List[int]], Optional[str]]


class Given:
    """Follows the calls of one model; of none until it is found."""

    def __init__(self) -> None:
        self.model: Any = None
        self.calls: List[_Shape] = []
        self.handle: Any = None

    def find(self, values: Tuple[Any, ...]) -> None:
        """The one model that is trained; none where there are several, or a script module."""
        try:
            models = list(models_of(trained(values)))
            one = len(models) == 1 and type(models[0]).__module__.split(".")[:2] != ["torch", "jit"]
            self.model = models[0] if one else None
        except Exception:  # a model of the script's own
            self.model = None

    def watch(self) -> None:
        """A sample begins."""
        self.unwatch()  # of one that was left early
        if self.model is None:
            return
        try:
            self.handle = self.model.register_forward_hook(self.note, with_kwargs=True)
        except Exception:  # torch 1
            self.model = None

    def note(self, module: Any, inputs: Any, named: Dict[str, Any], output: Any) -> None:
        """The first tensor given, where what is returned has as many rows; else nothing."""
        shape, kind = first_tensor((*inputs, *named.values()))
        returned = first_tensor(output)[0]
        rows = shape[0] if shape is not None and len(shape) > 1 else None
        agree = rows is not None and (returned is None or returned[0] == rows)
        self.calls.append((shape, kind) if agree else (None, None))

    def unwatch(self) -> List[_Shape]:
        """A sample ends: the shape and data type of each call."""
        if self.handle is not None:
            self.handle.remove()
            self.handle = None
        calls, self.calls = self.calls, []
        return calls


def first_tensor(value: Any, depth: int = 0) -> _Shape:
    """Shape and data type of the first tensor in a batch, or (None, None)."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        kind = str(getattr(value, "dtype", "")).split(".")[-1]
        return [int(size) for size in shape], kind or None
    value = getattr(value, "data", value)  # a batch of a tokenizer keeps its dict there
    items = list(value.values()) if isinstance(value, dict) else value
    if depth < 3 and isinstance(items, (list, tuple)):
        for item in items[:8]:
            found = first_tensor(item, depth + 1)
            if found[0]:
                return found
    return None, None
