"""The interval of a median from order statistics, and what correlated values are worth.

The recorder stops by the same arithmetic as the reports show: this module is also part of what runs
inside the script's process, so it imports the standard library alone and runs on Python 3.8.
"""

import math
import statistics
from functools import lru_cache
from typing import List, Optional, Sequence, Tuple

CONFIDENCE = 0.95
#: Number of independent samples below which not even their range is 95 % sure to hold the median.
FEWEST_OF_MEDIAN = 6
#: Above this a correlation cannot be told from a trend.
_HIGHEST_RHO = 0.9
#: Standard errors above 0 from which a correlation counts: few independent steps look correlated.
_SIGNIFICANT = 0.8
#: Number of samples above which the binomial distribution is a normal one.
#: (exactly, it is computed over 2.0 ** count, which overflows from 1,024 on).
MANY = 900


def median_bounds(
    values: Sequence[float], confidence: float = CONFIDENCE
) -> Optional[Tuple[float, float, float]]:
    """The narrowest order-statistic interval that is at least so sure: low, high, how sure.

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
    return ordered[place - 1], ordered[count - place], 1 - 2 * binomial_tail(worth, rank)


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
    raw = sum(ranks[at] * ranks[at + 1] for at in range(count - 1)) / total
    return min(max(raw + (1 + 4 * max(raw, 0.0)) / count, 0.0), _HIGHEST_RHO)


def _ranks(values: Sequence[float]) -> List[float]:
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


@lru_cache(maxsize=1024)
def _rank(count: int, confidence: float) -> int:
    """The largest rank whose interval is sure enough, else 1."""
    rank = 1
    while rank < (count + 1) // 2 and 1 - 2 * binomial_tail(count, rank + 1) >= confidence:
        rank += 1
    return rank


@lru_cache(maxsize=4096)
def binomial_tail(count: int, rank: int) -> float:
    """P(B(count, 1/2) < rank)."""
    if count > MANY:
        return statistics.NormalDist().cdf((rank - 0.5 - count / 2) / (math.sqrt(count) / 2))
    return sum(math.comb(count, below) for below in range(rank)) / 2.0**count
