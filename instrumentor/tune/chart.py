"""The figure of a tuning: throughput of each trial with its interval."""

from __future__ import annotations

from collections.abc import Sequence

from instrumentor.tune.judge import BASELINE, CHANGES_LOSS, KEPT, NO_GAIN, NOT_PROVEN
from instrumentor.tune.search import Row
from instrumentor_analysis.clock.intervals import median_interval
from instrumentor_analysis.reports.drawing import (
    CHARACTER,
    Bar,
    Drawing,
    Key,
    Label,
    Line,
    Scale,
    Shape,
    grid,
)

#: Width of the plot, distance of two rows and height of a bar, units.
_WIDTH, _PITCH, _BAR = 600.0, 30.0, 20.0
_COLOURS = {
    BASELINE: "other",
    KEPT: "good",
    NO_GAIN: "rest",
    NOT_PROVEN: "rest",
    CHANGES_LOSS: "tm",
}


def throughput(rows: Sequence[Row]) -> Drawing:
    """A bar a trial: samples a second, or steps where a batch size is unknown; with intervals."""
    measured = [row for row in rows if row.outcome.measured]
    # Samples and steps a second cannot share an axis.
    by_rate = all(row.outcome.batch_size for row in measured)
    rates = {row.trial.key: _rates(row, by_rate) for row in measured}
    x = Scale(0, max((high for _, _, high in rates.values()), default=1.0) * 1.05, _WIDTH)
    height = _PITCH * len(rows)
    shapes = [*grid(x, None, (_WIDTH, height))]
    for at, row in enumerate(rows):
        shapes += _bar(row, rates.get(row.trial.key), x, at * _PITCH)
    unit = "samples a second" if by_rate else "steps a second"
    names = max((len(row.name) for row in rows), default=0) * CHARACTER + 12
    return Drawing(
        f"Trials: {unit}",
        f"{unit.capitalize()} of each trial, with the interval of its median",
        (-names, 0, _WIDTH + names + 10, height + 26),
        tuple(shapes),
        (
            *(Key(colour, verdict) for verdict, colour in _COLOURS.items()),
            Key("", "whiskers: interval of the median"),
        ),
    )


def _rates(row: Row, by_rate: bool) -> tuple[float, float, float]:
    """At the median, and at the ends of its interval."""
    work = 1000.0 * ((row.outcome.batch_size or 1) if by_rate else 1)
    ms = row.outcome.median_ms or 1.0
    around = median_interval(row.outcome.samples_ms)
    low, high = (around.low, around.high) if around is not None else (ms, ms)
    return work / ms, work / high, work / low if low > 0 else work / ms


def _bar(row: Row, rates: tuple[float, float, float] | None, x: Scale, top: float) -> list[Shape]:
    middle = top + _PITCH / 2
    name = Label(-8, middle + 4, row.name, "text", anchor="end")
    if rates is None:
        return [name, Label(4, middle + 4, row.outcome.status, "bad")]
    value, low, high = (x.at(each) for each in rates)
    colour = _COLOURS.get(row.judgement.verdict, "bad")
    return [
        name,
        Bar(0, middle - _BAR / 2, value, _BAR, colour, row.judgement.text),
        Line(((low, middle), (high, middle)), "text"),
        *(Line(((end, middle - 4), (end, middle + 4)), "text") for end in (low, high)),
    ]
