"""Tensors whose size a script shows: torch's and ttnn's constructors with visible shapes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from instrumentor.kernels.model import Tensor
from instrumentor.kernels.sizes import Sizes
from instrumentor.read.bindings import targets_of
from instrumentor.read.syntax import ScopeNode, argument, dotted, last

_CONSTRUCTORS = frozenset(
    {"zeros", "ones", "empty", "full", "rand", "randn", "randint", "normal", "eye"}
)
_LIKE = frozenset({"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"})
#: Calls, of ttnn or a helper of the script's, that take a tensor to the device as it is.
_BACK = frozenset({"to_torch", "from_device", "cpu"})
_MOVERS = frozenset(
    {"from_torch", "to_device", "to_layout", "to_memory_config", "as_tensor", "to", "typecast"}
)


def tensors_of(sizes: Sizes) -> Iterator[Tensor]:
    """The tensors that the file binds to names, in source order."""
    known: dict[str, Tensor] = {}
    places = sizes.source.places
    for statement in sorted(places, key=lambda s: (s.lineno, s.col_offset)):
        for target, bound in targets_of(statement):
            if isinstance(target, ast.Name) and not bound.path:
                made = _tensor(sizes, places[statement].scope, known, bound.value)
                if made is not None:
                    known[target.id] = replace(made, name=target.id)
    yield from known.values()


def _tensor(
    sizes: Sizes, scope: ScopeNode, known: Mapping[str, Tensor], node: ast.expr
) -> Tensor | None:
    """The tensor that an expression makes, still without a name; None for anything else."""
    if isinstance(node, ast.Name) and node.id in known:
        return replace(known[node.id], line=node.lineno)
    if not isinstance(node, ast.Call):
        return None
    whole = sizes.names.qualified(sizes.source, scope, node.func) or dotted(node.func)
    library, _, word = whole.rpartition(".")
    if word in _MOVERS or _is_helper(word):
        return _moved(sizes, scope, known, node)
    if last(library) not in ("torch", "ttnn"):
        return None
    like = known.get(dotted(node.args[0])) if word in _LIKE and node.args else None
    shape = like.shape if like is not None else _shape(sizes, scope, node, word)
    # The defaults: torch makes float32 on the host, ttnn puts its tensors into DRAM.
    dtype, place = ("float32", "host") if last(library) == "torch" else ("", "DRAM")
    found = Tensor("", node.lineno, shape or (), _dtype(node) or dtype, _memory(node) or place)
    return found if shape else None


def _moved(
    sizes: Sizes, scope: ScopeNode, known: Mapping[str, Tensor], call: ast.Call
) -> Tensor | None:
    """The tensor that a call takes to the device: an argument, or the object of the method."""
    owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    for given in (*owner, *call.args):
        inner = _tensor(sizes, scope, known, given)
        if inner is not None:
            dtype, memory = _dtype(call) or inner.dtype, _memory(call) or "DRAM"
            if dotted(call.func).rpartition(".")[2] in _BACK:
                memory = "host"
            return replace(inner, line=call.lineno, dtype=dtype, memory=memory)
    return None


def _shape(sizes: Sizes, scope: ScopeNode, call: ast.Call, word: str) -> tuple[int, ...] | None:
    given = argument(call, "size", "shape")
    if given is not None:
        return sizes.shape(given, scope)
    if word not in _CONSTRUCTORS or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    shapes = (sizes.shape(a, scope) for a in call.args)  # randint(low, high, shape)
    written = next(filter(None, shapes), None)
    if written is not None or word in ("full", "randint", "normal"):
        return written
    return sizes.integers(call.args, scope)


def _is_helper(word: str) -> bool:
    return word.startswith(("to_", "from_torch", "as_")) or "to_device" in word or "to_tt" in word


def _dtype(call: ast.Call) -> str:
    return dotted(argument(call, "dtype")).rpartition(".")[2]


def _memory(call: ast.Call) -> str:
    word = dotted(argument(call, "memory_config"))
    return "L1" if "L1" in word else "DRAM" if "DRAM" in word else ""
