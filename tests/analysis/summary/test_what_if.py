"""Predictions for a device, out of a summary whose parts the test sets."""

from __future__ import annotations

from msgspec.structs import replace

from instrumentor_analysis.model import (
    Cause,
    DeviceRow,
    Devices,
    Gaps,
    Iteration,
    RankRow,
    Ranks,
    Saving,
    Summary,
    WallClock,
)
from instrumentor_analysis.reports.owners import what_if as section
from instrumentor_analysis.summary.what_if import REPLAY_MOST_MS, REPLAY_MS, TRACE, of_device

VALUES = tuple(1000.0 + n for n in (2, -4, 5, 0, -2, 4, -1, 1, -5))
WHOLE = Iteration(9, 1000.0, 995.0, 1005.0, values_ms=VALUES)
WALL = WallClock(label="fwd+bwd", samples=9, median_ms=900.0, iteration=WHOLE)
SAVINGS = (
    Saving("Matmul", "bound", 4, 300_000.0, 200_000.0, 20.0),
    Saving("Softmax", "bound", 4, 100_000.0, 50_000.0, 5.0),
    Saving("Matmul", "gap", 4, 120_000.0, 100_000.0, 10.0),
)
SUMMARY = Summary(
    profiler="tracy",
    wall_clock=WALL,
    step_wall_clock_ms=900.0,
    device_time_ms=600.0,
    op_count=1000,
    savings=SAVINGS,
    gaps=Gaps(1000, 120_000.0, 5.0, 9.0, 99.0, 10, 1000.0),
    host_bound=False,
)


def predicted(summary: Summary) -> dict[str, float]:
    return {each.change: each.ms for each in of_device(summary)}


def test_what_is_saved_of_the_step_is_saved_of_the_iteration() -> None:
    assert predicted(SUMMARY) == {
        "every op at its roofline": 750.0,
        TRACE: 1000 - (900 - 600 - 6.5 - REPLAY_MS),
        "Matmul at its roofline": 800.0,
        "gaps at 6.5 us": 900.0,
    }


def test_intervals_are_those_of_the_iteration_moved_and_a_replay_s_cost_widens_one() -> None:
    found = {each.change: each for each in of_device(SUMMARY)}
    interval = found["gaps at 6.5 us"].interval_ms
    assert interval is not None and interval.low <= 900 <= interval.high
    trace = found[TRACE].interval_ms
    assert trace is not None
    assert trace.high - trace.low > REPLAY_MOST_MS - REPLAY_MS


def test_faster_ops_help_no_step_that_waits_for_the_host() -> None:
    bound = predicted(replace(SUMMARY, host_bound=True))
    assert set(bound) == {TRACE, "gaps at 6.5 us"}


def test_no_trace_is_predicted_of_a_step_that_could_not_be_replayed() -> None:
    again = replace(SUMMARY, causes=(Cause("new graph", "aten::pow: 3, then 4", "t.py", 7),))
    assert TRACE in predicted(SUMMARY) and TRACE not in predicted(again)


def test_gaps_never_save_more_than_the_step_waits() -> None:
    long = replace(SUMMARY, savings=(Saving("Matmul", "gap", 4, 9e6, 8e6, 90.0),))
    assert predicted(long)["gaps at 6.5 us"] == 1000 - 300


def test_a_step_unlike_the_others_predicts_nothing() -> None:
    assert predicted(replace(SUMMARY, step_wall_clock_ms=2900.0)) == {}


def test_a_busy_machine_predicts_nothing() -> None:
    busy = {"machine": {"cpus": 4, "other_cpus": 3.0}}
    assert predicted(replace(SUMMARY, run=busy)) == {}


def test_without_skew_the_others_do_not_wait() -> None:
    bare = Summary(profiler="wallclock", wall_clock=WALL)
    rows = (RankRow(0, 9, waited_ms=100.0), RankRow(1, 9))
    ranks = Ranks(2, rows, 4, 8, slowest=1, waited_ms=100.0)
    assert predicted(replace(bare, ranks=ranks)) == {"no skew": 900.0}
    chips = (DeviceRow(0, 9, 500.0, 0, 80.0, 1), DeviceRow(1, 9, 500.0, 0, 5.0, 8))
    assert predicted(replace(bare, devices=Devices(chips, 1.0))) == {"no skew": 920.0}


def test_little_is_not_predicted() -> None:
    rows = (RankRow(0, 9, waited_ms=10.0), RankRow(1, 9))
    ranks = Ranks(2, rows, 4, 8, slowest=1, waited_ms=10.0)
    assert predicted(Summary(profiler="wallclock", wall_clock=WALL, ranks=ranks)) == {}


def test_the_table_says_what_a_replay_was_taken_to_cost() -> None:
    note = section(of_device(SUMMARY)).tables[0].note
    assert "model, not measured" in note and "50 to 150 ms" in note
