"""Achieved TFLOP/s of the ops over their FLOPs per byte of DRAM traffic, under the chip's roofs.

The model of Williams, Waterman and Patterson, "Roofline" (2009). Ceilings are those of the whole
grid; an op that used fewer cores stands further below than its own FLOPs % says.
"""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct

from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.detail import Detail
from instrumentor_analysis.reports.drawing import (
    Dot,
    Drawing,
    Key,
    Label,
    Line,
    Scale,
    Shape,
    decades,
    grid,
)
from instrumentor_analysis.roofline import Architecture

#: Points drawn; ops of less time are left out.
MOST_POINTS = 1500
_WIDTH, _HEIGHT = 1000.0, 400.0
_COLOURS = {"DRAM": "ccl", "FLOP": "compute", "BOTH": "good"}
_KEYS = (
    Key("tm", "SLOW: below both"),
    Key("ccl", "DRAM-bound"),
    Key("compute", "FLOP-bound"),
    Key("good", "both"),
    Key("", "area: device time of all ops of that name and shape"),
)


class OpPoint(Struct, frozen=True):
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


class Ceiling(Struct, frozen=True):
    """Peak of the whole grid at one math fidelity, 10^12 FLOPs a second."""

    name: str
    tflops: float


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


def roofline(detail: Detail) -> Drawing | None:
    """The chart; None without a single modelled op."""
    every, arch = op_points(detail), detail.architecture
    if not every or arch is None or not arch.has_peaks:
        return None
    points, peaks, tb_s = every[:MOST_POINTS], ceilings(arch, every), arch.dram_gb_s / 1000
    x = decades([*(p.intensity for p in points), *(peak.tflops / tb_s for peak in peaks)], _WIDTH)
    highest = [*(p.tflops for p in points), *(peak.tflops for peak in peaks)]
    y = decades(highest, _HEIGHT, flipped=True)
    shapes: list[Shape] = [
        *grid(x, y, (_WIDTH, _HEIGHT)),
        Label(_WIDTH, _HEIGHT + 38, "FLOPs per byte of DRAM traffic", anchor="end"),
        Label(6, -4, "TFLOP/s"),
        *(shape for peak in peaks for shape in _roof(peak, tb_s, x, y)),
        *(_dot(point, points[0].time_us, x, y) for point in points),
    ]
    note = (
        "Ceilings are of the whole grid; an op on fewer cores stands lower than its own FLOPs % "
        "says. Only ops with a model of FLOPs and DRAM traffic."
    )
    left_out = len(every) - len(points)
    return Drawing(
        f"Roofline, {arch.name}",
        "Roofline: achieved TFLOP/s over FLOPs per byte of DRAM traffic, "
        f"{len(points)} kinds of op. Arrow keys go from op to op, the slowest first.",
        (-56, -18, _WIDTH + 80, _HEIGHT + 66),
        tuple(shapes),
        _KEYS,
        note + (f" {left_out} shorter kinds of op are not drawn." if left_out else ""),
        id="roofline",
    )


def _dot(point: OpPoint, longest_us: float, x: Scale, y: Scale) -> Dot:
    radius = round(3.5 + 11 * math.sqrt(point.time_us / longest_us), 1)
    colour = _COLOURS.get(point.bound, "tm")
    return Dot(x.at(point.intensity), y.at(point.tflops), radius, colour, point.text, 0.5)


def _roof(peak: Ceiling, tb_s: float, x: Scale, y: Scale) -> tuple[Shape, ...]:
    """The memory slope up to where it meets a ceiling, then the ceiling."""
    start = max(x.low, y.low / tb_s)
    corners = (start, start * tb_s), (peak.tflops / tb_s, peak.tflops), (x.high, peak.tflops)
    points = tuple((x.at(a), y.at(b)) for a, b in corners)
    name = f"{peak.name} {words.number(peak.tflops)} TFLOP/s"
    label = Label(x.length - 4, points[-1][1] - 6, name, anchor="end")
    return Line(points, "muted", 1.5), label
