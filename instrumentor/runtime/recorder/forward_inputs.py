"""What the model of the step is given, for a batch that the script makes in the call itself.

`model(torch.randn(64, 32))` has no name for its batch. In the first sample every call of a module
is noted; behind it the one model whose parameters the step trains is known, and which of these
calls were its own. From then on a hook on it alone notes the shape of what enters, within each
sample, so that the model is as it was outside of them. Where something is compiled no call is noted
and there is no hook: it would be compiled again.
"""

import sys
from dataclasses import fields, is_dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from instrumentor.runtime.recorder.flops import compiles
from instrumentor.runtime.recorder.model import models_of
from instrumentor.runtime.recorder.step_tensors import trained
from instrumentor.runtime.recorder.watch import Watch

#: Tensors of one make, with as many axes each, that a batch has for fields: ids, masks, types, ...
MOST_FIELDS = 4
Shape = Tuple[Optional[List[int]], Optional[str]]


class Given:
    """Follows the calls of one model; of all modules until it is found."""

    def __init__(self) -> None:
        self.model: Any = None
        self.calls: List[Shape] = []
        self.handle: Any = None
        #: The calls of the first sample, each with its module.
        self.of_all: List[Tuple[Any, Shape]] = []
        self.all = Watch(lambda event: None)

    def find(self, values: Tuple[Any, ...]) -> None:
        """The one model that is trained, with its calls of the first sample.

        None where there are several, or a script module.
        """
        of_all, self.of_all = self.of_all, []
        try:
            models = list(models_of(trained(values)))
            one = len(models) == 1 and type(models[0]).__module__.split(".")[:2] != ["torch", "jit"]
            self.model = models[0] if one else None
        except Exception:  # a model of the script's own
            self.model = None
        self.calls = [shape for module, shape in of_all if module is self.model]

    def watch_all(self) -> None:
        """The first sample begins, of a batch without a name."""
        self.unwatch()
        nn = getattr(sys.modules.get("torch"), "nn", None)  # a package of that name may be another
        if nn is not None and not compiles():
            self.all.replace(nn.Module, "__call__", self.called)

    def called(self, real: Any) -> Any:
        """Around the call of any module."""

        def instrument_call(this: Any, *args: Any, **kwargs: Any) -> Any:
            output = real(this, *args, **kwargs)
            self.of_all.append((this, entering((*args, *kwargs.values()), output)))
            return output

        return instrument_call

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
        """A call of the model has returned."""
        self.calls.append(entering((*inputs, *named.values()), output))

    def unwatch(self) -> List[Shape]:
        """A sample ends: the shape and data type of each call."""
        self.all.off()
        self.of_all = []
        if self.handle is not None:
            self.handle.remove()
            self.handle = None
        calls, self.calls = self.calls, []
        return calls


def entering(inputs: Tuple[Any, ...], output: Any) -> Shape:
    """The first tensor given to a module, where what it returns has as many rows; else nothing."""
    shape, kind = first_tensor(inputs)
    returned = first_tensor(output)[0]
    rows = shape[0] if shape is not None and len(shape) > 1 else None
    agree = rows is not None and (returned is None or returned[0] == rows)
    return (shape, kind) if agree else (None, None)


def batch_shape(batch: Any) -> Shape:
    """Shape and data type of a batch; where it holds its samples one by one, their number alone."""
    shape, kind = first_tensor(batch)
    count = separate(batch)
    return (shape, kind) if count is None else ([count], kind)


def first_tensor(value: Any, depth: int = 0) -> Shape:
    """Shape and data type of the first tensor in a batch, or (None, None)."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        kind = str(getattr(value, "dtype", "")).split(".")[-1]
        return [int(size) for size in shape], kind or None
    if depth < 4:
        for item in parts(value)[:8]:
            found = first_tensor(item, depth + 1)
            if found[0]:
                return found
    return None, None


def parts(value: Any) -> List[Any]:
    """What a container holds: of a dict, a dataclass or a tokenizer's batch the values."""
    if isinstance(getattr(value, "shape", None), tuple):
        return []
    value = getattr(value, "data", value)  # a batch of a tokenizer keeps its dict there
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in fields(value)]
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, (list, tuple)) else []


def separate(batch: Any) -> Optional[int]:
    """How many samples a batch has that holds them one by one; None of one that is collated.

    It is a list of records, each of one sample, or holds columns: a list for each field, with an
    item of each sample.
    """
    held = parts(batch)
    while len(held) == 1 and parts(held[0]):
        batch, held = held[0], parts(held[0])
    if one_by_one(held):
        return len(held)
    if len(held) < 2 or collated(batch):
        return None
    lengths = {len(parts(each)) for each in held}
    if lengths == {0} or len(lengths) > 1 or len(set(map(type, held))) > 1:
        return None
    rows = len(held) if isinstance(batch, (list, tuple)) else 0
    if not isinstance(held[0], (list, tuple)):  # mappings, or of a class of the script's
        return rows if rows and not any(map(collated, held)) else None
    if lengths == {1} and any(parts(each[0]) for each in held):  # fields of one sample
        return 1
    if all(map(collated, held)):  # such as the batches of two loaders
        return None
    # Fields are of different kinds, where they tell; else there are more samples than fields.
    return max(rows, *lengths) if all(map(alike, held)) else rows or None


def one_by_one(tensors: List[Any]) -> bool:
    """Whether these are the tensors of one field: more of one make than a batch has fields."""
    shapes: List[Any] = [getattr(each, "shape", None) for each in tensors]
    if not all(isinstance(shape, tuple) and shape for shape in shapes) or not alike(tensors):
        return False
    first = {shape[0] for shape in shapes}
    return len(first) > 1 or len(shapes) > max(MOST_FIELDS, *first)


def collated(value: Any) -> bool:
    """Whether all in a container are tensors with one first axis, which is that of the samples."""
    shapes: List[Any] = [getattr(each, "shape", None) for each in leaves(value)]
    if not shapes or not all(isinstance(shape, tuple) and shape for shape in shapes):
        return False
    return len({shape[0] for shape in shapes}) == 1 and any(len(shape) > 1 for shape in shapes)


def leaves(value: Any, depth: int = 0) -> List[Any]:
    """What is no container itself, in it and below."""
    held = parts(value) if depth < 4 else []
    return [leaf for each in held for leaf in leaves(each, depth + 1)] if held else [value]


def alike(column: Any) -> bool:
    """Whether all items of a list are of one type, and tensors have as many axes."""
    return len({(type(each), len(getattr(each, "shape", ()))) for each in column}) == 1
