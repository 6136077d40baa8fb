"""A report as data: what each kind of report fills, and every format lays out in its own way.

The formats (:mod:`.terminal`, :mod:`.markdown`, :mod:`.html`) know nothing of the kinds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from instrumentor_analysis.reports.drawing import Drawing
from instrumentor_analysis.reports.ops_data import OpsTable
from instrumentor_analysis.shared.caveats import Caveat

#: ``bad``: a threshold is passed; ``room``: could be better; ``good``; ``absent``: not measured.
Tone = Literal["plain", "good", "room", "bad", "absent"]

#: The heading above a verdict's levers.
NEXT = "Next, one at a time"
#: A command behind the colon that announces it, up to the end of a text.
COMMAND = ": instrument "


class Column(Struct, frozen=True):
    """One column of a table.

    Attributes:
        title: its heading.
        texts: a cell per row.
        right: figures stand on the right.
        colours: of the cells, a :data:`Tone` or a terminal's colour: one for all, or one each.
        foreign: which texts a trace or a script has written, not we: one for all, or one each.
        behind: words of ours behind each text.
        squeezed: shorter texts for a narrow terminal; there are others where it is empty.
        shares: percent of each row, drawn as bars instead of texts.
        least: the narrowest that it may become on a terminal; 0 when it never shrinks.
        comfort: optional columns go before it becomes narrower than this.
        optional: left out on a narrow terminal, the last such first.
        total: its cell in the last row, set apart.
        keys: colours of a chart that its rows belong to; none where empty.
        wraps: on a narrow terminal its texts are broken between words, not cut.
        named: its texts begin with a name, which is cut last.
        about: a sentence below the table where the column is shown.
    """

    title: str
    texts: Sequence[str] = ()
    right: bool = True
    colours: str | Sequence[str] = ""
    foreign: bool | Sequence[bool] = False
    behind: Sequence[str] = ()
    squeezed: Sequence[str] = ()
    shares: Sequence[float | None] = ()
    least: int = 0
    comfort: int = 0
    optional: bool = False
    total: str | None = None
    keys: Sequence[str] = ()
    wraps: bool = False
    named: bool = False
    about: str = ""

    def colour(self, row: int) -> str:
        """The colour of one cell; empty for none."""
        return self.colours if isinstance(self.colours, str) else self.colours[row]

    def is_foreign(self, row: int) -> bool:
        """Whether the text of one cell was written by a trace or a script, not by us."""
        return self.foreign if isinstance(self.foreign, bool) else self.foreign[row]

    def tail(self, row: int) -> str:
        """Our words behind the text of a cell; empty for none."""
        return self.behind[row] if self.behind else ""


class Table(Struct, frozen=True):
    """Columns of one length; the first one names the rows.

    Attributes:
        note: a sentence below it.
        caption: above it on a page, where a section has several.
        folded: a page shows it on demand.
    """

    columns: tuple[Column, ...]
    note: str = ""
    caption: str = ""
    folded: bool = False

    def said(self, shown: Sequence[Column] | None = None) -> str:
        """The sentences below it.

        Args:
            shown: of its columns, where not all are.
        """
        columns = self.columns if shown is None else shown
        return " ".join(filter(None, (self.note, *(column.about for column in columns))))

    @property
    def rows(self) -> int:
        """Rows below the headings."""
        return len(self.columns[0].texts)

    @classmethod
    def of(
        cls,
        heads: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        words: Sequence[int] = (0,),
        tones: Mapping[int, Sequence[Tone]] | None = None,
        foreign: bool = False,
        least: tuple[int, int] = (12, 0),
        note: str = "",
    ) -> Table:
        """A table of rows.

        Args:
            words: columns of text, which stand on the left.
            tones: of the cells of a column.
            foreign: a trace or a script has named the rows.
            least: the narrowest that the first column may become, and that others of text may.
        """
        columns = [
            Column(
                head,
                [row[at] for row in rows],
                right=at not in words,
                colours=(tones or {}).get(at, ""),
                foreign=foreign and at == 0,
                least=least[0] if at == 0 else least[1] if at in words else 0,
            )
            for at, head in enumerate(heads)
        ]
        return cls(tuple(columns), note)


class Line(Struct, frozen=True):
    """One figure: what it is, its value with the unit, and what the reader should know of it."""

    name: str
    value: str
    note: str = ""
    tone: Tone = "plain"


class Figures(Struct, frozen=True):
    """Figures that belong together."""

    title: str
    lines: tuple[Line, ...]


class Statement(Struct, frozen=True):
    """What is said of something.

    Attributes:
        what: of what; empty where the sentence speaks for itself.
        word: the sentence in a word.
    """

    what: str
    said: str
    tone: Tone = "plain"
    word: str = ""


class Verdict(Struct, frozen=True):
    """What the report comes down to.

    Attributes:
        label: what its name is the answer to.
        aside: in a word or two what it is held against.
        evidence: figures that it rests on.
        details: why it is so and what to do about it, where that is more than a reason.
        levers: what to try next, the best first.
    """

    label: str
    name: str
    tone: Tone
    reason: str = ""
    aside: str = ""
    evidence: tuple[Line, ...] = ()
    details: tuple[Line, ...] = ()
    levers: tuple[Statement, ...] = ()


class CodeLine(Struct, frozen=True):
    """One line of source code; a gap when ``number`` is None.

    Attributes:
        cells: figures of it, or nothing.
        heat: how much of the time is spent here, 0 to 1; None for a line without figures.
        tip: what a pointer on it says.
    """

    number: int | None
    text: str = ""
    cells: tuple[str, ...] = ()
    heat: float | None = None
    tip: str = ""


class Listing(Struct, frozen=True):
    """Source code with figures beside it.

    Attributes:
        heads: above the figures.
        last: above the code.
        note: behind the title.
        legend: what a full bar of heat means.
    """

    title: str
    heads: tuple[str, ...]
    lines: tuple[CodeLine, ...]
    last: str = "code"
    note: str = ""
    legend: str = ""


class Section(Struct, frozen=True):
    """What stands under one heading.

    Attributes:
        text: a paragraph.
        verbatim: lines as they are, such as a command; a format with charts shows those instead.
        ops: single ops to sort and filter, on a page.
        beside: the tables stand side by side where there is room.
    """

    title: str
    tables: tuple[Table, ...] = ()
    text: str = ""
    statements: tuple[Statement, ...] = ()
    verbatim: tuple[str, ...] = ()
    charts: tuple[Drawing, ...] = ()
    listings: tuple[Listing, ...] = ()
    ops: OpsTable | None = None
    beside: bool = False


def in_table(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1, note: str = ""
) -> Section | None:
    """A section of one table, whose first so many columns are words; None without rows."""
    return Section(title, (Table.of(heads, rows, words=range(words), note=note),)) if rows else None


class Document(Struct, frozen=True):
    """One report; every format shows of it what it can.

    Attributes:
        alarm: what must not be overlooked.
        tiles: the few figures at the top of a page.
        origin: what was run, when, of which commit.
        facts: what is known of the run and the machine.
        environment: the same by group.
        files: what each is, and its path.
        parts: documents on the same page.
        note: at the foot of a page.
        folded: all but the first section is for those who ask.
    """

    title: str = ""
    subtitle: str = ""
    alarm: str = ""
    verdict: Verdict | None = None
    statements: tuple[Statement, ...] = ()
    tiles: tuple[Figures, ...] = ()
    figures: tuple[Figures, ...] = ()
    sections: tuple[Section, ...] = ()
    warnings: tuple[Caveat, ...] = ()
    origin: str = ""
    facts: tuple[Line, ...] = ()
    environment: tuple[Figures, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    parts: tuple[Document, ...] = ()
    note: str = ""
    folded: bool = False
