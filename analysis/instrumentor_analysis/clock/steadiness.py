"""Whether the steps of a run are alike, and if not, what may be the cause and what to type.

The only judge of it: a report, its summary.json and a comparison all say what is said here.
"""

from __future__ import annotations

from collections.abc import Iterator

from instrumentor_analysis.clock.drift import LONG_WARMUP, drift
from instrumentor_analysis.model import WallClock
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.units import alike, quantity

#: Outliers that are named.
_MOST_OUTLIERS = 3
#: Width of the median's interval from which more steps are asked for, percent of the median.
SCATTER_PERCENT = 50.0
#: How many times as many steps to ask for as did not do.
_MORE = 2
#: The cause on a busy machine: no more steps are asked for, and no recompilation is looked for.
_DISTURBED = "while other programs used the CPUs"


def unsteady(
    wall: WallClock, *, chosen: bool, why: str, disturbed: bool, where: str = ""
) -> Iterator[Caveat]:
    """What the times of one label tell against their median.

    Args:
        chosen: the number of steps was the user's.
        why: what ended the samples, as in :class:`.timings.Timings`.
        disturbed: others kept the machine busy. That steps scatter then needs no telling.
        where: " without Tracy" of the run without it, before the one with it.
    """
    longer = f"--steps {_MORE * (wall.samples + len(wall.warmup_ms) + 1)}"
    # More time helps only where time ended it, not its own limits.
    longer = longer if chosen or why not in ("", "budget") else "--time-budget 120"
    if wall.drifts and wall.trend_percent is not None:
        size = f"{abs(wall.trend_percent):.0f} % {'faster' if wall.trend_percent < 0 else 'slower'}"
        got = f"steps{where} got {size} during the run"
        told = (
            f"Not steady: {got}, {_DISTURBED}." if disturbed else _drift(wall, got, longer, chosen)
        )
        yield Caveat("not-steady", told)
    elif wall.outliers:
        yield Caveat("outlier", _outliers(wall, wall.label + where, disturbed))
    elif not disturbed:
        yield from _scatter(wall, wall.label + where, longer)


def _drift(wall: WallClock, got: str, longer: str, chosen: bool) -> str:
    """Which way the steps went, and what would show whether that ends."""
    if (wall.trend_percent or 0.0) > 0:
        return f"Not steady: {got}. Give {longer} to see whether that ends."
    later = drift(wall.samples_ms[len(wall.samples_ms) // 2 :])
    if later is not None and later.sure and later.percent < 0:
        return (
            f"Not steady: {got}, in its second half too: others on the machine or its clock "
            f"changed, or the warm-up takes longer than the run. Give {longer} to see whether "
            "that ends."
        )
    warmup = max(LONG_WARMUP, _MORE * (len(wall.warmup_ms) + 1))
    steps = f" --steps {warmup + wall.samples}" if chosen else ""
    return f"Still warming up: {got}. Give --warmup {warmup}{steps}."


def _outliers(wall: WallClock, what: str, disturbed: bool) -> str:
    """The steps that are far above the others, the slowest of them by name."""
    slowest = sorted(wall.outliers, key=lambda each: -each.ms)
    told = (
        f"{s.name} {quantity(s.ms, 'ms')}, {s.times_median:.1f}x" for s in slowest[:_MOST_OUTLIERS]
    )
    count = len(slowest)
    more = f" and {count - _MOST_OUTLIERS} more" if count > _MOST_OUTLIERS else ""
    are = "1 step is an outlier" if count == 1 else f"{count} steps are outliers"
    cause = f", {_DISTURBED}" if disturbed else " (warm-up, another process, or a recompilation)"
    return f"{are} of {what}: {', '.join(told)} the median{more}{cause}."


def _scatter(wall: WallClock, what: str, longer: str) -> Iterator[Caveat]:
    """That steps without a pattern differ too much for their number."""
    interval, middle = wall.median_interval_ms, wall.median_ms
    if interval is None or not middle:
        return
    if interval.high - interval.low > SCATTER_PERCENT / 100 * middle:
        (low, high), unit = alike([interval.low, interval.high], "ms")
        text = (
            f"The median of {what} is uncertain ({low} to {high} {unit}), because the "
            f"{wall.samples} steps differ too much. Give {longer}."
        )
        yield Caveat("scatter", text)
