"""Text for a terminal: colours that mean something, aligned columns, wrapped notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from instrumentor_analysis.caveats import Caveat
from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.document import Column, Section, Table

#: Colours, and the tones of a report.
_CODES = {
    "bold": "1",
    **dict.fromkeys(("dim", "absent"), "2"),
    **dict.fromkeys(("red", "bad"), "31"),
    **dict.fromkeys(("green", "good"), "32"),
    **dict.fromkeys(("yellow", "room"), "33"),
    "cyan": "36",
    "plain": "",
}
#: Below this many columns names of ops are squeezed.
NARROW = 100
#: A heading is not longer than this, unless its cells are.
_HEADING = 18
#: Notes are not squeezed below this.
NARROWEST = 20

Paint = Callable[[str, str], str]


def painter(color: bool) -> Paint:
    """A function that wraps text in a colour's escape codes, or gives it back as it is."""

    def paint(text: str, how: str) -> str:
        if not color or not how or not text.strip():
            return text
        codes = ";".join(_CODES[word] for word in how.split())
        return f"\x1b[{codes}m{text}\x1b[0m" if codes else text

    return paint


def indented(text: str, columns: int, first: str = "", rest: str | None = None) -> list[str]:
    """A paragraph whose first line begins with ``first`` and the others with ``rest``."""
    rest = " " * words.width(first) if rest is None else rest
    room = max(columns - words.width(first), NARROWEST)
    lines = words.wrap(text, room)
    return [(rest if number else first) + line for number, line in enumerate(lines)]


def section_lines(section: Section, width: int, paint: Paint) -> list[str]:
    """A heading, and its tables with a blank line between them."""
    lines = [paint(words.visible(section.title), "bold")]
    for number, each in enumerate(section.tables):
        lines += [""] if number else []
        lines += table_lines(each, width, paint)
    return lines + (indented(words.visible(section.text), width, "  ") if section.text else [])


def table_lines(one: Table, width: int, paint: Paint) -> list[str]:
    """A table of a document with its note; foreign texts are made safe for a terminal."""
    columns = [_shown(column, width) for column in one.columns]
    lines = table(columns, width=width, paint=paint, indent="  ") if one.rows else []
    note = indented(words.visible(one.note), width, "  ") if one.note else []
    return lines + [paint(line, "dim") for line in note]


def _shown(column: Column, width: int) -> Column:
    texts = column.squeezed if width < NARROW and column.squeezed else column.texts
    shown = [words.visible(text + column.tail(at)) for at, text in enumerate(texts)]
    if column.shares:
        shown = [words.bar(share, max(min(width - 50, 40), 8)) for share in column.shares]
    room = max([_HEADING, *map(words.width, shown)])
    return replace(column, title=words.clip(words.visible(column.title), room), texts=shown)


def table(
    columns: Sequence[Column], *, width: int, paint: Paint, indent: str = "", gap: str = "  "
) -> list[str]:
    """Lines of a table of safe texts: shrinking columns are clipped, then optional ones dropped."""
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
    shown = [(column, _natural(column)) for column in columns]

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


def _natural(column: Column) -> int:
    """Columns that it takes uncut."""
    return max(words.width(text) for text in (column.title, column.total or "", *column.texts))


def _cells(column: Column, size: int, paint: Paint) -> list[str]:
    """Heading, cells and total of a column, each padded to its size."""
    texts = [column.title, *column.texts, column.total or ""]
    hows = ["bold", *(column.colour(at) for at in range(len(column.texts))), "dim"]
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


def warning_lines(caveats: Iterable[Caveat], width: int, paint: Paint) -> list[str]:
    """Each warning as wrapped lines: red where figures may be wrong."""
    lines: list[str] = []
    for each in caveats:
        name = "Note:" if each.weight == "note" else "Warning:"
        wrapped = indented(words.visible(str(each)), width, f"{name} ", "  ")
        colour = "red" if each.weight == "wrong" else "yellow"
        lines += [wrapped[0].replace(name, paint(name, colour), 1), *wrapped[1:]]
    return lines
