"""Figures as a reader sees them: three digits, in the unit that reads best."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instrumentor_analysis.shared.units import adding_up, alike, column, number, quantity


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "ms", "not measured"),
        (math.nan, "ms", "not measured"),
        (math.inf, "", "not measured"),
        (0.0, "ms", "0 ms"),
        (0.0051, "ms", "5.1 us"),
        (1_050.0, "ms", "1.05 s"),
        (999.7, "ms", "1.0 s"),
        (99.96, "s", "1.67 min"),
        (754_000.0, "ms", "12.6 min"),
        (-3.5, "ms", "-3.5 ms"),
        (0.0004, "us", "0.0004 us"),
        (0.00187, "GFLOPs", "1.87 MFLOPs"),
        (9.0e6, "FLOPs", "9.0 MFLOPs"),
        (0.142, "TFLOP/s", "142 GFLOP/s"),
        (500.74e6, "B", "501 MB"),
        (12, "B", "12 B"),
        (288.0, "GB/s", "288 GB/s"),
        (26_140.0, "samples/s", "26,100 samples/s"),
        (0.52, "samples/s", "0.52 samples/s"),
        (0.0313, "ms/sample", "31.3 us/sample"),
        (84.61, "%", "84.6 %"),
        (1_873, "", "1,873"),
    ],
)
def test_a_quantity(value: float | None, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@pytest.mark.parametrize("exponent", range(-12, 15))
@pytest.mark.parametrize("unit", ["us", "ms", "s", "B", "FLOPs", "TFLOP/s", "samples/s", ""])
def test_no_figure_has_an_exponent(exponent: int, unit: str) -> None:
    assert "e" not in quantity(2.614 * 10.0**exponent, unit).split()[0]


def test_a_column_has_the_unit_and_the_decimals_of_its_largest_figure() -> None:
    assert column([120.0, 0.5, None], "ms") == ["120.0 ms", "0.5 ms", "-"]
    assert column([7.7269, 0.99], "ms") == ["7.727 ms", "0.990 ms"]
    assert column([0.12, 0.001], "ms") == ["120.0 us", "1.0 us"]
    assert column([0.12], "ms", like=[5.0]) == ["0.120 ms"]
    assert column([1_873.0, 2.0], "") == ["1,873", "2"]
    assert column([], "ms") == []


def test_parts_have_the_unit_of_the_whole() -> None:
    assert alike([69.0, 7.24, 1.1], "ms", [80.6]) == (["69.0", "7.2", "1.1"], "ms")
    assert alike([900.0, 40.0], "ms", [1_050.0]) == (["0.90", "0.04"], "s")
    assert alike([870.4, 1_340.0], "ms", of=976.0) == (["870", "1,340"], "ms")
    assert alike([870.4, 1_340.0], "ms", of=999.9) == (["0.87", "1.34"], "s")


def test_zeros_behind_the_first_decimal_go() -> None:
    assert [number(each) for each in (2.0, 2.5, 2.504, 25.0, 250.0)] == [
        "2.0", "2.5", "2.5", "25.0", "250",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "whole", "shown"),
    [
        ([2.8, 90.5, 23.7], 117.0, ["3", "90", "24"]),  # each by itself: 118
        ([209.6, 1.6], 211.2, ["209", "2"]),
        ([69.0, 7.24, 1.1, 3.26], 80.6, ["69.0", "7.2", "1.1", "3.3"]),
        ([950.4, 99.6], 1_050.0, ["0.95", "0.1"]),
        ([1.0, 2.0], 9.0, ["1.0", "2.0"]),  # parts that do not make the whole
        ([4.0, 5.0], 3.0, ["4.0", "5.0"]),
        ([0.0], 0.0, ["0"]),
        ([], 5.0, []),
    ],
)
def test_parts_as_shown_add_up_to_the_whole_as_shown(
    parts: list[float], whole: float, shown: list[str]
) -> None:
    assert adding_up(parts, "ms", whole)[0] == shown


@pytest.mark.parametrize(
    ("parts", "whole", "shown"),
    [
        ([0.6602, 0.1068, 1.16475, 0.7249, 0.1533], 2.81, ["0.66", "0.11", "1.16", "0.72", "0.16"]),
        ([0.146, 0.3, 7.2962, 0.89, 0.3278], 8.96, ["0.15", "0.3", "7.3", "0.89", "0.32"]),
        ([0.004, 0.004, 1.004, 0.0, 0.001], 1.013, ["0.0", "0.0", "1.0", "0.0", "0.01"]),
        ([0.006, 0.006, 1.0, 0.0, 0.001], 1.013, ["0.01", "0.0", "1.0", "0.0", "0.0"]),
    ],
)
def test_a_part_that_is_a_figure_of_its_own_is_never_bent(
    parts: list[float], whole: float, shown: list[str]
) -> None:
    assert adding_up(parts, "ms", whole, [2], 4)[0] == shown


@given(
    st.lists(st.floats(0.001, 500.0), min_size=2, max_size=6),
    st.integers(1, 2),
    st.booleans(),
)
def test_whatever_the_parts_they_add_up_and_the_figure_is_its_own(
    parts: list[float], count: int, with_rest: bool
) -> None:
    whole, figure = sum(parts), list(range(min(count, len(parts) - 1)))
    shown, _ = adding_up(parts, "ms", whole, figure, len(parts) - 1 if with_rest else None)
    (total, alone), _ = alike([whole, sum(parts[at] for at in figure)], "ms", of=whole)
    numbers = [float(each.replace(",", "")) for each in shown]
    assert sum(numbers) == pytest.approx(float(total.replace(",", "")), abs=1e-6)
    its_own = sum(numbers[at] for at in figure)
    assert its_own == pytest.approx(float(alone.replace(",", "")), abs=1e-6)
