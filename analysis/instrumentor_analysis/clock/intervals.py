"""How far a median may be off, of steps that need not be independent of each other.

Neighbouring steps are alike (a clock that throttles, a neighbour that computes), so n of them say
less than n independent ones would: their effective number is n / tau with
tau = 1 + 2 sum_{k<n} (1 - k/n) rho^k, the variance inflation of the mean of a first-order
autoregressive series (Bayley and Hammersley, 1946). rho is the lag-1 autocorrelation of the ranks,
which an outlier cannot hide, plus its bias (1 + 4 rho) / n (Kendall, Biometrika 41, 1954).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from instrumentor_analysis.clock.order_statistics import (
    CONFIDENCE,
    MANY,
    autocorrelation,
    binomial_tail,
    inflation,
    median_bounds,
)
from instrumentor_analysis.model import Interval

#: Number of samples below which a comparison of medians has no interval.
FEWEST = 3
#: Noise from run to run where a single run cannot know it: standard deviation of the logarithms
#: of the medians of runs of the same code.
ASSUMED = 0.15
#: Normal quantile of an interval's end.
SURE = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
#: What floating point may take from a whole number of degrees of freedom.
_ROUNDING = 1e-6
#: The least share of the spread that correlated samples are taken to show.
_LEAST_SHARE = 0.25


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """The narrowest interval that is at least so sure; None of fewer than six independent values.

    See :func:`instrumentor_analysis.clock.order_statistics.median_bounds`.
    """
    found = median_bounds(values, confidence)
    return None if found is None else Interval(*found)


class Reach(Struct, frozen=True):
    """One standard error of the logarithm of a median, on either side of it.

    Attributes:
        median: its logarithm.
        below, above: standard errors; they differ where the values are skewed or of two kinds.
        freedom: effective number of samples, less one.
    """

    median: float
    below: float
    above: float
    freedom: float

    @property
    def variance(self) -> float:
        """Squared standard error of the median, the mean of both sides."""
        return ((self.below + self.above) / 2) ** 2


def reach(values: Sequence[float]) -> Reach:
    """Standard errors of a median from order statistics, of values above 0.

    After Price and Bonett (J. Statist. Comput. Simul. 72, 2002): the distance to the order
    statistics about two standard errors away, over the normal quantile of their exact confidence;
    here on each side by itself, and inflated by the correlation (as estimated, sure or not).
    """
    count = len(values)
    logs = sorted(math.log(value) for value in values)
    rank = max(1, round((count + 1) / 2 - math.sqrt(count)))
    quantile = statistics.NormalDist().inv_cdf(1 - binomial_tail(count, rank)) if count > 1 else 1.0
    tau = inflation(count, autocorrelation(values))
    # The spread among correlated samples is smaller than that of the series.
    share = (1 - tau / count) / (1 - 1 / count) if count > 1 else 1.0
    error = math.sqrt(tau / max(share, _LEAST_SHARE)) / max(quantile, 0.5)
    middle = math.log(statistics.median(values))  # as every report has it
    below, above = (middle - logs[rank - 1]) * error, (logs[count - rank] - middle) * error
    return Reach(middle, below, above, max(1.0, count / tau - 1))


@lru_cache(maxsize=1024)
def student_quantile(probability: float, freedom: float) -> float:
    """Quantile of Student's t for probabilities from 0.5; freedom is rounded down, at least 1.

    Abramowitz and Stegun 26.7.3 and 26.7.4, inverted by bisection.
    """
    whole = max(1, math.floor(freedom + _ROUNDING))
    if whole > MANY:
        return statistics.NormalDist().inv_cdf(probability)
    low, high = 0.0, math.pi / 2
    # 60 halvings of a right angle go beyond the precision of a float.
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if _within(middle, whole) > 2 * probability - 1 else (middle, high)
        )
    return math.sqrt(whole) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """P(|t| < sqrt(freedom) tan(angle))."""
    square = math.cos(angle) ** 2
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0 if odd and freedom == 1 else term
    for k in range(2 + odd, freedom, 2):
        term *= square * (k - 1) / k
        total += term
    inside = math.sin(angle) * total
    return 2 / math.pi * (angle + inside) if odd else inside
