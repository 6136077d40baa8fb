"""Comparisons as text: what is sure first, then where it comes from, then what to doubt."""

from __future__ import annotations

from collections.abc import Sequence

from instrumentor_analysis.caveats import Caveat
from instrumentor_analysis.comparison.model import Comparison
from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.comparison import rows
from instrumentor_analysis.reports.terminal import (
    Paint,
    indented,
    painter,
    section_lines,
    warning_lines,
)


def render(comparisons: Sequence[Comparison], *, width: int = 80, color: bool = False) -> str:
    """The text, ending in a newline.

    Args:
        comparisons: all with the same base.
        width: columns of the terminal.
        color: use escape codes.
    """
    paint = painter(color)
    parts = ["\n\n".join(_blocks(each, width, paint)) for each in comparisons]
    if len(comparisons) > 1:
        parts.append("\n".join(_summary(comparisons, width, paint)))
    return "\n\n".join(parts) + "\n"


def _blocks(comparison: Comparison, width: int, paint: Paint) -> list[str]:
    head = paint(words.visible(rows.title(comparison)), "bold")
    under = paint(words.visible(rows.subtitle(comparison)), "dim")
    blocks = [f"{head}  {under}".rstrip(), "\n".join(_statements(comparison, width, paint))]
    blocks += ["\n".join(section_lines(each, width, paint)) for each in rows.sections(comparison)]
    blocks += [
        "\n".join(warning_lines([Caveat("comparison", note)], width, paint))
        for note in comparison.notes
    ]
    return [block for block in blocks if block]


def _statements(comparison: Comparison, width: int, paint: Paint) -> list[str]:
    lines: list[str] = []
    for what, statement, tone in rows.statements(comparison):
        text = words.visible(f"{what}: {statement}")
        lines += [paint(line, tone) for line in indented(text, width, "  ")]
    return lines or [paint("  no wall clock on both sides", "dim")]


def _summary(comparisons: Sequence[Comparison], width: int, paint: Paint) -> list[str]:
    """All runs against the first, the fastest first."""
    timed = [(each.timing, each) for each in comparisons if each.timing is not None]
    timed.sort(key=lambda pair: pair[0].ratio if pair[0] else 0.0)
    lines = [paint(f"Against {words.visible(comparisons[0].base.name)}", "bold")]
    for timing, _ in timed:
        assert timing is not None
        text = words.visible(timing.statement)
        lines += [paint(line, rows.tone(timing)) for line in indented(text, width, "  ")]
    count = len(comparisons)
    note = (
        f"{count} comparisons of 95 % each: the chance that one of them is wrong is about "
        f"{(1 - 0.95**count) * 100:.0f} %"
    )
    return lines + [paint(line, "dim") for line in indented(note, width, "  ")]
