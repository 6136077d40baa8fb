"""Geometry of the charts in a comparison's page: shapes in user units, no markup, no colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from instrumentor_analysis.comparison.model import Comparison, Share, Timing
from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.charts import Part, Tick

#: Samples of one run that are drawn; of more, as many spread evenly.
MOST_SAMPLES = 400
WIDTH = 1000.0
_PITCH = 44.0
#: Rows that a dot may be moved by, so that samples of one value do not hide each other.
_SCATTER = (0.0, -6.0, 6.0, -3.0, 3.0, -9.0, 9.0)


@dataclass(frozen=True)
class Dot:
    """One sample: where, and what a pointer on it says."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Strip:
    """The samples of one run, and their median."""

    name: str
    y: float
    dots: tuple[Dot, ...]
    median: float
    text: str
    kind: str


@dataclass(frozen=True)
class Samples:
    """The steady steps of all runs of one label on one axis."""

    title: str
    height: float
    strips: tuple[Strip, ...]
    ticks: tuple[Tick, ...]
    unit: str


@dataclass(frozen=True)
class Reach:
    """One run's ratio to the base: from where to where its interval goes, and the ratio."""

    name: str
    y: float
    low: float
    high: float
    at: float
    text: str
    tone: str


@dataclass(frozen=True)
class Ratios:
    """The intervals of all runs around 1, the base."""

    height: float
    one: float
    reaches: tuple[Reach, ...]
    ticks: tuple[Tick, ...]


def samples(comparisons: Sequence[Comparison]) -> Samples | None:
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
    every = [ms for _, values, _, _ in runs for ms in values]
    low, high = _room(min(every), max(every))
    strips = [
        _strip(name, values, median, kind, at * _PITCH + 20, low, high)
        for at, (name, values, median, kind) in enumerate(runs)
    ]
    unit = "ms a sample" if first.basis == "sample" else "ms a step"
    ticks = tuple(Tick(_place(v, low, high), text) for v, text in _ticks(low, high))
    return Samples(timing.label, len(runs) * _PITCH, tuple(strips), ticks, unit)


def _kind(timing: Timing) -> str:
    if not timing.real:
        return "unsure"
    return "faster" if timing.ratio < 1 else "slower"


def _strip(
    name: str,
    values: Sequence[float],
    median: float,
    kind: str,
    y: float,
    low: float,
    high: float,
) -> Strip:
    step = max(1, -(-len(values) // MOST_SAMPLES))
    dots = [
        Dot(
            _place(ms, low, high),
            y + _SCATTER[at % len(_SCATTER)],
            f"{name}, steady step {at * step + 1}: {words.ms(ms)}",
        )
        for at, ms in enumerate(values[::step])
    ]
    text = f"{name}: median {words.ms(median)} of {words.plural(len(values), 'steady step')}"
    return Strip(name, y, tuple(dots), _place(median, low, high), text, kind)


def ratios(comparisons: Sequence[Comparison]) -> Ratios | None:
    """The interval of each run; None where none has one."""
    timed = [(each.new.name, each.timing) for each in comparisons]
    known = [(name, t) for name, t in timed if t is not None and t.interval is not None]
    if not known:
        return None
    ends = [
        1.0,
        *(end for _, t in known if t.interval for end in (t.interval.low, t.interval.high)),
    ]
    low, high = _room(min(ends), max(ends))
    reaches = [
        Reach(
            name,
            at * _PITCH + 20,
            _place(t.interval.low, low, high),
            _place(t.interval.high, low, high),
            _place(t.ratio, low, high),
            t.statement,
            _kind(t),
        )
        for at, (name, t) in enumerate(known)
        if t.interval is not None
    ]
    ticks = tuple(
        Tick(_place(value, low, high), f"{(value - 1) * 100:+.3g} %" if value != 1 else "base")
        for value, _ in _ticks(low, high)
    )
    return Ratios(len(known) * _PITCH, _place(1.0, low, high), tuple(reaches), ticks)


def category_bars(comparison: Comparison) -> tuple[tuple[str, tuple[Part, ...]], ...]:
    """The device time of both sides by category, both against the longer one."""
    shares = comparison.categories
    totals = [sum(s.base_ms or 0.0 for s in shares), sum(s.new_ms or 0.0 for s in shares)]
    if min(totals, default=0.0) <= 0:
        return ()
    longest = max(totals)
    return (
        (f"{comparison.base.name}: {words.ms(totals[0])}", _parts(shares, 0, longest)),
        (f"{comparison.new.name}: {words.ms(totals[1])}", _parts(shares, 1, longest)),
    )


def _parts(shares: Sequence[Share], side: int, longest: float) -> tuple[Part, ...]:
    times = [(s.name, s.new_ms if side else s.base_ms) for s in shares]
    return tuple(
        Part(name, ms / longest * 100, f"{name}: {words.ms(ms)}", name.lower())
        for name, ms in times
        if ms
    )


def _room(low: float, high: float) -> tuple[float, float]:
    """A little room on both sides; some where all is the same."""
    margin = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    return low - margin, high + margin


def _place(value: float, low: float, high: float) -> float:
    return round((value - low) / (high - low) * WIDTH, 2)


def _ticks(low: float, high: float, wanted: int = 6) -> list[tuple[float, str]]:
    """Round values between the two."""
    import math

    raw = (high - low) / wanted
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw)
    first = math.ceil(low / step)
    values = [at * step for at in range(first, math.floor(high / step) + 1)]
    return [(round(value, 12), f"{round(value, 12):,.6g}") for value in values]
