"""Comparisons as documents: what is sure first, then where it comes from, then what to doubt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from instrumentor_analysis.clock.neighbours import BUSY
from instrumentor_analysis.compare.in_turn import in_turn
from instrumentor_analysis.compare.model import Comparison, Timing, leading
from instrumentor_analysis.reports import formatting, terminal
from instrumentor_analysis.reports import html as pages
from instrumentor_analysis.reports import markdown as marked
from instrumentor_analysis.reports.comparison import charts, rows
from instrumentor_analysis.reports.comparison.rows import Limits
from instrumentor_analysis.reports.document import Document, Section, Statement, Tone
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.warning_codes import code_of
from instrumentor_analysis.summary.figure_table import CLOCK

_ITERATION = f"{CLOCK}iteration.median_ms"
_KINDS, _BUSY = code_of("several-kinds"), code_of(BUSY)
_LONG = Limits(ops=500, lines=200, modules=100)
_MIDDLE = Limits(ops=15, lines=10, modules=10)
_NOTE = (
    "An interval from one run on each side covers the steps of these two runs only: two runs of "
    "the same code can differ by more."
)


def console(comparisons: Sequence[Comparison], *, width: int = 80, color: bool = False) -> str:
    """The text for a terminal; all comparisons have the same base."""
    documents = [_document(each, Limits()) for each in comparisons]
    if len(comparisons) > 1:
        documents.append(Document(sections=(_against(comparisons),)))
    return terminal.render(documents, width=width, color=color)


def markdown(comparisons: Sequence[Comparison]) -> str:
    """As a pull request shows them: the verdict, the times, the rest folded away."""
    return marked.render([replace(_document(each, _MIDDLE), folded=True) for each in comparisons])


def html(comparisons: Sequence[Comparison]) -> str:
    """The page: every run beside the base, as charts and tables."""
    base, parts = comparisons[0].base.name, [_part(each) for each in comparisons]
    drawings = charts.samples(comparisons), charts.ratios(comparisons)
    drawn = tuple(Section(each.title, charts=(each,)) for each in drawings if each is not None)
    if len(parts) == 1:
        page = replace(parts[0], sections=(*drawn, *parts[0].sections), note=_NOTE)
        return pages.render(page)
    first, *others = (part.warnings for part in parts)
    # Warnings that all comparisons share are shown once.
    shared = tuple(each for each in first if all(each in warnings for warnings in others))
    page = Document(
        f"{len(parts)} runs against {base}",
        statements=tuple(statement for part in parts for statement in part.statements),
        warnings=shared,
        sections=drawn,
        parts=tuple(
            replace(part, warnings=tuple(each for each in part.warnings if each not in shared))
            for part in parts
        ),
        note=_NOTE,
    )
    return pages.render(page)


def _part(comparison: Comparison) -> Document:
    """One run against the base, with its chart."""
    document, bars = _document(comparison, _LONG), charts.category_bars(comparison)
    drawn = () if bars is None else (Section(bars.title, charts=(bars,)),)
    return replace(document, sections=(*drawn, *document.sections))


def _document(comparison: Comparison, limits: Limits) -> Document:
    statements = tuple(_statement(comparison, each) for each in rows.every_timing(comparison))
    if comparison.mixed and comparison.iteration is None:
        statements = (Statement("iteration", _mixed(comparison), "absent"), *statements)
    untimed = Statement("", "No conclusion: only one side has a wall clock.", "absent")
    return Document(
        f"{comparison.new.name} against {comparison.base.name}",
        _subtitle(comparison),
        statements=statements or (untimed,),
        sections=rows.sections(comparison, limits),
        warnings=tuple(Caveat("comparison", note) for note in comparison.notes),
    )


def _mixed(comparison: Comparison) -> str:
    """Why no step is compared, and what the iterations take."""
    who = " and ".join(comparison.mixed)
    said = f"No conclusion, because steps of several kinds take turns in {who} [{_KINDS}]."
    found = next((each for each in comparison.figures if each.key == _ITERATION), None)
    if found is not None and found.base is not None and found.new is not None:
        base, new = formatting.column([found.base, found.new], found.unit)
        said += (
            f" The iteration, the mean of the kinds' medians, takes {base} in "
            f"{comparison.base.name} and {new} in {comparison.new.name}."
        )
    busy = rows.busy_sides(comparison)
    if busy:
        said += f" The machine was busy in {' and '.join(busy)} [{_BUSY}]."
    command = in_turn(comparison.base, comparison.new)
    return f"{said} Both in turn: {command}" if command else said


def _subtitle(comparison: Comparison) -> str:
    """How both were measured, where that is the same."""
    base, new = comparison.base, comparison.new
    pairs = (
        (base.profiler, new.profiler),
        (base.scope, new.scope),
        (base.architecture, new.architecture),
    )
    parts = [
        old if old == now else f"{now or 'unknown'} against {old or 'unknown'}"
        for old, now in pairs
        if old or now
    ]
    scripts = [Path(str(each.run.get("script") or "")).name for each in (base, new)]
    if all(scripts) and scripts[0] != scripts[1]:
        parts.append(f"two scripts, {scripts[1]} against {scripts[0]}")
    if comparison.basis == "sample":
        parts.append(f"per sample: batch size {new.batch_size} against {base.batch_size}")
    return " · ".join(part for part in parts if part)


def _statement(comparison: Comparison, timing: Timing) -> Statement:
    tone = rows.tone(timing)
    word = {"good": "faster", "bad": "slower"}.get(tone, "inconclusive")
    return Statement(rows.timed(comparison, timing), timing.statement, tone, word)


def _against(comparisons: Sequence[Comparison]) -> Section:
    """All runs against the first, the fastest first."""
    timed = sorted(
        (timing for timing in leading(comparisons) if timing), key=lambda timing: timing.ratio
    )
    tones: list[tuple[str, Tone]] = [(timing.statement, rows.tone(timing)) for timing in timed]
    count = len(comparisons)
    note = (
        f"{count} comparisons of 95 % each: the chance that at least one of them is wrong is about "
        f"{(1 - 0.95**count) * 100:.0f} %"
    )
    said = tuple(Statement("", *each) for each in tones)
    return Section(f"Against {comparisons[0].base.name}", statements=said, text=note)
