"""Two versions measured in pairs, looked at after each pair, until they are told apart.

A coin decides which version of a pair runs first. Let d_i be the logarithm of the new version's
time over the base's in pair i. If the new version takes exp(delta) times as long, swapping the two
runs of a pair turns the sign of d_i - delta and leaves its size alone; so, given all sizes and all
that went before, the sign is a fair coin, whatever the times are: correlated, drifting, of a busy
machine. With weights w_i that depend on sizes seen so far,

    E_n = mean over lambda of prod_i exp(lambda w_i s_i) / cosh(lambda w_i)

is therefore a martingale that starts at 1 (de la Pena, Annals of Probability 27, 1999), and by
Ville's inequality it ever exceeds 1 / alpha with a chance of at most alpha: one may look after each
pair. The deltas that were never rejected so are a confidence sequence (Howard, Ramdas, McAuliffe
and Sekhon, Annals of Statistics 49, 2021). The weights grow with the size up to twice the median
size, and fall to none from four times to eight times it: a disturbed pair says nothing.
"""

from __future__ import annotations

import itertools
import math
from bisect import insort
from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from instrumentor_analysis.model import Interval

#: Chance at most of a verdict that is wrong, over all looks.
FALSE_VERDICT = 0.01
#: Of the interval that is printed.
CONFIDENCE = 0.95
#: Chances of the gate: that equal code fails it, and that a slow-down passes.
FALSE_ALARM, MISSED = 0.01, 0.05
#: By so many points more than is allowed a slow-down must not pass the gate.
GATE_POINTS = 3.0
#: A pair of so many median sizes has the full weight.
_CLIPPED = 2.0
#: From faint differences to those that every pair shows, in both directions.
_LAMBDAS = np.array([0.25, 0.5, 1.0, 2.0, 4.0, -0.25, -0.5, -1.0, -2.0, -4.0])
#: Points of a grid on which the ends of an interval are looked for, twice.
_POINTS = 201

Floats = NDArray[np.float64]
Outcome = Literal["faster", "slower", "same", "undecided"]
Gated = Literal["regression", "none", "undecided"]


class Verdict(Struct, frozen=True):
    """What the pairs say of the time that the new version takes.

    Attributes:
        outcome: ``same``: a difference by `resolution_percent` or more is ruled out.
        ratio: of the times, new over base: the middle of all pairs.
        interval: of the ratio, 95 % sure however often it was looked at; None of too few pairs.
        pairs: how many.
        resolution_percent: see `outcome`.
    """

    outcome: Outcome
    ratio: float
    interval: Interval | None
    pairs: int
    resolution_percent: float

    @property
    def percent(self) -> float:
        """Change of the time; below 0 the new version is faster."""
        return (self.ratio - 1) * 100


def fewest_pairs(chance: float = FALSE_VERDICT) -> int:
    """Pairs below which there is no verdict at that error, even if all of them agree."""
    return next(count for count in itertools.count(1) if rejected([1.0] * count, 0.0, chance))


def verdict(differences: Sequence[float], resolution_percent: float) -> Verdict:
    """What is known after these pairs.

    Args:
        differences: logarithms of the new version's time over the base's, in the order of the
            pairs, in each of which a coin decided who ran first.
        resolution_percent: of the time: a smaller difference need not be told from none.
    """
    margin = math.log1p(resolution_percent / 100)
    outcome: Outcome = "undecided"
    if rejected(differences, 0.0):
        outcome = "slower" if middle(differences) > 0 else "faster"
    elif rejected(differences, margin) and rejected(differences, -margin):
        outcome = "same"
    ratio = math.exp(middle(differences)) if differences else 1.0
    return Verdict(outcome, ratio, interval(differences), len(differences), resolution_percent)


def middle(differences: Sequence[float]) -> float:
    """The median of the means of two pairs each (Hodges and Lehmann, 1963)."""
    values = np.asarray(differences, dtype=float)
    first, second = np.triu_indices(len(values))
    return float(np.median((values[first] + values[second]) / 2)) if len(values) else 0.0


def rejected(differences: Sequence[float], delta: float, chance: float = FALSE_VERDICT) -> bool:
    """Whether a true difference of `delta` was ever ruled out, at an error of `chance`."""
    return bool(_highest(differences, np.array([delta]))[0] >= -math.log(chance))


def ruled_out_above(differences: Sequence[float], delta: float, chance: float) -> bool:
    """Whether the true difference is below `delta`, at an error of `chance`."""
    # One of the two sides of a test at twice the chance.
    return middle(differences) < delta and rejected(differences, delta, chance)


def gate(differences: Sequence[float], percent: float) -> Gated:
    """Whether the new version takes more time by more than so many percent.

    Returns:
        ``none`` where a slow-down by :data:`GATE_POINTS` more is ruled out.
    """
    if ruled_out_above([-each for each in differences], -math.log1p(percent / 100), FALSE_ALARM):
        return "regression"
    passes = ruled_out_above(differences, math.log1p((percent + GATE_POINTS) / 100), MISSED)
    return "none" if passes else "undecided"


def interval(differences: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """The ratios that were never ruled out; None while some end is open."""
    if not differences:
        return None
    limit, values = -math.log(1 - confidence), np.asarray(differences, dtype=float)
    # Beyond all differences every sign is the same, and the sizes are nearly so.
    width = max(float(np.ptp(values)), 1e-6)
    low, high = float(values.min()) - width, float(values.max()) + width
    grid = np.linspace(low, high, _POINTS)
    kept = np.flatnonzero(_highest(differences, grid) < limit)
    if len(kept) == 0 or kept[0] == 0 or kept[-1] == _POINTS - 1:
        return None
    ends = []
    for inside, outside in ((kept[0], kept[0] - 1), (kept[-1], kept[-1] + 1)):
        finer = np.linspace(grid[inside], grid[outside], _POINTS)
        still = np.flatnonzero(_highest(differences, finer) < limit)
        ends.append(float(finer[still[-1]]) if len(still) else float(grid[inside]))
    return Interval(math.exp(ends[0]), math.exp(ends[1]), confidence)


def _highest(differences: Sequence[float], deltas: Floats) -> Floats:
    """The highest that log E_n came to be, of each delta."""
    found = evidence(differences, deltas)
    return found.max(axis=0) if len(found) else np.zeros(len(deltas))


def evidence(differences: Sequence[float], deltas: Floats) -> Floats:
    """log E_n of the module's text against each true difference: rows are pairs, columns deltas."""
    moved = np.asarray(differences, dtype=float)[:, None] - deltas
    sizes, found = np.abs(moved), np.zeros(moved.shape)
    logs = np.zeros((len(_LAMBDAS), len(deltas)))
    so_far: list[list[float]] = [[] for _ in deltas]  # in order: to sort them again takes n squared
    for at, size in enumerate(sizes):
        for kept, one in zip(so_far, size.tolist(), strict=True):
            insort(kept, one)
        usual = _CLIPPED * np.array([kept[at // 2] + kept[(at + 1) // 2] for kept in so_far]) / 2
        far = np.divide(size, usual, out=np.zeros_like(size), where=usual > 0)
        bet = _LAMBDAS[:, None] * np.minimum(far, 2 - far / 2).clip(0.0, 1.0)
        logs += bet * np.sign(moved[at]) - np.log(np.cosh(bet))
        found[at] = np.logaddexp.reduce(logs, axis=0) - math.log(len(_LAMBDAS))
    return found
