"""Runs of one script over time: as a table for a terminal, and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

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


@dataclass(frozen=True)
class Point:
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
    most = max((p.value for p in points if p.value is not None), default=0.0) or 1.0
    bars = [words.bar(None if p.value is None else p.value / most * 100, _BAR) for p in points]
    device = [p.device_ms for p in points]
    columns = [
        Column("run", [str(p.number) for p in points]),
        Column("when", [words.visible(p.when) for p in points], right=False, optional=True),
        Column("commit", [words.visible(p.commit) for p in points], right=False),
        Column("label", [words.visible(p.name) for p in points], right=False, least=10, comfort=24),
        Column("how", [words.visible(p.how) for p in points], right=False, least=8, comfort=18),
        Column("steps", [str(p.samples) for p in points], optional=True),
        Column("median", words.column([p.value for p in points], "ms")),
    ]
    if any(value is not None for value in device):
        columns.append(Column("device time", words.column(device, "ms")))
    if any(p.other_cpus for p in points):
        busy = [words.ABSENT if p.other_cpus is None else f"{p.other_cpus:.1f}" for p in points]
        columns.append(Column("CPUs of others", busy, optional=True))
    columns.append(Column("", bars, right=False, colours="cyan", optional=True))
    return "\n".join(table(columns, width=width, paint=painter(color))) + "\n"


def figure(points: Sequence[Point], title: str) -> Drawing | None:
    """Medians with their intervals in order of the runs, a line per way of measuring; None
    without any median.
    """
    ends = [v for p in points for v in (p.value, p.low, p.high) if v is not None]
    if all(point.value is None for point in points):
        return None
    width = max(600.0, min(1600.0, 55.0 * len(points)))
    x = Scale(-0.5, len(points) - 0.5, width)
    y = Scale(0, max(ends) * 1.06 or 1.0, _HEIGHT, flipped=True)
    shapes: list[Shape] = [
        *grid(None, y, (width, _HEIGHT)),
        Label(-8, -10, "median of a step, ms", anchor="start"),
    ]
    hows = list(dict.fromkeys(p.how for p in points if p.value is not None))
    for how, colour in zip(hows, cycle(_COLOURS), strict=False):
        line = [(at, p, p.value) for at, p in enumerate(points) if p.how == how]
        drawn = [(x.at(at), p, value) for at, p, value in line if value is not None]
        shapes.append(Line(tuple((at, y.at(value)) for at, _, value in drawn), colour, 1.5))
        for at, p, value in drawn:
            reach = [value if end is None else end for end in (p.low, p.high)]
            shapes.append(Line(((at, y.at(reach[0])), (at, y.at(reach[1]))), colour, 2))
            shapes.append(Dot(at, y.at(value), 4, colour, f"{p.name}: {words.ms(value)}", 1.0))
    for at, p in enumerate(points):
        name = words.clip(" ".join(part for part in (p.commit, p.name) if part), 24)
        shapes.append(Label(x.at(at) + 4, _HEIGHT + 16, name, "text", "end", 11, turned=True))
    keys = tuple(Key(colour, how) for how, colour in zip(hows, cycle(_COLOURS), strict=False))
    box = (-120.0, -20.0, width + 140, _HEIGHT + 150)
    return Drawing(title, "", box, tuple(shapes), keys)
