"""The figures of a comparison's page: every sample, the intervals, device time by category."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from instrumentor_analysis.compare.model import Comparison, Timing, leading
from instrumentor_analysis.compare.statement import tells
from instrumentor_analysis.model import Interval
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.charts import Part, stacks
from instrumentor_analysis.reports.drawing import (
    FORM,
    NARROW,
    Dot,
    Drawing,
    Key,
    Label,
    Line,
    Scale,
    Shape,
    at_every_width,
    grid,
)

#: Samples of one run that are drawn; of more, as many spread evenly.
MOST_SAMPLES = 400
#: Distance of two rows and middle of a row, units; characters of a name.
_PITCH, _MIDDLE, _LONGEST_NAME = 44.0, 20.0, 26
#: Rows that a dot may be moved by, so that samples of one value do not hide each other.
_SCATTER = (0.0, -6.0, 6.0, -3.0, 3.0, -9.0, 9.0)
_KEYS = (
    Key("other", "base"),
    Key("good", "significantly faster"),
    Key("bad", "significantly slower"),
    Key("tm", "inconclusive"),
    Key("", "line: median"),
)


def samples(comparisons: Sequence[Comparison]) -> Drawing | None:
    """Every sample of what is concluded from; None without a wall clock, or where bases differ.

    Comparisons of different bases per sample and per step cannot share an axis.
    """
    timed = _timed(comparisons)
    if not timed or len({timing.basis for _, timing in timed}) > 1:
        return None
    base_name = comparisons[0].base.name
    return at_every_width(lambda width: _samples(base_name, timed, width))


def _samples(base_name: str, timed: Sequence[tuple[str, Timing]], width: float) -> Drawing:
    base = timed[0][1]
    runs = [(base_name, base.base_samples_ms, base.base_median_ms, "other")]
    runs += [(name, t.new_samples_ms, t.new_median_ms, _colour(t)) for name, t in timed]
    x = _axis([ms for _, values, _, _ in runs for ms in values], width)
    shapes: list[Shape] = []
    for at, (name, values, median, colour) in enumerate(runs):
        y, step = at * _PITCH + _MIDDLE, max(1, -(-len(values) // MOST_SAMPLES))
        for number in range(0, len(values), step):
            tip = f"{name}, steady step {number + 1}: {formatting.ms(values[number])}"
            moved = y + _SCATTER[number // step % len(_SCATTER)]
            shapes.append(Dot(x.at(values[number]), moved, 4, colour, tip, 0.75))
        steady = formatting.plural(len(values), "steady step")
        tip = f"{name}: median {formatting.ms(median)} of {steady}"
        ends = (x.at(median), y - 14), (x.at(median), y + 14)
        shapes.append(Line(ends, "text", 2, tip=tip))
    unit = f"ms a {base.basis}"
    shapes.append(Label(width, len(runs) * _PITCH + 36, unit, anchor="end"))
    says = "Every steady step of each run; the tables below have the medians"
    return _rows(f"Steady steps, {base.label}", says, [run[0] for run in runs], x, shapes, _KEYS)


def ratios(comparisons: Sequence[Comparison]) -> Drawing | None:
    """The interval of each run; None where none has one that tells anything."""
    timed = _timed(comparisons)
    told = [(name, t, t.interval) for name, t in timed if t.interval]
    known = [each for each in told if tells(each[2])]
    return at_every_width(lambda width: _ratios(known, width)) if known else None


def _ratios(known: Sequence[tuple[str, Timing, Interval]], width: float) -> Drawing:
    x = _axis([0.0, *(_percent(end) for _, _, i in known for end in (i.low, i.high))], width)
    ends = (x.at(0), -4), (x.at(0), len(known) * _PITCH)
    shapes: list[Shape] = [Line(ends, "text", dashed=True)]
    for at, (_, timing, interval) in enumerate(known):
        y = at * _PITCH + _MIDDLE
        reach = (x.at(_percent(interval.low)), y), (x.at(_percent(interval.high)), y)
        shapes.append(Line(reach, _colour(timing), 4, tip=timing.statement))
        shapes.append(Dot(x.at(timing.change_percent), y, 5, "text", timing.statement, 1.0))
    note = "Left of the dashed line is faster. An interval that crosses it leaves that open."
    title, says = (
        "Change of the median, 95 % interval",
        "The interval of each run's change against the base",
    )
    return _rows(title, says, [name for name, _, _ in known], x, shapes, note=note, form=_change)


def _timed(comparisons: Sequence[Comparison]) -> list[tuple[str, Timing]]:
    every = zip(comparisons, leading(comparisons), strict=True)
    return [(each.new.name, timing) for each, timing in every if timing is not None]


def _colour(timing: Timing) -> str:
    if not timing.real:
        return "tm"
    return "good" if timing.ratio < 1 else "bad"


def _percent(ratio: float) -> float:
    return (ratio - 1) * 100


def _change(percent: float) -> str:
    digits = f"{percent:+.3g}" if abs(percent) < 999.5 else f"{percent:+,.0f}"
    return f"{digits} %" if percent else "base"


def _axis(values: Sequence[float], width: float) -> Scale:
    """A little room on both sides; some where all is the same."""
    low, high = min(values), max(values)
    margin = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    return Scale(low - margin, high + margin, width)


def _rows(
    title: str,
    says: str,
    names: Sequence[str],
    x: Scale,
    shapes: Sequence[Shape],
    keys: tuple[Key, ...] = (),
    note: str = "",
    form: Callable[[float], str] = FORM,
) -> Drawing:
    """Shapes on rows with a name each, above one axis; on a narrow page each name above its row."""
    bottom, narrow = len(names) * _PITCH, x.length <= NARROW
    left, down = (0, -16) if narrow else (-12, 4)
    labels = (
        Label(
            left,
            at * _PITCH + _MIDDLE + down,
            formatting.clip(name, _LONGEST_NAME),
            "text",
            "start" if narrow else "end",
        )
        for at, name in enumerate(names)
    )
    every = (*grid(x, None, (x.length, bottom), form), *labels, *shapes)
    margin = (20, 40) if narrow else (190, 210)
    box = (-margin[0], -8, x.length + margin[1], bottom + 46)
    return Drawing(title, says, box, every, keys, note)


def category_bars(comparison: Comparison) -> Drawing | None:
    """The device time of both sides by category, both against the longer one."""
    shares = comparison.categories
    sides = {
        comparison.base.name: {share.name: share.base_ms or 0.0 for share in shares},
        comparison.new.name: {share.name: share.new_ms or 0.0 for share in shares},
    }
    totals = {name: sum(times.values()) for name, times in sides.items()}
    longest = max(totals.values())
    # A side without device time has nothing to be held against.
    if min(totals.values()) <= 0:
        return None
    bars = {
        f"{name}: {formatting.ms(totals[name])} of device time": tuple(
            Part(kind, ms / longest * 100, f"{kind}: {formatting.ms(ms)}", kind.lower())
            for kind, ms in times.items()
            if ms
        )
        for name, times in sides.items()
    }
    return stacks("Device time by category", bars)
