"""Proof 'planned': the new syntax tree is the old one with the edits, and nothing else, done to it.

The edits are carried out a second time here, on the bare syntax tree, and the outcome is compared
with what the rewritten text means. Text plays no part in it, so a fault of the rewriting cannot
repeat itself here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from instrumentor.read.syntax import address, children
from instrumentor.rewrite.engine.actions import gather
from instrumentor.rewrite.engine.parsing import parse
from instrumentor.shared.edits import Edit, Kind
from instrumentor.shared.errors import ProofFailed


def check_planned(original: bytes, after: ast.Module, edits: Sequence[Edit]) -> None:
    """Compare a rewritten module with the original after the edits.

    Raises:
        ProofFailed: with the line of the first difference.
    """
    tree = parse.__wrapped__(original)  # one of its own: it is changed
    line = first_difference(_Carried(tree, edits).visit(tree), after)
    if line is not None:
        raise ProofFailed(f"proof 'planned' failed at line {line}: the statement is not as planned")


class _Carried(ast.NodeTransformer):
    """Carries edits out on the blocks of a syntax tree."""

    def __init__(self, tree: ast.Module, edits: Sequence[Edit]) -> None:
        self.actions = gather(edits, tree)
        self.statements = {address(node): node for node in _statements(tree)}

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:
        if isinstance(node, ast.expr):  # which holds no statement
            return node
        blocks = [name for name in ("body", "orelse", "finalbody") if getattr(node, name, None)]
        self.generic_visit(node)
        for name in blocks:
            if not getattr(node, name) and not isinstance(node, ast.Module):
                setattr(node, name, [ast.Pass()])
        actions = self.actions.get(address(node)) if isinstance(node, ast.stmt) else None
        if actions is None:
            return node
        before = [each for edit in actions.before for each in parse(edit.code).body]
        after = [each for edit in actions.after for each in self._inserted(edit)]
        if actions.off is None:
            return [*before, node, *after]
        instead = parse(actions.off.code).body if actions.off.kind is Kind.DISABLE else ()
        return [*before, *instead, *after]

    def _inserted(self, edit: Edit) -> Sequence[ast.stmt]:
        if edit.kind is Kind.MOVE_AFTER and edit.at is not None:
            return [self.statements[edit.at]]
        return parse(edit.code).body


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        waiting += [each for each in children(node) if not isinstance(each, ast.expr)]


def first_difference(one: object, other: object, line: int = 1) -> int | None:
    """The line in ``other`` where two syntax trees begin to differ; None when they are the same."""
    pairs: list[tuple[object, object]] = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        line = getattr(right, "lineno", line)
        if type(left) is not type(right):
            return line
        if isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right) and not (left and right):
                return getattr(right[0], "lineno", line) if right else line
            # The first statement that differs says more than the block's length.
            rest = (left[len(right) : len(right) + 1], right[len(left) :])
            pairs += [rest] if len(left) != len(right) else []
            pairs.extend(reversed(list(zip(left, right, strict=False))))
        elif isinstance(left, ast.AST):
            for name in reversed(left._fields):
                parts = getattr(left, name, None), getattr(right, name, None)
                if parts[0] is not parts[1]:
                    pairs.append(parts)
        elif left != right:  # a literal has no sign: equal ones of one type are the same
            return line
    return None
