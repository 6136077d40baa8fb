"""A figure as shapes in user units: drawn once, shown by pages as SVG and by plots as SVG and PNG.

y grows downwards. Colours go by name, so that a page can be light or dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from instrumentor_analysis.reports import formatting

Colour = Callable[[str], str]
#: Colours by their names in the style sheets: on a light page, and on a dark one.
COLOURS = {
    "card": ("#ffffff", "#1a1d23"),
    "text": ("#1d2025", "#e3e5e9"),
    "muted": ("#616770", "#9aa1ab"),
    "line": ("#e2e3e5", "#2d3139"),
    "good": ("#1f7a3d", "#77c68e"),
    "bad": ("#b3261e", "#f28b82"),
    "compute": ("#3f74b5", "#6a9fdc"),
    "tm": ("#cf8a30", "#dba55c"),
    "dm": ("#8b6bb3", "#aa8fd2"),
    "ccl": ("#2d9186", "#55b3a7"),
    "host": ("#bf4f4b", "#dc7c77"),
    "other": ("#8a9099", "#7d848e"),
    "rest": ("#c9ccd1", "#4a4f58"),
    "device": ("#3f74b5", "#6a9fdc"),
    "wait": ("#d9dbde", "#363b44"),
    "compile": ("#b4b8be", "#565c66"),
    "outlier": ("#bf4f4b", "#dc7c77"),
    # Of parts that belong to no category, each unlike its neighbours.
    "part1": ("#3f74b5", "#6a9fdc"),
    "part2": ("#b0661f", "#dba05c"),
    "part3": ("#3d7f4c", "#7dbd79"),
    "part4": ("#a8456a", "#dd80a3"),
    "part5": ("#6a55a0", "#a98fd4"),
    "part6": ("#7d6433", "#bd9c6b"),
    "part7": ("#247d88", "#60b9c4"),
    "part8": ("#8e4a85", "#d18cc6"),
}
#: How many colours of parts there are.
PARTS = 8
#: Format of the values at an axis.
FORM = "{:,.10g}".format
#: Units of the clock at an axis, and how many of each a millisecond has.
_PER_MS = {"us": 1e3, "ms": 1.0, "s": 1e-3, "min": 1 / 60e3}
#: Width of a figure, of the same on a page of a tablet, and of a phone, units: letters keep their
#: size, so that as many of them have room as on the page.
WIDTH, MIDDLE, NARROW = 1000.0, 700.0, 460.0
#: Width of most characters of a label, units.
CHARACTER = 7.0
_SIZE = 12


class Bar(Struct, frozen=True):
    """A rectangle; ``tip`` is what a pointer on it says."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    tip: str = ""
    opacity: float = 1.0


class Line(Struct, frozen=True):
    """A line through points."""

    points: tuple[tuple[float, float], ...]
    colour: str = "line"
    width: float = 1.0
    dashed: bool = False
    tip: str = ""


class Dot(Struct, frozen=True):
    """A filled circle."""

    x: float
    y: float
    radius: float
    colour: str
    tip: str = ""
    opacity: float = 0.6


class Label(Struct, frozen=True):
    """Text on a line; ``turned`` text rises to where it ends."""

    x: float
    y: float
    text: str
    colour: str = "muted"
    anchor: Literal["start", "middle", "end"] = "start"
    size: float = _SIZE
    turned: bool = False


Shape = Bar | Line | Dot | Label


class Key(Struct, frozen=True):
    """What a colour stands for; without a colour a remark."""

    colour: str
    text: str
    opacity: float = 1.0


class Drawing(Struct, frozen=True):
    """One figure.

    Attributes:
        title: for a file of its own; a page has a heading.
        says: what it shows, for those who do not see it.
        box: left, top, width and height of all that is drawn.
        note: a sentence below it.
        id: on a page, whose script lets a keyboard walk from dot to dot.
        fits: it has so few labels that a narrow page can show all of it, with larger letters.
        middle: the same for a page of a tablet, `MIDDLE` units wide.
        narrow: the same for a page as narrow as a phone, :data:`NARROW` units wide.
    """

    title: str
    says: str
    box: tuple[float, float, float, float]
    shapes: tuple[Shape, ...]
    keys: tuple[Key, ...] = ()
    note: str = ""
    id: str = ""
    fits: bool = False
    middle: Drawing | None = None
    narrow: Drawing | None = None


class Scale(Struct, frozen=True):
    """Values of an axis onto units from 0 to ``length``; ``flipped`` grows towards 0."""

    low: float
    high: float
    length: float
    log: bool = False
    flipped: bool = False

    def at(self, value: float) -> float:
        """Where a value stands; a positive one where ``log``."""
        low, high, here = self.low, self.high, value
        if self.log:
            low, high, here = math.log10(low), math.log10(high), math.log10(value)
        along = (here - low) / (high - low) * self.length
        return round(self.length - along if self.flipped else along, 2)

    def ticks(self, wanted: int = 5) -> list[float]:
        """Round values from end to end: decades where ``log``."""
        if self.log:
            ends = round(math.log10(self.low)), round(math.log10(self.high))
            return [10.0**exponent for exponent in range(ends[0], ends[1] + 1)]
        raw = (self.high - self.low) / wanted
        size = 10.0 ** math.floor(math.log10(raw))
        step = next(m * size for m in (1, 2, 2.5, 5, 10) if m * size >= raw)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        # 3 * 0.1 is 0.30000000000000004, and the value is printed.
        return [round(at * step, 12) for at in range(first, last + 1)]


def at_every_width(draw: Callable[[float], Drawing]) -> Drawing:
    """What is drawn at the usual width, with the same for narrower pages."""
    return replace(draw(WIDTH), middle=draw(MIDDLE), narrow=draw(NARROW))


def decades(values: Sequence[float], length: float, *, flipped: bool = False) -> Scale:
    """A logarithmic scale of whole decades around positive values, ``length`` units long."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    # One decade at least: a single value, or equal ones, would leave an axis without length.
    return Scale(10.0**low, 10.0 ** max(high, low + 1), length, log=True, flipped=flipped)


def grid(
    x: Scale | None,
    y: Scale | None,
    size: tuple[float, float],
    form: Callable[[float], str] = FORM,
) -> list[Shape]:
    """Lines and values at the ticks of either axis; an axis that is None has neither.

    Args:
        size: width and height of the plot, units.
        form: how a value is written.
    """
    found: list[Shape] = []
    if y is not None:
        for value in y.ticks(4):
            at = y.at(value)
            found += Line(((0, at), (size[0], at))), Label(-8, at + 4, form(value), anchor="end")
    if x is not None:
        for value in x.ticks(6):
            at, label = x.at(value), Label(x.at(value), size[1] + 18, form(value), anchor="middle")
            found += Line(((at, 0), (at, size[1]))), label
    return found


def in_unit(unit: str) -> Callable[[float], str]:
    """How milliseconds are written at an axis of that unit."""
    return lambda ms: FORM(round(ms * _PER_MS[unit], 9))


def svg(drawing: Drawing, colour: Colour = "var(--{})".format, *, attributes: str = "") -> str:
    """An SVG element; every text in it is escaped.

    Args:
        colour: from a name to CSS; by default the variables of the pages' style sheet.
        attributes: more of the element, as markup.
    """
    box = " ".join(f"{value:g}" for value in drawing.box)
    head = f'<svg viewBox="{box}" role="img" aria-label="{_text(drawing.says)}"{attributes}>'
    return "\n".join([head, *(_element(shape, colour) for shape in drawing.shapes), "</svg>"])


def _element(shape: Shape, colour: Colour) -> str:
    paint = colour(shape.colour) if not shape.colour.startswith("#") else shape.colour
    if isinstance(shape, Label):
        turn = f' transform="rotate(-40 {shape.x:g} {shape.y:g})"' if shape.turned else ""
        return (
            f'<text x="{shape.x:g}" y="{shape.y:g}" text-anchor="{shape.anchor}"{turn} '
            f'style="fill:{paint};font-size:{shape.size:g}px">{_text(shape.text)}</text>'
        )
    tip = f' data-tip="{_text(shape.tip)}"' if shape.tip else ""
    # Where no script runs, <title> is the tooltip; the page's script takes it out and shows
    # data-tip, which a keyboard reaches too.
    inside = f"<title>{_text(shape.tip)}</title>" if shape.tip else ""
    if isinstance(shape, Line):
        points = " ".join(f"{x:g},{y:g}" for x, y in shape.points)
        dashes = ";stroke-dasharray:4 3" if shape.dashed else ""
        style = f"fill:none;stroke:{paint};stroke-width:{shape.width:g}{dashes}"
        return f'<polyline points="{points}" style="{style}"{tip}>{inside}</polyline>'
    style = f"fill:{paint};fill-opacity:{shape.opacity:g}"
    if isinstance(shape, Dot):
        place = f'class="point" cx="{shape.x:g}" cy="{shape.y:g}" r="{shape.radius:g}"'
        return f'<circle {place} style="{style}"{tip}>{inside}</circle>'
    place = f'x="{shape.x:.6g}" y="{shape.y:.6g}" '
    place += f'width="{shape.width:.6g}" height="{shape.height:.6g}"'
    return f'<rect {place} style="{style}"{tip}>{inside}</rect>'


def _text(text: str) -> str:
    return escape(formatting.visible(text))


def framed(drawing: Drawing) -> Drawing:
    """The figure as it stands alone: with its title, keys and note, on a background."""
    left, top, width, height = drawing.box
    shapes: list[Shape] = [Label(left, top - 8, drawing.title, "text", size=15)]
    x, y = left, top + height + 18
    for key in (*drawing.keys, *([Key("", drawing.note)] if drawing.note else [])):
        taken = len(key.text) * CHARACTER + 34
        if x > left and x + taken > left + width:
            x, y = left, y + 20
        if key.colour:
            shapes.append(Bar(x, y - 9, 10, 10, key.colour, opacity=key.opacity))
        shapes.append(Label(x + (16 if key.colour else 0), y, key.text))
        x += taken
    end = y + 14 if drawing.keys or drawing.note else top + height + 8
    box = (left - 14, top - 34, width + 28, end - top + 34)
    return replace(drawing, box=box, shapes=(Bar(*box, "card"), *drawing.shapes, *shapes))
