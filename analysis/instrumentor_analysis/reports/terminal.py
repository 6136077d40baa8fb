"""Documents for a terminal: colours that mean something, aligned columns, wrapped notes.

Red is a threshold that is passed (overhead, gaps above 6.5 us), green good use, yellow room for
more, grey what was not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain

from msgspec.structs import replace

from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.document import (
    COMMAND,
    NEXT,
    Column,
    Document,
    Figures,
    Listing,
    Section,
    Statement,
    Table,
    Verdict,
)
from instrumentor_analysis.shared.caveats import Caveat

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
#: Widths in columns: names and values of figures; names of a verdict and of figures without a
#: title.
_NAME, _VALUE, _LABEL = 16, 16, 12
_HEAT = " ▁▂▃▄▅▆▇█"

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
    """A paragraph whose first line begins with ``first`` and the others with ``rest``.

    A command that ends it is a line of its own where both do not fit into one: broken, it could
    not be pasted.

    Args:
        columns: width of the lines, ``first`` and ``rest`` included.
        rest: None for as many blanks as ``first`` is wide.
    """
    rest = " " * formatting.width(first) if rest is None else rest
    room = max(columns - max(map(formatting.width, (first, rest))), NARROWEST)
    lines = formatting.wrap(text, room)
    at = text.find(COMMAND) + 1 if len(lines) > 1 else 0
    if at:
        lines = [*formatting.wrap(text[:at], room), text[at + 1 :]]
    return [(rest if number else first) + line for number, line in enumerate(lines)]


def table_lines(one: Table, width: int, paint: Paint) -> list[str]:
    """A table of a document with its note; foreign texts are made safe for a terminal."""
    columns = [_shown(column, width) for column in one.columns]
    lines = table(columns, width=width, paint=paint, indent="  ") if one.rows else []
    said = one.said(_fit(columns, width - 2, 2)[0] if one.rows else ())
    note = indented(formatting.visible(said), width, "  ") if said else []
    return lines + [paint(line, "dim") for line in note]


def _shown(column: Column, width: int) -> Column:
    texts = column.squeezed if width < NARROW and column.squeezed else column.texts
    shown = [formatting.visible(text + column.tail(at)) for at, text in enumerate(texts)]
    if column.shares:
        shown = [formatting.bar(share, max(min(width - 50, 40), 8)) for share in column.shares]
    room = max([_HEADING, *map(formatting.width, shown)])
    return replace(
        column, title=formatting.clip(formatting.visible(column.title), room), texts=shown
    )


def table(
    columns: Sequence[Column], *, width: int, paint: Paint, indent: str = "", gap: str = "  "
) -> list[str]:
    """Lines of a table of safe texts: optional columns are dropped, then shrinking ones clipped.

    Where that is not enough each row is folded: its name, and below it a line for each column.
    """
    shown, sizes = _fit(columns, width - len(indent), len(gap))
    if sum(size + len(gap) for size in sizes) - len(gap) > width - len(indent) and len(shown) > 1:
        return list(_folded(shown, width, paint, indent))
    rule = indent + paint("─" * (sum(sizes) + len(gap) * (len(sizes) - 1)), "dim")
    cells = [_cells(column, size, paint) for column, size in zip(shown, sizes, strict=True)]
    head, *rows, total = (
        [(indent + gap.join(line)).rstrip() for line in _lines_of(row, sizes)]
        for row in zip(*cells, strict=True)
    )
    last = [rule, *total] if any(column.total is not None for column in shown) else []
    return [*head, rule, *chain.from_iterable(rows), *last]


def _lines_of(row: Sequence[Sequence[str]], sizes: Sequence[int]) -> Iterator[Sequence[str]]:
    """The lines of a row, of whose cells some may have several."""
    for at in range(max(map(len, row))):
        yield [
            cell[at] if at < len(cell) else " " * size
            for cell, size in zip(row, sizes, strict=True)
        ]


def _fit(columns: Sequence[Column], room: int, gap: int) -> tuple[list[Column], list[int]]:
    """The columns that are shown and their sizes."""
    shown = [(column, _natural(column)) for column in columns]

    def wanted() -> int:
        return sum(min(max(c.comfort, c.least) or size, size) + gap for c, size in shown) - gap

    # Leaving a column out reads better than names that nobody can tell apart.
    while wanted() > room and any(column.optional for column, _ in shown):
        last = max(at for at, (column, _) in enumerate(shown) if column.optional)
        del shown[last]
    over = sum(size + gap for _, size in shown) - gap - room
    sizes: list[int] = []
    for column, size in shown:
        least = max(column.least, _longest_word(column)) if column.wraps else column.least
        shrunk = max(size - max(over, 0), least) if least else size
        shrunk = min(shrunk, size)
        over -= size - shrunk
        sizes.append(shrunk)
    return [column for column, _ in shown], sizes


def _folded(columns: Sequence[Column], width: int, paint: Paint, indent: str) -> Iterator[str]:
    """The rows one after another, each as a name with what its columns say below it."""
    first, *others = (column for column in columns if not column.shares)
    told = max((formatting.width(column.title) for column in others), default=0)
    rows = range(len(first.texts) + any(column.total is not None for column in columns))
    for row in rows:
        name, *texts = (
            column.texts[row] if row < len(first.texts) else column.total or ""
            for column in (first, *others)
        )
        for line in indented(name, width, indent):
            yield paint(formatting.clip(line, width), "bold")
        for column, text in zip(others, texts, strict=True):
            colours = column.colours
            how = colours if isinstance(colours, str) else [*colours, "dim"][row]
            start = f"{indent}  {column.title.ljust(told)}  "
            for line in indented(text, width, start) if text else []:
                # A name may be one long word; a figure is never cut.
                line = line if column.right else formatting.clip(line, width)
                yield line[: len(start)] + paint(line[len(start) :], how)


def _natural(column: Column) -> int:
    """Columns that it takes uncut."""
    return max(map(formatting.width, {column.title, column.total or "", *column.texts}))


def _longest_word(column: Column) -> int:
    words = (formatting.wrap(text, 1) for text in (column.title, *column.texts))
    return max(map(formatting.width, chain.from_iterable(words)))


def _cells(column: Column, size: int, paint: Paint) -> list[list[str]]:
    """Heading, cells and total of a column, the lines of each padded to its size.

    One that repeats is made only once.
    """
    count = len(column.texts)
    colours = column.colours
    hows = [colours] * count if isinstance(colours, str) else colours
    texts = [column.title, *column.texts, column.total or ""]

    def padded(text: str, how: str) -> str:
        text = formatting.clip(text, size, named=column.named)
        space = " " * (size - formatting.width(text))
        painted = paint(text, how)
        return space + painted if column.right else painted + space

    @cache
    def cell(text: str, how: str) -> list[str]:
        lines = formatting.wrap(text, size) if column.wraps else [text]
        return [padded(line, how) for line in lines]

    return list(map(cell, texts, ["bold", *hows, "dim"]))


def warning_lines(caveats: Iterable[Caveat], width: int, paint: Paint) -> list[str]:
    """Each warning as wrapped lines: red where figures may be wrong."""
    lines: list[str] = []
    for each in caveats:
        name = "Note:" if each.weight == "note" else "Warning:"
        wrapped = indented(formatting.visible(each.labelled), width, f"{name} ", "  ")
        colour = "red" if each.weight == "wrong" else "yellow"
        lines += [wrapped[0].replace(name, paint(name, colour), 1), *wrapped[1:]]
    return lines


def render(documents: Sequence[Document], *, width: int = 80, color: bool = False) -> str:
    """Documents as text that ends in a newline: the verdict first, then figures, then warnings.

    Args:
        width: columns of the terminal.
        color: use escape codes; decide by ``isatty`` and ``NO_COLOR``.
    """
    page = _Page(width, painter(color))
    blocks = (list(block) for each in documents for block in page.blocks(each))
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


class _Page:
    """The parts of a document as lines."""

    def __init__(self, width: int, paint: Paint) -> None:
        self.width, self.paint = width, paint

    def blocks(self, document: Document) -> Iterator[Iterable[str]]:
        """The blocks of a document, which blank lines separate."""
        yield self._head(document)
        if document.verdict is not None:
            yield self._verdict(document.verdict)
        yield self._wrapped((each.tone, _sentence(each)) for each in document.statements)
        for figures in document.figures:
            yield self._figures(figures)
        for section in document.sections:
            yield self._section(section)
        # Near the end: that is what stays in sight of a terminal.
        yield warning_lines(document.warnings, self.width, self.paint)
        yield self._files(document.files)

    def _wrapped(self, texts: Iterable[tuple[str, str]], first: str = "  ") -> Iterator[str]:
        """Paragraphs, each in a colour."""
        for tone, text in texts:
            for line in indented(formatting.visible(text), self.width, first):
                yield self.paint(line, tone)

    def _head(self, document: Document) -> Iterator[str]:
        title = self.paint(formatting.visible(document.title), "bold")
        under = self.paint(formatting.visible(document.subtitle), "dim")
        length = formatting.width(f"{document.title}  {document.subtitle}")
        if title and document.subtitle and length > self.width:
            yield title
            for line in indented(formatting.visible(document.subtitle), self.width, rest="  "):
                yield self.paint(line, "dim")
        elif title:
            yield f"{title}  {under}".rstrip()
        if document.alarm:
            yield self.paint(document.alarm, "bad")

    def _verdict(self, verdict: Verdict) -> Iterator[str]:
        name = formatting.visible(verdict.name)
        if not verdict.reason:
            aside, label = (
                f"  [{verdict.aside}]" if verdict.aside else "",
                f"{verdict.label:<{_LABEL}}",
            )
            if formatting.width(f"{label}{name}{aside}") <= self.width:
                yield f"{label}{self.paint(name, verdict.tone)}{aside}"
            else:
                yield from indented(f"{name}{aside}", self.width, label)
        else:
            text = f"{verdict.label}: {name}: {formatting.visible(verdict.reason)}"
            first, *rest = indented(text, self.width, rest="  ")
            yield first.replace(name, self.paint(name, f"bold {verdict.tone}"), 1)
            yield from rest
        for line in verdict.details:
            start = f"  {line.name:<{_LABEL - 2}}"
            yield from indented(formatting.visible(line.value), self.width, start)
        for line in verdict.evidence:
            limit = f" ({line.note})" if line.note else ""
            yield from self._wrapped([("dim", f"{line.name} {line.value}{limit}")], "  · ")
        if verdict.levers:
            yield f"  {NEXT}:"
        for number, lever in enumerate(verdict.levers, start=1):
            yield from self._wrapped([("", _sentence(lever))], f"  {number}. ")

    def _figures(self, figures: Figures) -> Iterator[str]:
        if not figures.title:
            size = max((len(line.name) + 2 for line in figures.lines), default=0)
            for line in figures.lines:
                note = f", {line.note}" if line.note else ""
                start = f"{line.name:<{max(size, _LABEL)}}"
                yield from indented(formatting.visible(line.value + note), self.width, start)
            return
        for text in indented(formatting.visible(figures.title), self.width, rest="  "):
            yield self.paint(text, "bold")
        for line in figures.lines:
            # Units of one letter less would throw the figures out of line.
            value = (line.value + " " * line.value.endswith(" %")).rjust(_VALUE)
            start = f"  {line.name:<{_NAME}}"
            margin = " " * (len(start) + len(value) + 3)
            notes = indented(formatting.visible(line.note), self.width, margin)
            first, *rest = (self.paint(text[len(margin) :], "dim") for text in notes)
            yield f"{start}{self.paint(value, line.tone)}   {first}".rstrip()
            yield from (margin + text for text in rest)

    def _section(self, section: Section) -> Iterator[str]:
        if section.title:
            for line in indented(formatting.visible(section.title), self.width, rest="  "):
                yield self.paint(line, "bold")
        for number, each in enumerate(section.tables):
            yield from [""] if number else []
            yield from table_lines(each, self.width, self.paint)
        for listing in section.listings:
            yield from self._listing(listing)
        for one in section.statements:
            yield from self._wrapped([(one.tone, one.what or one.said)])
            yield from self._wrapped([("", one.said)] if one.what else [], "    ")
        yield from self._wrapped([("dim", section.text)] if section.text else [])
        yield from (f"  {formatting.visible(line)}" for line in section.verbatim)

    def _listing(self, listing: Listing) -> Iterator[str]:
        """Code with its figures; a bar and a colour say how hot a line is."""
        none = [""] * len(listing.heads)
        rows = [["line", *listing.heads]]
        rows += [[str(line.number), *(line.cells or none)] for line in listing.lines]
        sizes = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        head, *texts = ("  " + "  ".join(map(str.rjust, row, sizes)) for row in rows)
        yield f"{head}    {listing.last} ({listing.legend})"
        for text, line in zip(texts, listing.lines, strict=True):
            heat = line.heat or 0.0
            tone = "red" if heat > 0.5 else "yellow" if heat > 0.2 else ""
            shown = f"{text}  {_HEAT[min(round(heat * 8), 8)]} {formatting.visible(line.text)}"
            # Cut, not wrapped: in wrapped code nobody sees the indentation.
            if line.heat is not None or line.text.strip():
                yield self.paint(shown[: self.width], "dim" if line.heat is None else tone)

    def _files(self, files: Sequence[tuple[str, str]]) -> Iterator[str]:
        if files:
            yield self.paint("Files", "bold")
        size = max((len(formatting.visible(name)) for name, _ in files), default=0)
        for name, path in files:
            # Not wrapped: cut, a path could not be pasted.
            yield f"  {formatting.visible(name):<{size}}  {formatting.visible(path)}"


def _sentence(one: Statement) -> str:
    return f"{one.what}: {one.said}" if one.what else one.said
