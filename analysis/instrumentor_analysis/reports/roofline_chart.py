"""Achieved TFLOP/s of the ops over their FLOPs per byte of DRAM traffic, under the chip's roofs.

The model of Williams, Waterman and Patterson, "Roofline" (2009). Ceilings are those of the whole
grid; an op that used fewer cores stands further below than its own FLOPs % says.
"""

from __future__ import annotations

import math

from msgspec import Struct

from instrumentor_analysis.ops.roofline import Architecture
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.detail import Detail
from instrumentor_analysis.reports.drawing import (
    Dot,
    Drawing,
    Key,
    Label,
    Line,
    Scale,
    Shape,
    at_every_width,
    decades,
    grid,
)

#: Points drawn; ops of less time are left out.
MOST_POINTS = 1500
#: Size of the plot, units.
_HEIGHT = 400.0
_COLOURS = {"DRAM": "ccl", "FLOP": "compute", "BOTH": "good"}
_KEYS = (
    Key("tm", "SLOW: below both"),
    Key("ccl", "DRAM-bound"),
    Key("compute", "FLOP-bound"),
    Key("good", "both"),
    Key("", "area: device time of all ops of that name and shape"),
)
_NOTE = (
    "Ceilings are of the whole grid; an op on fewer cores stands lower than its own FLOPs % "
    "says. Only ops with a model of FLOPs and DRAM traffic."
)


class OpPoint(Struct, frozen=True):
    """All ops of one name, math fidelity and bound together.

    Attributes:
        intensity: FLOPs per byte of DRAM traffic.
        tflops: achieved, 10^12 FLOPs a second.
        time_us: device time of all of them.
        text: what a pointer on it says.
    """

    fidelity: str
    bound: str
    intensity: float
    tflops: float
    time_us: float
    text: str


def op_points(detail: Detail) -> tuple[OpPoint, ...]:
    """Ops with a model of both FLOPs and DRAM traffic, by name, most device time first."""
    ops = detail.device_ops
    if ops is None:
        return ()
    import numpy as np

    from instrumentor_analysis.load.table import Groups

    known = ops.take((ops["flops"] > 0) & (ops["dram_bytes"] > 0) & (ops["device_time_us"] > 0))
    if not len(known):
        return ()
    groups = Groups(known["op"], known["math_fidelity"], known["bound"])
    figures = zip(
        known.take(groups.first).records(("op", "math_fidelity", "bound")),
        groups.sizes,
        *(groups.sums(known[name]) for name in ("device_time_us", "flops", "dram_bytes")),
        groups.apply(np.median, known["cores"]),
        *(groups.means(known[name]) for name in ("dram_percent", "flops_percent")),
        strict=True,
    )
    points: list[OpPoint] = []
    for row, count, time_us, flops, moved, cores, dram, used in figures:
        # FLOPs a microsecond are 10^6 a second: another 10^6 make TFLOP/s.
        fidelity, tflops = row["math_fidelity"] or "", float(flops / time_us / 1e6)
        text = (
            f"{row['op']} {fidelity}: {count:,} x, {formatting.us(time_us)}, "
            f"{formatting.quantity(tflops, 'TFLOP/s')} ({formatting.percent(used)} of the peak of "
            f"{cores:.0f} cores), DRAM {formatting.percent(dram)}"
        )
        bound = str(row["bound"])
        points.append(OpPoint(fidelity, bound, float(flops / moved), tflops, float(time_us), text))
    return tuple(sorted(points, key=lambda point: -point.time_us))


def _ceilings(arch: Architecture, points: tuple[OpPoint, ...]) -> dict[str, float]:
    """TFLOP/s of the whole grid at each math fidelity that occurs."""
    used = {point.fidelity.split()[0] for point in points if point.fidelity.split()}
    peaks = {name: each * arch.worker_cores for name, each in arch.tflops_per_core.items()}
    named = [name for name in peaks if name in used] or list(peaks)[:1]
    return {name: peaks[name] for name in named}


def roofline(detail: Detail) -> Drawing | None:
    """The chart; None without a single modelled op."""
    every, arch = op_points(detail), detail.architecture
    if not every or arch is None or not arch.has_peaks:
        return None
    return at_every_width(lambda width: _roofline(every, arch, width))


def _roofline(every: tuple[OpPoint, ...], arch: Architecture, width: float) -> Drawing:
    # FLOPs per byte times TB/s are TFLOP/s.
    points, peaks, tb_s = every[:MOST_POINTS], _ceilings(arch, every), arch.dram_gb_s / 1000
    ridges = (peak / tb_s for peak in peaks.values())
    # With the ridges, where slope and ceiling meet, even if no op is near them.
    x = decades([*(point.intensity for point in points), *ridges], width)
    y = decades([*(p.tflops for p in points), *peaks.values()], _HEIGHT, flipped=True)
    shapes: list[Shape] = [
        *grid(x, y, (width, _HEIGHT)),
        Label(width, _HEIGHT + 38, "FLOPs per byte of DRAM traffic", anchor="end"),
        Label(6, -4, "TFLOP/s"),
        *(shape for name, peak in peaks.items() for shape in _roof(name, peak, tb_s, x, y)),
    ]
    for point in points:
        # The area is what the eye compares, so the radius goes with the root of the time.
        radius = round(3.5 + 11 * math.sqrt(point.time_us / points[0].time_us), 1)
        place = x.at(point.intensity), y.at(point.tflops), radius
        shapes.append(Dot(*place, _COLOURS.get(point.bound, "tm"), point.text, 0.5))
    left_out = len(every) - len(points)
    return Drawing(
        f"Roofline, {arch.name}",
        "Roofline: achieved TFLOP/s over FLOPs per byte of DRAM traffic, "
        f"{len(points)} kinds of op. Arrow keys go from op to op, the slowest first.",
        (-56, -18, width + 80, _HEIGHT + 66),
        tuple(shapes),
        _KEYS,
        _NOTE + (f" {left_out} shorter kinds of op are not drawn." if left_out else ""),
        id="roofline",
    )


def _roof(name: str, peak: float, tb_s: float, x: Scale, y: Scale) -> tuple[Shape, ...]:
    """The memory slope up to where it meets a ceiling, then the ceiling."""
    # The slope enters the chart from the left or from below.
    start = max(x.low, y.low / tb_s)
    corners = (start, start * tb_s), (peak / tb_s, peak), (x.high, peak)
    points = tuple((x.at(a), y.at(b)) for a, b in corners)
    text = f"{name} {formatting.quantity(peak, 'TFLOP/s')}"
    return Line(points, "muted", 1.5), Label(x.length - 4, y.at(peak) - 6, text, anchor="end")
