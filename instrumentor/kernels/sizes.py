"""Numbers and shapes that a script shows: literals, and names that are bound once to one."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial

from instrumentor.read.bindings import Bound
from instrumentor.read.constants import UNKNOWN, came_to
from instrumentor.read.fixpoint import Answers
from instrumentor.read.names import Names
from instrumentor.read.syntax import ScopeNode, Source


class Sizes:
    """Evaluates integer expressions of one file; None for anything that is not certain."""

    def __init__(self, names: Names, source: Source) -> None:
        self.names, self.source, self._answers = names, source, Answers()

    def integer(self, node: ast.expr | None, scope: ScopeNode) -> int | None:
        """The integer that an expression is, or None."""
        found = self._value(node, scope)
        return found if type(found) is int else None

    def shape(self, node: ast.expr | None, scope: ScopeNode) -> tuple[int, ...] | None:
        """The tuple of integers that an expression is, or None."""
        found = self._value(node, scope)
        whole = isinstance(found, tuple) and all(type(extent) is int for extent in found)
        return found if isinstance(found, tuple) and whole else None

    def integers(self, nodes: Sequence[ast.expr], scope: ScopeNode) -> tuple[int, ...] | None:
        """Expressions as integers, or None where one of them is not known."""
        return self.shape(ast.Tuple([*nodes]), scope)

    def _value(self, node: ast.expr | None, scope: ScopeNode) -> object:
        try:
            return came_to(node, partial(self._named, scope))
        except RecursionError:  # a sum of a thousand terms
            return UNKNOWN

    def _named(self, scope: ScopeNode, node: ast.expr) -> object:
        found = self.bound(node.id, scope) if isinstance(node, ast.Name) else None
        if found is None:
            return UNKNOWN
        return self._answers.ask(found[0], lambda: self._value(*found), UNKNOWN)

    def bound(self, name: str, scope: ScopeNode) -> tuple[ast.expr, ScopeNode] | None:
        """What a name is bound to, when it is bound once in the nearest scope that binds it."""
        where = self.names.binder(self.source, scope, name)
        found = [] if where is None else self.names.bound(self.source, where, name)
        match found:
            case [Bound(value=value, path=())] if where and not any(self.source.grown(name)):
                return value, where
        return None
