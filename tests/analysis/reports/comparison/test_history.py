"""Runs over time as a table and as a figure."""

from __future__ import annotations

import io

from instrumentor_analysis.reports.comparison.history import Point, figure, render


def point(number: int, value: float | None, how: str = "torch fwd+bwd", name: str = "a") -> Point:
    bounds = (None, None) if value is None else (value * 0.9, value * 1.2)
    return Point(number, name, "abc123+", "2026-01-02 03:04", how, value, *bounds, samples=4)


def test_a_row_per_run_with_a_bar() -> None:
    lines = render([point(1, 10.0), point(2, 5.0), point(3, None)]).splitlines()
    assert len(lines) == 5
    assert lines[2].split()[:4] == ["1", "2026-01-02", "03:04", "abc123+"]
    assert lines[2].count("█") == 14 and lines[3].count("█") == 7 and "█" not in lines[4]


def test_a_line_per_way_of_measuring_with_intervals() -> None:
    made = figure([point(1, 10.0), point(2, 5.0, "tracy step"), point(3, 8.0)], "train.py")
    assert made is not None
    axes = made.axes[0]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["torch fwd+bwd", "tracy step"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["abc123+ a"] * 3
    made.savefig(io.BytesIO(), format="png")


def test_names_are_no_mathematics() -> None:
    made = figure([point(1, 10.0, name="$\\frac{1}{0}$")], "$x$")
    assert made is not None
    made.savefig(io.BytesIO(), format="png")


def test_without_a_median_there_is_nothing_to_draw() -> None:
    assert figure([point(1, None)], "train.py") is None
