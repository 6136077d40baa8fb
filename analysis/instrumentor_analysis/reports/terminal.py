"""Text for a terminal: colours that mean something, aligned columns, wrapped notes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.headline import Tone

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
#: Notes are not squeezed below this.
NARROWEST = 20

Paint = Callable[[str, str], str]


def painter(color: bool) -> Paint:
    """A function that wraps text in a colour's escape codes, or gives it back as it is."""

    def paint(text: str, how: str) -> str:
        if not color or not how or not text.strip():
            return text
        codes = ";".join(_CODES[word] for word in how.split())
        return f"\x1b[{codes}m{text}\x1b[0m"

    return paint


def tone_colour(tone: Tone) -> str:
    """The colour of a tone; empty for none."""
    return _TONES[tone]


def indented(text: str, columns: int, first: str = "", rest: str | None = None) -> list[str]:
    """A paragraph whose first line begins with ``first`` and the others with ``rest``."""
    rest = " " * words.width(first) if rest is None else rest
    room = max(columns - words.width(first), NARROWEST)
    lines = words.wrap(text, room)
    return [(rest if number else first) + line for number, line in enumerate(lines)]


@dataclass(frozen=True)
class Column:
    """One column of a table, already safe for a terminal.

    Attributes:
        title: its heading.
        texts: a cell per row.
        right: figures stand on the right.
        colours: of the cells: one for all, or one each.
        least: the narrowest that it may become; 0 when it never shrinks.
        comfort: optional columns go before it becomes narrower than this.
        optional: left out, the last such first, when the table is too wide.
        total: its cell in the last row, set apart.
    """

    title: str
    texts: Sequence[str]
    right: bool = True
    colours: str | Sequence[str] = ""
    least: int = 0
    comfort: int = 0
    optional: bool = False
    total: str | None = None

    @property
    def natural(self) -> int:
        """Columns that it takes uncut."""
        last = words.width(self.total or "")
        return max(words.width(self.title), last, *map(words.width, self.texts), 0)


def table(
    columns: Sequence[Column], *, width: int, paint: Paint, indent: str = "", gap: str = "  "
) -> list[str]:
    """Lines of a table that fits: shrinking columns are clipped, then optional ones dropped."""
    shown, sizes = _fit(columns, width - len(indent), len(gap))
    rule = indent + paint("─" * (sum(sizes) + len(gap) * (len(sizes) - 1)), "dim")
    cells = [_cells(column, size, paint) for column, size in zip(shown, sizes, strict=True)]
    lines = [(indent + gap.join(row)).rstrip() for row in zip(*cells, strict=True)]
    if any(column.total is not None for column in shown):
        lines.insert(len(lines) - 1, rule)
    else:
        lines.pop()
    return [lines[0], rule, *lines[1:]]


def _fit(columns: Sequence[Column], room: int, gap: int) -> tuple[list[Column], list[int]]:
    """The columns that are shown and their sizes."""
    shown = [(column, column.natural) for column in columns]

    def wanted() -> int:
        return sum(min(max(c.comfort, c.least) or size, size) + gap for c, size in shown) - gap

    while wanted() > room and any(column.optional for column, _ in shown):
        last = max(at for at, (column, _) in enumerate(shown) if column.optional)
        del shown[last]
    over = sum(size + gap for _, size in shown) - gap - room
    sizes: list[int] = []
    for column, size in shown:
        shrunk = max(size - max(over, 0), column.least) if column.least else size
        shrunk = min(shrunk, size)
        over -= size - shrunk
        sizes.append(shrunk)
    return [column for column, _ in shown], sizes


def _cells(column: Column, size: int, paint: Paint) -> list[str]:
    """Heading, cells and total of a column, each padded to its size."""
    colours = column.colours
    each = [colours] * len(column.texts) if isinstance(colours, str) else colours
    texts = [column.title, *column.texts, column.total or ""]
    hows = ["bold", *each, "dim"]
    padded: list[str] = []
    for text, how in zip(texts, hows, strict=True):
        taken = words.width(text)
        if taken > size:
            text = words.clip(text, size)
            taken = words.width(text)
        space = " " * (size - taken)
        painted = paint(text, how)
        padded.append(space + painted if column.right else painted + space)
    return padded
