"""The figures of a comparison's page: every sample, the intervals, device time by category."""

from __future__ import annotations

from collections.abc import Sequence

from instrumentor_analysis.comparison.model import Comparison, Share, Timing
from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.charts import Part, stacks
from instrumentor_analysis.reports.drawing import (
    Dot,
    Drawing,
    Key,
    Label,
    Line,
    Scale,
    Shape,
    grid,
)

#: Samples of one run that are drawn; of more, as many spread evenly.
MOST_SAMPLES = 400
WIDTH = 1000.0
_PITCH = 44.0
#: Rows that a dot may be moved by, so that samples of one value do not hide each other.
_SCATTER = (0.0, -6.0, 6.0, -3.0, 3.0, -9.0, 9.0)
_COLOURS = {"faster": "good", "slower": "bad", "unsure": "tm", "base": "other"}
_KEYS = (
    Key("other", "base"),
    Key("good", "significantly faster"),
    Key("bad", "significantly slower"),
    Key("tm", "inconclusive"),
)


def samples(comparisons: Sequence[Comparison]) -> Drawing | None:
    """Every sample of the main label; None without a wall clock, or where bases differ.

    Comparisons of different bases per sample and per step cannot share an axis.
    """
    timed = [(each, each.timing) for each in comparisons if each.timing is not None]
    if not timed or len({each.basis for each, _ in timed}) > 1:
        return None
    first, timing = timed[0]
    assert timing is not None
    runs = [(first.base.name, timing.base_samples_ms, timing.base_median_ms, "base")]
    runs += [(each.new.name, t.new_samples_ms, t.new_median_ms, _kind(t)) for each, t in timed if t]
    x = _axis([ms for _, values, _, _ in runs for ms in values])
    shapes: list[Shape] = grid(x, None, (WIDTH, len(runs) * _PITCH))
    for at, run in enumerate(runs):
        shapes += _strip(*run, at * _PITCH + 20, x)
    unit = "ms a sample" if first.basis == "sample" else "ms a step"
    shapes.append(Label(WIDTH, len(runs) * _PITCH + 36, unit, anchor="end"))
    return Drawing(
        f"Steady steps, {timing.label}",
        "Every steady step of each run; the tables below have the medians",
        _box(len(runs)),
        tuple(shapes),
        (*_KEYS, Key("", "line: median")),
    )


def _kind(timing: Timing) -> str:
    if not timing.real:
        return "unsure"
    return "faster" if timing.ratio < 1 else "slower"


def _strip(
    name: str, values: Sequence[float], median: float, kind: str, y: float, x: Scale
) -> list[Shape]:
    """The samples of one run, and their median."""
    step = max(1, -(-len(values) // MOST_SAMPLES))
    text = f"{name}: median {words.ms(median)} of {words.plural(len(values), 'steady step')}"
    mark = (x.at(median), y - 14), (x.at(median), y + 14)
    return [
        _name(name, y),
        *(
            Dot(
                x.at(ms),
                y + _SCATTER[at % len(_SCATTER)],
                4,
                _COLOURS[kind],
                f"{name}, steady step {at * step + 1}: {words.ms(ms)}",
                0.75,
            )
            for at, ms in enumerate(values[::step])
        ),
        Line(mark, "text", 2, tip=text),
    ]


def _name(name: str, y: float) -> Label:
    shown = name if len(name) <= 26 else f"{name[:12]}…{name[-12:]}"
    return Label(-12, y + 4, shown, "text", "end")


def _box(runs: int) -> tuple[float, float, float, float]:
    return -190, -6, WIDTH + 210, runs * _PITCH + 44


def ratios(comparisons: Sequence[Comparison]) -> Drawing | None:
    """The interval of each run; None where none has one."""
    timed = [(each.new.name, each.timing) for each in comparisons]
    known = [(name, t) for name, t in timed if t is not None and t.interval is not None]
    if not known:
        return None
    ends = [
        1.0,
        *(end for _, t in known if t.interval for end in (t.interval.low, t.interval.high)),
    ]
    x, bottom = _axis(ends), len(known) * _PITCH
    changes = Scale((x.low - 1) * 100, (x.high - 1) * 100, WIDTH)
    shapes: list[Shape] = grid(changes, None, (WIDTH, bottom), _change)
    shapes.append(Line(((x.at(1), -4), (x.at(1), bottom)), "text", dashed=True))
    for at, (name, t) in enumerate(known):
        if t.interval is not None:
            y, colour = at * _PITCH + 20, _COLOURS[_kind(t)]
            reach = (x.at(t.interval.low), y), (x.at(t.interval.high), y)
            shapes += [
                _name(name, y),
                Line(reach, colour, 4, tip=t.statement),
                Dot(x.at(t.ratio), y, 5, "text", t.statement, 1.0),
            ]
    return Drawing(
        "Change of the median, 95 % interval",
        "The interval of each run's change against the base",
        _box(len(known)),
        tuple(shapes),
        note="Left of the dashed line is faster. Where an interval crosses it, these samples do "
        "not tell the runs apart.",
    )


def _change(percent: float) -> str:
    return f"{percent:+.3g} %" if percent else "base"


def category_bars(comparison: Comparison) -> Drawing | None:
    """The device time of both sides by category, both against the longer one."""
    shares = comparison.categories
    totals = [sum(s.base_ms or 0.0 for s in shares), sum(s.new_ms or 0.0 for s in shares)]
    if min(totals, default=0.0) <= 0:
        return None
    names = comparison.base.name, comparison.new.name
    bars = {
        f"{name}: {words.ms(total)} of device time": _parts(shares, side, max(totals))
        for side, (name, total) in enumerate(zip(names, totals, strict=True))
    }
    return stacks("Device time by category", bars)


def _parts(shares: Sequence[Share], side: int, longest: float) -> tuple[Part, ...]:
    times = [(s.name, s.new_ms if side else s.base_ms) for s in shares]
    return tuple(
        Part(name, ms / longest * 100, f"{name}: {words.ms(ms)}", name.lower())
        for name, ms in times
        if ms
    )


def _axis(values: Sequence[float]) -> Scale:
    """A little room on both sides; some where all is the same."""
    low, high = min(values), max(values)
    margin = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    return Scale(low - margin, high + margin, WIDTH)
