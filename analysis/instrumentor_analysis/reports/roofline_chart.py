"""Achieved TFLOP/s of the ops over their FLOPs per byte of DRAM traffic, under the chip's roofs.

The model of Williams, Waterman and Patterson, "Roofline" (2009). Ceilings are those of the whole
grid; an op that used fewer cores stands further below than its own FLOPs % says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.charts import Tick
from instrumentor_analysis.reports.detail import Detail
from instrumentor_analysis.roofline import Architecture

#: Points drawn; ops of less time are left out.
MOST_POINTS = 1500


@dataclass(frozen=True)
class OpPoint:
    """All ops of one name, math fidelity and bound together.

    Attributes:
        intensity: FLOPs per byte of DRAM traffic.
        tflops: achieved, 10^12 FLOPs a second.
        time_us: device time of all of them.
        dram_percent, flops_percent: mean utilisation, of the cores used.
    """

    op: str
    fidelity: str
    bound: str
    count: int
    intensity: float
    tflops: float
    time_us: float
    cores: float
    dram_percent: float
    flops_percent: float

    @property
    def text(self) -> str:
        """What a pointer on it says."""
        return (
            f"{self.op} {self.fidelity}: {self.count:,} x, {words.readable_us(self.time_us)}, "
            f"{words.number(self.tflops)} TFLOP/s ({words.percent(self.flops_percent)} of the "
            f"peak of {self.cores:.0f} cores), DRAM {words.percent(self.dram_percent)}"
        )


@dataclass(frozen=True)
class Ceiling:
    """Peak of the whole grid at one math fidelity, 10^12 FLOPs a second."""

    name: str
    tflops: float


@dataclass(frozen=True)
class LogAxis:
    """Whole decades onto 0 .. length; ``flipped`` grows towards 0, as y does on a screen."""

    low: int
    high: int
    length: float
    flipped: bool = False

    def at(self, value: float) -> float:
        """Where a positive value stands."""
        along = (math.log10(value) - self.low) / (self.high - self.low) * self.length
        return round(self.length - along if self.flipped else along, 1)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """One per decade."""
        exponents = range(self.low, self.high + 1)
        return tuple(Tick(self.at(10.0**e), f"{10.0**e:,.10g}") for e in exponents)


@dataclass(frozen=True)
class Point:
    """One point as drawn."""

    x: float
    y: float
    radius: float
    kind: str
    text: str


@dataclass(frozen=True)
class Roof:
    """The memory slope up to where it meets a ceiling, then the ceiling."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class RooflineChart:
    """Everything that is drawn; both axes logarithmic."""

    x: LogAxis
    y: LogAxis
    roofs: tuple[Roof, ...]
    points: tuple[Point, ...]
    left_out: int


def op_points(detail: Detail) -> tuple[OpPoint, ...]:
    """Ops with a model of both FLOPs and DRAM traffic, by name, most device time first."""
    ops = detail.device_ops
    if ops is None:
        return ()
    from instrumentor_analysis.table import Groups

    time, flops, moved = ops["device_time_us"], ops["flops"], ops["dram_bytes"]
    modelled = (flops > 0) & (moved > 0) & (time > 0)
    known = ops.take(modelled)
    if not len(known):
        return ()
    groups = Groups(known["op"], known["math_fidelity"], known["bound"])
    first = known.take(groups.first)
    sums = {name: groups.sums(known[name]) for name in ("device_time_us", "flops", "dram_bytes")}
    cores = groups.apply(_median, known["cores"])
    dram, used = groups.means(known["dram_percent"]), groups.means(known["flops_percent"])
    points = [
        OpPoint(
            op=str(row["op"]),
            fidelity=row["math_fidelity"] or "",
            bound=str(row["bound"]),
            count=int(groups.sizes[at]),
            intensity=float(sums["flops"][at] / sums["dram_bytes"][at]),
            tflops=float(sums["flops"][at] / sums["device_time_us"][at] / 1e6),
            time_us=float(sums["device_time_us"][at]),
            cores=float(cores[at]),
            dram_percent=float(dram[at]),
            flops_percent=float(used[at]),
        )
        for at, row in enumerate(first.records(("op", "math_fidelity", "bound")))
    ]
    return tuple(sorted(points, key=lambda point: -point.time_us))


def _median(values: Any) -> float:
    import numpy as np

    return float(np.median(values))


def ceilings(arch: Architecture, points: tuple[OpPoint, ...]) -> tuple[Ceiling, ...]:
    """Ceilings of the math fidelities that occur."""
    used = {point.fidelity.split()[0] for point in points if point.fidelity.split()}
    peaks = arch.tflops_per_core
    named = [name for name in peaks if name in used] or list(peaks)[:1]
    return tuple(Ceiling(name, peaks[name] * arch.worker_cores) for name in named)


def roofline_chart(
    detail: Detail, width: float = 1000, height: float = 400
) -> RooflineChart | None:
    """The chart; None without a single modelled op."""
    every, arch = op_points(detail), detail.architecture
    if not every or arch is None or not arch.has_peaks:
        return None
    points, peaks = every[:MOST_POINTS], ceilings(arch, every)
    ridges = [peak.tflops * 1000 / arch.dram_gb_s for peak in peaks]
    x = _axis([*(p.intensity for p in points), *ridges], width)
    y = _axis([*(p.tflops for p in points), *(p.tflops for p in peaks)], height, flipped=True)
    longest = points[0].time_us
    return RooflineChart(
        x,
        y,
        tuple(_roof(peak, arch.dram_gb_s / 1000, x, y) for peak in peaks),
        tuple(
            Point(
                x.at(p.intensity),
                y.at(p.tflops),
                round(3.5 + 11 * math.sqrt(p.time_us / longest), 1),
                p.bound.lower() or "slow",
                p.text,
            )
            for p in points
        ),
        len(every) - len(points),
    )


def _axis(values: list[float], length: float, flipped: bool = False) -> LogAxis:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return LogAxis(low, max(high, low + 1), length, flipped)


def _roof(peak: Ceiling, tb_s: float, x: LogAxis, y: LogAxis) -> Roof:
    start = max(10.0**x.low, 10.0**y.low / tb_s)
    ridge = peak.tflops / tb_s
    end = 10.0**x.high
    corners = [(start, start * tb_s), (ridge, peak.tflops), (end, peak.tflops)]
    return Roof(
        f"{peak.name} {words.number(peak.tflops)} TFLOP/s",
        tuple((x.at(a), y.at(b)) for a, b in corners),
    )
