"""The line through the steps: what it says, and when it is more than chance."""

from __future__ import annotations

import math
import random

import pytest

from instrumentor_analysis.clock.drift import drift
from instrumentor_analysis.model import Interval
from tests.analysis.series import correlated


def test_the_change_is_in_percent_of_the_first_step() -> None:
    found = drift([10.0 * 0.9**at for at in range(5)])
    assert found.sure
    assert found.percent == pytest.approx((0.9**4 - 1) * 100)
    assert (found.first_ms, found.last_ms) == pytest.approx((10.0, 6.561))


def test_it_never_falls_by_more_than_everything() -> None:
    found = drift([1282.0, 900.0, 700.0, 500.0, 400.0, 350.0, 320.0, 302.0])
    assert found.sure
    assert -100 < found.percent < -70


@pytest.mark.parametrize("values", [[10.0, 11.0, 12.0], [0.0, 1.0, 2.0, 3.0], []])
def test_without_a_line(values: list[float]) -> None:
    assert drift(values) is None


@pytest.mark.parametrize(
    "values",
    [
        [10.0, 10.0, 10.0, 10.0],
        [10.0, 11.0, 9.8, 10.2],
        # Monotone, and too little to matter.
        [10.0, 10.01, 10.02, 10.03],
    ],
)
def test_steady_steps(values: list[float]) -> None:
    found = drift(values)
    assert found is not None and not found.sure


def test_the_smallest_score_that_is_more_than_chance() -> None:
    """Of five steps all ten pairs: with one out of order the normal quantile is 1.9596."""
    rising, swapped = drift([10.0, 11, 12, 13, 14]), drift([10.0, 11, 12, 14, 13])
    assert rising is not None and rising.sure
    assert swapped is not None and swapped.percent > 20 and not swapped.sure


def test_chance_is_called_a_drift_in_few_cases() -> None:
    draw = random.Random(11)
    for rho, most in ((0.0, 0.09), (0.6, 0.2)):
        said = sum(bool((d := drift(correlated(rho)(draw, 20))) and d.sure) for _ in range(150))
        assert said / 150 <= most


def test_a_fall_by_forty_percent_is_seen() -> None:
    draw = random.Random(12)
    for count in (6, 12, 40):
        for _ in range(20):
            noise = correlated(0.3, 0.02)(draw, count)
            found = drift([v * math.exp(-0.5 * at / count) for at, v in enumerate(noise)])
            assert found.sure


def test_a_sure_line_widens_the_interval() -> None:
    found = drift([10.0 * 0.9**at for at in range(5)])
    wide = found.widen(Interval(7.0, 8.0, 0.9))
    assert (wide.low, wide.high, wide.confidence) == pytest.approx((6.561, 10.0, 0.9))
    steady = drift([10.0, 11.0, 9.8, 10.2])
    assert steady.widen(Interval(7.0, 8.0)) == Interval(7.0, 8.0)


def test_many_samples() -> None:
    found = drift([10.0 + at / 1000 for at in range(5000)])
    assert found.percent == pytest.approx(50.0, rel=0.1)
