"""Comparisons as a pull request shows them: the verdict, the figures, the rest folded away."""

from __future__ import annotations

from collections.abc import Sequence

from instrumentor_analysis.comparison.model import Comparison
from instrumentor_analysis.reports.comparison import rows
from instrumentor_analysis.reports.comparison.rows import Limits
from instrumentor_analysis.reports.document import Section
from instrumentor_analysis.reports.markdown import escape, table

_SAID = {"good": "**faster**", "bad": "**slower**"}
_LIMITS = Limits(ops=15, lines=10, modules=10)


def render(comparisons: Sequence[Comparison]) -> str:
    """The document, ending in a newline."""
    return "\n\n".join("\n\n".join(_blocks(each)) for each in comparisons) + "\n"


def _blocks(comparison: Comparison) -> list[str]:
    blocks = [f"## {escape(rows.title(comparison))}", escape(rows.subtitle(comparison))]
    said = [
        f"- {_SAID.get(tone, 'inconclusive')} · {escape(what)}: "
        f"{escape(statement.removeprefix('inconclusive: '))}"
        for what, statement, tone in rows.statements(comparison)
    ]
    blocks.append("\n".join(said))
    if comparison.notes:
        notes = "\n".join(f"> {escape(note)}  " for note in comparison.notes)
        blocks.append(f"> [!WARNING]\n{notes}")
    first, *rest = rows.sections(comparison, _LIMITS) or (None,)
    blocks += [_table(first)] if first is not None else []
    blocks += [_folded(each) for each in rest if each is not None]
    return [block for block in blocks if block]


def _table(section: Section) -> str:
    return "\n\n".join(table(each) for each in section.tables)


def _folded(section: Section) -> str:
    summary = escape(section.title).replace("<", "&lt;")
    return f"<details><summary>{summary}</summary>\n\n{_table(section)}\n\n</details>"
