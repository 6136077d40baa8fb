"""Tensors whose size a script shows: torch's and ttnn's constructors with visible shapes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.kernels.constants import Constants
from instrumentor.kernels.model import Tensor
from instrumentor.locate.syntax import ScopeNode, Source, dotted

_CONSTRUCTORS = frozenset(
    {"zeros", "ones", "empty", "full", "rand", "randn", "randint", "normal", "eye"}
)
_LIKE = frozenset({"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"})
#: Calls, of ttnn or a helper of the script's, that take a tensor to the device as it is.
_MOVERS = frozenset(
    {"from_torch", "to_device", "to_layout", "to_memory_config", "as_tensor", "to", "typecast"}
)


def tensors_of(source: Source, constants: Constants) -> Iterator[Tensor]:
    """The tensors that the file binds to names, in source order."""
    known: dict[str, Tensor] = {}
    statements = sorted(source.places, key=lambda s: (s.lineno, s.col_offset))
    for statement in statements:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        if not isinstance(target, ast.Name):
            continue
        scope = source.places[statement].scope
        tensor = _tensor(target.id, statement.value, scope, constants, known)
        if tensor is not None:
            known[target.id] = tensor
    yield from known.values()


def _tensor(
    name: str, node: ast.expr, scope: ScopeNode, constants: Constants, known: dict[str, Tensor]
) -> Tensor | None:
    if isinstance(node, ast.Name):
        same = known.get(node.id)
        return None if same is None else Tensor(name, node.lineno, same.shape, same.dtype, "host")
    if not isinstance(node, ast.Call):
        return None
    owner, _, word = dotted(node.func).rpartition(".")
    if word in _MOVERS or _is_helper(word):
        return _moved(name, node, owner, scope, constants, known)
    if owner.rpartition(".")[2] not in ("torch", "ttnn"):
        return None
    if word in _LIKE and node.args and isinstance(node.args[0], ast.Name):
        like = known.get(node.args[0].id)
        shape = like.shape if like else None
    elif word in _CONSTRUCTORS:
        shape = _shape(node, word, scope, constants)
    else:
        return None
    if not shape:
        return None
    default = "float32" if owner.endswith("torch") else ""
    memory = _memory(node) or ("DRAM" if owner.endswith("ttnn") else "host")
    return Tensor(name, node.lineno, shape, _dtype(node) or default, memory)


def _shape(
    call: ast.Call, word: str, scope: ScopeNode, constants: Constants
) -> tuple[int, ...] | None:
    given = next((k.value for k in call.keywords if k.arg in ("size", "shape")), None)
    if given is not None:
        return constants.shape(given, scope)
    arguments = [a for a in call.args if not isinstance(a, ast.Starred)]
    if len(arguments) != len(call.args) or not arguments:
        return None
    for argument in arguments:  # randint(low, high, shape), full(shape, value)
        shape = constants.shape(argument, scope)
        if shape is not None:
            return shape
    if word in ("full", "randint", "normal"):
        return None
    extents = [constants.integer(argument, scope) for argument in arguments]
    known = tuple(extent for extent in extents if extent is not None)
    return known if len(known) == len(extents) else None


def _moved(
    name: str,
    call: ast.Call,
    owner: str,
    scope: ScopeNode,
    constants: Constants,
    known: dict[str, Tensor],
) -> Tensor | None:
    candidates = list(call.args)
    if isinstance(call.func, ast.Attribute) and owner.rpartition(".")[2] not in ("torch", "ttnn"):
        candidates.insert(0, call.func.value)
    for argument in candidates:
        if isinstance(argument, ast.Name):
            inner = known.get(argument.id)
        else:
            inner = _tensor(name, argument, scope, constants, known)
        if inner is not None:
            memory = _memory(call) or "DRAM"
            return Tensor(name, call.lineno, inner.shape, _dtype(call) or inner.dtype, memory)
    return None


def _is_helper(word: str) -> bool:
    return word.startswith(("to_", "from_torch", "as_")) or "to_device" in word or "to_tt" in word


def _dtype(call: ast.Call) -> str:
    value = next((k.value for k in call.keywords if k.arg == "dtype"), None)
    return dotted(value).rpartition(".")[2]


def _memory(call: ast.Call) -> str:
    value = next((k.value for k in call.keywords if k.arg == "memory_config"), None)
    word = dotted(value)
    return "L1" if "L1" in word else "DRAM" if "DRAM" in word else ""
