"""Where the addressed statements are in the concrete syntax tree.

``ast`` knows positions, LibCST knows the text. Both hold the same statements in the same nesting,
so walking them side by side maps one to the other without LibCST's position provider, which costs
more than the parse. Only blocks that hold an addressed statement are entered.
"""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import libcst as cst

from instrumentor.edits import Statement
from instrumentor.engine.actions import address
from instrumentor.errors import ProofFailed

Node: TypeAlias = cst.BaseSmallStatement | cst.BaseCompoundStatement
Holder: TypeAlias = cst.Module | cst.BaseSuite
# Whatever has a block in its `body`: a compound statement, or a part of one such as Else.
Owner: TypeAlias = Any
# Line and column of an address: tuples compare ten times faster than dataclasses.
Position: TypeAlias = tuple[int, int]

_SAME_NAME = {
    "AsyncFor": "For",
    "AsyncFunctionDef": "FunctionDef",
    "AsyncWith": "With",
    "Delete": "Del",
}


@dataclass(frozen=True)
class Place:
    """An addressed statement: in both trees, at which depth, and whether an ``elif`` opens it."""

    statement: ast.stmt
    node: Node
    depth: int
    is_elif: bool = False


@dataclass
class Places:
    """All addressed statements, and the identities of the nodes that hold one.

    Attributes:
        at: place by address.
        touched: ``id`` of every addressed node and of every node around one.
    """

    at: dict[Statement, Place] = field(default_factory=dict)
    touched: set[int] = field(default_factory=set)


def find_places(tree: ast.Module, module: cst.Module, addresses: Iterable[Statement]) -> Places:
    """Map addresses to nodes.

    Raises:
        ProofFailed: no statement starts at an address, or the two trees differ in structure.
    """
    places = Places()
    wanted = sorted((one.line, one.column) for one in set(addresses))
    _walk(tree.body, module, wanted, 0, places)
    for line, column in wanted:
        if Statement(line, column) not in places.at:
            raise ProofFailed(f"no statement starts at line {line}, column {column}")
    return places


def first_line(statement: ast.stmt) -> int:
    """The first line of a statement, its decorators included."""
    decorators: Sequence[ast.expr] = getattr(statement, "decorator_list", ())
    return decorators[0].lineno if decorators else statement.lineno


def _walk(
    statements: Sequence[ast.stmt],
    holder: Holder,
    wanted: Sequence[Position],
    depth: int,
    places: Places,
) -> None:
    pairs = list(_nodes(holder))
    if len(pairs) != len(statements):
        line = statements[0].lineno if statements else 1
        raise ProofFailed(f"the two parsers disagree about the block at line {line}")
    for statement, (line_node, node) in zip(statements, pairs, strict=True):
        inside = _between(wanted, statement)
        if inside:
            places.touched.update((id(holder), id(line_node), id(node)))
            _enter(statement, node, inside, depth, places)


def _enter(
    statement: ast.stmt,
    node: Node,
    wanted: Sequence[Position],
    depth: int,
    places: Places,
    is_elif: bool = False,
) -> None:
    name = type(statement).__name__
    if _SAME_NAME.get(name, name) != type(node).__name__:
        raise ProofFailed(
            f"the two parsers disagree about the statement at line {statement.lineno}"
        )
    own = address(statement)
    if (own.line, own.column) in wanted:
        places.at[own] = Place(statement, node, depth, is_elif)
        if len(wanted) == 1:
            return
    for statements, owner in _blocks(statement, node):
        inside = _between(wanted, statements[0], statements[-1])
        if not inside:
            continue
        places.touched.add(id(owner))
        if isinstance(owner, cst.If) and owner is not node:
            _enter(statements[0], owner, inside, depth + 1, places, is_elif=True)
        else:
            _walk(statements, owner.body, inside, depth + 1, places)


def _between(
    wanted: Sequence[Position], first: ast.stmt, last: ast.stmt | None = None
) -> Sequence[Position]:
    """The wanted positions from the start of ``first`` to the end of ``last`` (or ``first``)."""
    end = first if last is None else last
    assert end.end_lineno is not None and end.end_col_offset is not None
    start = first_line(first)
    low = bisect_left(wanted, (start, first.col_offset if start == first.lineno else 0))
    return wanted[low : bisect_right(wanted, (end.end_lineno, end.end_col_offset), low)]


def _nodes(holder: Holder) -> Iterator[tuple[cst.CSTNode, Node]]:
    """The statements of a block, each with the line that holds it (itself when compound)."""
    for child in holder.body:
        if isinstance(child, cst.SimpleStatementLine):
            for small in child.body:
                yield child, small
        elif isinstance(child, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            yield child, child


def _blocks(statement: ast.stmt, node: Node) -> Iterator[tuple[Sequence[ast.stmt], Owner]]:
    """The blocks of a compound statement, each with the node whose ``body`` holds it.

    An ``elif`` is given as the If that it is.
    """
    yield from _pair(getattr(statement, "body", ()), node)
    for name in ("handlers", "cases"):
        parts = getattr(statement, name, ())
        owners = getattr(node, name, ())
        if len(parts) != len(owners):
            raise ProofFailed(f"the two parsers disagree about line {statement.lineno}")
        for part, owner in zip(parts, owners, strict=True):
            yield from _pair(part.body, owner)
    for name in ("orelse", "finalbody"):
        yield from _pair(getattr(statement, name, ()), getattr(node, name, None))


def _pair(
    statements: Sequence[ast.stmt], owner: Owner
) -> Iterator[tuple[Sequence[ast.stmt], Owner]]:
    if statements:
        if owner is None:
            raise ProofFailed(f"the two parsers disagree about line {statements[0].lineno}")
        yield statements, owner
