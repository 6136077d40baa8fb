"""Predictions from measured phases, against a simulated truth."""

from __future__ import annotations

import random
import statistics
from pathlib import Path
from unittest.mock import ANY

import pytest

from instrumentor_analysis.clock.intervals import ASSUMED
from instrumentor_analysis.clock.phases import Extra
from instrumentor_analysis.clock.what_if import Again, of_another_run, what_if
from instrumentor_analysis.model import Interval, Iteration, Summary
from instrumentor_analysis.reports.summary import console, html, markdown
from instrumentor_analysis.summary.summarise import summarise
from tests.analysis.records import run_folder, steady_events


def extra(data: float, forward: float, other: float = 0.0, stepped: int = 1) -> Extra:
    parts = {"data": data, "forward": forward, "other": other}
    return Extra(ms=data + forward + other, parts=parts, stepped=stepped)


def test_an_iteration_without_its_wait_for_data() -> None:
    hidden, quiet = what_if([extra(50, 40, 10)] * 6, None)
    assert (hidden.change, hidden.ms, hidden.saving_percent) == ("no wait for data", 50.0, 50.0)
    # Behind a wait a host is slow for a while: no more than a bound.
    assert hidden.basis == "at most" and hidden.interval_ms is None
    assert quiet.basis == "model" and quiet.interval_ms == Interval(90.0, 90.0, ANY)
    assert (quiet.ms, quiet.saving_percent) == (90.0, pytest.approx(10))


def test_no_interval_of_few_and_no_row_for_nothing() -> None:
    (only,) = what_if([extra(0, 50, 50)] * 3, None)
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
        found = what_if([extra(0, rest, chance.uniform(30, 60)) for rest in rests], None)
        interval = found[0].interval_ms
        if interval is not None:  # of steps that resemble their neighbours there may be none
            shown += 1
            covered += interval.low <= rest_ms <= interval.high
    assert shown >= 900 and covered >= 0.9 * shown


def again(*values_ms: float, data_ms: float = 0.0) -> list[Again]:
    return [Again(ms, data_ms) for ms in values_ms]


def test_a_hidden_input_is_measured_and_its_bound_is_not_told_beside_it() -> None:
    taken, without = [extra(50, 50)] * 6, measured(100.0, 99.0, 101.0)
    (hidden,) = what_if(taken, without, again(*[30.0, 31.0, 32.0] * 5))
    assert (hidden.ms, hidden.basis, hidden.saving_percent) == (31.0, "measured", pytest.approx(69))
    interval = hidden.interval_ms
    assert interval is not None and interval.low < 31 / 1.4 and interval.high > 31 * 1.4


def test_what_was_not_hidden_is_no_measurement() -> None:
    taken, without = [extra(50, 50)] * 6, measured(100.0, 99.0, 101.0)
    for seen in (
        again(*[31.0] * 5),  # too few
        again(*[90.0] * 15, data_ms=50.0),  # the body waits for another loader
        again(*[99.5] * 15),  # nothing saved
        [],
    ):
        assert [each.basis for each in what_if(taken, without, seen)] == ["at most"]
    assert what_if([extra(50, 50, stepped=0), extra(50, 90)], without, again(*[31.0] * 15)) == ()


def test_the_median_of_another_run_lies_within_in_at_least_nine_of_ten() -> None:
    """Runs differ as is assumed of one run against one, their steps as those of a real run do."""
    chance, covered = random.Random(7), 0
    for _ in range(1000):
        runs = [0.9 * chance.lognormvariate(0, ASSUMED) for _ in range(2)]
        this, other = ([run * chance.lognormvariate(0, 0.1) for _ in range(35)] for run in runs)
        interval = of_another_run(this)
        covered += interval.low <= statistics.median(other) <= interval.high
    assert 930 <= covered <= 980


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


def test_every_format_says_what_a_prediction_rests_on() -> None:
    taken, without = [extra(50, 40, 10)] * 6, measured(100.0, 99.0, 101.0)
    bound = Summary("wallclock", what_if=what_if(taken, without))
    seen = Summary("wallclock", what_if=what_if(taken, without, again(*[31.0] * 15)))
    for show in (console, markdown, html):
        for summary, words in ((bound, "at most: the iteration"), (seen, "measured: extra")):
            text = " ".join(show(summary).split())
            assert "no wait for data" in text and words in text and "model, not measured" in text


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
