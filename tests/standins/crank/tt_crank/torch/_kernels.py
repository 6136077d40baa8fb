"""Every op of the device `tt`: shapes are known at once (from meta), values when its time comes.

A tensor's storage holds a cell that the queue fills, so what torch copies shallowly (detached and
saved tensors) has the same values. All tensors are contiguous, as they are for tt-crank; a view is
a tensor of its own whose cell will hold a view of the other's values, so that writes reach both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from ._queue import QUEUE

aten = torch.ops.aten


class Cell:
    """Values on the CPU, once the device has come to them.

    Attributes:
        written: one list for all views of a tensor: the last command that writes there.
    """

    __slots__ = ("value", "written")

    def __init__(self, written: list[int], value: torch.Tensor | None = None) -> None:
        self.value = value
        self.written = written


def is_tt(value: object) -> bool:
    """Whether a value is a tensor of this device."""
    return isinstance(value, torch.Tensor) and value.device.type == "tt"


def cell_of(tensor: torch.Tensor) -> Cell:
    """Where the values of a tensor are, or will be."""
    found: Cell = tensor.untyped_storage().cell
    return found


def new_tensor(like: torch.Tensor, cell: Cell) -> torch.Tensor:
    """A tensor of this device with the shape and data type of another."""
    made: torch.Tensor = torch._C._acc.create_empty_tensor(tuple(like.shape), like.dtype)
    made.untyped_storage().cell = cell
    return made


def read(tensor: torch.Tensor) -> torch.Tensor:
    """The values, after waiting for them."""
    cell = cell_of(tensor)
    QUEUE.wait(cell.written[0])
    assert cell.value is not None
    return cell.value


def enqueue(
    kind: str,
    run: Callable[..., Any],
    inputs: Any,
    outputs: list[torch.Tensor],
    times: float = 1.0,
) -> int:
    """Submit `run(*inputs)`; what it returns becomes the values of the outputs."""
    host = tree_map_only(torch.Tensor, lambda t: cell_of(t) if is_tt(t) else t.clone(), inputs)
    cells = [cell_of(tensor) for tensor in outputs]

    def command() -> None:
        with torch.no_grad():
            given = tree_map_only(Cell, lambda cell: cell.value, host)
            made = run(*given)
            parts = made if isinstance(made, (list, tuple)) else [made]
            for cell, value in zip(cells, parts, strict=bool(cells)):
                cell.value = value

    number = QUEUE.submit(kind, command, times)
    for cell in cells:
        cell.written[0] = number
    return number


def run_op(op: Any, *args: Any, **kwargs: Any) -> Any:
    """The kernel of everything that has none of its own."""
    written = _written(op, args, kwargs)
    if kwargs.get("device") is not None:
        kwargs["device"] = torch.device("cpu")
    run = functools.partial(_call, op)
    if written:
        number = enqueue("op", run, (args, kwargs), [])
        for tensor in written:
            cell_of(tensor).written[0] = number
        returns = len(op._schema.returns)
        return None if not returns else written[0] if returns == 1 else tuple(written)
    shaped = _shapes(op, args, kwargs)
    if shaped is None:  # the shape depends on the values
        args, kwargs = tree_map_only(torch.Tensor, _on_host, (args, kwargs))
        return tree_map_only(torch.Tensor, to_device, op(*args, **kwargs))
    viewed = next(filter(is_tt, tree_leaves(args)), None) if _is_view(op._schema) else None
    made = tree_map_only(
        torch.Tensor,
        lambda like: new_tensor(like, Cell([0] if viewed is None else cell_of(viewed).written)),
        shaped,
    )
    enqueue("op", run, (args, kwargs), [t for t in tree_leaves(made) if is_tt(t)])
    return made


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    return read(tensor) if is_tt(tensor) else tensor


def _call(op: Any, args: Any, kwargs: Any) -> Any:
    try:
        return op(*args, **kwargs)
    except RuntimeError:
        if op not in (aten.view.default, aten._unsafe_view.default):
            raise
        return aten.reshape.default(*args, **kwargs)  # of a view that is contiguous on tt


def _shapes(op: Any, args: Any, kwargs: Any) -> Any:
    def meta(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")

    named = {**kwargs, **({"device": torch.device("meta")} if kwargs.get("device") else {})}
    args, named = tree_map_only(torch.Tensor, lambda t: meta(t) if is_tt(t) else t, (args, named))
    try:
        return op(*args, **named)
    except (NotImplementedError, RuntimeError):
        return None


def _is_view(schema: Any) -> bool:
    return any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)


def _written(op: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Tensors that an op writes: its `self`, its `out`, the lists of a `_foreach_` op."""
    found: list[Any] = []
    for position, argument in enumerate(op._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[position] if position < len(args) else kwargs.get(argument.name)
            found += tree_leaves(given)
    return [tensor for tensor in found if is_tt(tensor)]


def to_device(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the device; the host goes on at once."""
    made = new_tensor(tensor, Cell([0]))
    enqueue("copy", lambda value: value.contiguous(), (tensor,), [made])
    return made


def _empty(size: Any, *, dtype: Any = None, **_options: Any) -> torch.Tensor:
    value = torch.empty(size, dtype=dtype)
    return new_tensor(value, Cell([0], value))


def _empty_strided(size: Any, _stride: Any, *, dtype: Any = None, **_options: Any) -> torch.Tensor:
    return _empty(size, dtype=dtype)


def _copy(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    if not is_tt(target):
        return target.copy_(read(source))
    number = enqueue("copy", torch.Tensor.copy_, (target, source), [])
    cell_of(target).written[0] = number
    return target


def _item(tensor: torch.Tensor) -> Any:
    return read(tensor).item()


def register() -> list[torch.library.Library]:
    """Give the kernels to torch; they live as long as what is returned."""
    fallback = torch.library.Library("_", "IMPL")
    fallback.fallback(run_op, "PrivateUse1")
    own = torch.library.Library("aten", "IMPL")
    own.impl("empty.memory_format", _empty, "PrivateUse1")
    own.impl("empty_strided", _empty_strided, "PrivateUse1")
    own.impl("copy_", _copy, "PrivateUse1")
    own.impl("_local_scalar_dense", _item, "PrivateUse1")
    for name in (*_view_ops(), "arange", "arange.start", "arange.start_step"):
        own.impl(name, _kernel(name), "PrivateUse1")
    return [fallback, own]


def _kernel(name: str) -> Callable[..., Any]:
    packet, _, overload = name.partition(".")
    op = getattr(getattr(aten, packet), overload or "default")
    return lambda *args, **kwargs: run_op(op, *args, **kwargs)


def _view_ops() -> list[str]:
    """Ops that return views and would else be made of `as_strided`, for which tensors have strides.

    Those that torch composes of other ops are left to it.
    """
    found = []
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::") or has(name, "CompositeImplicitAutograd"):
            continue
        schema = torch._C._get_schema(*(name.split(".") if "." in name else (name, "")))
        kernel = name.removeprefix("aten::")
        if _is_view(schema) and kernel not in ("detach", "alias"):  # these share the storage
            found.append(kernel)
    return found
