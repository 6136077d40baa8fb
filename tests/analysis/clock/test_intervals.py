"""Intervals of a median: the exact ones, and how often they hold it."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instrumentor_analysis.clock.intervals import (
    median_interval,
    reach,
    student_quantile,
)
from instrumentor_analysis.clock.order_statistics import (
    autocorrelation,
    effective_samples,
    inflation,
)
from instrumentor_analysis.model import Interval
from tests.analysis.series import correlated


@pytest.mark.parametrize(
    ("count", "rank", "confidence"),
    [
        (6, 1, 1 - 2 / 2**6),
        (7, 1, 1 - 2 / 2**7),
        (8, 1, 1 - 2 / 2**8),
        (9, 2, 1 - 2 * 10 / 2**9),
        (10, 2, 1 - 2 * 11 / 2**10),
        (12, 3, 1 - 2 * 79 / 2**12),
        (20, 6, 1 - 2 * 21700 / 2**20),
    ],
)
def test_between_which_ranks_and_how_sure(count: int, rank: int, confidence: float) -> None:
    # From the middle outwards: neighbours are not alike.
    values = [float(v) for pair in zip(range(count), reversed(range(count)), strict=True)
              for v in pair][:count]  # fmt: skip
    found = median_interval(values)
    assert found == Interval(rank - 1.0, float(count - rank), pytest.approx(confidence))


@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_fewer_than_six_are_never_95_percent_sure(count: int) -> None:
    assert median_interval([1.0, 3.0, 2.0, 5.0, 4.0][:count]) is None


def test_many_that_are_worth_fewer_than_six_are_none_either() -> None:
    assert effective_samples([float(at) for at in range(12)]) < 6
    assert median_interval([float(at) for at in range(12)]) is None


@pytest.mark.parametrize("count", [6, 7, 8, 10, 12, 20, 40])
@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6])
def test_the_median_is_held_as_often_as_is_said(count: int, rho: float) -> None:
    draw, made = random.Random(count), correlated(rho)
    found = [median_interval(made(draw, count)) for _ in range(400)]
    shown = [each for each in found if each is not None]
    assert all(each.confidence >= 0.95 for each in shown)
    held = sum(each.low <= 1.0 <= each.high for each in shown)
    # Few steps do not show how alike they are; 400 tries scatter by 2 %.
    unseen = 0.2 if count < 20 and rho else 0.0
    assert held >= len(shown) * (0.9 - unseen)


@given(st.lists(st.floats(0.001, 1e6), min_size=3, max_size=30))
def test_the_interval_holds_the_median_of_the_samples(values: list[float]) -> None:
    interval = median_interval(values)
    if interval is None:
        return
    assert min(values) <= interval.low <= statistics.median(values) <= interval.high <= max(values)


def test_many_samples_say_more() -> None:
    draw = random.Random(5)
    values = [draw.gauss(10.0, 0.5) for _ in range(20_001)]
    few, many = median_interval(values[:200]), median_interval(values)
    assert few.low < many.low < statistics.median(values) < many.high < few.high
    assert many.high - many.low == pytest.approx(2 * 1.96 * 1.2533 * 0.5 / 20_001**0.5, rel=0.15)


def test_steps_that_are_alike_are_worth_fewer() -> None:
    draw = random.Random(9)
    assert effective_samples(correlated(0.0)(draw, 400)) > 300
    # (1 - 0.6) / (1 + 0.6) of 400.
    assert effective_samples(correlated(0.6)(draw, 400)) == pytest.approx(100, rel=0.3)


def test_the_correlation_is_not_hidden_by_an_outlier() -> None:
    values = correlated(0.6)(random.Random(3), 300)
    plain = autocorrelation(values)
    values[7] = 1e6
    assert autocorrelation(values) == pytest.approx(plain, abs=0.05)
    assert autocorrelation([1.0] * 9) == 0.0
    assert [autocorrelation([1.0, 2.0, 3.0, 4.0][:count]) > 0 for count in range(5)] == (
        [False] * 4 + [True]
    )


@pytest.mark.parametrize(("count", "rho"), [(1, 0.5), (4, 0.6), (50, 0.3), (9, 0.0)])
def test_the_inflation_is_its_sum(count: int, rho: float) -> None:
    exact = 1 + 2 * sum((1 - k / count) * rho**k for k in range(1, count))
    assert inflation(count, rho) == pytest.approx(exact)


def test_the_error_of_a_median_is_that_of_a_normal_one() -> None:
    draw = random.Random(21)
    errors = [reach([math.exp(draw.gauss(0, 0.1)) for _ in range(100)]) for _ in range(40)]
    mean = statistics.fmean(math.sqrt(found.variance) for found in errors)
    assert mean == pytest.approx(math.sqrt(math.pi / 2) * 0.1 / 10, rel=0.25)


@pytest.mark.parametrize(
    ("probability", "freedom", "quantile"),
    # Tables: Abramowitz and Stegun 26.10.
    [(0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 4.9, 2.776), (0.995, 4, 4.604),
     (0.975, 9, 2.262), (0.975, 30, 2.042), (0.95, 120, 1.658), (0.975, 5000, 1.960)],
)  # fmt: skip
def test_students_quantiles(probability: float, freedom: float, quantile: float) -> None:
    assert student_quantile(probability, freedom) == pytest.approx(quantile, abs=5e-4)


def test_what_arithmetic_loses_takes_no_degree_of_freedom() -> None:
    assert student_quantile(0.975, 2 - 1e-12) == pytest.approx(4.303, abs=5e-4)
    assert student_quantile(0.975, 1.9) == pytest.approx(12.706, abs=5e-4)
