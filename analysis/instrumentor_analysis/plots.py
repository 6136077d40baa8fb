"""Charts of a run as matplotlib figures; :func:`encode` turns one into a PNG or SVG.

Every ``*_figure`` is pure: a new Figure on the Agg canvas, no pyplot, no global state. None means
that the summary has nothing to draw.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from instrumentor_analysis.model import GAP_THRESHOLD_US, Summary
from instrumentor_analysis.reports import breakdown, charts, words
from instrumentor_analysis.reports.detail import Detail
from instrumentor_analysis.reports.headline import title
from instrumentor_analysis.reports.roofline_chart import MOST_POINTS, ceilings, op_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from instrumentor_analysis.table import Table

Kind = Literal["png", "svg"]
KINDS: tuple[Kind, ...] = ("png", "svg")
#: As in report.html.
COLOURS = {
    "compute": "#3f74b5",
    "tm": "#cf8a30",
    "dm": "#8b6bb3",
    "ccl": "#2d9186",
    "host": "#bf4f4b",
    "other": "#8a9099",
    "rest": "#c9ccd1",
}
_BOUNDS = {"DRAM": "#2d9186", "FLOP": "#3f74b5", "BOTH": "#1f7a3d"}
_TEXT, _MUTED, _LINE, _WALL, _COMPILE = "#1d2025", "#616770", "#e2e3e5", "#d9dbde", "#b4b8be"
_LONGEST_NAME = 40
#: Kinds of ops in the stacked report's picture before the rest is one part.
_MOST_STACKED = 16


def figures(summary: Summary, detail: Detail | None = None) -> dict[str, Figure]:
    """Every chart that there is something to draw for, by the name of its file."""
    drawn = {
        "step_times": step_figure(summary),
        "breakdown": breakdown_figure(summary),
        "roofline": roofline_figure(summary, detail or Detail()),
        "gaps": gap_figure(summary),
    }
    return {name: figure for name, figure in drawn.items() if figure is not None}


def step_figure(summary: Summary) -> Figure | None:
    """Wall clock of each step and, in it, its device time; a long compile step is cut off."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    chart = charts.step_chart(summary, width=1.0, height=1.0)
    if chart is None:
        return None
    steps = [s for s in summary.steps if words.measured(s.wall_clock_ms)][-len(chart.bars) :]
    figure, axes = _axes(summary, "Step times", (8.0, 3.6), pad=18)
    top = charts.compared_ms(steps)
    at = list(range(len(steps)))
    walls = [s.wall_clock_ms or 0.0 for s in steps]
    shades = [
        COLOURS["host"] if s.outlier else _COMPILE if s.kind != "steady" else _WALL for s in steps
    ]
    axes.bar(at, walls, width=0.72, color=shades)
    keys = [Patch(color=_WALL, label="wall clock")]
    if _COMPILE in shades:
        keys.append(Patch(color=_COMPILE, label="compile, warm-up, profiled"))
    if COLOURS["host"] in shades:
        keys.append(Patch(color=COLOURS["host"], label="outlier"))
    device = [s.device_time_ms if words.measured(s.device_time_ms) else None for s in steps]
    if any(value is not None for value in device):
        heights = [value or 0.0 for value in device]
        axes.bar(at, heights, width=0.72, color=COLOURS["compute"])
        keys.append(Patch(color=COLOURS["compute"], label="device time"))
    axes.set_ylim(0, top * 1.15 or 1.0)
    for x, wall, bar in zip(at, walls, chart.bars, strict=True):
        if wall > top * 1.15 and bar.value:
            value = words.ms(wall)
            axes.text(x, top * 1.16, value, ha="center", va="bottom", fontsize=8, color=_MUTED)
    median = None if summary.wall_clock is None else summary.wall_clock.median_ms
    lines: list[Line2D] = []
    if median is not None and words.measured(median):
        dashes = (0, (4, 3))
        axes.axhline(median, color=_TEXT, linewidth=1, linestyle=dashes)
        label = f"median {words.ms(median)}"
        lines = [Line2D([], [], color=_TEXT, linewidth=1, linestyle=dashes, label=label)]
    axes.set_ylabel("ms", color=_MUTED)
    if len(steps) <= 40:
        axes.set_xticks(at, [_plain(bar.label) for bar in chart.bars])
    axes.legend(
        handles=[*keys, *lines],
        frameon=False,
        fontsize=8,
        ncols=5,
        loc="upper left",
        bbox_to_anchor=(0, -0.1),
    )
    return figure


def breakdown_figure(summary: Summary) -> Figure | None:
    """Stacked bars: device time by category, and device (or self) time by op."""
    parts = {
        "by category": charts.category_parts(summary),
        "by op": charts.op_parts(summary),
    }
    bars = {name: found for name, found in parts.items() if found}
    if not bars:
        return None
    what = "Device time" if breakdown.on_device(summary) else "Op self time"
    rows = [max(len(found), 3) for found in bars.values()]
    figure = _figure((8.0, 0.9 + 0.19 * sum(rows)))
    every = figure.subplots(len(bars), 1, squeeze=False, height_ratios=rows)[:, 0]
    figure.suptitle(
        f"{what}: {_plain(title(summary))}", x=0.01, ha="left", fontsize=11, color=_TEXT
    )
    for axes, (name, found) in zip(every, bars.items(), strict=True):
        _calm(axes)
        _stack(axes, found, fade=name == "by op")
        axes.set_yticks([0], [name])
        axes.tick_params(labelbottom=axes is every[-1])
    every[-1].set_xlabel("% of the " + what.lower(), color=_MUTED)
    return figure


def stacked_figure(stacked: Table, *, classic: bool = False) -> Figure:
    """The stacked report: a bar of all device time, or one per device, in milliseconds.

    Args:
        classic: a colour per op instead of its category's.
    """
    from matplotlib import colormaps

    rows = list(stacked.records())
    devices = sorted({row["device_id"] for row in rows}) if "device_id" in stacked else [None]
    kinds: dict[str, dict[Any, float]] = {}
    for row in rows:
        at = None if devices == [None] else row["device_id"]
        times = kinds.setdefault(str(row["name"]), dict.fromkeys(devices, 0.0))
        times[at] += row["device_time_us"] / 1000
    category = {str(row["name"]): str(row["category"] or "Other").lower() for row in rows}
    order = sorted(kinds, key=lambda name: -sum(kinds[name].values()))
    whole = sum(sum(times.values()) for times in kinds.values()) or 1.0
    shown = [(name, category[name], [*kinds[name].values()]) for name in order[:_MOST_STACKED]]
    others = [sum(kinds[name][d] for name in order[_MOST_STACKED:]) for d in devices]
    if sum(others) > 0:
        shown.append(("all others", "rest", others))

    figure = _figure((9.0, 0.9 + max(0.19 * len(shown), 0.34 * len(devices))))
    axes = figure.add_subplot()
    _calm(axes)
    palette = colormaps["tab20"].colors  # type: ignore[attr-defined]
    seen = dict.fromkeys(COLOURS, 0)
    left = [0.0] * len(devices)
    for at, (name, kind, lengths) in enumerate(shown):
        kind = kind if kind in COLOURS else "other"
        axes.barh(
            range(len(devices)),
            lengths,
            left=left,
            height=0.6,
            color=palette[at % len(palette)] if classic and kind != "rest" else COLOURS[kind],
            alpha=1.0 if classic else max(1 - 0.14 * seen[kind], 0.35),
            edgecolor="white",
            linewidth=0.8,
            label=f"{_plain(name)}  {words.percent(sum(lengths) / whole * 100)}",
        )
        seen[kind] += 1
        left = [start + length for start, length in zip(left, lengths, strict=True)]
    axes.set_yticks(range(len(devices)), ["" if d is None else f"device {d:.0f}" for d in devices])
    axes.invert_yaxis()
    axes.grid(axis="x", color=_LINE)
    axes.set_xlabel("device time, ms", color=_MUTED)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    what = "on each device" if len(devices) > 1 else words.ms(whole)
    figure.suptitle(f"Device time by kind of op, {what}", x=0.01, ha="left", fontsize=11)
    return figure


def _stack(axes: Axes, parts: Sequence[charts.Part], fade: bool) -> None:
    """One bar of parts, and its legend beside it."""
    left, seen = 0.0, dict.fromkeys(COLOURS, 0)
    for part in parts:
        kind = part.kind if part.kind in COLOURS else "other"
        axes.barh(
            0,
            part.percent,
            left=left,
            height=0.5,
            color=COLOURS[kind],
            alpha=max(1 - 0.14 * seen[kind], 0.35) if fade else 1.0,
            edgecolor="white",
            linewidth=0.8,
            label=f"{_plain(words.clip(part.name, _LONGEST_NAME))}  {words.percent(part.percent)}",
        )
        seen[kind] += 1
        left += part.percent
    axes.set_xlim(0, 100)
    axes.set_ylim(-0.5, 0.5)
    axes.grid(axis="x", color=_LINE)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))


def roofline_figure(summary: Summary, detail: Detail) -> Figure | None:
    """Achieved TFLOP/s over FLOPs per byte; area by device time."""
    points, arch = op_points(detail)[:MOST_POINTS], detail.architecture
    if not points or arch is None or not arch.has_peaks:
        return None
    figure, axes = _axes(summary, f"Roofline, {arch.name}", (8.0, 4.6), grid="both")
    tb_s = arch.dram_gb_s / 1000
    peaks = ceilings(arch, points)
    low = min(point.intensity for point in points) / 3
    high = max([point.intensity for point in points] + [p.tflops / tb_s for p in peaks]) * 3
    for peak in peaks:
        ridge = peak.tflops / tb_s
        axes.plot([low, ridge, high], [low * tb_s, peak.tflops, peak.tflops], color=_MUTED, lw=1.3)
        name = f"{peak.name} {words.number(peak.tflops)} TFLOP/s"
        axes.text(high, peak.tflops * 1.08, name, ha="right", fontsize=8, color=_MUTED)
    for bound in dict.fromkeys(point.bound for point in points):
        mine = [point for point in points if point.bound == bound]
        axes.scatter(
            [point.intensity for point in mine],
            [point.tflops for point in mine],
            s=[20 + 380 * point.time_us / points[0].time_us for point in mine],
            color=_BOUNDS.get(bound, COLOURS["tm"]),
            alpha=0.6,
            edgecolors="white",
            linewidths=0.8,
            label=bound or "no bound",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,.10g}")
    axes.set_xlabel("FLOPs per byte of DRAM traffic", color=_MUTED)
    axes.set_ylabel("TFLOP/s", color=_MUTED)
    legend = axes.legend(frameon=False, fontsize=8, loc="lower right")
    for handle in legend.legend_handles:
        if handle is not None and hasattr(handle, "set_sizes"):
            handle.set_sizes([40])
    return figure


def gap_figure(summary: Summary) -> Figure | None:
    """Histogram of the op-to-op gaps; those above 6.5 us in red."""
    table = charts.gap_table(summary.gaps)
    if not table.rows:
        return None
    names, counts, _ = table.columns
    figure, axes = _axes(summary, "Gaps between ops", (8.0, 1.2 + 0.3 * table.rows), grid="x")
    at = list(range(table.rows))
    shades = [COLOURS["host" if counts.colour(row) == "bad" else "compute"] for row in at]
    values = [int(text.replace(",", "")) for text in counts.texts]
    drawn = axes.barh(at, values, height=0.7, color=shades)
    axes.bar_label(drawn, counts.texts, padding=4, fontsize=8)
    axes.set_yticks(at, names.texts)
    axes.invert_yaxis()
    # Ops are whole.
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel(f"ops (red: gap above {GAP_THRESHOLD_US} us)", color=_MUTED)
    axes.margins(x=0.1)
    return figure


def _figure(size: tuple[float, float]) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.set(w_pad=0.12, h_pad=0.12)  # type: ignore[call-arg]
    return figure


def _axes(
    summary: Summary,
    what: str,
    size: tuple[float, float],
    grid: Literal["x", "y", "both"] = "y",
    pad: float = 10,
) -> tuple[Figure, Axes]:
    figure = _figure(size)
    axes = figure.add_subplot()
    _calm(axes)
    axes.set_title(
        f"{what}: {_plain(title(summary))}", loc="left", fontsize=11, color=_TEXT, pad=pad
    )
    axes.grid(axis=grid, color=_LINE)
    return figure, axes


def _calm(axes: Axes) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(_LINE)
    axes.tick_params(which="both", length=0, labelsize=9, labelcolor=_TEXT)
    axes.set_axisbelow(True)


def _plain(text: str) -> str:
    """Foreign text that matplotlib must not read as a formula, nor draw control characters of."""
    return words.visible(text).replace("$", r"\$")


def encode(figure: Figure, kind: Kind, dpi: int = 160) -> bytes:
    """A figure as a file's content; the same figure always gives the same bytes."""
    import matplotlib

    buffer = io.BytesIO()
    # Otherwise the date and random ids would differ from run to run.
    metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
    with matplotlib.rc_context({"svg.hashsalt": "instrument"}):
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
    return buffer.getvalue()
