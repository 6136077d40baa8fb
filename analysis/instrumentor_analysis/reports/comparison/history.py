"""Runs of one script over time: as a table for a terminal, and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from msgspec import Struct

from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.document import Column
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
from instrumentor_analysis.reports.terminal import painter, table

_BAR = 14
_HEIGHT = 300.0
_COLOURS = ("compute", "tm", "ccl", "dm", "host", "other")


class Point(Struct, frozen=True):
    """One run.

    Attributes:
        number: in the store.
        name: label, with the names under which it is pinned.
        commit: short, ``+`` behind it for uncommitted changes; empty without git.
        when: start, to the minute.
        how: profiler and scope; only runs alike in it are drawn in one line.
        other_cpus: CPUs that other processes kept busy meanwhile.
        value: median milliseconds of a step, ``low`` and ``high`` its interval.
    """

    number: int
    name: str
    commit: str
    when: str
    how: str
    value: float | None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    device_ms: float | None = None
    other_cpus: float | None = None


def render(points: Sequence[Point], *, width: int = 100, color: bool = False) -> str:
    """A table with a bar per run, oldest first."""
    values, device = [p.value for p in points], [p.device_ms for p in points]
    names = ("number", "when", "commit", "name", "how", "samples")
    texts = {n: [words.visible(str(getattr(p, n))) for p in points] for n in names}
    most = max((value or 0.0 for value in values), default=0.0) or 1.0
    bars = [words.bar((value or 0.0) / most * 100, _BAR) for value in values]
    columns = [
        Column("run", texts["number"]),
        Column("when", texts["when"], right=False, optional=True),
        Column("commit", texts["commit"], right=False),
        Column("label", texts["name"], right=False, least=10, comfort=24),
        Column("how", texts["how"], right=False, least=8, comfort=18),
        Column("steps", texts["samples"], optional=True),
        Column("median", words.column(values, "ms")),
    ]
    if device != [None] * len(device):
        columns.append(Column("device time", words.column(device, "ms")))
    if any(p.other_cpus for p in points):
        columns.append(Column("CPUs of others", [_busy(p) for p in points], optional=True))
    columns.append(Column("", bars, right=False, colours="cyan", optional=True))
    return "\n".join(table(columns, width=width, paint=painter(color))) + "\n"


def _busy(point: Point) -> str:
    return words.ABSENT if point.other_cpus is None else f"{point.other_cpus:.1f}"


def figure(points: Sequence[Point], title: str) -> Drawing | None:
    """Medians with their intervals in order of the runs, a line per way of measuring; None
    without any median.
    """
    drawn = [(at, p) for at, p in enumerate(points) if p.value is not None]
    if not drawn:
        return None
    width = max(600.0, min(1600.0, 55.0 * len(points)))
    x = Scale(-0.5, len(points) - 0.5, width)
    y = Scale(0, max(max(_reach(p)) for _, p in drawn) * 1.06 or 1.0, _HEIGHT, flipped=True)
    shapes: list[Shape] = [
        *grid(None, y, (width, _HEIGHT)),
        Label(-8, -10, "median of a step, ms"),
    ]
    colours = dict(zip(dict.fromkeys(p.how for _, p in drawn), cycle(_COLOURS), strict=False))
    for how, colour in colours.items():
        shapes += _way([(x.at(at), p) for at, p in drawn if p.how == how], y, colour)
    for at, p in enumerate(points):
        name = words.clip(f"{p.commit} {p.name}".strip(), 24)
        shapes.append(Label(x.at(at) + 4, _HEIGHT + 16, name, "text", "end", 11, turned=True))
    keys = tuple(Key(colour, how) for how, colour in colours.items())
    return Drawing(title, "", (-120, -20, width + 140, _HEIGHT + 150), tuple(shapes), keys)


def _way(points: Sequence[tuple[float, Point]], y: Scale, colour: str) -> list[Shape]:
    """Runs that were measured alike: a line, and each with its interval."""
    shapes: list[Shape] = [Line(tuple((at, y.at(p.value or 0.0)) for at, p in points), colour, 1.5)]
    for at, p in points:
        low, high = _reach(p)
        shapes.append(Line(((at, y.at(low)), (at, y.at(high))), colour, 2))
        text = f"{p.name}: {words.ms(p.value)}"
        shapes.append(Dot(at, y.at(p.value or 0.0), 4, colour, text, 1.0))
    return shapes


def _reach(point: Point) -> tuple[float, float]:
    """The ends of the interval; the median where there is none."""
    value = point.value or 0.0
    return (
        value if point.low is None else point.low,
        value if point.high is None else point.high,
    )
