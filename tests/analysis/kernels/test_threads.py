"""The auto-profiler's tables and the roofline."""

from __future__ import annotations

import pytest

from instrumentor_analysis.kernels.log import parse_log
from instrumentor_analysis.kernels.model import LineCycles, Operation, ThreadCycles
from instrumentor_analysis.kernels.threads import bound_of, read_roofline, read_summary
from tests.analysis.kernels.printed import AUTO, ROOFLINE


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


def test_roofline_without_its_verdict_is_worked_out_as_tt_lang_does() -> None:
    rows = [line for line in ROOFLINE.splitlines() if "bound" not in line]
    rows = [line for line in rows if not line.strip().startswith(("Memory", "Compute"))]
    roofline = read_roofline(rows)
    assert roofline is not None
    assert roofline.bound == "compute"
    assert round(roofline.percent) == 96


@pytest.mark.parametrize(
    ("memory", "compute", "expected"),
    [(11664925, 11385504, (2, "memory")), (5, 5, (0, "balanced")), (0, 0, (0, "balanced"))],
)
def test_bound_of(memory: int, compute: int, expected: tuple[int, str]) -> None:
    percent, bound = bound_of(memory, compute)
    assert (round(percent), bound) == expected


def test_balanced() -> None:
    roofline = read_roofline(["  Perfectly balanced!"])
    assert roofline is not None
    assert (roofline.percent, roofline.bound) == (0.0, "balanced")


def test_nothing_of_a_roofline() -> None:
    assert read_roofline(["words", ""]) is None
