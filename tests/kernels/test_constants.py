"""Numbers that a script shows, and those it does not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from instrumentor.kernels.constants import Constants
from instrumentor.locate.syntax import parse

SOURCE = """\
A = 4
B, C = A * 2, 3
D = 1
D = 2
E: int = A // 0
LOOP = LOOP
for F in range(3):
    pass
SHAPE = (A, -B)

def f(A, x):
    G = A
    H = C % 2
"""


@pytest.fixture
def constants() -> Constants:
    return Constants(parse(Path("/x/a.py"), SOURCE.encode()))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A", 4), ("B", 8), ("C", 3), ("A + C - 1", 6), ("D", None), ("E", None), ("F", None),
        ("LOOP", None), ("unknown", None), ("1.5", None), ("True", None), ("-A", -4),
        ("2 ** 99", None), ("A * 99999999999999999999", None), ("f(1)", None),
    ],
)  # fmt: skip
def test_integers_of_the_module(constants: Constants, text: str, value: int | None) -> None:
    node = ast.parse(text, mode="eval").body
    assert constants.integer(node, constants.source.tree) == value


def test_names_of_a_function_hide_those_of_the_module(constants: Constants) -> None:
    function = constants.source.functions[0]
    assert constants.integer(ast.parse("A", mode="eval").body, function) is None
    assert constants.integer(ast.parse("G", mode="eval").body, function) is None
    assert constants.integer(ast.parse("H", mode="eval").body, function) == 1


def test_shapes(constants: Constants) -> None:
    tree = constants.source.tree
    assert constants.shape(ast.parse("SHAPE", mode="eval").body, tree) == (4, -8)
    assert constants.shape(ast.parse("[A, F]", mode="eval").body, tree) is None
    assert constants.shape(None, tree) is None
