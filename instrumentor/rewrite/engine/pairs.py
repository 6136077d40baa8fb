"""Which node of the concrete syntax tree is which statement of ``ast``'s.

``ast`` knows positions, LibCST knows the text. Both hold the same statements in the same order, so
the order alone maps one to the other: LibCST's own positions cost twice the parse.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import libcst as cst

from instrumentor.shared.edits import Statement
from instrumentor.shared.errors import ProofFailed

Node: TypeAlias = cst.BaseSmallStatement | cst.BaseCompoundStatement

# isinstance() asks abstract classes slowly
_SMALL = frozenset(cst.BaseSmallStatement.__subclasses__())
COMPOUND = frozenset(cst.BaseCompoundStatement.__subclasses__())
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
    waiting: list[Any] = [module]
    while waiting:
        node = waiting.pop()
        small = type(node) in _SMALL
        if small or type(node) in COMPOUND:
            yield node
        if not small:
            for name in reversed(_BLOCKS):
                part = getattr(node, name, None) or ()
                waiting.extend([part] if isinstance(part, cst.CSTNode) else reversed(part))
