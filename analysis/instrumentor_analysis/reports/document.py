"""What every format lays out in its own way: sections of tables, and what their cells are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

#: ``bad``: a threshold is passed; ``room``: could be better; ``good``; ``absent``: not measured.
Tone = Literal["plain", "good", "room", "bad", "absent"]


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

    def colour(self, row: int) -> str:
        """Of one cell; empty for none."""
        return self.colours if isinstance(self.colours, str) else self.colours[row]

    def is_foreign(self, row: int) -> bool:
        """One cell is not of our words."""
        return self.foreign if isinstance(self.foreign, bool) else self.foreign[row]

    def tail(self, row: int) -> str:
        """What stands behind the text of a cell."""
        return self.behind[row] if self.behind else ""


class Table(Struct, frozen=True):
    """Columns of one length; the first one names the rows.

    Attributes:
        note: a sentence below it.
        caption: above it on a page, where a section has several.
    """

    columns: tuple[Column, ...]
    note: str = ""
    caption: str = ""

    @property
    def rows(self) -> int:
        """Rows below the headings."""
        return len(self.columns[0].texts)


class Section(Struct, frozen=True):
    """Tables under one heading, or a paragraph."""

    title: str
    tables: tuple[Table, ...] = ()
    text: str = ""
