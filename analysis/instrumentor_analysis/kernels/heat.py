"""Cycles over the source: one row a line, with what its threads spent there."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from instrumentor_analysis.kernels.model import LineCycles

_WAITS = ("cb_wait", "cb_reserve", "wait")


class HotLine(Struct, frozen=True):
    """A source line.

    Attributes:
        cycles: by thread.
        share: of the cycles of the thread that spends most here, 0 to 1.
        waits: cycles of waiting among them.
    """

    line: int
    text: str
    cycles: tuple[tuple[str, int], ...]
    share: float
    waits: int

    @property
    def total(self) -> int:
        """Cycles of all threads."""
        return sum(count for _, count in self.cycles)


def heat_map(rows: Sequence[LineCycles], source: Sequence[str]) -> tuple[HotLine, ...]:
    """The measured lines, and those between them, in source order.

    Args:
        rows: cycles by line and thread.
        source: lines of the file; where it is empty the printed text is used.
    """
    if not rows:
        return ()
    by_line: dict[int, list[LineCycles]] = {}
    for row in rows:
        by_line.setdefault(row.line, []).append(row)
    first, last = min(by_line), max(by_line)
    damaged = last - first > 4000  # one of the numbers is none of a line: no page full of gaps
    lines = sorted(by_line) if damaged else range(first, last + 1)
    return tuple(_hot(number, by_line.get(number, []), source) for number in lines)


def _hot(number: int, rows: Sequence[LineCycles], source: Sequence[str]) -> HotLine:
    printed = next((row.source for row in rows if row.source), "")
    text = source[number - 1] if 0 < number <= len(source) else printed
    parts = (part for row in rows for part in row.operations)
    return HotLine(
        number,
        text,
        tuple((row.thread, row.cycles) for row in rows),
        max((row.percent / 100 for row in rows), default=0.0),
        sum(part.cycles for part in parts if part.name in _WAITS),
    )
