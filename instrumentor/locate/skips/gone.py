"""The statements that are taken out, and the functions that go unused with them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from functools import cached_property

from instrumentor.locate.program import Program
from instrumentor.locate.syntax import FunctionNode, ScopeNode, Source, contains, own_calls


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
        found = self._called()
        while outside := {f for f in found if self._called_elsewhere(f, found)}:
            found -= outside
        return set(found)

    def _called_elsewhere(self, function: FunctionNode, found: Collection[ScopeNode]) -> bool:
        places = [(scope, holder) for scope, _, holder in self.program.callers.get(function, ())]
        others = self.program.handed.get(function, ()), self.program.in_lambdas.get(function, ())
        return any(
            scope not in found and not self.holds(self.program.source_of_scope[scope], node)
            for scope, node in (*places, *others[0], *others[1])
        )

    def _called(self) -> set[FunctionNode]:
        found: set[FunctionNode] = set()
        queue = [
            (source, source.scope_of(statement), call)
            for source, statements in self.by_source.items()
            for statement in statements
            for call in own_calls(statement)
        ]
        while queue:
            for function in self.program.resolve(*queue.pop()):
                if function.node not in found:
                    found.add(function.node)
                    inner = self.program.calls.get(function.node, ())
                    queue += [(function.source, function.node, call) for call, _ in inner]
        return found
