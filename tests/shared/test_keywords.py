"""Options that were given as arguments."""

from __future__ import annotations

from typing import Any

import pytest

from instrumentor import Options, run
from instrumentor.shared.keywords import says_where


@says_where((Options, "options=Options({})"))
def function(first: int, *, second: int = 2) -> int:
    return first + second


def test_arguments_of_its_own_are_handed_over() -> None:
    assert function(1) == 3 and function(first=1, second=1) == 2
    assert function.__name__ == "function"


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"steps": 6}, r"^function\(\) takes no steps; .*Options\(steps=6\)$"),
        ({"stepz": 6}, "unexpected keyword argument 'stepz'"),
    ],
)
def test_an_option_is_answered_with_its_place(option: dict[str, Any], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        function(1, **option)


@pytest.mark.parametrize(
    ("option", "place"),
    [
        ({"steps": 6}, "options=RunOptions(rewrite=Options(steps=6))"),
        ({"python": "p"}, "options=RunOptions(python='p')"),
    ],
)
def test_a_run_names_the_place_of_each_option(option: dict[str, Any], place: str) -> None:
    with pytest.raises(TypeError) as raised:
        run("train.py", **option)
    assert str(raised.value).endswith(f"it is an option: {place}")
