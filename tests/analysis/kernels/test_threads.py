"""The auto-profiler's tables, the roofline and the signposts."""

from __future__ import annotations

from instrumentor_analysis.kernels.log import parse_log
from instrumentor_analysis.kernels.model import LineCycles, Operation, SignpostRow, ThreadCycles
from instrumentor_analysis.kernels.threads import read_roofline, read_signposts, read_summary
from tests.analysis.kernels.printed import AUTO, ROOFLINE, SIGNPOSTS_NEW, SIGNPOSTS_OLD


def test_rows_of_the_summary() -> None:
    assert parse_log(AUTO).threads == (
        ThreadCycles("NCRISC", "demo_read", 160260, 8000, 100.0),
        ThreadCycles("TRISC_0", "demo_compute", 16026, 40, 10.0),
    )


def test_a_thread_without_a_name() -> None:
    (row,) = read_summary(["  BRISC                            7 cycles (  1 ops) [  0.1%]"])
    assert row == ThreadCycles("BRISC", "", 7, 1, 0.1)


def test_lines_with_their_parts_through_colours_and_trees() -> None:
    lines = {row.line: row for row in parse_log(AUTO).lines}
    assert lines[106] == LineCycles(
        "NCRISC", "demo_read", 106, "    core_x, core_y = ttl.node(dims=2)", 4086, 2.5, 192, 18, 50
    )
    assert (lines[107].count, lines[107].cycles, lines[107].low) == (2, 42, 21)
    assert lines[119].source.strip() == "a_cb.reserve() as a_blk,"
    assert lines[119].operations == (
        Operation("cb_reserve", 10162, 512, False),
        Operation("cb_push", 7906, 384, True),
    )
    assert lines[120].cycles == 1602
    assert 105 not in lines  # shown for context only


def test_roofline_as_printed() -> None:
    roofline = read_roofline(ROOFLINE.splitlines())
    assert roofline is not None
    assert (roofline.percent, roofline.bound) == (96.0, "compute")
    assert (roofline.memory, roofline.compute) == (4812667, 134661339)
    assert roofline.waits["BRISC"] == 42009536


def test_balanced() -> None:
    roofline = read_roofline(["  Perfectly balanced!"])
    assert roofline is not None
    assert (roofline.percent, roofline.bound) == (0.0, "balanced")


def test_without_a_verdict_there_is_no_roofline() -> None:
    rows = [line for line in ROOFLINE.splitlines() if "bound" not in line]
    assert read_roofline(rows) is None


def test_one_row_an_occurrence_is_put_together() -> None:
    assert parse_log(SIGNPOSTS_OLD).signposts == (
        SignpostRow("load block", "TRISC_0", 2, 1400, 700, 600, 800),
        SignpostRow("math", "TRISC_1", 1, 2232, 2232, 2232, 2232),
    )


def test_rows_with_statistics() -> None:
    assert parse_log(SIGNPOSTS_NEW).signposts == (
        SignpostRow("store", "TRISC_0", 31, 616, 19, 18, 28),
        SignpostRow("broadcast", "TRISC_1", 31, 24436, 788, 719, 2535),
    )


def test_other_lines_are_passed_over() -> None:
    assert read_signposts(["epoch 3 loss 5", "x TRISC_0 abc", "TRISC_0 5", ""]) == []
