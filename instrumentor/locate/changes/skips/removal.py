"""The statements that are taken out, and the functions that go unused with them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cached_property

from instrumentor.read.program import Program
from instrumentor.read.syntax import FUNCTIONS, ScopeNode, Source, contains


class Gone:
    """Statements that are taken out."""

    def __init__(self, program: Program, statements: Iterable[tuple[Source, ast.stmt]]) -> None:
        self.program = program
        self.by_source: dict[Source, list[ast.stmt]] = {}
        for source, statement in statements:
            self.by_source.setdefault(source, []).append(statement)

    def holds(self, source: Source, node: ast.AST) -> bool:
        return any(contains(s, node) for s in self.by_source.get(source, ()))

    @cached_property
    def functions(self) -> set[ScopeNode]:
        """Functions that nothing but these statements calls."""
        found: set[ScopeNode] = set()
        for source, statements in self.by_source.items():
            for statement in statements:
                found.update(self.program.called_from(source.scope_of(statement), [statement]))
        while outside := {f for f in found if self._called_elsewhere(f, found)}:
            found -= outside
        return found

    def _called_elsewhere(self, function: ScopeNode, found: set[ScopeNode]) -> bool:
        program = self.program
        assert isinstance(function, FUNCTIONS)
        callers = [(scope, node) for scope, _, node in program.callers.get(function, ())]
        return any(
            scope not in found and not self.holds(program.source_of_scope[scope], node)
            for scope, node in (*callers, *program.handed.get(function, ()))
        )
