"""Which node of the concrete syntax tree is which statement of ``ast``'s.

``ast`` knows positions, LibCST knows the text. Both hold the same statements in the same order, so
the order alone maps one to the other: LibCST's own positions cost twice the parse.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import libcst as cst

from instrumentor.edits import Statement
from instrumentor.errors import ProofFailed

Node: TypeAlias = cst.BaseSmallStatement | cst.BaseCompoundStatement

_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")  # in the order of the text
_SAME_NAME = {
    "AsyncFor": "For",
    "AsyncFunctionDef": "FunctionDef",
    "AsyncWith": "With",
    "Delete": "Del",
}


def pair(statements: Mapping[Statement, ast.stmt], module: cst.Module) -> dict[Statement, Node]:
    """The node of each statement.

    Raises:
        ProofFailed: the two trees do not hold the same statements.
    """
    nodes = list(_statements(module))
    ordered = sorted(statements)
    if len(nodes) != len(ordered):
        raise ProofFailed("the two parsers disagree about how many statements the file has")
    for where, node in zip(ordered, nodes, strict=True):
        name = type(statements[where]).__name__
        if _SAME_NAME.get(name, name) != type(node).__name__:
            raise ProofFailed(f"the two parsers disagree about the statement at line {where.line}")
    return dict(zip(ordered, nodes, strict=True))


def _statements(module: cst.Module) -> Iterator[Node]:
    waiting: list[cst.CSTNode] = [module]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            yield node
        if not isinstance(node, cst.BaseSmallStatement):
            for name in reversed(_BLOCKS):
                part = getattr(node, name, None) or ()
                waiting.extend([part] if isinstance(part, cst.CSTNode) else reversed(part))
