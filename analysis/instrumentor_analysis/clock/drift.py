"""Whether the steps still change from the first to the last: then no median describes them.

The line is Theil and Sen's (the median of the slopes of all pairs) through the logarithms of the
times, so that a change is one in percent of the first step and cannot fall below -100 %. Whether it
is more than chance is Mann and Kendall's test, its variance inflated by the correlation of what
the line leaves (Yue and Wang, Water Resources Management 18, 2004) where there are enough of them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from msgspec import Struct

from instrumentor_analysis.clock.order_statistics import autocorrelation, inflation
from instrumentor_analysis.model import Interval

#: Change from the first step to the last from which a drift is worth a word, percent.
MATTERS_PERCENT = 2.0
#: Warm-up steps to ask for at least, where those that there were did not do.
LONG_WARMUP = 20
#: Number of samples below which there is no line.
_FEWEST = 4
#: Normal quantile of the test: 5 of 100 steady runs are said to drift, if by so much.
_QUANTILE = 1.96
#: Number of samples from which a correlation can be told from a trend.
_TELLS = 10
#: Samples that the line is fitted to at most: pairs grow with the square.
_MOST = 400


class Drift(Struct, frozen=True):
    """The line through the steady steps.

    Attributes:
        percent: from its first step to its last, percent of the first.
        first_ms, last_ms: its ends.
        sure: more than chance, and more than :data:`MATTERS_PERCENT`.
    """

    percent: float
    first_ms: float
    last_ms: float
    sure: bool

    def widen(self, interval: Interval | None) -> Interval | None:
        """The interval with both ends of a sure line in it."""
        if interval is None or not self.sure:
            return interval
        ends = self.first_ms, self.last_ms
        return Interval(min(interval.low, *ends), max(interval.high, *ends), interval.confidence)


def drift(values: Sequence[float]) -> Drift | None:
    """The drift of times in the order in which they were taken, milliseconds.

    None below four times, or where one is 0.
    """
    if len(values) < _FEWEST or min(values) <= 0:
        return None
    at = _spread_out(len(values))
    logs = [math.log(values[position]) for position in at]
    slopes = [
        (logs[b] - logs[a]) / (at[b] - at[a]) for a in range(len(at)) for b in range(a + 1, len(at))
    ]
    slope = statistics.median(slopes)
    rest = [log - slope * position for log, position in zip(logs, at, strict=True)]
    middle, last = statistics.median(rest), len(values) - 1
    percent = math.expm1(slope * last) * 100
    score = sum((s > 0) - (s < 0) for s in slopes)
    return Drift(
        percent,
        math.exp(middle),
        math.exp(middle + slope * last),
        abs(percent) >= MATTERS_PERCENT and _is_sure(score, rest),
    )


def _is_sure(score: int, rest: Sequence[float]) -> bool:
    count = len(rest)
    tau = inflation(count, autocorrelation(rest)) if count >= _TELLS else 1.0
    # Variance of Mann and Kendall's S without ties.
    variance = count * (count - 1) * (2 * count + 5) / 18 * tau
    return abs(score) / math.sqrt(variance) > _QUANTILE


def _spread_out(count: int) -> list[int]:
    """Positions of all samples, of many evenly spread ones."""
    if count <= _MOST:
        return list(range(count))
    return sorted({round(i * (count - 1) / (_MOST - 1)) for i in range(_MOST)})
