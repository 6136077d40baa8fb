"""Text for a terminal: colours that mean something, aligned columns, wrapped notes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis.reports import words
from analysis.reports.headline import Tone

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}
_TONES: dict[Tone, str] = {
    "plain": "",
    "good": "green",
    "room": "yellow",
    "bad": "red",
    "absent": "dim",
}
#: Narrower than this a table is cut rather than squeezed further.
NARROWEST = 40

Paint = Callable[[str, str], str]


def painter(color: bool) -> Paint:
    """A function that wraps text in a colour's escape codes, or gives it back as it is."""

    def paint(text: str, how: str) -> str:
        codes = ";".join(_CODES[word] for word in how.split())
        return f"\x1b[{codes}m{text}\x1b[0m" if color and codes and text.strip() else text

    return paint


def tone_colour(tone: Tone) -> str:
    """The colour of a tone; empty for none."""
    return _TONES[tone]


def indented(text: str, columns: int, first: str = "", rest: str | None = None) -> list[str]:
    """A paragraph whose first line begins with ``first`` and the others with ``rest``."""
    rest = " " * words.width(first) if rest is None else rest
    room = max(columns - words.width(first), NARROWEST // 2)
    lines = words.wrap(text, room)
    return [(rest if number else first) + line for number, line in enumerate(lines)]


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        title: its heading.
        right: figures stand on the right.
        least: the narrowest that it may become; 0 when it never shrinks. One column of a table
            takes what room is left.
        optional: left out, the last such first, when the table is too wide.
    """

    title: str
    right: bool = True
    least: int = 0
    optional: bool = False


@dataclass(frozen=True)
class Cell:
    """Text of a cell, already safe for a terminal, and its colour."""

    text: str
    colour: str = ""


Row = Sequence[Cell]


def table(
    columns: Sequence[Column],
    rows: Sequence[Row],
    *,
    width: int,
    paint: Paint,
    indent: str = "",
    totals: Row | None = None,
) -> list[str]:
    """Lines of a table that fits: the shrinking column is clipped, optional columns are dropped.

    Args:
        totals: a last row, set apart.
    """
    every = [*rows, *([totals] if totals is not None else [])]
    shown = list(range(len(columns)))
    sizes = [
        max([words.width(column.title), *(words.width(row[at].text) for row in every)])
        for at, column in enumerate(columns)
    ]
    room = width - len(indent)

    def least() -> int:
        return sum(min(columns[at].least or sizes[at], sizes[at]) + 2 for at in shown) - 2

    for at in reversed(range(len(columns))):
        if least() > room and columns[at].optional:
            shown.remove(at)
    over = sum(sizes[at] + 2 for at in shown) - 2 - room
    for at in shown:
        if columns[at].least and over > 0:
            shrunk = max(sizes[at] - over, columns[at].least)
            over -= max(sizes[at] - shrunk, 0)
            sizes[at] = min(sizes[at], shrunk)

    def line(cells: Row, heading: bool = False) -> str:
        parts: list[str] = []
        for at in shown:
            text = words.clip(cells[at].text, sizes[at])
            space = " " * (sizes[at] - words.width(text))
            painted = paint(text, "bold" if heading else cells[at].colour)
            parts.append(space + painted if columns[at].right else painted + space)
        return (indent + "  ".join(parts)).rstrip()

    rule = indent + paint("─" * (sum(sizes[at] + 2 for at in shown) - 2), "dim")
    lines = [line([Cell(column.title) for column in columns], heading=True), rule]
    lines += [line(row) for row in rows]
    if totals is not None:
        lines += [rule, line(totals)]
    return lines
