"""Two sets of samples to a ratio: exact values, properties, and how often it is wrong."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instrumentor_analysis.clock.intervals import median_interval
from instrumentor_analysis.compare.ratio import chance_of_separation, ratio_of_medians
from tests.analysis.series import KINDS, SIZES, correlated

times = st.lists(st.floats(0.01, 1e6), min_size=1, max_size=12)


def test_the_interval_is_around_the_ratio() -> None:
    found = ratio_of_medians([101, 100, 103, 102], [112, 110, 111, 113])
    assert 1 < found.interval.low < found.value == 111.5 / 101.5 < found.interval.high < 1.2
    assert found.real


def test_two_sets_of_four_that_overlap_are_no_real_difference() -> None:
    found = ratio_of_medians([100, 101, 102, 111], [110, 112, 113, 114])
    assert found is not None and not found.real


def test_two_samples_on_a_side_tell_what_they_would_show() -> None:
    two, one = ratio_of_medians([100, 101], [101, 102]), ratio_of_medians([100], [101, 102])
    assert two is not None and two.smallest_percent is not None and two.needed is not None
    assert one is not None and one.smallest_percent is None and one.needed is None


def test_three_and_three_cannot_be_sure_however_far_apart() -> None:
    found = ratio_of_medians([1, 2, 3], [1000, 1001, 1002])
    assert found.interval.low > 1
    assert not found.enough and not found.real


@pytest.mark.parametrize(("base", "new"), [([], [1.0]), ([1.0], []), ([0.0], [1.0])])
def test_without_positive_samples_there_is_no_ratio(base: list[float], new: list[float]) -> None:
    assert ratio_of_medians(base, new) is None


@pytest.mark.parametrize(
    ("base", "new", "chance"), [(3, 3, 0.1), (4, 4, 2 / 70), (3, 5, 2 / 56), (1, 1, 1.0)]
)
def test_chance_that_sets_of_one_kind_lie_apart(base: int, new: int, chance: float) -> None:
    assert chance_of_separation(base, new) == pytest.approx(chance)


def test_the_samples_needed_grow_with_the_spread_and_shrink_with_the_difference() -> None:
    def needed(spread: float, change: float) -> int:
        draw = random.Random(7)
        base, new = ([draw.lognormvariate(0, spread) for _ in range(40)] for _ in range(2))
        middle = statistics.median(base) / statistics.median(new)
        found = ratio_of_medians(base, [value * middle * change for value in new])
        assert found.needed is not None
        return found.needed

    assert needed(0.06, 1.02) == pytest.approx(4 * needed(0.03, 1.02), rel=0.05)
    assert needed(0.03, 1.02) == pytest.approx(needed(0.03, 1.02**2) * 4, rel=0.05)
    assert needed(1e-6, 1.02) == 4


def test_more_samples_show_a_smaller_change() -> None:
    draw = random.Random(7)
    many = [draw.lognormvariate(0, 0.03) for _ in range(160)]
    few = ratio_of_medians(many[:40], many[40:80])
    more = ratio_of_medians(many[:80], many[80:])
    assert 0 < more.smallest_percent < few.smallest_percent < 5


@given(times, times)
@settings(max_examples=30, deadline=None)
def test_properties(base: list[float], new: list[float]) -> None:
    there, back = ratio_of_medians(base, new), ratio_of_medians(new, base)
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
    assert found.value == 1 and not found.real and found.needed is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_equal_code_is_told_apart_in_few_cases(kind: str, sizes: tuple[int, int]) -> None:
    draw, made = random.Random(str((kind, sizes))), KINDS[kind]
    wrong = 0
    for _ in range(100):
        found = ratio_of_medians(made(draw, sizes[0]), made(draw, sizes[1]))
        wrong += found is not None and found.real
    # 6 of 100, and three standard deviations of such a count; tests/benchmarks counts thousands.
    assert wrong <= 6 + 7


def test_few_correlated_steps_do_not_hide_twice_the_time() -> None:
    draw, made = random.Random(19), correlated(0.9, 0.05)
    found = [ratio_of_medians(made(draw, 8), [2 * ms for ms in made(draw, 8)]) for _ in range(60)]
    assert all(each is not None and each.real for each in found)
    # Of a machine that others used runs differ by more, and so may these two.
    busy = ratio_of_medians(made(draw, 8), [2 * ms for ms in made(draw, 8)], noise=0.7)
    assert busy is not None and not busy.real


def test_a_change_is_seen_with_the_samples_needed() -> None:
    draw = random.Random(13)
    made = correlated(0.3, 0.04)
    base, new = made(draw, 200), made(draw, 200)
    middle = 1.05 * statistics.median(base) / statistics.median(new)
    first = ratio_of_medians(base, [middle * value for value in new])
    assert first.needed is not None
    seen = 0
    for _ in range(60):
        base, new = made(draw, first.needed), made(draw, first.needed)
        found = ratio_of_medians(base, [1.05 * value for value in new])
        seen += found is not None and found.real
    assert seen >= 36


def test_many_thousand_samples_are_no_matter() -> None:
    draw = random.Random(17)
    base = [draw.uniform(99, 101) for _ in range(50_000)]
    found = ratio_of_medians(base, [value * 1.01 for value in base])
    assert found.real


@pytest.mark.parametrize(
    ("count", "told"), [(5, False), (6, True)], ids=["five steps", "six steps"]
)
def test_an_interval_is_told_where_each_side_has_its_own(count: int, told: bool) -> None:
    few, many = [1.0, 1.3, 1.1, 1.25, 1.05, 1.2][:count], [2.0, 2.3, 2.1, 2.25, 2.05, 2.2]
    for base, new in ((few, many), (many, few)):
        found = ratio_of_medians(base, new)
        assert found is not None and found.real
        assert found.told is told is (median_interval(few) is not None)
        assert found.interval is not None and (found.shown is not None) is told


def test_many_steps_that_count_as_few_have_no_interval_to_be_told() -> None:
    base, new = ([ms + step for step in range(11)] for ms in (60.0, 600.0))
    found = ratio_of_medians(base, new)
    assert found is not None and not found.told and found.shown is None
    assert median_interval(base) is None
