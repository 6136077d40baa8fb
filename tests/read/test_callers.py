"""What all calls of a function give to a parameter; nothing where one may be out of sight."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from instrumentor.read.callers import given_by_all
from instrumentor.read.program import Function, Program
from instrumentor.read.syntax import parse

FUNCTION = "def f(a, b=2, *rest, **more): ...\n"
CLASS = "class C:\n    def __init__(self, a): ...\n    def f(self, a): ...\n"


def given(code: str, function: str, name: str) -> str | None:
    """What the calls give, one after the other."""
    program = Program.single(parse(Path("train.py"), code.encode()))
    (node,) = (f for f in program.entry.functions if f.name == function)
    found = given_by_all(program, Function(program.entry, node), name)
    return None if found is None else " ".join(ast.unparse(value) for _, _, value in found)


@pytest.mark.parametrize(
    ("code", "function", "name", "expected"),
    [
        (FUNCTION + "f(1)\nf(a=3)", "f", "a", "1 3"),
        (FUNCTION + "f(1)\nf(1, 4)", "f", "b", "2 4"),
        (FUNCTION + "g = f\ng(5)", "f", "a", None),  # who gets it by that name may call it
        (FUNCTION + "f(*values)", "f", "a", None),
        (FUNCTION + "f(**values)", "f", "b", None),
        (FUNCTION + "f(1, 2, 3)", "f", "rest", None),
        (FUNCTION + "f(1, c=3)", "f", "more", None),
        (FUNCTION + "f()", "f", "a", None),
        (FUNCTION, "f", "a", None),
        (FUNCTION + "f(1)\nrun(f)", "f", "a", None),
        ("@hydra.main()\n" + FUNCTION + "f(1)", "f", "a", None),
        ("@torch.no_grad()\n" + FUNCTION + "f(1)", "f", "a", "1"),
        (CLASS + "c = C(1)\nc.f(2)", "f", "a", "2"),
        (CLASS + "c = C(1)\nC.f(c, 2)", "f", "a", "2"),
        (CLASS + "import torch\nc = C(1)\nc.f(2)\ntorch.f(3)", "f", "a", "2"),
        (CLASS + "c = C(1)\nc.f(2)\nunknown.f(3)", "f", "a", "2 3"),  # the only one of that name
        (CLASS + "class D(C):\n    def f(self, a): ...\nC(1).f(2)\nx.f(3)", "__init__", "a", "1"),
        (CLASS + "C(1)", "__init__", "a", "1"),
        (CLASS + "C(1)\nisinstance(x, C)", "__init__", "a", "1"),
        (CLASS + "C(1)\nregister(C)", "__init__", "a", None),
        ("@register\n" + CLASS + "C(1)", "__init__", "a", None),
    ],
)
def test_given_by_all(code: str, function: str, name: str, expected: str | None) -> None:
    assert given(code, function, name) == expected


def test_calls_that_are_never_made_do_not_count() -> None:
    program = Program.single(parse(Path("train.py"), (FUNCTION + "f(1)\nf(2)").encode()))
    function = Function(program.entry, program.entry.functions[0])
    found = given_by_all(program, function, "a", lambda _, call: call.lineno == 3)
    assert found is not None
    assert [ast.unparse(value) for _, _, value in found] == ["2"]
