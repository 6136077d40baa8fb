"""Two sets of samples to a ratio: exact values, properties, and how often it is wrong."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instrumentor_analysis.comparison.ratio import (
    chance_of_separation,
    ratio_of_medians,
    samples_needed,
    smallest_percent,
)

times = st.lists(st.floats(0.01, 1e6), min_size=1, max_size=12)


def test_the_ratio_is_that_of_the_medians() -> None:
    found = ratio_of_medians([100, 102, 104], [50, 51, 52])
    assert found is not None and found.value == 0.5


def test_of_few_samples_the_interval_reaches_from_apart_to_apart() -> None:
    found = ratio_of_medians([100, 101, 102, 103], [110, 111, 112, 113])
    assert found is not None and found.interval is not None
    assert found.interval.low == pytest.approx(110 / 103)
    assert found.interval.high == pytest.approx(113 / 100)
    assert found.real


def test_two_sets_of_four_that_overlap_are_no_real_difference() -> None:
    found = ratio_of_medians([100, 101, 102, 111], [110, 112, 113, 114])
    assert found is not None and not found.real


def test_three_and_three_cannot_be_sure_however_far_apart() -> None:
    found = ratio_of_medians([1, 2, 3], [1000, 1001, 1002])
    assert found is not None and found.interval is not None
    assert found.interval.low > 1
    assert not found.enough and not found.real


def test_below_three_there_is_no_interval() -> None:
    found = ratio_of_medians([1, 2], [1000, 1001, 1002])
    assert found is not None and found.interval is None and not found.real


@pytest.mark.parametrize(("base", "new"), [([], [1.0]), ([1.0], []), ([0.0], [1.0])])
def test_without_positive_samples_there_is_no_ratio(base: list[float], new: list[float]) -> None:
    assert ratio_of_medians(base, new) is None


@pytest.mark.parametrize(
    ("base", "new", "chance"), [(3, 3, 0.1), (4, 4, 2 / 70), (3, 5, 2 / 56), (1, 1, 1.0)]
)
def test_chance_that_sets_of_one_kind_lie_apart(base: int, new: int, chance: float) -> None:
    assert chance_of_separation(base, new) == pytest.approx(chance)


def test_samples_needed_follow_the_formula() -> None:
    base = [math.exp(v) for v in (-0.1, 0.0, 0.1)]
    new = [2 * value for value in base]
    # Spread 0.1 on both sides; (1.95996 + 0.84162)^2 = 7.8489.
    exact = math.pi / 2 * 7.8489 * 0.02 / math.log(1.02) ** 2
    assert samples_needed(base, new, 1.02) == math.ceil(exact) == 629


def test_samples_needed_is_never_below_what_can_be_sure() -> None:
    assert samples_needed([1, 1.001], [9, 9.001], 9.0) == 4


def test_no_difference_needs_no_number_of_samples() -> None:
    assert samples_needed([1, 2], [1, 2], 1.0) is None


def test_the_smallest_change_is_what_so_many_samples_are_needed_for() -> None:
    draw = random.Random(7)
    base, new = ([draw.lognormvariate(0, 0.03) for _ in range(40)] for _ in range(2))
    size = smallest_percent(base, new)
    assert size is not None
    assert samples_needed(base, new, 1 + size / 100) == pytest.approx(40, abs=1)


@given(times, times)
@settings(max_examples=30, deadline=None)
def test_properties(base: list[float], new: list[float]) -> None:
    there, back = ratio_of_medians(base, new), ratio_of_medians(new, base)
    assert there is not None and back is not None
    assert there.value * back.value == pytest.approx(1)
    assert there.real == back.real
    if there.interval is None or back.interval is None:
        assert min(len(base), len(new)) < 3
        return
    assert there.interval.low <= there.value <= there.interval.high
    assert there.interval.low * back.interval.high == pytest.approx(1)
    assert there.interval.high * back.interval.low == pytest.approx(1)


@given(times)
@settings(max_examples=15, deadline=None)
def test_a_run_never_differs_from_itself(samples: list[float]) -> None:
    found = ratio_of_medians(samples, samples)
    assert found is not None and found.value == 1 and not found.real and found.needed is None


@pytest.mark.parametrize("count", [4, 5, 10])
def test_two_sets_of_one_kind_are_told_apart_in_5_of_100_cases_at_most(count: int) -> None:
    draw = random.Random(11)
    wrong = 0
    for _ in range(120):
        base, new = ([draw.lognormvariate(0, 0.05) for _ in range(count)] for _ in range(2))
        found = ratio_of_medians(base, new)
        wrong += found is not None and found.real
    # 5 % of 120 and twice the standard deviation of such a count.
    assert wrong <= 6 + 5


def test_a_change_of_the_size_of_the_spread_is_seen_with_the_samples_needed() -> None:
    draw = random.Random(13)
    seen = 0
    needed = samples_needed([0.96, 1, 1.04], [0.96, 1, 1.04], 1.05)
    assert needed is not None
    for _ in range(60):
        base = [draw.lognormvariate(0, 0.04) for _ in range(needed)]
        new = [1.05 * draw.lognormvariate(0, 0.04) for _ in range(needed)]
        found = ratio_of_medians(base, new)
        seen += found is not None and found.real
    assert seen >= 39


def test_many_thousand_samples_are_no_matter() -> None:
    draw = random.Random(17)
    base = [draw.uniform(99, 101) for _ in range(50_000)]
    found = ratio_of_medians(base, [value * 1.01 for value in base])
    assert found is not None and found.real
