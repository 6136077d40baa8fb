"""An option that was given as an argument: where it is instead, not a bare TypeError."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def says_where(*places: tuple[type, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function name the place of an option that is none of its own arguments.

    Args:
        places: types whose fields are options, each with how one is given: ``X({})``.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def called(*args: P.args, **given: P.kwargs) -> R:
            for name in given.keys() - signature(function).parameters.keys():
                _refuse(function.__name__, name, given[name], places)
            return function(*args, **given)

        return called

    return decorate


def _refuse(function: str, name: str, value: Any, places: tuple[tuple[Any, str], ...]) -> None:
    for kind, given in places:
        if any(each.name == name for each in fields(kind)):
            option = given.format(f"{name}={value!r}")
            raise TypeError(f"{function}() takes no {name}; it is an option: {option}")
