"""The figures of a run as files: the drawings of its page in light colours, as SVG, PNG, PDF."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Literal

from instrumentor_analysis.model import Summary
from instrumentor_analysis.reports import charts, formatting
from instrumentor_analysis.reports.detail import Detail
from instrumentor_analysis.reports.drawing import (
    COLOURS,
    Bar,
    Dot,
    Drawing,
    Line,
    Shape,
    framed,
    svg,
)
from instrumentor_analysis.reports.roofline_chart import roofline

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

Kind = Literal["png", "svg", "pdf"]
#: Formats in which the figures of a run are written.
KINDS: tuple[Kind, ...] = ("png", "svg")
#: Units of a drawing in an inch of a picture.
_UNITS = 100


def figures(summary: Summary, detail: Detail | None = None) -> dict[str, Drawing]:
    """Every figure that there is something to draw for, by the name of its file."""
    drawn = {
        "step_times": charts.steps(summary),
        "iteration": charts.iteration(summary),
        "breakdown": charts.breakdown(summary),
        "roofline": roofline(detail or Detail()),
        "gaps": charts.gaps(summary),
    }
    return {name: drawing for name, drawing in drawn.items() if drawing is not None}


def encode(drawing: Drawing, kind: Kind, dpi: int = 150) -> bytes:
    """A drawing with its title and keys as a file's content; the same bytes each time.

    Args:
        dpi: pixels in an inch of a PNG, in which 100 units of the drawing take an inch.
    """
    whole = framed(drawing)
    if kind == "svg":
        head = ' xmlns="http://www.w3.org/2000/svg" font-family="system-ui, sans-serif"'
        return (svg(whole, _light, attributes=head) + "\n").encode("utf-8", errors="replace")
    return _picture(whole, kind, dpi)


def _light(colour: str) -> str:
    return colour if colour.startswith("#") else COLOURS[colour][0]


def _picture(drawing: Drawing, kind: Kind, dpi: int) -> bytes:
    """Drawn by matplotlib, of which nothing global is touched."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    left, top, width, height = drawing.box
    figure = Figure(figsize=(width / _UNITS, height / _UNITS))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(left, left + width), ylim=(top + height, top))
    axes.axis("off")
    for place, shape in enumerate(drawing.shapes):
        _add(axes, shape).set_zorder(place)  # by itself it draws lines over bars
    buffer = io.BytesIO()
    # Otherwise the version would differ from machine to machine, and the date from run to run.
    metadata = {"Software": None} if kind == "png" else {"CreationDate": None}
    figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
    return buffer.getvalue()


def _add(axes: Axes, shape: Shape) -> Artist:
    from matplotlib import patches
    from matplotlib.lines import Line2D

    # matplotlib measures in points, 1/72 inch.
    colour, points = _light(shape.colour), 72 / _UNITS
    if isinstance(shape, Bar):
        place = (shape.x, shape.y), shape.width, shape.height
        bar = patches.Rectangle(*place, color=colour, alpha=shape.opacity, lw=0)
        return axes.add_patch(bar)
    if isinstance(shape, Dot):
        place_of = (shape.x, shape.y), shape.radius
        dot = patches.Circle(*place_of, color=colour, alpha=shape.opacity, lw=0)
        return axes.add_patch(dot)
    if isinstance(shape, Line):
        xs, ys = zip(*shape.points, strict=True)
        style: Any = (0, (4, 3)) if shape.dashed else "solid"
        line = Line2D(xs, ys, color=colour, linewidth=shape.width * points, linestyle=style)
        return axes.add_line(line)
    return axes.text(
        shape.x,
        shape.y,
        formatting.visible(shape.text),
        color=colour,
        fontsize=shape.size * points,
        ha={"start": "left", "middle": "center", "end": "right"}[shape.anchor],
        va="baseline",
        rotation=40 if shape.turned else 0,
        rotation_mode="anchor",
        # Otherwise two $ in a name would be taken for a formula.
        parse_math=False,
    )
