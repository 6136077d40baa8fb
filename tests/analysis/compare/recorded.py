"""Recorded runs, and what a user of the gate does with them.

``data/recorded_runs.json`` holds the steady steps, milliseconds, of eleven runs each of two scripts
of ``fixtures/experiments`` (``instrument run --profiler wallclock --steps 25``, one thread, in turn
on an otherwise idle virtual machine of two cores).
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

from msgspec.structs import replace

from instrumentor_analysis.clock.intervals import Reach, reach
from instrumentor_analysis.compare.gate import judge
from instrumentor_analysis.compare.runs import between

RECORDED: dict[str, list[list[float]]] = json.loads(
    (Path(__file__).parent / "data" / "recorded_runs.json").read_text(encoding="utf-8")
)
#: How often somebody adds the runs that were asked for.
LOOKS = 6


def reaches(script: str) -> list[Reach]:
    """The median of each recorded run with its error."""
    return [reach(run) for run in RECORDED[script]]


def decided(
    draw: random.Random, pool: list[Reach], slower: float, percent: float = 0.0
) -> tuple[str, int]:
    """What the gate says in the end, and of how many runs on each side.

    It begins with one run of each code, and gets what it asks for.

    Args:
        pool: what runs are drawn from, with replacement.
        slower: logarithm of what the new code's runs take longer.
    """
    new = [replace(run, median=run.median + slower) for run in pool]
    sides: tuple[list[Reach], list[Reach]] = [draw.choice(pool)], [draw.choice(new)]
    for _ in range(LOOKS):
        ratio = math.exp(sides[1][0].median - sides[0][0].median)
        gate = judge(between(*sides), ratio, percent)
        if gate.outcome != "undecided" or gate.runs is None:
            break
        for side, of in zip(sides, (pool, new), strict=True):
            side += draw.choices(of, k=gate.runs - len(side))
    return gate.outcome, len(sides[0])
