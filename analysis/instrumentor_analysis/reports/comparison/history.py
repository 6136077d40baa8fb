"""Runs of one script over time: as a table for a terminal, and as a figure."""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Sequence
from itertools import cycle
from pathlib import PurePath

from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.document import Column
from instrumentor_analysis.reports.drawing import Dot, Drawing, Key, Label, Line, Scale, Shape, grid
from instrumentor_analysis.reports.terminal import painter, table
from instrumentor_analysis.summary.history_entry import Entry

#: Columns of a terminal.
_BAR = 14
_HEIGHT = 300.0
_COLOURS = ("compute", "tm", "ccl", "dm", "host", "other")


def console(runs: Sequence[Entry], *, width: int = 100, color: bool = False) -> str:
    """A table with a bar per run, oldest first; of several scripts, with their names."""
    several = len({run.key for run in runs}) > 1

    def texts(name: str) -> list[str]:
        return [formatting.visible(str(getattr(run, name))) for run in runs]

    values, device = [run.headline.ms for run in runs], [run.device_time_ms for run in runs]
    most = max((value or 0.0 for value in values), default=0.0) or 1.0
    bars = [formatting.bar((value or 0.0) / most * 100, _BAR) for value in values]
    # What a narrow terminal has no room for is left out from the end.
    columns = [
        Column("no.", texts("id")),
        *([Column("script", _scripts(runs), right=False, least=12, comfort=24)] if several else []),
        Column("name", texts("name"), right=False, least=10, comfort=24),
        Column("figure", [run.headline.figure for run in runs], right=False, least=9, comfort=24),
        Column("median", [_ms(value) for value in values]),
    ]
    if any(run.busy for run in runs):  # whose report says not to trust it
        marks = ["busy" if run.busy else "" for run in runs]
        columns.append(Column("machine", marks, right=False))
    if device != [None] * len(device):
        columns.append(Column("device time", [_ms(value) for value in device]))
    columns += [] if several else _apart(runs)
    columns += [
        Column("commit", texts("revision"), right=False, optional=True),
        Column("when", texts("when"), right=False, optional=True),
        Column("profiler", texts("profiler"), right=False, optional=True),
        Column("scope", [run.scope or "" for run in runs], right=False, optional=True),
        Column("steps", texts("samples"), optional=True),
    ]
    if any(run.other_cpus for run in runs):
        busy = [formatting.ABSENT if r.other_cpus is None else f"{r.other_cpus:.1f}" for r in runs]
        columns.append(Column("other load", busy, optional=True))
    columns.append(Column("", bars, right=False, colours="cyan", optional=True))
    return "\n".join(table(columns, width=width, paint=painter(color))) + "\n"


def _apart(runs: Sequence[Entry]) -> list[Column]:
    """The arguments of runs of one script where they differ, else their batch sizes."""
    every = [run.arguments for run in runs]
    if len(set(every)) > 1:
        # What all begin with tells none apart, but for the option of a value that differs.
        same = len(os.path.commonprefix(every))
        same -= any(each[same - 1].startswith("-") for each in every if 0 < same <= len(each))
        texts = [formatting.visible(shlex.join(each[same:])) for each in every]
        return [Column("arguments", texts, right=False, least=9, comfort=24, optional=True)]
    sizes = ["" if run.batch_size is None else str(run.batch_size) for run in runs]
    return [Column("batch", sizes, optional=True)] if len(set(sizes)) > 1 else []


def _scripts(runs: Sequence[Entry]) -> list[str]:
    """Each run's script, with its project's folder where several projects have one of that name."""
    places = {script: {p for p, each in {run.key for run in runs} if each == script}
              for script in {run.script for run in runs}}  # fmt: skip
    told = (
        f"{PurePath(run.project).name}/{run.script}" if len(places[run.script]) > 1 else run.script
        for run in runs
    )
    return [formatting.visible(each) for each in told]


def _ms(value: float | None) -> str:
    """Scripts differ by far more than the digits of one unit show."""
    return formatting.quantity(value, "ms", formatting.ABSENT)


def figure(runs: Sequence[Entry], title: str) -> Drawing | None:
    """Medians with their intervals in order of the runs, a line per way of measuring; None
    without any median.

    Runs on a busy machine are grey dots beside the lines, at the top where they lie above it: the
    axis is that of the others, which they would press flat.
    """
    drawn = [(at, p) for at, p in enumerate(runs) if p.headline.ms is not None]
    if not drawn:
        return None
    width = max(600.0, min(1600.0, 55.0 * len(runs)))
    x = Scale(-0.5, len(runs) - 0.5, width)
    calm = [p for _, p in drawn if not p.busy] or [p for _, p in drawn]
    y = Scale(0, max(max(_reach(p)) for p in calm) * 1.06 or 1.0, _HEIGHT, flipped=True)
    shapes: list[Shape] = [
        *grid(None, y, (width, _HEIGHT)),
        Label(-8, -10, "median, ms"),
    ]
    colours = dict(zip(dict.fromkeys(p.way for _, p in drawn), cycle(_COLOURS), strict=False))
    for way, colour in colours.items():
        shapes += _way([(x.at(at), p) for at, p in drawn if p.way == way], y, colour)
    for at, p in enumerate(runs):
        name = formatting.clip(f"{p.id}: {p.revision} {p.name}".replace(":  ", ": "), 24)
        shapes.append(Label(x.at(at) + 4, _HEIGHT + 16, name, "text", "end", 11, turned=True))
    keys = tuple(Key(colour, way) for way, colour in colours.items())
    if any(p.busy for _, p in drawn):
        keys += (Key("muted", "machine busy"),)
    return Drawing(title, "", (-120, -20, width + 140, _HEIGHT + 150), tuple(shapes), keys)


def _way(points: Sequence[tuple[float, Entry]], y: Scale, colour: str) -> list[Shape]:
    """Runs that were measured alike: a line, and each with its interval."""
    line = tuple((at, y.at(p.headline.ms or 0.0)) for at, p in points if not p.busy)
    shapes: list[Shape] = [Line(line, colour, 1.5)] if line else []
    for at, p in points:
        if p.busy:
            text = f"{p.name}: {formatting.ms(p.headline.ms)}, machine busy"
            shapes.append(Dot(at, max(0.0, y.at(p.headline.ms or 0.0)), 4, "muted", text))
            continue
        low, high = _reach(p)
        shapes.append(Line(((at, y.at(low)), (at, y.at(high))), colour, 2))
        text = f"{p.name}: {formatting.ms(p.headline.ms)}"
        shapes.append(Dot(at, y.at(p.headline.ms or 0.0), 4, colour, text, 1.0))
    return shapes


def _reach(run: Entry) -> tuple[float, float]:
    """The ends of the interval; the median where there is none."""
    told = run.headline
    value = told.ms or 0.0
    return (
        value if told.low_ms is None else told.low_ms,
        value if told.high_ms is None else told.high_ms,
    )
