"""An option is a field: what a user may choose is said once, for library, command line and files.

A field made by :func:`option` in a frozen dataclass is all there is of an option. Its name, type
and default are the library's; :mod:`instrumentor.commands.signature` makes the parameter of the
command line, the environment variable, the key of the configuration file and the row of
docs/options.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from typing import Any

# Panels of the help.
MEASURE, WHERE, OUTPUT = "What to measure", "Where and how it runs", "Output"


@dataclass(frozen=True)
class Option:
    """What a field is to somebody who types.

    Attributes:
        panel: of the help.
        help: one sentence or two.
        flags: as they are typed; without any ``--field-name``. A field that is True by default is
            switched off by its flag.
        metavar: what stands for the value.
        variable: ``INSTRUMENT_NAME`` may give the default.
        file: ``[tool.instrument]`` may: not for what acts once, nor for what only the user decides.
        convert: of what was typed, of ``type``, to the field's value.
        type: what is typed, where it is not what the field holds.
        minimum: of a number.
        optional: its group keeps in ``given`` whether it was typed; the help says the default.
    """

    panel: str
    help: str
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    variable: bool = True
    file: bool = True
    convert: Callable[[Any], Any] | None = None
    type: Any = None
    minimum: int | None = None
    optional: bool = False


def option(panel: str, default: Any, text: str, *flags: str, **more: Any) -> Any:
    """A field that is an option; see :class:`Option`.

    Args:
        default: of the field; ``...`` for none, a type where each instance gets its own.
        more: further attributes of it. ``once=True`` is for what neither a variable nor a file
            may give.
    """
    if more.pop("once", False):
        more |= {"variable": False, "file": False}
    metadata = {"option": Option(panel, text, flags, **more)}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def same(group: type, name: str) -> Any:
    """The option of another dataclass, once more."""
    found = options_of(group)[name]
    return field(default=found.default, metadata=found.metadata)


def options_of(group: type) -> dict[str, Field[Any]]:
    """The fields of a dataclass that are options."""
    return {each.name: each for each in fields(group) if "option" in each.metadata}
