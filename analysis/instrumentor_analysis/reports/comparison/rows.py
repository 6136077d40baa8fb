"""A comparison as tables of text, the same for every format."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from instrumentor_analysis.clock.neighbours import is_busy
from instrumentor_analysis.compare.model import (
    Comparison,
    Figure,
    OpChange,
    OpKind,
    Ops,
    Share,
    Timing,
)
from instrumentor_analysis.compare.op_lists import HOST_TIME
from instrumentor_analysis.reports import formatting, owners
from instrumentor_analysis.reports.comparison import cells
from instrumentor_analysis.reports.document import Section, Table, Tone
from instrumentor_analysis.summary.figure_table import FIGURES

_LONGEST_NAME = 160
#: Letters of an op's own name that a narrow terminal keeps.
_LONGEST_OP = 32
_OUTCOMES = {"same": "the same", "changed": "changed", "added": "added", "removed": "removed"}
#: Narrowest width on a terminal of the first column, and of other columns of text.
_LEAST = 24, 16
#: The column that says by how much both sides differ.
_CHANGE = 3


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
    """All timings with several samples on both sides, the whole iteration first."""
    around = comparison.iteration, *comparison.timings, comparison.device
    return tuple(timing for timing in around if timing is not None)


def timed(comparison: Comparison, timing: Timing) -> str:
    """A timing's name for a row of a table."""
    of_region = timing in comparison.timings
    name = f"wall clock of {timing.label}" if of_region else timing.label
    return f"{name}, per sample" if timing.basis == "sample" else name


def sections(comparison: Comparison, limits: Limits) -> tuple[Section, ...]:
    """All tables that there is something for; one of ops may be without rows."""
    places = comparison.lines, comparison.modules
    lines, modules = ([s for s in each if _moved(comparison, s)] for each in places)
    found = (
        _times(comparison),
        _figures(comparison),
        _owners(comparison),
        # There is a handful of categories: 99 shows all.
        _shares("Where the device time goes", "category", comparison, comparison.categories, 99),
        _ops(comparison, limits.ops),
        _shares("Source lines", "line", comparison, lines, limits.lines),
        _shares("Modules", "module", comparison, modules, limits.modules),
        _differences(comparison),
    )
    return tuple(section for section in found if section is not None)


def _heads(comparison: Comparison, first: str, *more: str) -> tuple[str, ...]:
    return (first, comparison.base.name, comparison.new.name, *more)


def _times(comparison: Comparison) -> Section | None:
    """Medians and rates with the interval of their change; that of a busy machine is noise."""
    rows: list[tuple[str, ...]] = []
    tones: list[Tone] = []
    busy = bool(busy_sides(comparison))
    for timing in every_timing(comparison):
        noise = busy and timing.between is None
        nothing = (formatting.ABSENT,) * 2
        medians = formatting.column([timing.base_median_ms, timing.new_median_ms], "ms")
        change = cells.signed(timing.change_percent), cells.interval(timing)
        name = f"{timing.label}{', per sample' if timing.basis == 'sample' else ''}"
        rows.append((name, *medians, *(nothing if noise else change)))
        tones.append(tone(timing))
        rates_known = timing.base_rate is not None and timing.new_rate is not None
        if rates_known and timing in comparison.timings:
            rates = formatting.column([timing.base_rate, timing.new_rate], "samples/s")
            change = (
                cells.signed((1 / timing.ratio - 1) * 100),
                cells.interval(timing, inverse=True),
            )
            rows.append((f"{timing.label} only", *rates, *(nothing if noise else change)))
            tones.append(tone(timing))
    heads = _heads(comparison, "median", "change", "95 % interval")
    table = Table.of(heads, rows, tones={_CHANGE: tones}, least=_LEAST)
    return Section("Steady steps", (table,)) if rows else None


def _figures(comparison: Comparison) -> Section | None:
    """Figures that were taken once: without an interval no change is sure, so none has a colour."""
    # Where it was taken several times it stands among the steady steps, with its interval.
    timed = {"device_time_ms"} if comparison.device else set()
    if comparison.iteration is not None:
        timed |= {f"wall_clock_ms.iteration.{name}" for name in ("median_ms", "update.ms")}
    noise = _disturbed() if busy_sides(comparison) else frozenset()
    shown = [each for each in comparison.figures if each.key not in timed]
    rows = [_figure(each, sure=each.key not in noise) for each in shown]
    note = "one measurement on each side, so there is no interval"
    if comparison.base.runs or comparison.new.runs:
        note = "from the median run of each side, so there is no interval"
    note = _doubted(busy_sides(comparison), "times have no change here", note)
    table = Table.of(_heads(comparison, "", "change"), rows, least=_LEAST, note=note)
    return Section("Figures", (table,)) if rows else None


def _disturbed() -> frozenset[str]:
    """Keys of figures that other programs on the machine change."""
    return frozenset(each.key for each in FIGURES if each.disturbed)


def busy_sides(comparison: Comparison) -> list[str]:
    """The sides whose machine was busy: a single time of theirs is noise, and so is its change."""
    return [s.name for s in (comparison.base, comparison.new) if is_busy(s.run.get("machine"))]


def _doubted(busy: Sequence[str], what: str, note: str = "") -> str:
    """A note below single measurements; ahead of it what is missing because of a busy machine."""
    why = f"{what}, because the machine was busy in {' and '.join(busy)}" if busy else ""
    return "; ".join(filter(None, (why, note)))


def _figure(figure: Figure, *, sure: bool) -> tuple[str, ...]:
    values = figure.base, figure.new
    texts = formatting.column(values, figure.unit)
    unit = "points" if figure.unit == "%" else "%"
    change = cells.signed(figure.change_percent, unit) if sure else formatting.ABSENT
    return (figure.name, *texts, change)


def _moved(comparison: Comparison, share: Share | OpChange) -> bool:
    return abs(share.change_ms) >= cells.nothing_ms(comparison)


def _owners(comparison: Comparison) -> Section | None:
    """Phases of the iteration on both sides, the one that changed most first.

    Of a busy machine the longest first, without a change.
    """
    busy, shown = comparison.owners_busy or busy_sides(comparison), comparison.owners
    shown = tuple(sorted(shown, key=lambda each: -(each.base_ms or 0.0))) if busy else shown
    rows = _sided([share.name for share in shown], comparison, shown, sure=not busy)
    note = "from extra iterations with a barrier around each phase, so there is no interval"
    note = _doubted(busy, "phases have no change here", note)
    table = Table.of(_heads(comparison, "phase", "change"), rows, least=_LEAST, note=note)
    heading = owners.title(comparison.owners_of) + cells.per_sample(comparison)
    return Section(heading, (table,)) if shown else None


def _shares(
    heading: str, name: str, comparison: Comparison, shares: Sequence[Share], most: int
) -> Section | None:
    shown = shares[:most]
    counts = [cells.counts(share.base_ops, share.new_ops) for share in shown]
    table = Table.of(
        _heads(comparison, name, "change", "ops"),
        _sided([share.name for share in shown], comparison, shown, counts),
        foreign=name != "category",
        least=_LEAST,
        note=_more(shares, most),
    )
    return Section(heading + cells.per_sample(comparison), (table,)) if shown else None


def _sided(
    names: Sequence[str],
    comparison: Comparison,
    shown: Sequence[Share] | Sequence[OpChange],
    *more: Sequence[str],
    sure: bool = True,
) -> list[tuple[str, ...]]:
    """Rows with the times of both sides, in one unit, and their difference, where it is sure."""
    old, now = [each.base_ms or None for each in shown], [each.new_ms or None for each in shown]
    changes = cells.changes([each.change_ms for each in shown], comparison, [*old, *now])
    changes = changes if sure else [formatting.ABSENT] * len(changes)
    times = formatting.column(old, "ms", now), formatting.column(now, "ms", old)
    return list(zip(names, *times, changes, *more, strict=True))


def _more(every: Sequence[object], most: int) -> str:
    return f"{len(every) - most:,} more" if len(every) > most else ""


def _ops(comparison: Comparison, most: int) -> Section | None:
    """The ops whose time differs most, and how many were added, removed, changed.

    Of times that the host took on a busy machine only those that are not on both sides alike.
    """
    every = comparison.ops
    if every is None:
        return None
    noise = every.time == HOST_TIME and bool(busy_sides(comparison))
    moved = [
        c for c in every.changes if c.status != "same" or (not noise and _moved(comparison, c))
    ]
    shown = moved[:most]
    counts = [cells.counts(c.base_count or None, c.new_count or None) for c in shown]
    names, said = [_named(each) for each in shown], [_outcome(each) for each in shown]
    table = Table.of(
        _heads(comparison, "op", "change", "ops", "what"),
        _sided(names, comparison, shown, counts, said, sure=not noise),
        words=(0, 5),
        foreign=True,
        least=_LEAST,
        note=_of_ops(comparison, every, _more(moved, most), noise=noise),
    )
    names_only = [formatting.width(each.partition(" ")[0]) for each in names]
    least = max(_LEAST[0], min(_LONGEST_OP, max(names_only, default=0)))
    table = replace(
        table, columns=(replace(table.columns[0], named=True, least=least), *table.columns[1:])
    )
    counted = ", ".join(f"{every.counts.get(each, 0):,} {word}" for each, word in _OUTCOMES.items())
    return Section(f"Ops by {every.time}{cells.per_sample(comparison)}: {counted}", (table,))


def _of_ops(comparison: Comparison, ops: Ops, more: str, *, noise: bool) -> str:
    """What the times of single ops can tell."""
    told = "; ".join(filter(None, (ops.note, more)))
    if noise:
        return _doubted(busy_sides(comparison), "times of single ops are not compared", told)
    profiled = "profiled self times show where to look, not how much you gain"
    return "; ".join(filter(None, (told, profiled if ops.time == HOST_TIME else "")))


def _named(change: OpChange) -> str:
    """Name and shapes of an op; of one whose shapes changed the name alone."""
    kind = change.new or change.base or OpKind("")
    shapes = "" if "shapes" in change.changed else kind.shapes
    name = formatting.plain_op(kind.op) or "(no name)"
    return formatting.clip(f"{name} {formatting.tensors(shapes)}".rstrip(), _LONGEST_NAME)


def _outcome(change: OpChange) -> str:
    """``memory: DRAM > L1``, ``added``; empty for the same."""
    if change.status != "changed" or change.base is None or change.new is None:
        return "" if change.status == "same" else change.status
    return "; ".join(
        f"{part}: {' > '.join(_sides(getattr(change.base, part), getattr(change.new, part)))}"
        for part in change.changed
    )


def _sides(base: str, new: str) -> tuple[str, str]:
    """Shapes or types of both sides, those of tensors where they tell the sides apart."""
    tensors = formatting.tensors(base), formatting.tensors(new)
    old, now = tensors if tensors[0] != tensors[1] else (base, new)
    return old or "none", now or "none"


def _differences(comparison: Comparison) -> Section | None:
    """What is not the same on both sides, beside the code."""
    every = comparison.differences
    rows = [
        (
            each.what,
            each.base,
            each.new,
            each.meaning or ("may explain a difference" if each.weight == "doubt" else ""),
        )
        for each in every
    ]
    tones: list[Tone] = ["room" if each.weight == "doubt" else "plain" for each in every]
    heads = _heads(comparison, "", "")
    table = Table.of(heads, rows, words=range(4), tones={_CHANGE: tones}, least=_LEAST)
    return Section("Differences between the two sides", (table,)) if rows else None
