"""Numbers that a script shows: literals, and names that are bound once to one."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from instrumentor.locate.dataflow import binds
from instrumentor.locate.syntax import FUNCTIONS, ScopeNode, Source

_DEPTH = 8
#: A product above this is no size of anything; it also bounds the work.
_LARGEST = 1 << 48


class Constants:
    """Evaluates expressions of one file; whatever is not certain is None."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.bound: dict[ScopeNode, dict[str, list[ast.expr | None]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for statement, place in source.places.items():
            table = self.bound[place.scope]
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = statement.targets[0]
                pairs = list(_pairs(target, statement.value))
                if pairs:
                    for name, value in pairs:
                        table[name].append(value)
                    continue
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                table[statement.target.id].append(statement.value)
                continue
            for name in _own_binds(statement):
                table[name].append(None)
            if isinstance(statement, FUNCTIONS):
                arguments = statement.args
                for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                    self.bound[statement][argument.arg].append(None)

    def integer(self, node: ast.expr | None, scope: ScopeNode, depth: int = _DEPTH) -> int | None:
        """The integer that an expression is, or None."""
        if node is None or depth <= 0:
            return None
        if isinstance(node, ast.Constant):
            return node.value if type(node.value) is int else None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.integer(node.operand, scope, depth - 1)
            return None if value is None else -value
        if isinstance(node, ast.Name):
            found = self.lookup(node.id, scope)
            return None if found is None else self.integer(found[0], found[1], depth - 1)
        if isinstance(node, ast.BinOp):
            left = self.integer(node.left, scope, depth - 1)
            right = self.integer(node.right, scope, depth - 1)
            return None if left is None or right is None else _calculate(node.op, left, right)
        return None

    def shape(self, node: ast.expr | None, scope: ScopeNode) -> tuple[int, ...] | None:
        """The tuple of integers that an expression is, or None."""
        if isinstance(node, ast.Name):
            found = self.lookup(node.id, scope)
            return None if found is None else self.shape(*found)
        if not isinstance(node, (ast.Tuple, ast.List)):
            return None
        extents = [self.integer(element, scope) for element in node.elts]
        known = tuple(extent for extent in extents if extent is not None)
        return known if len(known) == len(extents) else None

    def lookup(self, name: str, scope: ScopeNode) -> tuple[ast.expr, ScopeNode] | None:
        """What a name is bound to, when it is bound once in the nearest scope that binds it."""
        current: ScopeNode = scope
        while True:
            values = self.bound[current].get(name)
            if values:
                only = values[0]
                return None if len(values) > 1 or only is None else (only, current)
            if not isinstance(current, FUNCTIONS):
                return None
            current = self.source.places[current].scope


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """``x = 1`` and ``rows, cols = 4, 8`` as names and what each is bound to."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        names = [element.id for element in target.elts if isinstance(element, ast.Name)]
        if len(names) == len(target.elts) == len(value.elts):
            yield from zip(names, value.elts, strict=True)


def _own_binds(statement: ast.stmt) -> set[str]:
    """Names that the statement itself binds; those in its blocks come with their own turn."""
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return binds(statement.target)
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return {n for i in statement.items if i.optional_vars for n in binds(i.optional_vars)}
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.If, ast.While, ast.Try)):
        return set()
    return binds(statement)


def _calculate(operator: ast.operator, left: int, right: int) -> int | None:
    value: int | None = None
    if isinstance(operator, ast.Add):
        value = left + right
    elif isinstance(operator, ast.Sub):
        value = left - right
    elif isinstance(operator, ast.Mult):
        value = left * right
    elif isinstance(operator, ast.FloorDiv) and right:
        value = left // right
    elif isinstance(operator, ast.Mod) and right:
        value = left % right
    return None if value is None or abs(value) > _LARGEST else value
