"""Numbers that a script shows, and those it does not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from instrumentor.kernels.sizes import Sizes
from instrumentor.read.program import Program
from instrumentor.read.syntax import parse

SOURCE = """\
A = 4
B, C = A * 2, 3
D = 1
D = 2
E: int = A // 0
I = 1
I += 1
LOOP = LOOP
for F in range(3):
    pass
SHAPE = (A, -B)

def f(A, x):
    G = A
    H = C % 2
"""


@pytest.fixture
def sizes() -> Sizes:
    source = parse(Path("/x/a.py"), SOURCE.encode())
    return Sizes(Program.single(source).names, source)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A", 4), ("B", 8), ("C", 3), ("A + C - 1", 6), ("D", None), ("E", None), ("F", None),
        ("LOOP", None), ("unknown", None), ("1.5", None), ("True", None), ("-A", -4),
        ("2 ** 99", None), ("A * 99999999999999999999", None), ("f(1)", None), ("I", None),
    ],
)  # fmt: skip
def test_integers_of_the_module(sizes: Sizes, text: str, value: int | None) -> None:
    node = ast.parse(text, mode="eval").body
    assert sizes.integer(node, sizes.source.tree) == value


def test_names_of_a_function_hide_those_of_the_module(sizes: Sizes) -> None:
    function = sizes.source.functions[0]
    assert sizes.integer(ast.parse("A", mode="eval").body, function) is None
    assert sizes.integer(ast.parse("G", mode="eval").body, function) is None
    assert sizes.integer(ast.parse("H", mode="eval").body, function) == 1


def test_shapes(sizes: Sizes) -> None:
    tree = sizes.source.tree
    assert sizes.shape(ast.parse("SHAPE", mode="eval").body, tree) == (4, -8)
    assert sizes.shape(ast.parse("[A, F]", mode="eval").body, tree) is None
    assert sizes.shape(ast.parse("LOOP", mode="eval").body, tree) is None
    assert sizes.shape(None, tree) is None
