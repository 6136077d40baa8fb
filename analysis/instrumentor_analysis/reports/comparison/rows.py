"""A comparison as tables of text, the same for every format."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from instrumentor_analysis.comparison.model import (
    Comparison,
    Figure,
    OpChange,
    OpKind,
    Share,
    Timing,
)
from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.comparison import cells
from instrumentor_analysis.reports.document import Column, Section, Table, Tone

_LONGEST_NAME = 160
_OUTCOMES = {"same": "the same", "changed": "changed", "added": "added", "removed": "removed"}


class Limits(Struct, frozen=True):
    """Rows of each kind that a format shows."""

    ops: int = 10
    lines: int = 5
    modules: int = 5


def tone(timing: Timing) -> Tone:
    """Good and bad only for what is sure."""
    if not timing.real:
        return "absent"
    return "good" if timing.ratio < 1 else "bad"


def every_timing(comparison: Comparison) -> tuple[Timing, ...]:
    """What was timed several times on both sides."""
    return (*comparison.timings, *([comparison.device] if comparison.device else []))


def timed(timing: Timing) -> str:
    """What was timed."""
    name = timing.label if timing.label == "device time" else f"wall clock of {timing.label}"
    return f"{name}, per sample" if timing.basis == "sample" else name


def sections(comparison: Comparison, limits: Limits) -> tuple[Section, ...]:
    """All tables that there is something for; one of ops may be without rows."""
    places = comparison.lines, comparison.modules
    lines, modules = ([s for s in each if _moved(comparison, s)] for each in places)
    found = [
        _times(comparison),
        _figures(comparison),
        _shares("Where the device time goes", "category", comparison, comparison.categories, 99),
        *_ops(comparison, limits.ops),
        _shares("Source lines", "line", comparison, lines, limits.lines),
        _shares("Modules", "module", comparison, modules, limits.modules),
        _differences(comparison),
    ]
    return tuple(s for s in found if any(t.rows or t.columns[0].title == "op" for t in s.tables))


def _section(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    tones: Sequence[Tone] = (),
    text: Sequence[int] = (0,),
    note: str = "",
) -> Section:
    """A table of rows; ``tones`` are of the fourth column, ``text`` numbers those of words."""
    columns = [
        Column(
            head,
            [row[at] for row in rows],
            right=at not in text,
            colours=tones if at == 3 and tones else "",
            foreign=at == 0 and head in ("op", "line", "module"),
            least=24 if at == 0 else 16 if at in text else 0,
        )
        for at, head in enumerate(heads)
    ]
    return Section(title, (Table(tuple(columns), note),))


def _heads(comparison: Comparison, first: str, *more: str) -> tuple[str, ...]:
    return (first, comparison.base.name, comparison.new.name, "change", *more)


def _times(comparison: Comparison) -> Section:
    """Medians and rates with the interval of their change."""
    rows: list[tuple[str, ...]] = []
    tones: list[Tone] = []
    for timing in every_timing(comparison):
        medians = cells.column([timing.base_median_ms, timing.new_median_ms])
        rows.append(
            (timed(timing), *medians, cells.signed(timing.change_percent), cells.interval(timing))
        )
        tones.append(tone(timing))
        rates_known = timing.base_rate is not None and timing.new_rate is not None
        if rates_known and timing is not comparison.device:
            rates = words.column([timing.base_rate, timing.new_rate], "/s")
            change = cells.signed((1 / timing.ratio - 1) * 100)
            rows.append(("samples a second", *rates, change, cells.interval(timing, inverse=True)))
            tones.append(tone(timing))
    heads = _heads(comparison, "median", "95 % interval")
    return _section("Steady steps", heads, rows, tones=tones)


def _figures(comparison: Comparison) -> Section:
    """What was taken once: no interval, so no colour either."""
    kept = [f for f in comparison.figures if not (comparison.device and f.key == "device_time_ms")]
    rows = [_figure(each) for each in kept]
    note = "taken once on each side: there is no interval"
    if comparison.base.runs or comparison.new.runs:
        note = "of one run on each side, whose median is in the middle: there is no interval"
    return _section("Figures", _heads(comparison, ""), rows, note=note)


def _figure(figure: Figure) -> tuple[str, ...]:
    values = figure.base, figure.new
    if not figure.unit:
        texts = [words.ABSENT if v is None else f"{v:,.0f}" for v in values]
    else:
        texts = words.column(values, figure.unit)
    unit = "points" if figure.unit == "%" else "%"
    return (figure.name, *texts, cells.signed(figure.change_percent, unit))


def _moved(comparison: Comparison, share: Share | OpChange) -> bool:
    return abs(share.change_ms) >= cells.nothing_ms(comparison)


def _shares(
    heading: str, name: str, comparison: Comparison, shares: Sequence[Share], most: int
) -> Section:
    counts = [cells.counts(share.base_ops, share.new_ops) for share in shares[:most]]
    rows = _sided([s.name for s in shares[:most]], comparison, shares[:most], counts)
    heads = _heads(comparison, name, "ops")
    return _section(heading + cells.per_sample(comparison), heads, rows, note=_more(shares, most))


def _sided(
    names: Sequence[str],
    comparison: Comparison,
    shown: Sequence[Share] | Sequence[OpChange],
    *more: Sequence[str],
) -> list[tuple[str, ...]]:
    """Rows with the times of both sides, in one unit, and their difference."""
    old, now = [each.base_ms or None for each in shown], [each.new_ms or None for each in shown]
    changes = cells.changes([each.change_ms for each in shown], comparison, [*old, *now])
    times = cells.column(old, now), cells.column(now, old)
    return list(zip(names, *times, changes, *more, strict=True))


def _more(every: Sequence[object], most: int) -> str:
    return f"{len(every) - most:,} more" if len(every) > most else ""


def _ops(comparison: Comparison, most: int) -> list[Section]:
    """The ops whose time differs most, and how many were added, removed, changed."""
    every = comparison.ops
    if every is None:
        return []
    moved = [c for c in every.changes if c.status != "same" or _moved(comparison, c)]
    shown = moved[:most]
    counts = [cells.counts(c.base_count or None, c.new_count or None) for c in shown]
    names, said = [_named(each) for each in shown], [_outcome(each) for each in shown]
    counted = ", ".join(
        f"{every.counts.get(status, 0):,} {word}" for status, word in _OUTCOMES.items()
    )
    section = _section(
        f"Ops by {every.time}{cells.per_sample(comparison)}: {counted}",
        _heads(comparison, "op", "ops", "what"),
        _sided(names, comparison, shown, counts, said),
        text=(0, 5),
        note="; ".join(note for note in (every.note, _more(moved, most)) if note),
    )
    return [section]


def _named(change: OpChange) -> str:
    """Name and shapes of an op; of one whose shapes changed the name alone."""
    kind = change.new or change.base or OpKind("")
    shapes = "" if "shapes" in change.changed else kind.shapes
    return words.clip(f"{kind.op or '(no name)'} {shapes}".rstrip(), _LONGEST_NAME)


def _outcome(change: OpChange) -> str:
    """``memory: DRAM > L1``, ``added``; empty for the same."""
    if change.status != "changed" or change.base is None or change.new is None:
        return "" if change.status == "same" else change.status
    return "; ".join(
        f"{part}: {getattr(change.base, part) or 'none'} > {getattr(change.new, part) or 'none'}"
        for part in change.changed
    )


def _differences(comparison: Comparison) -> Section:
    """What is not the same on both sides, beside the code."""
    every = comparison.differences
    rows = [(each.what, each.base, each.new, _meaning(each.weight, each.meaning)) for each in every]
    return _section(
        "Differences between the two sides",
        (*_heads(comparison, "")[:3], ""),
        rows,
        tones=["room" if each.weight == "doubt" else "plain" for each in every],
        text=(0, 1, 2, 3),
    )


def _meaning(weight: str, meaning: str) -> str:
    return meaning or ("may explain a difference" if weight == "doubt" else "")
