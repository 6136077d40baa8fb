"""Pairs of runs: never wrong more often than promised, and how many they take."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from instrumentor_analysis.compare.paired import (
    evidence,
    gate,
    interval,
    middle,
    rejected,
    ruled_out_above,
    verdict,
)
from tests.analysis.compare.turns import TURNS, decided_after, differences, gated_after

#: Pairs within which nearly all differences of 3 % are found (tests/benchmarks/bench_pairs.py).
WITHIN = {
    "independent, spread 1 %": 16,
    "drifting 0.5 % a run, spread 1 %": 18,
    "heavy tails (t, 2 degrees)": 40,
    "machine loaded now and then": 60,
    "recorded, tiny_llama": 60,
}


@pytest.mark.parametrize("kind", TURNS)
def test_equal_versions_are_told_apart_in_one_of_a_hundred_cases(kind: str) -> None:
    """At any of 40 looks. Of 100 seeded ones 4 would be too many to be chance."""
    assert sum(decided_after(kind, seed, 1.0, 40) is not None for seed in range(100)) < 4


@pytest.mark.parametrize(("kind", "pairs"), WITHIN.items())
def test_a_difference_of_3_percent_is_found(kind: str, pairs: int) -> None:
    found = [decided_after(kind, seed, 1.03, pairs) for seed in range(40)]
    assert sum(end is not None for end in found) >= 38


@pytest.mark.parametrize("kind", TURNS)
def test_the_gate_is_as_seldom_wrong(kind: str) -> None:
    """Goals: 1 % of equal code fails, 5 % of 3 % slower code passes."""
    equal = [gated_after(kind, seed, 1.0, 40)[0] for seed in range(60)]
    slower = [gated_after(kind, seed, 1.03, 40)[0] for seed in range(60)]
    assert equal.count("regression") < 4 and slower.count("none") < 9


@pytest.mark.parametrize("ratio", [1.0, 1.015, 1.03])
def test_asked_after_each_pair_the_gate_says_what_was_simulated(ratio: float) -> None:
    kind = "machine loaded now and then"
    said, after = gated_after(kind, 3, ratio, 60)
    found = differences(kind, 3, ratio, 60)
    assert gate(found[:after], 0.0) == said
    assert all(gate(found[:n], 0.0) == "undecided" for n in range(1, after))


def test_the_evidence_is_a_martingale_under_every_order_of_signs() -> None:
    """Over all signs of seven differences, its mean is 1 after each pair."""
    sizes = [0.03, 0.01, 0.4, 0.02, 0.0101, 0.9, 0.05]
    total = np.zeros(len(sizes))
    for signs in np.ndindex(*[2] * len(sizes)):
        flipped = [size if sign else -size for size, sign in zip(sizes, signs, strict=True)]
        total += np.exp(evidence(flipped, np.array([0.0]))[:, 0])
    assert total / 2 ** len(sizes) == pytest.approx(np.ones(len(sizes)))


def test_either_direction_is_told() -> None:
    slower = [0.03, 0.031, 0.029, 0.032, 0.028, 0.03, 0.0305, 0.0295, 0.031, 0.029, 0.03, 0.03]
    assert verdict(slower, 1.0).outcome == "slower"
    faster = verdict([-each for each in slower], 1.0)
    assert faster.outcome == "faster"
    assert faster.percent == pytest.approx((math.exp(-0.03) - 1) * 100, abs=0.05)
    assert faster.interval is not None
    assert faster.interval.low < math.exp(-0.03) < faster.interval.high < 1


def test_swapping_the_versions_swaps_the_interval() -> None:
    found = differences("independent, spread 3 %", 3, 1.05, 20)
    here, there = interval(found), interval([-each for each in found])
    assert here is not None and there is not None
    assert here.low == pytest.approx(1 / there.high, rel=1e-3)
    assert here.high == pytest.approx(1 / there.low, rel=1e-3)


def test_the_interval_holds_the_truth_at_its_last_look() -> None:
    held = 0
    for seed in range(60):
        found = interval(differences("correlated 0.6, spread 3 %", seed, 1.05, 25))
        held += found is None or found.low <= 1.05 <= found.high
    assert held >= 55


def test_no_difference_is_a_verdict_too() -> None:
    draw = random.Random(1)
    found = verdict([draw.gauss(0, 0.004) for _ in range(25)], 1.0)
    assert found.outcome == "same" and found.interval is not None
    assert 0.99 < found.interval.low < 1 < found.interval.high < 1.01


def test_few_pairs_tell_nothing() -> None:
    assert verdict([], 1.0).outcome == "undecided"
    told = verdict([0.5, 0.5, 0.5, 0.5], 1.0)
    assert (told.outcome, told.interval) == ("undecided", None)


def test_an_interval_that_is_open_at_one_end_is_none() -> None:
    """Its low end lies beyond all that was looked at, its high one does not; and mirrored."""
    open_below = [0.16, 0.11, -0.39, 0.17, 0.15, 0.05, 0.13]
    assert interval(open_below) is None
    assert interval([-each for each in open_below]) is None


def test_equal_times_to_the_last_digit_are_no_difference() -> None:
    assert not rejected([0.0] * 30, 0.0)
    assert verdict([0.0] * 30, 1.0).outcome == "same"


def test_one_pair_that_was_disturbed_changes_little() -> None:
    clean = [0.03, 0.031, 0.029, 0.032, 0.028, 0.03, 0.0305, 0.0295, 0.031, 0.029, 0.03, 0.03]
    assert verdict([*clean[:6], -2.0, *clean[6:]], 1.0).outcome == "slower"
    assert middle([*clean, -2.0]) == pytest.approx(0.03, abs=0.001)


def test_the_gate_looks_one_way() -> None:
    found = [0.03 + 0.002 * (-1) ** at for at in range(20)]
    assert ruled_out_above(found, math.log(1.06), 0.05)
    assert not ruled_out_above(found, math.log(1.02), 0.05)
