"""Comparisons as one page, opened offline: every run beside the base, as charts and tables.

One file without external resources, in the style of a run's report.html; the template escapes
every text.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from instrumentor_analysis.comparison.model import Comparison
from instrumentor_analysis.reports import page
from instrumentor_analysis.reports.comparison import charts, rows
from instrumentor_analysis.reports.comparison.rows import Limits
from instrumentor_analysis.reports.document import Section, Tone
from instrumentor_analysis.reports.drawing import Drawing

_TEMPLATE = "comparison.html.j2"
_LIMITS = Limits(ops=500, lines=200, modules=100)


class Card(Struct, frozen=True):
    """One run against the base, as the template draws it."""

    title: str
    subtitle: str
    statements: tuple[tuple[str, str, Tone], ...]
    bars: Drawing | None
    sections: tuple[Section, ...]
    notes: tuple[str, ...]


def render(comparisons: Sequence[Comparison]) -> str:
    """The page; all comparisons have the same base."""
    cards = [_card(each) for each in comparisons]
    title = cards[0].title if len(cards) == 1 else f"{len(cards)} runs against {_base(comparisons)}"
    drawings = charts.samples(comparisons), charts.ratios(comparisons)
    return page.render(
        _TEMPLATE,
        visible=True,
        title=title,
        cards=cards,
        shared=_shared(cards),
        drawings=[each for each in drawings if each is not None],
    )


def _shared(cards: Sequence[Card]) -> tuple[str, ...]:
    """Warnings of every comparison: said once."""
    return tuple(n for n in cards[0].notes if all(n in card.notes for card in cards))


def _base(comparisons: Sequence[Comparison]) -> str:
    return comparisons[0].base.name


def _card(comparison: Comparison) -> Card:
    return Card(
        title=rows.title(comparison),
        subtitle=rows.subtitle(comparison),
        statements=rows.statements(comparison),
        bars=charts.category_bars(comparison),
        sections=rows.sections(comparison, _LIMITS),
        notes=comparison.notes,
    )
