"""Tensors whose size a script shows: torch's and ttnn's constructors with visible shapes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.kernels.model import Tensor
from instrumentor.kernels.sizes import Sizes
from instrumentor.locate.syntax import ScopeNode, dotted, last

_CONSTRUCTORS = frozenset(
    {"zeros", "ones", "empty", "full", "rand", "randn", "randint", "normal", "eye"}
)
_LIKE = frozenset({"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"})
#: Calls, of ttnn or a helper of the script's, that take a tensor to the device as it is.
_MOVERS = frozenset(
    {"from_torch", "to_device", "to_layout", "to_memory_config", "as_tensor", "to", "typecast"}
)


def tensors_of(sizes: Sizes) -> Iterator[Tensor]:
    """The tensors that the file binds to names, in source order."""
    known: dict[str, Tensor] = {}
    places = sizes.source.places
    for statement in sorted(places, key=lambda s: (s.lineno, s.col_offset)):
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            name = dotted(statement.targets[0])
            made = _Maker(sizes, places[statement].scope, known, name).tensor(statement.value)
            if made is not None and isinstance(statement.targets[0], ast.Name):
                known[name] = made
    yield from known.values()


class _Maker:
    """Reads what one assignment makes."""

    def __init__(self, sizes: Sizes, scope: ScopeNode, known: dict[str, Tensor], name: str) -> None:
        self.sizes = sizes
        self.scope = scope
        self.known = known
        self.name = name

    def tensor(self, node: ast.expr) -> Tensor | None:
        if isinstance(node, ast.Name):
            same = self.known.get(node.id)
            return same and Tensor(self.name, node.lineno, same.shape, same.dtype, "host")
        if not isinstance(node, ast.Call):
            return None
        whole = self.sizes.names.qualified(self.sizes.source, self.scope, node.func)
        library, _, word = (whole or dotted(node.func)).rpartition(".")
        library = last(library)
        if word in _MOVERS or _is_helper(word):
            return self._moved(node)
        if library not in ("torch", "ttnn"):
            return None
        shape = self._like(node) if word in _LIKE else self._shape(node, word)
        if not shape:
            return None
        dtype, place = ("float32", "host") if library == "torch" else ("", "DRAM")
        return Tensor(self.name, node.lineno, shape, _dtype(node) or dtype, _memory(node) or place)

    def _like(self, call: ast.Call) -> tuple[int, ...] | None:
        like = self.known.get(dotted(call.args[0])) if call.args else None
        return like.shape if like is not None else None

    def _shape(self, call: ast.Call, word: str) -> tuple[int, ...] | None:
        given = next((k.value for k in call.keywords if k.arg in ("size", "shape")), None)
        if given is not None:
            return self.sizes.shape(given, self.scope)
        if word not in _CONSTRUCTORS or any(isinstance(a, ast.Starred) for a in call.args):
            return None
        shapes = (self.sizes.shape(a, self.scope) for a in call.args)  # randint(low, high, shape)
        written = next(filter(None, shapes), None)
        if written is not None or word in ("full", "randint", "normal"):
            return written
        return self.sizes.integers(call.args, self.scope)

    def _moved(self, call: ast.Call) -> Tensor | None:
        """What a call takes to the device: an argument, or what its method belongs to."""
        given = list(call.args)
        if isinstance(call.func, ast.Attribute):
            given.insert(0, call.func.value)
        for argument in given:
            name = isinstance(argument, ast.Name)
            inner = self.known.get(dotted(argument)) if name else self.tensor(argument)
            if inner is not None:
                dtype, memory = _dtype(call) or inner.dtype, _memory(call) or "DRAM"
                return Tensor(self.name, call.lineno, inner.shape, dtype, memory)
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
