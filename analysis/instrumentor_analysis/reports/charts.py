"""Geometry of the charts in report.html: shapes in user units, no markup and no colours.

The page's template draws them, so that every text passes its escaping.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from instrumentor_analysis.model import GAP_THRESHOLD_US, Gaps, Step, Summary
from instrumentor_analysis.reports import breakdown, words
from instrumentor_analysis.reports.document import Column, Table

#: Ops of their own in a stacked bar before the rest is one part.
MOST_PARTS = 8
#: Kinds of steps whose times say nothing about the others.
APART = ("compile", "warmup", "profiled")
#: Width of a character below a bar, of 1000 for the whole chart.
_CHARACTER = 7
#: Steps drawn; of more, the last ones.
MOST_STEPS = 200


@dataclass(frozen=True)
class Part:
    """One part of a stacked bar: its share of the whole and what a pointer on it says."""

    name: str
    percent: float
    text: str
    kind: str = ""


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: where, and what it says."""

    at: float
    text: str


@dataclass(frozen=True)
class StepBar:
    """One step: a bar for the wall clock, in it one for the device time."""

    x: float
    width: float
    height: float
    device_height: float | None
    kind: str
    text: str
    label: str
    value: str
    clipped: bool


@dataclass(frozen=True)
class StepChart:
    """Step times; a compile step that dwarfs the others is clipped and says so."""

    width: float
    height: float
    bars: tuple[StepBar, ...]
    ticks: tuple[Tick, ...]
    median: Tick | None
    left_out: int
    some_device: bool

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of steps among the bars."""
        return frozenset(bar.kind for bar in self.bars)


def step_chart(summary: Summary, width: float = 1000, height: float = 180) -> StepChart | None:
    """Bars of the steps in order; None when fewer than two were timed."""
    timed = [step for step in summary.steps if words.measured(step.wall_clock_ms)]
    steps = timed[-MOST_STEPS:]
    if len(timed) < 2:
        return None
    top = compared_ms(steps) * 1.08 or 1.0
    pitch = width / len(steps)
    bar = min(pitch * 0.72, 72.0)
    bars = [
        _step_bar(step, at * pitch + (pitch - bar) / 2, bar, height, top)
        for at, step in enumerate(steps)
    ]
    bars = _without_overlaps(bars, pitch * 1000 / width)
    median = None if summary.wall_clock is None else summary.wall_clock.median_ms
    line = None
    if median is not None and words.measured(median) and median <= top:
        line = Tick(height - median / top * height, f"median {words.ms(median)}")
    return StepChart(
        width,
        height,
        tuple(bars),
        tuple(Tick(height - value / top * height, text) for value, text in _round_ticks(top)),
        line,
        len(timed) - len(steps),
        any(bar.device_height is not None for bar in bars),
    )


def compared_ms(steps: Sequence[Step]) -> float:
    """The slowest of the steps that can be compared: steady ones, not under a profiler."""
    every = [step.wall_clock_ms or 0.0 for step in steps]
    fair = [step.wall_clock_ms or 0.0 for step in steps if step.kind not in APART]
    return max(fair or every)


def _step_bar(step: Step, x: float, width: float, height: float, top: float) -> StepBar:
    wall = step.wall_clock_ms or 0.0
    device = step.device_time_ms
    text = f"{step.name}: {words.ms(wall)}"
    if words.measured(device):
        text += f", device {words.ms(device)}"
    if words.measured(step.overhead_percent):
        text += f", overhead {words.percent(step.overhead_percent)}"
    if step.outlier:
        text += ", outlier"
    kind = "outlier" if step.outlier else step.kind or "steady"
    shown = None
    if device is not None and words.measured(device):
        shown = min(device / top, 1.0) * height
    return StepBar(
        x,
        width,
        min(wall / top, 1.0) * height,
        shown,
        kind,
        text,
        step.name.removeprefix("step_").removeprefix("steady_"),
        words.ms(wall),
        wall > top,
    )


def _without_overlaps(bars: list[StepBar], pitch: float) -> list[StepBar]:
    """Names cut to a letter and values of neighbours left out where bars stand close."""
    if pitch >= 10 * _CHARACTER:
        return bars
    fitted: list[StepBar] = []
    for at, bar in enumerate(bars):
        name, _, number = bar.label.partition("_")
        short = name[:1] + number if len(bar.label) * _CHARACTER > pitch else bar.label
        crowded = at > 0 and bars[at - 1].clipped
        fitted.append(replace(bar, label=short, value="" if crowded else bar.value))
    return fitted


def _round_ticks(top: float, wanted: int = 4) -> list[tuple[float, str]]:
    """Round values from 0 up to the top, and their texts."""
    raw = top / wanted
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw)
    return [(at * step, f"{at * step:,.10g}") for at in range(int(top / step) + 1)]


def category_parts(summary: Summary) -> tuple[Part, ...]:
    """The device time by category."""
    return tuple(
        Part(
            each.name,
            each.percent,
            f"{each.name}: {words.percent(each.percent)}, {words.ms(each.device_time_ms)}, "
            f"{words.plural(each.op_count, 'op')}",
            each.name.lower(),
        )
        for each in summary.categories
        if each.percent and words.measured(each.percent)
    )


def op_parts(summary: Summary) -> tuple[Part, ...]:
    """The device time (the self time, without a device) by op name, the rest as one part."""
    timed = breakdown.on_device(summary)
    parts: list[Part] = []
    for op in summary.slow_ops[:MOST_PARTS]:
        if op.percent and words.measured(op.percent):
            time = words.ms(op.device_time_ms if timed else op.op_self_time_ms)
            text = f"{op.op}: {words.percent(op.percent)}, {time}, {op.count:,} x"
            parts.append(Part(op.op, op.percent, text, (op.category or "other").lower()))
    rest = 100 - sum(part.percent for part in parts)
    if parts and rest > 0.05:
        parts.append(Part("all others", rest, f"all others: {words.percent(rest)}", "rest"))
    return tuple(parts)


def step_parts(summary: Summary) -> tuple[Part, ...]:
    """The wall clock of the window's step: the device's part, and what it waited."""
    overhead, wall = summary.overhead_percent, summary.step_wall_clock_ms
    if overhead is None or wall is None or not 0 <= overhead <= 100:
        return ()
    device = 100 - overhead
    rest = f"rest: {words.ms(wall * overhead / 100)}"
    return (
        Part("device", device, f"device: {words.ms(wall * device / 100)}", "device"),
        Part("host, and waiting for it", overhead, rest, "wait"),
    )


def gap_table(gaps: Gaps | None) -> Table:
    """The histogram of the gaps, empty bins at both ends left out; long ones are bad."""
    histogram = () if gaps is None else gaps.histogram
    edges = [0.0, *(edge or 0.0 for edge, _ in histogram)]
    filled = [at for at, (_, count) in enumerate(histogram) if count]
    bins = range(filled[0], filled[-1] + 1) if filled else range(0)
    counts = [histogram[at][1] for at in bins]
    tones = ["bad" if edges[at] >= GAP_THRESHOLD_US else "plain" for at in bins]
    shares = [count / max(counts) * 100 for count in counts]
    columns = (
        Column("gap", [_between(edges[at], histogram[at][0]) for at in bins], right=False),
        Column("ops", [f"{count:,}" for count in counts], colours=tones),
        Column("", shares=shares, right=False, colours=tones),
    )
    return Table(columns)


def _between(low: float, high: float | None) -> str:
    if high is None:
        return f"above {_short_us(low)}"
    return f"{_short_us(low)} to {_short_us(high)}" if low else f"up to {_short_us(high)}"


def _short_us(value: float) -> str:
    for unit, factor in (("s", 1e6), ("ms", 1e3)):
        if value >= factor:
            return f"{value / factor:g} {unit}"
    return f"{value:g} us"
