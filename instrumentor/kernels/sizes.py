"""Numbers and shapes that a script shows: literals, and names that are bound once to one."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from instrumentor.read.bindings import Bound
from instrumentor.read.names import Names
from instrumentor.read.syntax import ScopeNode, Source

#: Names and operators that are followed: `a = b; b = a` must come to an end.
_DEPTH = 8
#: Largest number that is taken for a size; it also bounds the work of multiplying.
_LARGEST = 1 << 48
_OPERATIONS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


class Sizes:
    """Evaluates integer expressions of one file; None for anything that is not certain."""

    def __init__(self, names: Names, source: Source) -> None:
        self.names = names
        self.source = source

    def integer(self, node: ast.expr | None, scope: ScopeNode, depth: int = _DEPTH) -> int | None:
        """The integer that an expression is, or None.

        Args:
            depth: names and operators that may still be followed.
        """
        if depth <= 0:
            return None
        match node:
            case ast.Constant(value=value):
                return value if type(value) is int else None
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _calculate(ast.Sub(), 0, self.integer(operand, scope, depth - 1))
            case ast.Name(id=name):
                found = self.bound(name, scope)
                return None if found is None else self.integer(*found, depth - 1)
            case ast.BinOp(left=left, op=op, right=right):
                number = self.integer(left, scope, depth - 1)
                return _calculate(op, number, self.integer(right, scope, depth - 1))
        return None

    def shape(
        self, node: ast.expr | None, scope: ScopeNode, depth: int = _DEPTH
    ) -> tuple[int, ...] | None:
        """The tuple of integers that an expression is, or None."""
        if isinstance(node, ast.Name) and depth > 0:
            found = self.bound(node.id, scope)
            return None if found is None else self.shape(*found, depth - 1)
        if not isinstance(node, (ast.Tuple, ast.List)):
            return None
        return self.integers(node.elts, scope)

    def integers(self, nodes: Sequence[ast.expr], scope: ScopeNode) -> tuple[int, ...] | None:
        """Expressions as integers, or None where one of them is not known."""
        known = [self.integer(node, scope) for node in nodes]
        return None if None in known else tuple(extent for extent in known if extent is not None)

    def bound(self, name: str, scope: ScopeNode) -> tuple[ast.expr, ScopeNode] | None:
        """What a name is bound to, when it is bound once in the nearest scope that binds it."""
        where = self.names.binder(self.source, scope, name)
        if where is None or (where, name) in self._augmented:
            return None
        found = self.names.bound(self.source, where, name)
        only = found[0] if len(found) == 1 else None
        return (only.value, where) if isinstance(only, Bound) and not only.path else None

    @cached_property
    def _augmented(self) -> set[tuple[ScopeNode, str]]:
        """Names that ``n += 1`` changes."""
        return {
            (place.scope, statement.target.id)
            for statement, place in self.source.places.items()
            if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name)
        }


def _calculate(kind: ast.operator, left: int | None, right: int | None) -> int | None:
    operation = _OPERATIONS.get(type(kind))
    if operation is None or left is None or right is None:
        return None
    if not right and operation in (operator.floordiv, operator.mod):
        return None
    value = operation(left, right)
    return value if abs(value) <= _LARGEST else None
