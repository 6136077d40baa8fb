"""How a file spells tt-lang: ``import ttl``, ``import ttlang as t``, ``from ttl import kernel``.

A module counts as tt-lang when a part of its dotted name is ``ttl`` or ``ttlang``, wherever it
comes from (``from sim import ttl`` is the simulator's).
"""

from __future__ import annotations

import ast
from functools import cached_property

from instrumentor.locate.syntax import Source, dotted

KERNEL_DECORATORS = ("kernel", "operation")
THREAD_DECORATORS = ("compute", "datamovement")
_MODULES = frozenset({"ttl", "ttlang"})


class Spelling:
    """The names by which one file reaches tt-lang's decorators."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.modules: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if _is_ttl(alias.name):
                        bound = alias.asname or alias.name.partition(".")[0]
                        self.modules[bound] = alias.name if alias.asname else bound
            elif isinstance(node, ast.ImportFrom):
                self._take_from(node)

    def _take_from(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        for alias in node.names:
            bound = alias.asname or alias.name
            if alias.name == "*" and _is_ttl(module):
                for name in (*KERNEL_DECORATORS, *THREAD_DECORATORS):
                    self.functions.setdefault(name, name)
            elif alias.name in (*KERNEL_DECORATORS, *THREAD_DECORATORS) and _is_ttl(module):
                self.functions[bound] = alias.name
            elif alias.name in _MODULES or _is_ttl(module):
                self.modules[bound] = f"{module}.{alias.name}"

    @cached_property
    def assigned(self) -> dict[str, ast.expr]:
        """``op = ttl.operation`` and ``one_core = ttl.kernel(grid=(1, 1))``, by name."""
        found: dict[str, ast.expr] = {}
        for node in ast.walk(self.source.tree):
            if isinstance(node, ast.Assign) and self.word(node.value):
                found.update({t.id: node.value for t in node.targets if isinstance(t, ast.Name)})
        return found

    def word(self, node: ast.expr) -> str:
        """kernel, operation, compute or datamovement for a decorator of tt-lang's, else ''."""
        function = node.func if isinstance(node, ast.Call) else node
        if isinstance(function, ast.Name):
            return self.functions.get(function.id, "")
        if not isinstance(function, ast.Attribute):
            return ""
        if function.attr not in (*KERNEL_DECORATORS, *THREAD_DECORATORS):
            return ""
        head, _, rest = dotted(function.value).partition(".")
        module = self.modules.get(head)
        if module is None:
            return ""
        return function.attr if _is_ttl(f"{module}.{rest}" if rest else module) else ""

    def decorator(self, node: ast.expr) -> tuple[str, ast.expr] | None:
        """The decorator's word and the expression that holds its arguments; None for another."""
        if isinstance(node, ast.Name) and node.id in self.assigned:
            node = self.assigned[node.id]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in self.assigned
            and not isinstance(self.assigned[node.func.id], ast.Call)
        ):
            return self.word(self.assigned[node.func.id]), node
        word = self.word(node)
        return (word, node) if word else None


def _is_ttl(module: str) -> bool:
    return not _MODULES.isdisjoint(module.split("."))
