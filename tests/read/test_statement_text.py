"""Statements written again: positions as the syntax tree has them, texts in quotes as they are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from instrumentor.read.statement_text import StatementText
from instrumentor.read.syntax import parse


def rewritten(text: str, encoding: str = "utf-8") -> str:
    """The last statement of a module with its call's first argument replaced by 99."""
    source = parse(Path("/x/a.py"), text.encode(encoding))
    statement = max(source.places, key=lambda s: (s.lineno, s.col_offset))
    call = next(n for n in ast.walk(statement) if isinstance(n, ast.Call))
    whole = StatementText(source)
    return whole.rewritten(statement, [(*whole.span(call.args[0]), "99")])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = f(1, 2)\n", "x = f(99, 2)"),
        ("if x:\r\n    y = f(\r\n        1,\r\n    )\r\n", "y = f(\n    99,\n)"),
        ('s = "ä\u2028"; y = f("ö", 2)\n', "y = f(99, 2)"),
        ("if x:\n    f(1, '''a\n    b''')\n", "f(99, '''a\n    b''')"),
        ("\x0cx = f(1)\n", "x = f(99)"),
    ],
)
def test_the_statement_alone(text: str, expected: str) -> None:
    assert rewritten(text) == expected


def test_another_encoding() -> None:
    text = "# -*- coding: latin-1 -*-\nx = f('ö', 'ü')\n"
    assert rewritten(text, "latin-1") == "x = f(99, 'ü')"
