"""Two sets of samples to the ratio of their medians, and how sure it is.

The interval is that of the difference of two medians of logarithms: from each median's own standard
errors, below and above (:func:`instrumentor_analysis.clock.intervals.reach`, which counts
correlated steps for what they are worth), combined by the method of variance estimates recovery
(Zou and Donner, Statistics in Medicine 27, 2008) with the quantile of Student's t at the degrees of
freedom of Welch and Satterthwaite. A run that drifts has both ends of its line within its reach.

Few correlated steps leave one degree of freedom, whose t is above 12 and would hide any change. But
runs differ by what their steps' errors make of them at least (the model of
:mod:`instrumentor_analysis.compare.runs`): where they are taken to differ by sigma, an error of
s reaches no further than the normal quantile of the larger of s and sigma. The gate assumes the
same sigma, so that the two agree on every change that is large enough.

The interval is about the steps of these two runs. What another run of the same code would say, no
sample of these two can tell.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from instrumentor_analysis.clock.drift import drift
from instrumentor_analysis.clock.intervals import (
    ASSUMED,
    FEWEST,
    SURE,
    Reach,
    reach,
    student_quantile,
)
from instrumentor_analysis.clock.order_statistics import (
    CONFIDENCE,
    FEWEST_OF_MEDIAN,
    effective_samples,
)
from instrumentor_analysis.compare.runs import TOLD
from instrumentor_analysis.model import Interval


class Ratio(Struct, frozen=True):
    """Median of the new samples over that of the base; above 1 the new ones are larger.

    Attributes:
        value: the ratio.
        interval: of the ratio; None below :data:`FEWEST` samples on a side.
        enough: there are so many samples that chance alone separates two sets of them
            completely in at most 5 of 100 cases.
        real: ``enough``, and the interval excludes 1.
        needed: samples on each side with which a difference of this size is seen in 8 of 10
            cases; None when there is no difference.
        smallest_percent: the smallest slow-down that this many samples would show in 8 of 10
            cases, percent; None below two samples on a side.
        told: each side has an interval of its own in a report, of six independent steps or more:
            that of the ratio is then a measured one, too. Of fewer the limit of what runs are
            taken to differ by decides, which is an assumption: enough for a verdict, but no ends
            to be shown.
    """

    value: float
    interval: Interval | None
    enough: bool
    real: bool
    needed: int | None
    smallest_percent: float | None
    told: bool

    @property
    def shown(self) -> Interval | None:
        """The interval, where it may be shown."""
        return self.interval if self.told else None


class _Side(Struct, frozen=True):
    """A median of logarithms, and how far its ends are away: by chance, and by drift."""

    at: Reach
    drift_below: float = 0.0
    drift_above: float = 0.0


def ratio_of_medians(
    base: Sequence[float], new: Sequence[float], noise: float = ASSUMED
) -> Ratio | None:
    """Compare two sets of positive samples; None where a set is empty or a sample is not above 0.

    Swapping the sets gives the reciprocal ratio and interval.

    Args:
        noise: standard deviation of the logarithms by which the medians of runs of one code are
            taken to differ.
    """
    if not base or not new or min(*base, *new) <= 0:
        return None
    value = statistics.median(new) / statistics.median(base)
    old, now = _side(base), _side(new)
    quantile = student_quantile((1 + CONFIDENCE) / 2, _freedom(old.at, now.at))
    interval = None
    if _at_least(base, new, FEWEST):
        interval = _interval(old, now, value, lambda error: _reached(quantile, error, noise))
    enough = chance_of_separation(len(base), len(new)) <= 1 - CONFIDENCE
    excluded = interval is not None and not interval.low <= 1 <= interval.high
    spread = math.sqrt(old.at.variance + now.at.variance)
    # sqrt(2): both runs vary by the noise. TOLD - SURE, 0.84 standard errors, gives the power of
    # 80 %.
    reached = _reached(quantile, spread, math.sqrt(2) * noise) + (TOLD - SURE) * spread
    # Above 10 the smallest visible slow-down is 22,000 times: these samples show nothing.
    smallest = math.expm1(reached) * 100 if reached < 10 and _at_least(base, new, 2) else None
    needed = _needed(len(base) * old.at.variance + len(new) * now.at.variance, value)
    return Ratio(
        value,
        interval,
        enough,
        enough and excluded,
        needed if _at_least(base, new, 2) else None,
        smallest,
        min(map(effective_samples, (base, new))) >= FEWEST_OF_MEDIAN,
    )


def _side(values: Sequence[float]) -> _Side:
    found, line = _Side(reach(values)), drift(values)
    if line is None or not line.sure:
        return found
    ends = math.log(line.first_ms) - found.at.median, math.log(line.last_ms) - found.at.median
    return replace(found, drift_below=max(0.0, -min(ends)), drift_above=max(0.0, max(ends)))


def _reached(quantile: float, error: float, noise: float) -> float:
    """How far a standard error reaches; see the module for its limit."""
    return min(quantile * error, SURE * max(error, noise))


def _interval(old: _Side, now: _Side, value: float, reached: Callable[[float], float]) -> Interval:
    # The ratio is at its lowest where the new side is low and the base is high, hence the crossed
    # ends.
    below = math.hypot(
        max(reached(now.at.below), now.drift_below), max(reached(old.at.above), old.drift_above)
    )
    above = math.hypot(
        max(reached(now.at.above), now.drift_above), max(reached(old.at.below), old.drift_below)
    )
    # Few samples that differ by magnitudes have an interval beyond what a number holds.
    return Interval(
        value * math.exp(-min(below, 300.0)), value * math.exp(min(above, 300.0)), CONFIDENCE
    )


def _freedom(old: Reach, now: Reach) -> float:
    total = old.variance + now.variance
    if total == 0:
        return min(old.freedom, now.freedom)
    # Welch and Satterthwaite: n - 1 degrees on each side, weighted by how much that side varies.
    parts = old.variance**2 / old.freedom + now.variance**2 / now.freedom
    return total**2 / parts if parts > 0 else min(old.freedom, now.freedom)


def _at_least(base: Sequence[float], new: Sequence[float], count: int) -> bool:
    return min(len(base), len(new)) >= count


def chance_of_separation(base: int, new: int) -> float:
    """Chance that two sets from one distribution do not overlap: 2 of all their orders.

    The smallest two-sided level of the exact rank test of Mann and Whitney (1947).
    """
    return min(1.0, 2 / math.comb(base + new, new))


def _needed(variance: float, ratio: float) -> int | None:
    """Samples on each side: the variance of a median shrinks as 1 / n.

    ``variance`` is that of one sample of each side together, correlation included. None when the
    ratio is 1; never below what can be sure at all.
    """
    if ratio == 1:
        return None
    needed = TOLD**2 * variance / math.log(ratio) ** 2
    return max(_surest(), math.ceil(needed)) if needed < 1e9 else None


def _surest() -> int:
    """The fewest samples on each side that can be sure of anything."""
    # 4 at 95 %, since 2 / C(8, 4) = 0.029 and 2 / C(6, 3) = 0.1.
    return next(n for n in range(1, 99) if chance_of_separation(n, n) <= 1 - CONFIDENCE)
