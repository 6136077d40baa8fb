"""Two sets of samples to the ratio of their medians, and how sure it is.

The interval is a percentile bootstrap of the ratio: both sets are resampled, each by itself, and
the 2.5 % and 97.5 % points of the resampled ratios are its ends. Below :data:`FEW` samples on a
side that is too narrow (measured on two sets of four from one distribution: it excludes 1 in 7 to
9 of 100 cases instead of 5), so there the ends are those of all resampled ratios: such an interval
excludes 1 only where the two sets do not overlap at all.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from instrumentor_analysis.model import Interval
from instrumentor_analysis.timings import MAD_TO_SIGMA

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.95
BOOTSTRAP_SEED = 20240229
BOOTSTRAP_DRAWS = 10_000
#: Samples on each side below which there is no interval.
FEWEST = 3
#: Samples on either side below which the percentiles are too narrow.
FEW = 5
#: Chance with which a real difference of the given size is to be seen.
POWER = 0.8
#: Samples that are resampled at once.
_CELLS = 2_000_000
#: Samples from which the spread is judged by the median absolute deviation.
_MANY = 8


@dataclass(frozen=True)
class Ratio:
    """Median of the new samples over that of the base; above 1 the new ones are larger.

    Attributes:
        value: the ratio.
        interval: of the ratio; None below :data:`FEWEST` samples on a side.
        enough: there are so many samples that chance alone separates two sets of them
            completely in at most 5 of 100 cases.
        real: ``enough``, and the interval excludes 1.
        needed: samples on each side with which a difference of this size is seen (see
            :func:`samples_needed`); None when there is no difference.
        smallest_percent: the smallest change that this many samples would show, percent; None
            below two samples on a side.
    """

    value: float
    interval: Interval | None
    enough: bool
    real: bool
    needed: int | None
    smallest_percent: float | None


def ratio_of_medians(base: Sequence[float], new: Sequence[float]) -> Ratio | None:
    """Compare two sets of positive samples; None where a set is empty or a sample is not above 0.

    Swapping the sets gives the reciprocal ratio and interval; the same samples always give the
    same interval.
    """
    if not base or not new or min(*base, *new) <= 0:
        return None
    value = statistics.median(new) / statistics.median(base)
    interval = _interval(base, new, value)
    enough = chance_of_separation(len(base), len(new)) <= 1 - CONFIDENCE
    excluded = interval is not None and not interval.low <= 1 <= interval.high
    return Ratio(
        value,
        interval,
        enough,
        enough and excluded,
        samples_needed(base, new, value),
        smallest_percent(base, new),
    )


def chance_of_separation(base: int, new: int) -> float:
    """Chance that two sets from one distribution do not overlap: 2 of all their orders.

    The smallest two-sided level of the exact rank test of Mann and Whitney (1947).
    """
    return min(1.0, 2 / math.comb(base + new, new))


def samples_needed(base: Sequence[float], new: Sequence[float], ratio: float) -> int | None:
    """Samples on each side with which a change by ``ratio`` is seen in 8 of 10 cases.

    n = (pi / 2) (z_0.975 + z_0.8)^2 (s_b^2 + s_n^2) / ln(ratio)^2, with the spreads of the
    logarithms: the usual size of two samples for a difference of means (Lehr, Statistics in
    Medicine 11, 1992), times pi / 2 because a median of normal samples varies so much more
    than their mean. None when the ratio is 1; never below what can be sure at all.
    """
    if ratio == 1 or min(len(base), len(new)) < 2:
        return None
    needed = _sizes() * (_spread(base) ** 2 + _spread(new) ** 2) / math.log(ratio) ** 2
    return max(_surest(), math.ceil(needed)) if needed < 1e9 else None


def smallest_percent(base: Sequence[float], new: Sequence[float]) -> float | None:
    """Smallest slow-down that these samples would show in 8 of 10 cases, percent.

    :func:`samples_needed` solved for the ratio; None below two samples on a side.
    """
    if min(len(base), len(new)) < 2:
        return None
    variance = _spread(base) ** 2 / len(base) + _spread(new) ** 2 / len(new)
    exponent = math.sqrt(_sizes() * variance)
    return math.expm1(exponent) * 100 if exponent < 10 else None


def _sizes() -> float:
    normal = statistics.NormalDist()
    return math.pi / 2 * (normal.inv_cdf((1 + CONFIDENCE) / 2) + normal.inv_cdf(POWER)) ** 2


def _surest() -> int:
    """The fewest samples on each side that can be sure of anything."""
    return next(n for n in range(1, 99) if chance_of_separation(n, n) <= 1 - CONFIDENCE)


def _spread(values: Sequence[float]) -> float:
    """Standard deviation of the logarithms; of many, from their median absolute deviation."""
    logs = [math.log(value) for value in values]
    if len(logs) >= _MANY:
        middle = statistics.median(logs)
        robust = MAD_TO_SIGMA * statistics.median(abs(value - middle) for value in logs)
        if robust > 0:
            return robust
    return statistics.stdev(logs)


def _interval(base: Sequence[float], new: Sequence[float], value: float) -> Interval | None:
    if min(len(base), len(new)) < FEWEST:
        return None
    import numpy as np

    # Streams go to the sets by content, not by role: swapping the sides inverts each ratio.
    swapped = tuple(new) < tuple(base)
    first, second = (new, base) if swapped else (base, new)
    draws = _draws(max(len(base), len(new)))
    generator = np.random.default_rng(BOOTSTRAP_SEED)
    one, two = _medians(first, draws, generator), _medians(second, draws, generator)
    ratios = np.sort(one / two if swapped else two / one)
    few = min(len(base), len(new)) < FEW
    tail = 0 if few else int((1 - CONFIDENCE) / 2 * draws)
    low, high = float(ratios[tail]), float(ratios[-1 - tail])
    if tuple(new) == tuple(base):
        low, high = min(low, 1 / high), max(high, 1 / low)
    return Interval(min(low, value), max(high, value), CONFIDENCE)


def _draws(samples: int) -> int:
    """Fewer for many thousand samples, whose interval is narrow anyway."""
    return min(BOOTSTRAP_DRAWS, max(1000, _CELLS * 5 // samples))


def _medians(values: Sequence[float], draws: int, generator: np.random.Generator) -> Floats:
    """Medians of resampled sets, as many at once as memory likes."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    size, rows = len(array), max(1, _CELLS // len(array))
    parts: list[Floats] = []
    for at in range(0, draws, rows):
        picked = generator.integers(0, size, (min(rows, draws - at), size))
        parts.append(np.median(array[picked], axis=1))
    return np.concatenate(parts)
