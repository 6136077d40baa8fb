"""Where the value of an option comes from that nobody typed: what is wrong with it says so."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from instrumentor.cli.config import TABLE, Defaults
from instrumentor.shared.errors import UsageError

#: Under which a context holds the :class:`Defaults` that its options have.
FILE = "instrumentor.defaults"
#: How a checker of types tells what was not a number -> what a person reads.
_PLAINLY = {
    "Input should be a valid integer, unable to parse string as an integer": "not a whole number",
    "Input should be a valid number, unable to parse string as a number": "not a number",
}


def plainly(text: str) -> str:
    """What is wrong with a value, for a person."""
    for said, plain in _PLAINLY.items():
        text = text.replace(said, plain)
    return text


@contextmanager
def named(context: Any) -> Iterator[None]:
    """While the block runs, an error about an option of a file or a variable names that one.

    Args:
        context: of Typer's, of one command.

    Raises:
        UsageError: in the place of Typer's own error, or of ours that speaks of the option alone.
    """
    try:
        yield
    except UsageError as error:
        for option in context.command.params:
            about = re.match(
                "|".join(f"{re.escape(flag)}(?![\\w-])" for flag in option.opts), error.message
            )
            where = _origin(context, option) if about else ""
            if where:
                error.message = f"{where}: {error.message}"
        raise
    except Exception as error:
        # Typer's own: since 0.26 it is of a Click inside of Typer, whose classes have no name here.
        _suggest_one(context, error)
        wrong = getattr(error, "param", None)
        if wrong is None:
            raise
        where = _origin(context, wrong)
        if not where:
            raise
        said = plainly(str(getattr(error, "message", error)))
        raise UsageError(
            f"{where}: {said}", f"It stands for {max(wrong.opts, key=len)}."
        ) from error


def _suggest_one(context: Any, error: Any) -> None:
    """Name of the options that a mistyped one may mean the nearest: others do other things."""
    typed: str | None = getattr(error, "option_name", None)
    if typed is not None and hasattr(error, "possibilities"):
        known = [flag for option in context.command.params for flag in option.opts]
        near = get_close_matches(typed, known, 1)
        error.possibilities = None
        error.message = f"No such option: {typed}" + (f"; did you mean {near[0]}?" if near else "")


def _origin(context: Any, option: Any) -> str:
    """``INSTRUMENT_STEPS=abc``, or the file with its line; empty for what was typed."""
    source = context.get_parameter_source(option.name)
    name = "" if source is None else source.name
    if name == "ENVIRONMENT":
        given = [option.envvar] if isinstance(option.envvar, str) else option.envvar or ()
        return next((f"{each}={os.environ[each]}" for each in given if os.environ.get(each)), "")
    found: Defaults | None = context.meta.get(FILE)
    if name != "DEFAULT_MAP" or found is None:
        return ""
    keys = (option.name, *(flag.lstrip("-").replace("-", "_") for flag in option.opts))
    key = next((each for each in keys if each in found.table), option.name)
    return f"{found.path}: [tool.{TABLE}]: {key} = {found.table.get(key)!r}"
