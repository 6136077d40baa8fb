"""Figures and foreign text as a reader sees them, the same in every format."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence

from instrumentor_analysis.shared.documents import LONGEST, bounded
from instrumentor_analysis.shared.units import (
    ABSENT,
    NOT_MEASURED,
    adding_up,
    alike,
    column,
    measured,
    number,
    quantity,
    size,
)

__all__ = [
    "ABSENT",
    "LONGEST",
    "NOT_MEASURED",
    "adding_up",
    "alike",
    "bounded",
    "column",
    "measured",
    "number",
    "quantity",
    "size",
]
#: What stands for an argument that is no tensor, among shapes and among types.
_NO_TENSORS = ("scalar", "Scalar", "ScalarList", "none")
_BAR = "\N{FULL BLOCK}"
_WORDS = re.compile(r"\([^()\s]*(?: [^()\s]+){1,3}\)\S*|\S+(?: %\S*)?")
#: Eighths of a block, none first.
_PARTS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")


def ms(value: float | None) -> str:
    """Milliseconds as a reader sees them: ``412 ms``, ``1.05 s``."""
    return quantity(value, "ms")


def us(value: float | None) -> str:
    """Microseconds as a reader sees them."""
    return quantity(value, "us")


def percent(value: float | None, absent: str = NOT_MEASURED) -> str:
    """``84.6 %``."""
    return quantity(value, "%", absent)


def count(value: int | None, absent: str = NOT_MEASURED) -> str:
    """A count with thousands separators."""
    return quantity(value, absent=absent)


def whole(value: int | None) -> str:
    """A count in a table."""
    return count(value, ABSENT)


def plural(value: int, noun: str) -> str:
    """``1 step``, ``1,873 ops``."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def share(value: float | None) -> str:
    """``84.6 %`` in a table."""
    return percent(value, ABSENT)


def visible(text: str, keep: str = "") -> str:
    """Foreign text for a terminal: control characters shown (``\\x1b``), not obeyed.

    Bidirectional overrides and zero-width characters count as control characters: they would
    let one name pass for another.

    Args:
        keep: control characters that stay; without any, the text is one line, and bounded.
    """
    text = text if keep else bounded(text)
    if text.isprintable():
        return text
    # Of each character once: a report has millions, of a hundred kinds.
    shown = {
        ord(c): ascii(c)[1:-1]
        for c in set(text).difference(keep)
        if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    }
    return text.translate(shown) if shown else text


def width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    # East Asian wide and fullwidth characters take two columns of a terminal, combining marks none.
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def clip(text: str, columns: int, *, named: bool = False) -> str:
    """The text if it fits, else its beginning and end around an ellipsis.

    Args:
        named: it begins with a name, of which no more is cut than there is no room for.
    """
    if width(text) <= columns:
        return text
    if columns <= 1:
        return "…"[:columns]
    room = max(0, columns - 1 - width(text.partition(" ")[0])) if named else columns
    tail = min(columns // 3, 12, room)
    head = _prefix(text, columns - 1 - tail)
    return head + "…" + _prefix(text[::-1], columns - 1 - width(head))[::-1]


def _prefix(text: str, columns: int) -> str:
    taken = 0
    for at, character in enumerate(text):
        taken += width(character)
        if taken > columns:
            return text[:at]
    return text


def squeezed(name: str) -> str:
    """An op's name without what most of them share."""
    return plain_op(name.replace("DeviceOperation", "", 1).replace(" x ", "x"))


def plain_op(name: str) -> str:
    """A name of torch's ops without what nearly all of them begin with."""
    return name.removeprefix("aten::")


def tensors(told: str) -> str:
    """An op's shapes, or types, without its scalars, which take the room of the rest."""
    return ", ".join(each for each in told.split(", ") if each not in _NO_TENSORS)


def bar(share: float | None, columns: int) -> str:
    """A bar of blocks for a share of 0 to 100, to an eighth of a column; empty for none."""
    if share is None or not math.isfinite(share):
        return ""
    eighths = round(min(max(share, 0.0), 100.0) / 100 * columns * 8)
    return _BAR * (eighths // 8) + _PARTS[eighths % 8]


def wrap(text: str, columns: int) -> list[str]:
    """Words in lines of at most so many columns; a longer word stands alone, uncut.

    Short brackets, ``(95 %: 1 to 2)``, and a figure with its ``%`` are one word.
    """
    lines: list[str] = []
    for word in _WORDS.findall(text):
        if lines and width(lines[-1]) + 1 + width(word) <= columns:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines or [""]


def shared_start(names: Sequence[str]) -> str:
    """``step_steady_1 .. step_steady_4`` for several names, the name itself for one."""
    if not names:
        return ""
    return names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]}"
