"""Series of step times as machines make them, from a seeded generator."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

Series = Callable[[random.Random, int], list[float]]


def correlated(rho: float, spread: float = 0.03) -> Series:
    """Each step is like the one before: a first-order autoregressive series around 1."""

    def made(draw: random.Random, count: int) -> list[float]:
        at, values = draw.gauss(0, 1), []
        for _ in range(count):
            values.append(math.exp(spread * at))
            at = rho * at + math.sqrt(1 - rho * rho) * draw.gauss(0, 1)
        return values

    return made


def drifting(draw: random.Random, count: int) -> list[float]:
    """Half a percent faster from step to step: a longer run has the smaller median."""
    return [math.exp(0.01 * draw.gauss(0, 1) - 0.005 * at) for at in range(count)]


def with_outliers(draw: random.Random, count: int) -> list[float]:
    """One step in ten takes up to ten times as long."""
    return [
        math.exp(0.02 * draw.gauss(0, 1)) * (draw.uniform(1, 10) if draw.random() < 0.1 else 1)
        for _ in range(count)
    ]


def of_two_kinds(draw: random.Random, count: int) -> list[float]:
    """Nearly half of the steps are the slow kind."""
    return [
        math.exp(0.005 * draw.gauss(0, 1)) * (1.2 if draw.random() < 0.45 else 1)
        for _ in range(count)
    ]


#: What false alarms are counted under, with the number of steps on each side.
KINDS: dict[str, Series] = {
    "independent": correlated(0.0),
    "correlated 0.3": correlated(0.3),
    "correlated 0.6": correlated(0.6),
    "drifting": drifting,
    "outliers": with_outliers,
    "two kinds": of_two_kinds,
}
SIZES: Sequence[tuple[int, int]] = ((4, 4), (8, 8), (20, 20), (60, 60), (4, 20), (5, 50))
