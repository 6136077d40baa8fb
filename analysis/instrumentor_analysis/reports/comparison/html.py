"""Comparisons as one page, opened offline: every run beside the base, as charts and tables.

One file without external resources, in the style of a run's report.html; the template escapes
every text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from instrumentor_analysis.comparison.model import Comparison
from instrumentor_analysis.reports import page
from instrumentor_analysis.reports.comparison import charts, rows
from instrumentor_analysis.reports.comparison.rows import Limits

_TEMPLATE = "comparison.html.j2"
_LIMITS = Limits(ops=500, lines=200, modules=100)


def render(comparisons: Sequence[Comparison]) -> str:
    """The page; all comparisons have the same base."""
    cards = [_card(each) for each in comparisons]
    against = f"{len(cards)} runs against {comparisons[0].base.name}"
    drawings = charts.samples(comparisons), charts.ratios(comparisons)
    first, *others = (each.notes for each in comparisons)
    return page.render(
        _TEMPLATE,
        visible=True,
        title=cards[0]["title"] if not others else against,
        cards=cards,
        # Warnings of every comparison are said once.
        shared=[note for note in first if all(note in notes for notes in others)],
        drawings=[each for each in drawings if each is not None],
    )


def _card(comparison: Comparison) -> dict[str, Any]:
    """One run against the base, as the template draws it."""
    return {
        "title": rows.title(comparison),
        "subtitle": rows.subtitle(comparison),
        "statements": rows.statements(comparison),
        "bars": charts.category_bars(comparison),
        "sections": rows.sections(comparison, _LIMITS),
        "notes": comparison.notes,
    }
