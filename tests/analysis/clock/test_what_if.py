"""Predictions from measured phases, against a simulated truth."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from instrumentor_analysis.clock.phases import Extra
from instrumentor_analysis.clock.what_if import what_if
from instrumentor_analysis.model import Interval, Iteration, Summary
from instrumentor_analysis.reports.summary import console, html, markdown
from instrumentor_analysis.summary.summarise import summarise
from tests.analysis.records import run_folder, steady_events


def extra(data: float, forward: float, other: float = 0.0, stepped: int = 1) -> Extra:
    parts = {"data": data, "forward": forward, "other": other}
    return Extra(ms=data + forward + other, parts=parts, stepped=stepped)


def test_an_iteration_without_its_wait_for_data() -> None:
    hidden, quiet = what_if([extra(50, 40, 10)] * 6, None)
    assert (hidden.change, hidden.ms, hidden.saving_percent) == ("input hidden", 50.0, 50.0)
    assert hidden.interval_ms is not None and hidden.interval_ms.low == hidden.interval_ms.high
    assert (quiet.ms, quiet.saving_percent) == (90.0, pytest.approx(10))


def test_no_interval_of_few_and_no_row_for_nothing() -> None:
    (only,) = what_if([extra(50, 50)] * 3, None)
    assert only.interval_ms is None
    assert what_if([extra(1, 99)] * 6, None) == () and what_if([], None) == ()
    assert what_if([extra(50, 50, stepped=0), extra(50, 90)], None) == ()  # of two kinds


def test_the_interval_covers_the_truth_in_at_least_nine_of_ten() -> None:
    """The truth: the median of what the rest takes when nothing is waited for."""
    chance, covered, shown = random.Random(5), 0, 0
    rest_ms = 80.0
    for _ in range(1000):
        # Right-skewed, as steps are: a log-normal whose median is known.
        rests = [rest_ms * chance.lognormvariate(0, 0.05) for _ in range(20)]
        found = what_if([extra(chance.uniform(30, 60), rest) for rest in rests], None)
        interval = found[0].interval_ms
        if interval is not None:  # of steps that resemble their neighbours there may be none
            shown += 1
            covered += interval.low <= rest_ms <= interval.high
    assert shown >= 900 and covered >= 0.9 * shown


def measured(median_ms: float, low_ms: float, high_ms: float) -> Iteration:
    return Iteration(20, median_ms, low_ms, high_ms, Interval(low_ms, high_ms, 0.95))


def test_the_base_is_the_iteration_without_barriers() -> None:
    (hidden,) = what_if([extra(55, 55)] * 6, measured(100.0, 99.0, 101.0))
    assert (hidden.ms, hidden.saving_percent) == (pytest.approx(50), pytest.approx(50))


def test_what_saves_less_than_the_barriers_cost_is_not_promised() -> None:
    assert what_if([extra(8, 102)] * 6, measured(100.0, 99.0, 101.0)) == ()
    assert what_if([extra(8, 92)] * 6, measured(100.0, 90.0, 101.0)) == ()  # within its interval
    (hidden,) = what_if([extra(8, 92)] * 6, measured(100.0, 97.0, 101.0))
    assert hidden.saving_percent == pytest.approx(8)


def test_every_format_says_that_it_is_a_model() -> None:
    summary = Summary("wallclock", what_if=what_if([extra(50, 50)] * 6, None))
    for text in (console(summary), markdown(summary), html(summary)):
        assert "input hidden" in text and "A model, not measured" in text


def test_nothing_is_predicted_of_a_busy_machine(tmp_path: Path) -> None:
    iterations = [
        {"event": "phases", "pid": 1, "ms": 100.0, "stepped": 1, "compiled": False,
         "parts": {"data": 50.0, "forward": 50.0}}
        for _ in range(6)
    ]  # fmt: skip
    quiet = run_folder(tmp_path / "quiet", *steady_events(50.0), *iterations)
    assert [each.change for each in summarise(quiet).what_if]
    machine = {"cpus": 4, "other_cpus": 3.0}
    busy = run_folder(tmp_path / "busy", *steady_events(50.0), *iterations, machine=machine)
    assert summarise(busy).what_if == ()
