"""How far a median may be off, of steps that need not be independent of each other.

Neighbouring steps are alike (a clock that throttles, a neighbour that computes), so n of them say
less than n independent ones would: their effective number is n / tau with
tau = 1 + 2 sum_{k<n} (1 - k/n) rho^k, the variance inflation of the mean of a first-order
autoregressive series (Bayley and Hammersley, 1946). rho is the lag-1 autocorrelation of the ranks,
which an outlier cannot hide, plus its bias (1 + 4 rho) / n (Kendall, Biometrika 41, 1954).
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from instrumentor_analysis.model import Interval

CONFIDENCE = 0.95
#: Number of samples below which a comparison of medians has no interval.
FEWEST = 3
#: Number of independent samples below which not even their range is 95 % sure to hold the median.
FEWEST_OF_MEDIAN = 6
#: Above this a correlation cannot be told from a trend.
_HIGHEST_RHO = 0.9
#: Standard errors above 0 from which a correlation counts: few independent steps look correlated.
_SIGNIFICANT = 0.8
#: The least share of the spread that correlated samples are taken to show.
_LEAST_SHARE = 0.25
#: Number of samples above which the binomial distribution is a normal one.
#: (exactly, it is computed over 2.0 ** count, which overflows from 1,024 on).
_MANY = 900


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """The narrowest order-statistic interval that is at least so sure.

    None of fewer than six independent values, of which none is 95 % sure. Its confidence is the
    exact binomial one, 1 - 2 P(B(n, 1/2) < c) between the c-th smallest and the c-th largest (David
    and Nagaraja, Order Statistics, 7.1). Of correlated values it is that of as many independent
    ones as they are worth.
    """
    count, worth = len(values), math.floor(effective_samples(values))
    if worth < FEWEST_OF_MEDIAN:
        return None
    ordered, rank = sorted(values), _rank(worth, confidence)
    place = max(1, math.floor(rank * (count + 1) / (worth + 1)))
    return Interval(ordered[place - 1], ordered[count - place], 1 - 2 * _tail(worth, rank))


def effective_samples(values: Sequence[float]) -> float:
    """How many independent values say as much; all of them unless their correlation is sure."""
    rho = autocorrelation(values)
    if rho < _SIGNIFICANT / math.sqrt(max(1, len(values))):
        return float(len(values))
    return len(values) / inflation(len(values), rho)


def autocorrelation(values: Sequence[float]) -> float:
    """Lag-1 autocorrelation of the ranks, its bias corrected; 0 to 0.9, and 0 below four values."""
    count = len(values)
    ranks = _ranks(values)
    total = sum(rank * rank for rank in ranks)
    if count < 4 or total == 0:
        return 0.0
    raw = sum(a * b for a, b in itertools.pairwise(ranks)) / total
    return min(max(raw + (1 + 4 * max(raw, 0.0)) / count, 0.0), _HIGHEST_RHO)


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks around 0; ties share their mean."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end + 1 < len(order) and values[order[end + 1]] == values[order[at]]:
            end += 1
        for position in order[at : end + 1]:
            ranks[position] = (at + end) / 2 - (len(values) - 1) / 2
        at = end + 1
    return ranks


def inflation(count: int, rho: float) -> float:
    """tau: by how much correlation inflates the variance of a mean of so many values."""
    powers = 2 * rho * (1 - rho**count) / (count * (1 - rho) ** 2)
    return max(1.0, (1 + rho) / (1 - rho) - powers)


class Reach(Struct, frozen=True):
    """One standard error of a median of logarithms, on either side of it.

    Attributes:
        median: of the logarithms.
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
    quantile = statistics.NormalDist().inv_cdf(1 - _tail(count, rank)) if count > 1 else 1.0
    tau = inflation(count, autocorrelation(values))
    # The spread among correlated samples is smaller than that of the series.
    share = (1 - tau / count) / (1 - 1 / count) if count > 1 else 1.0
    error = math.sqrt(tau / max(share, _LEAST_SHARE)) / max(quantile, 0.5)
    middle = statistics.median(logs)
    below, above = (middle - logs[rank - 1]) * error, (logs[count - rank] - middle) * error
    return Reach(middle, below, above, max(1.0, count / tau - 1))


@lru_cache(maxsize=1024)
def _rank(count: int, confidence: float) -> int:
    """The largest rank whose interval is sure enough, else 1."""
    rank = 1
    while rank < (count + 1) // 2 and 1 - 2 * _tail(count, rank + 1) >= confidence:
        rank += 1
    return rank


@lru_cache(maxsize=4096)
def _tail(count: int, rank: int) -> float:
    """P(B(count, 1/2) < rank)."""
    if count > _MANY:
        return statistics.NormalDist().cdf((rank - 0.5 - count / 2) / (math.sqrt(count) / 2))
    return sum(math.comb(count, below) for below in range(rank)) / 2.0**count


@lru_cache(maxsize=1024)
def student_quantile(probability: float, freedom: float) -> float:
    """Quantile of Student's t for probabilities from 0.5; freedom is rounded down, at least 1.

    Abramowitz and Stegun 26.7.3 and 26.7.4, inverted by bisection.
    """
    whole = max(1, math.floor(freedom))
    if whole > _MANY:
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
