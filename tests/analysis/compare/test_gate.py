"""The gate over recorded runs; tests/benchmarks/bench_gate.py counts a thousand pairs."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from instrumentor_analysis.compare.comparing import compare
from instrumentor_analysis.compare.gate import MOST_RUNS, judge, runs_needed
from instrumentor_analysis.compare.runs import Between, Noise
from tests.analysis.compare.recorded import RECORDED, decided, reaches
from tests.analysis.compare.sides import side

PAIRS = 120


@pytest.mark.parametrize("script", RECORDED)
def test_equal_code_passes(script: str) -> None:
    draw, pool = random.Random(f"A/A {script}"), reaches(script)
    said = Counter(decided(draw, pool, 0.0)[0] for _ in range(PAIRS))
    # 1 of 100, and three standard deviations of such a count.
    assert said["regression"] <= 4, said
    assert said["none"] >= PAIRS * 0.95, said


@pytest.mark.parametrize("script", RECORDED)
def test_a_slow_down_by_three_percent_is_found(script: str) -> None:
    draw, pool = random.Random(f"A/B {script}"), reaches(script)
    said = Counter(decided(draw, pool, math.log(1.03))[0] for _ in range(PAIRS))
    # 95 of 100, less three standard deviations.
    assert said["regression"] >= PAIRS * 0.89, said


def test_so_many_runs_as_are_asked_for_decide_if_the_noise_stays() -> None:
    for deviation in (0.002, 0.01, 0.05):
        for shift in (-0.02, 0.0, 0.01, 0.03, 0.06):

            def at(runs: int) -> Between:
                noise = Noise(deviation, 0.0, 2 * runs - 2)  # noqa: B023 - used at once
                return Between(1.0, math.exp(shift), noise, runs, runs)  # noqa: B023

            asked = runs_needed(at(3), 1.0)
            assert asked is not None
            assert judge(at(asked), 1.0, 1.0).outcome != "undecided"


def test_a_noise_that_no_number_of_runs_helps() -> None:
    found = Between(1.0, 1.0, Noise(0.5, 0.0, 4), 3, 3)
    assert runs_needed(found, 0.0) is None
    assert judge(found, 1.0, 0.0).runs is None
    assert runs_needed(Between(1.0, 1.0, Noise(0.1, 0.0, 4), 3, 3), 0.0) in range(100, MOST_RUNS)


def test_of_one_run_each_as_many_are_asked_for_as_the_notes_tell() -> None:
    asked = judge(None, 1.0, 0.0).runs
    found = compare(side([1.0] * 6), side([1.0] * 6, "new"))
    assert any(f"(--repeat {asked})" in note for note in found.notes)


def test_no_number_of_runs_is_asked_for_that_nobody_can_take() -> None:
    """A change by a millionth of what runs differ by: it is none."""
    assert Between(1.0, 1.0 + 1e-6, Noise(0.5, 0.0, 4), 3, 3).needed is None
    assert Between(1.0, 1.1, Noise(0.5, 0.0, 4), 3, 3).needed is not None
