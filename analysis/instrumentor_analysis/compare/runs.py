"""Runs of the same code differ by more than their steps do: the noise from run to run.

The median of run j of side i is taken to be log m_ij = mu_i + b_ij + e_ij: the side, the run, and
the error of a median of that run's own steps (a one-way random-effects model; Kalibera and Jones,
Rigorous Benchmarking in Reasonable Time, ISMM 2013). Its variance is pooled over all groups of runs
of equal code, the two sides and those of the history; what the steps alone explain is the least
that it can be. The ratio of the sides is that of the geometric means of their runs' medians, with
the quantile of Student's t at the degrees of freedom of the pooled variance.

One run against one has none: its ratio cannot know what the next run would say.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from msgspec import Struct

from instrumentor_analysis.clock.intervals import SURE, Reach, student_quantile
from instrumentor_analysis.clock.order_statistics import CONFIDENCE
from instrumentor_analysis.clock.timings import (
    MAD_TO_SIGMA,
    OUTLIER_DEVIATIONS,
    OUTLIER_TIMES_MEDIAN,
)
from instrumentor_analysis.model import Interval

#: Chance with which a real difference of the given size is to be seen.
#: The customary 80 % (Cohen, Statistical Power Analysis for the Behavioral Sciences, 1988).
POWER = 0.8
#: Normal quantile of a change that is told with that chance.
TOLD = SURE + statistics.NormalDist().inv_cdf(POWER)
#: Runs on a side that are asked for at most: beyond, the machine is too noisy for the question.
MOST_RUNS = 20
#: Runs of a group from which one may be a stray.
FEWEST_WITH_STRAY = 4
#: The noise of one run against one on a machine that was busy with something else
#: (elsewhere: :data:`.clock.intervals.ASSUMED`).
ASSUMED_BUSY = 0.7


class Noise(Struct, frozen=True):
    """How much runs of the same code differ.

    Attributes:
        deviation: standard deviation of the logarithms of their medians.
        within: the part of it that the steps of a run explain.
        freedom: degrees of freedom.
        history: number of runs of the history in it.
    """

    deviation: float
    within: float
    freedom: int
    history: int = 0

    @property
    def percent(self) -> float:
        """The deviation in percent of a median."""
        return math.expm1(self.deviation) * 100


class Between(Struct, frozen=True):
    """Two sides of one run or more each.

    Attributes:
        base_ms, new_ms: geometric means of their runs' medians.
        noise: from run to run.
        base_runs, new_runs: how many.
    """

    base_ms: float
    new_ms: float
    noise: Noise
    base_runs: int
    new_runs: int

    @property
    def ratio(self) -> float:
        """New over base."""
        return self.new_ms / self.base_ms

    @property
    def error(self) -> float:
        """Standard error of the logarithm of the ratio."""
        return self.noise.deviation * math.sqrt(1 / self.base_runs + 1 / self.new_runs)

    def bound(self, probability: float) -> float:
        """One-sided bound of the ratio: it lies below with that probability (0 to 1)."""
        quantile = student_quantile(max(probability, 1 - probability), self.noise.freedom)
        # A quantile of one degree of freedom is large enough to overflow.
        reached = min(quantile * self.error, 300.0)
        return self.ratio * math.exp(reached if probability >= 0.5 else -reached)

    @property
    def interval(self) -> Interval:
        """95 % interval of the ratio, by Student's t."""
        tail = (1 - CONFIDENCE) / 2
        return Interval(self.bound(tail), self.bound(1 - tail), CONFIDENCE)

    @property
    def real(self) -> bool:
        """The interval excludes 1."""
        return not self.interval.low <= 1 <= self.interval.high

    @property
    def needed(self) -> int | None:
        """Runs on each side to see a change of this size in 8 of 10 cases; None without one.

        More than there are, where these do not show it: few runs know little of their noise.
        """
        if self.ratio == 1:
            return None
        change = abs(math.log(self.ratio))
        # From TOLD * deviation * sqrt(2 / n) = |log ratio|: with the noise known no fewer would do.
        needed = 2 * (TOLD * self.noise.deviation / change) ** 2
        if needed >= 1e6:
            return None
        count = max(2, math.ceil(needed))
        while (self._told(count)) * self.noise.deviation * math.sqrt(2 / count) > change:
            count += 1
        return count if self.real else max(count, min(self.base_runs, self.new_runs) + 1)

    @staticmethod
    def _told(count: int) -> float:
        """What :data:`TOLD` is where the noise is known from so many runs on each side alone."""
        return student_quantile((1 + CONFIDENCE) / 2, 2 * (count - 1)) + TOLD - SURE

    @property
    def smallest_percent(self) -> float:
        """The smallest slow-down that so many runs would show in 8 of 10 cases."""
        return math.expm1(min(TOLD * self.error, 300.0)) * 100


def between(
    base: Sequence[Reach], new: Sequence[Reach], medians: Sequence[Sequence[float]] = ()
) -> Between | None:
    """Compare two sides of one run each or more; None where the noise cannot be known.

    Args:
        base, new: the median of each run with its error.
        medians: of earlier runs, milliseconds, in groups of equal code.
    """
    noise = noise_of([base, new], medians)
    if noise is None:
        return None
    return Between(_middle_ms(base), _middle_ms(new), noise, len(base), len(new))


def noise_of(
    groups: Sequence[Sequence[Reach]] = (), medians: Sequence[Sequence[float]] = ()
) -> Noise | None:
    """How much runs of equal code differ; None where no group has two runs.

    Args:
        groups: runs whose samples are at hand.
        medians: those of others, milliseconds.
    """
    logs = [[run.median for run in group] for group in groups]
    logs += [[math.log(value) for value in group] for group in medians]
    freedom = sum(len(group) - 1 for group in logs if group)
    if freedom < 1:
        return None
    square = sum((len(group) - 1) * statistics.variance(group) for group in logs if len(group) > 1)
    own = [run.variance for group in groups for run in group]
    within = statistics.fmean(own) if own else 0.0
    # Few runs that happen to agree must not claim less noise than their own steps have.
    deviation = math.sqrt(max(square / freedom, within))
    known = sum(len(group) for group in medians)
    return Noise(deviation, math.sqrt(within), freedom, known)


def without_strays(medians: Sequence[float]) -> list[float]:
    """The medians of runs, milliseconds, without those far apart from the others of their group.

    By the rule for steps (:mod:`instrumentor_analysis.clock.timings`): so many deviations from the
    middle, and so many times as long or as short; never of fewer than four runs.
    """
    if len(medians) < FEWEST_WITH_STRAY:
        return list(medians)
    logs = [math.log(value) for value in medians]
    middle = statistics.median(logs)
    spread = MAD_TO_SIGMA * statistics.median(abs(log - middle) for log in logs)
    limit = max(OUTLIER_DEVIATIONS * spread, math.log(OUTLIER_TIMES_MEDIAN))
    return [value for value, log in zip(medians, logs, strict=True) if abs(log - middle) <= limit]


def _middle_ms(runs: Sequence[Reach]) -> float:
    """Geometric mean of the runs' medians, since the model is one of logarithms."""
    return math.exp(statistics.fmean(run.median for run in runs))
