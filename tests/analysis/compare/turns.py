"""Two versions that run in turn, of series of times as machines make them."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable

import numpy as np

from instrumentor_analysis.compare.paired import (
    FALSE_ALARM,
    FALSE_VERDICT,
    GATE_POINTS,
    MISSED,
    Gated,
    evidence,
    middle,
)
from tests.analysis.compare.recorded import RECORDED
from tests.analysis.series import Series, correlated, drifting, of_two_kinds, with_outliers


def loaded(draw: random.Random, count: int) -> list[float]:
    """Others come and go: for some 20 runs at a time everything takes up to three times as long."""
    values, slower = [], 1.0
    for _ in range(count):
        slower = draw.uniform(1, 3) if draw.random() < 0.05 else slower
        values.append(slower * math.exp(0.02 * draw.gauss(0, 1)))
    return values


def heavy_tailed(draw: random.Random, count: int) -> list[float]:
    """Student's t of two degrees of freedom, which has no variance: of the logarithms, 1 % wide."""
    chi = (math.sqrt(draw.expovariate(1.0)) for _ in range(count))
    return [math.exp(min(0.01 * draw.gauss(0, 1) / max(each, 1e-3), 3.0)) for each in chi]


def recorded(script: str) -> Series:
    """Medians of recorded runs in their order, from a random one on, round and round."""
    medians = [statistics.median(run) for run in RECORDED[script]]

    def made(draw: random.Random, count: int) -> list[float]:
        start = draw.randrange(len(medians))
        return [medians[(start + at) % len(medians)] for at in range(count)]

    return made


#: By what they are; the spread is that of single runs.
TURNS: dict[str, Callable[[random.Random, int], list[float]]] = {
    "independent, spread 1 %": correlated(0.0, 0.01),
    "independent, spread 3 %": correlated(0.0, 0.03),
    "correlated 0.6, spread 3 %": correlated(0.6, 0.03),
    "correlated 0.9, spread 10 %": correlated(0.9, 0.1),
    "drifting 0.5 % a run, spread 1 %": drifting,
    "heavy tails (t, 2 degrees)": heavy_tailed,
    "one run in ten up to 10 x": with_outliers,
    "two kinds, 20 % apart": of_two_kinds,
    "machine loaded now and then": loaded,
    **{f"recorded, {script}": recorded(script) for script in RECORDED},
}


def differences(kind: str, seed: int, ratio: float, pairs: int) -> list[float]:
    """Logarithms of new over base, of pairs in which a coin decides who runs first."""
    draw = random.Random(f"{kind} {seed}")
    values = TURNS[kind](draw, 2 * pairs)
    found = []
    for first, second in zip(values[::2], values[1::2], strict=True):
        base, new = (second, first) if draw.random() < 0.5 else (first, second)
        found.append(math.log(ratio * new / base))
    return found


def decided_after(kind: str, seed: int, ratio: float, most: int) -> int | None:
    """The pair after which the versions are told apart; None within so many."""
    logs = evidence(differences(kind, seed, ratio, most), np.array([0.0]))[:, 0]
    over = np.flatnonzero(logs >= -math.log(FALSE_VERDICT))
    return int(over[0]) + 1 if len(over) else None


def gated_after(kind: str, seed: int, ratio: float, most: int) -> tuple[Gated, int]:
    """What the gate at 0 % says, and after how many pairs: as it is asked after each."""
    found = differences(kind, seed, ratio, most)
    limit = math.log1p(GATE_POINTS / 100)
    highest = np.maximum.accumulate(evidence(found, np.array([0.0, limit])))
    over = highest >= [-math.log(FALSE_ALARM), -math.log(MISSED)]
    for pairs in np.flatnonzero(over.any(axis=1)) + 1:
        centre = middle(found[:pairs])
        if over[pairs - 1, 0] and centre > 0:
            return "regression", int(pairs)
        if over[pairs - 1, 1] and centre < limit:
            return "none", int(pairs)
    return "undecided", most
