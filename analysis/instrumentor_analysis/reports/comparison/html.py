"""Comparisons as one page, opened offline: every run beside the base, as charts and tables.

One file without external resources, in the style of a run's report.html; the template escapes
every text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instrumentor_analysis.comparison.model import Comparison
from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.charts import Part
from instrumentor_analysis.reports.comparison import charts, rows
from instrumentor_analysis.reports.comparison.rows import Limits, Table
from instrumentor_analysis.reports.headline import Tone

_TEMPLATE = "comparison.html.j2"
_LIMITS = Limits(ops=500, lines=200, modules=100)


@dataclass(frozen=True)
class Card:
    """One run against the base, as the template draws it."""

    title: str
    subtitle: str
    statements: tuple[tuple[str, str, Tone], ...]
    bars: tuple[tuple[str, tuple[Part, ...]], ...]
    tables: tuple[Table, ...]
    notes: tuple[str, ...]


def render(comparisons: Sequence[Comparison]) -> str:
    """The page; all comparisons have the same base."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        """Control and bidirectional characters of foreign names are shown, not obeyed."""
        foreign = isinstance(value, str) and not isinstance(value, Markup)
        return words.visible(value) if foreign else value

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
    )
    cards = [_card(each) for each in comparisons]
    title = cards[0].title if len(cards) == 1 else f"{len(cards)} runs against {_base(comparisons)}"
    return environment.get_template(_TEMPLATE).render(
        title=title,
        cards=cards,
        shared=_shared(cards),
        samples=charts.samples(comparisons),
        ratios=charts.ratios(comparisons),
        width=charts.WIDTH,
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
        tables=rows.tables(comparison, _LIMITS),
        notes=comparison.notes,
    )
