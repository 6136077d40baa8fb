"""Which argument of a call becomes which parameter of the function."""

from __future__ import annotations

import ast

import pytest

from instrumentor.read.signatures import default_of, passed


def function(signature: str) -> ast.FunctionDef:
    (found,) = ast.parse(f"def f({signature}): pass").body
    assert isinstance(found, ast.FunctionDef)
    return found


@pytest.mark.parametrize(
    ("signature", "call", "expected"),
    [
        ("a, /, b, *, c=3", "f(1, b=4, c=2)", "a=1 b=4 c=2"),
        ("a, *rest", "f(1, 2, 3)", "a=1 rest=*2 rest=*3"),
        ("a, b, *rest", "f(1, *x)", "a=1 b=*x rest=*x"),
        ("a, **more", "f(1, c=2, **d)", "a=1 more=2 more=*d"),
        ("a, b", "f(1, **d)", "a=1 b=*d"),
        ("self, a", "x.f(1)", "a=1"),
    ],
)
def test_what_is_passed(signature: str, call: str, expected: str) -> None:
    made = ast.parse(call, mode="eval").body
    assert isinstance(made, ast.Call)
    found = passed(made, function(signature), bound=call.startswith("x."))
    assert " ".join(f"{name}={ast.unparse(value)}" for name, value in found) == expected


def test_defaults() -> None:
    node = function("a, b=1, *, c, d=2")
    defaults = {name: default_of(node, name) for name in "abcd"}
    found = {name: ast.unparse(default) for name, default in defaults.items() if default}
    assert found == {"b": "1", "d": "2"}
