"""Proof 'planned': the new syntax tree is the old one with the edits, and nothing else, done to it.

The edits are carried out a second time here, on the blocks of the bare syntax tree, and the outcome
is compared with what the rewritten text means. Text plays no part in it, so a fault of the
rewriting cannot repeat itself here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from instrumentor.edits import Edit, Kind, Statement
from instrumentor.engine.actions import Actions, Gathered, gather
from instrumentor.engine.parsing import parse
from instrumentor.errors import ProofFailed
from instrumentor.locate.syntax import address

_BLOCKS = ("body", "orelse", "finalbody")
_NO_ACTIONS = Actions()


def check_planned(before: ast.Module, after: ast.Module, edits: Sequence[Edit]) -> None:
    """Compare ``after`` with ``before`` after the edits.

    Raises:
        ProofFailed: with the line of the first difference.
    """
    line = first_difference(before, after, _expected(before, edits))
    if line is not None:
        raise ProofFailed(f"proof 'planned' failed at line {line}: the statement is not as planned")


def _expected(tree: ast.Module, edits: Sequence[Edit]) -> dict[int, list[ast.stmt]]:
    """What the edits make of the blocks of a syntax tree, by the identity of each block."""
    gathered = gather(edits, tree)
    blocks = list(_blocks(tree))
    statements = {address(node): node for _, block in blocks for node in block}
    for where in gathered.at:
        if where not in statements:
            raise ProofFailed(f"proof 'planned' failed: no statement starts at line {where.line}")
    found = {
        id(block): _edited(block, gathered, statements) or _emptied(owner)
        for owner, block in blocks
        if any(address(node) in gathered.at for node in block)
    }
    if gathered.alone:
        found[id(tree.body)] = [node for edit in gathered.alone for node in _parsed(edit)]
    return found


def first_difference(
    one: ast.AST, other: ast.AST, instead: Mapping[int, list[ast.stmt]] | None = None
) -> int | None:
    """The line in ``other`` where two trees begin to differ; None when they are the same.

    Args:
        instead: statements that stand for a block of ``one``, by its identity.
    """
    line = 1
    instead = instead or {}
    pairs: list[tuple[object, object]] = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        left = instead.get(id(left), left)
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
            pairs.extend(_fields(left, right))
        elif left != right or repr(left) != repr(right):
            return line
    return None


def _fields(one: ast.AST, other: object) -> Iterator[tuple[object, object]]:
    """The fields of two nodes, the last one first."""
    for name in reversed(one._fields):
        left, right = getattr(one, name, None), getattr(other, name, None)
        # names, None, Load() ... are the same object; so may a block be that changes
        if left is not right or isinstance(left, list):
            yield left, right


def _blocks(tree: ast.Module) -> Iterator[tuple[ast.AST, list[ast.stmt]]]:
    """Every list of statements with its owner."""
    owners: list[ast.AST] = [tree]
    while owners:
        owner = owners.pop()
        for name in _BLOCKS:
            block: list[ast.stmt] = getattr(owner, name, None) or []
            if block:
                yield owner, block
                owners.extend(node for node in block if hasattr(node, "body") or _has_cases(node))
        owners.extend(getattr(owner, "handlers", ()))
        owners.extend(getattr(owner, "cases", ()))


def _has_cases(node: ast.stmt) -> bool:
    return hasattr(node, "cases")


def _edited(
    block: Sequence[ast.stmt], gathered: Gathered, statements: dict[Statement, ast.stmt]
) -> list[ast.stmt]:
    result: list[ast.stmt] = []
    for node in block:
        actions = gathered.at.get(address(node), _NO_ACTIONS)
        for edit in actions.before:
            result.extend(_parsed(edit))
        if actions.off is None:
            result.append(node)
        elif actions.off.kind is Kind.DISABLE:
            result.extend(_parsed(actions.off))
        for edit in actions.after:
            if edit.kind is Kind.MOVE_AFTER:
                assert edit.at is not None
                result.append(statements[edit.at])
            else:
                result.extend(_parsed(edit))
    return result


def _emptied(owner: ast.AST) -> list[ast.stmt]:
    return [] if isinstance(owner, ast.Module) else [ast.Pass()]


def _parsed(edit: Edit) -> list[ast.stmt]:
    return parse(edit.code).body
