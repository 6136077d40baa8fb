"""Which node lies within which."""

from __future__ import annotations

import ast
from pathlib import Path

from instrumentor.read.syntax import contains, parse

TEXT = b"for x in xs:\n    if x:\n        y = x\n"


def statements_of(tree: ast.Module) -> list[ast.stmt]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


def test_a_statement_lies_within_those_around_it() -> None:
    tree = parse(Path("a.py"), TEXT).tree
    loop, _, inner = statements_of(tree)
    assert contains(tree, inner)
    assert contains(loop, inner)
    assert not contains(inner, loop)


def test_a_statement_of_another_file_does_not_whatever_its_lines() -> None:
    tree, other = (parse(Path(name), TEXT).tree for name in ("a.py", "b.py"))
    _, inner, _ = statements_of(other)
    assert not contains(tree.body[0], inner)
    assert not contains(tree, inner)
