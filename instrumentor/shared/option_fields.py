"""An option is a field: what a user may choose is said once, for library, command line and files.

A field made by :func:`option` in a frozen dataclass is all there is of an option. Its name, type
and default are the library's; :mod:`instrumentor.cli.signature` makes the parameter of the
command line, the environment variable, the key of the configuration file and the row of
docs/options.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from typing import Any

from instrumentor.shared.errors import UsageError

# Panels of the help, in their order: what most need first, what few need last.
USUAL, MEASURE, OUTPUT = "Most used", "What to measure", "Output"
COPY, WHERE = "What the copy leaves out or keeps", "Where and how it runs"
DEVICE = "Tenstorrent devices and Tracy"
PANELS = (USUAL, MEASURE, OUTPUT, COPY, WHERE, DEVICE)


@dataclass(frozen=True)
class Option:
    """What a field is to somebody who types.

    Attributes:
        panel: of the help.
        help: one sentence or two.
        flags: as they are typed; without any ``--field-name``. A field that is True by default is
            switched off by its flag.
        metavar: what stands for the value; of a choice its alternatives.
        variable: ``INSTRUMENT_NAME`` may give the default.
        file: ``[tool.instrument]`` may: not for what acts once, nor for what only the user decides.
        convert: of what was typed, of ``type``, to the field's value.
        type: what is typed, where it is not what the field holds.
        choices: the values that it takes, where those are few.
        minimum: of a number, or of each of several.
        above: what a number has to exceed.
    """

    panel: str
    help: str
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    variable: bool = True
    file: bool = True
    convert: Callable[[Any], Any] | None = None
    type: Any = None
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    above: int | None = None

    def refuse(self, field_name: str, value: Any) -> None:
        """Raise a :class:`UsageError` for a value that the option does not take."""
        said = max(self.flags, key=len, default="--" + field_name.replace("_", "-"))
        said += "" if self.convert else f" {value}"  # which is not what was typed
        if self.choices and value not in self.choices:
            raise UsageError(f"{said}: must be one of {', '.join(self.choices)}")
        numbers = value if isinstance(value, tuple) else (value,)
        if any(isinstance(each, float) and not math.isfinite(each) for each in numbers):
            raise UsageError(f"{said}: must be a finite number")
        if self.minimum is not None and any(each < self.minimum for each in numbers):
            raise UsageError(f"{said}: must be {self.minimum} or more")
        if self.above is not None and value <= self.above:
            raise UsageError(f"{said}: must be above {self.above}")


class Checked:
    """Base of a dataclass with options: each of its values is one that the option takes.

    Raises:
        UsageError: on creation, naming the option.
    """

    def __post_init__(self) -> None:
        for name, each in options_of(type(self)).items():
            value = getattr(self, name)
            if value is not None:
                each.metadata["option"].refuse(name, value)


def option(panel: str, default: Any, text: str, *flags: str, **more: Any) -> Any:
    """A field that is an option; see :class:`Option`.

    Args:
        default: of the field; ``...`` for none, a type where each instance gets its own.
        more: further attributes of it. ``once=True`` is for what neither a variable nor a file
            may give.
    """
    if more.pop("once", False):
        more |= {"variable": False, "file": False}
    if "choices" in more:
        more.setdefault("metavar", "|".join(more["choices"]))
    metadata = {"option": Option(panel, text, flags, **more)}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def output_file(text: str, *flags: str, metavar: str = "FILE") -> Any:
    """A field for a file or folder that is written where somebody names it."""
    return option(OUTPUT, None, text, *flags, metavar=metavar, once=True)


def same(group: type, name: str) -> Any:
    """A field that repeats the option of another dataclass."""
    found = options_of(group)[name]
    return field(default=found.default, metadata=found.metadata)


def options_of(group: type) -> dict[str, Field[Any]]:
    """The fields of a dataclass that are options."""
    return {each.name: each for each in fields(group) if "option" in each.metadata}
