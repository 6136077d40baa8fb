"""Is the new side slower by more than is allowed? Yes, no, or more runs are needed to tell.

Decided by runs, never by steps alone: of one run against one the noise is not known, and only what
exceeds :data:`.clock.intervals.ASSUMED` is told, and what their steps show as well: the gate is
never surer than the comparison above it. A regression is one whose lower bound lies above what is
allowed; there is none where the upper bound lies below that and :data:`RESOLUTION_PERCENT` more.
Anything between the two is undecided, and with so many runs as are then asked for, one of the two
must hold if the noise stays what it was.

The bounds are one-sided and stricter than 95 %: whoever adds the runs that were asked for looks
several times at what is partly the same data. ``tests/benchmarks/bench_gate.py`` counts how often
that is wrong.
"""

from __future__ import annotations

import bisect
import math
from typing import Literal

from msgspec import Struct

from instrumentor_analysis.clock.intervals import ASSUMED, student_quantile
from instrumentor_analysis.compare.runs import Between, Noise
from instrumentor_analysis.model import Interval

#: A slow-down by so much more than is allowed must not pass, percent.
RESOLUTION_PERCENT = 3.0
#: Chance that equal code fails at one look.
#: Half of the 1 % that is the goal over all looks: adding runs means looking again.
FALSE_ALARM = 0.005
#: Chance that a slow-down by the resolution passes at one look.
#: The goal over all looks is 5 %.
MISSED = 0.02
#: Runs on each side from which the noise is not a guess.
#: Student's t at FALSE_ALARM is 9.9 for two runs a side, and 4.6 for three.
FEWEST_RUNS = 3
#: More runs are not asked for.
MOST_RUNS = 1000

Outcome = Literal["regression", "none", "undecided"]


class Gate(Struct, frozen=True):
    """What the gate says.

    Attributes:
        percent: the slow-down that is allowed.
        low_percent, high_percent: bounds of the slow-down.
        runs: on each side, with which it is decided; None when it is, or when so many are needed
            that the noise must be lowered first.
        assumed: the noise is :data:`.clock.intervals.ASSUMED`, not measured.
    """

    outcome: Outcome
    percent: float
    low_percent: float
    high_percent: float
    runs: int | None = None
    assumed: bool = False

    @property
    def seen_percent(self) -> float:
        """The slow-down that does not pass."""
        return self.percent + RESOLUTION_PERCENT


def judge(
    found: Between | None,
    ratio: float,
    percent: float,
    *,
    noise: float = ASSUMED,
    steps: Interval | None = None,
) -> Gate:
    """Hold a comparison against the slow-down that is allowed, percent of the base's time.

    Args:
        found: None for one run against one, of which the rest is.
        ratio: of their medians, new over base.
        noise: from run to run, as it was assumed for the interval of the ratio.
        steps: that interval.
    """
    # The assumed noise is not estimated: so many degrees of freedom make its quantile the normal
    # one.
    known = found or Between(1.0, ratio, Noise(noise, 0.0, freedom=10**6), 1, 1)
    ends = known.bound(FALSE_ALARM), known.bound(1 - MISSED)
    if found is None and steps is not None:
        ends = min(ends[0], steps.low), max(ends[1], steps.high)
    low, high = ((end - 1) * 100 for end in ends)
    if low > percent:
        return Gate("regression", percent, low, high, assumed=found is None)
    if high < percent + RESOLUTION_PERCENT:
        return Gate("none", percent, low, high, assumed=found is None)
    if found is None:
        return Gate("undecided", percent, low, high, FEWEST_RUNS, assumed=True)
    return Gate("undecided", percent, low, high, runs_needed(found, percent))


def runs_needed(found: Between, percent: float) -> int | None:
    """Runs on each side with which both bounds cannot lie apart by the resolution; None above
    :data:`MOST_RUNS`.
    """
    wide = math.log1p((percent + RESOLUTION_PERCENT) / 100) - math.log1p(percent / 100)
    # Degrees of freedom from the history: they stay however many runs are added.
    beside = found.noise.freedom - (found.base_runs + found.new_runs - 2)

    def decides(runs: int) -> bool:
        freedom = 2 * runs - 2 + beside
        quantiles = sum(student_quantile(1 - tail, freedom) for tail in (FALSE_ALARM, MISSED))
        # In logarithms: the two one-sided bounds must lie closer together than the two limits, so
        # that wherever the ratio falls one of them decides.
        return quantiles * found.noise.deviation * math.sqrt(2 / runs) <= wide

    least = max(FEWEST_RUNS, min(found.base_runs, found.new_runs) + 1)
    # More runs always narrow both bounds.
    runs = bisect.bisect_left(range(MOST_RUNS + 1), True, lo=least, key=decides)
    return runs if runs <= MOST_RUNS else None
