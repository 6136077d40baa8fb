"""Ops of a simulated device are known by DEVICE ARCH, or by a clock that no chip has."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from instrumentor_analysis.load.perf_trace import join
from instrumentor_analysis.load.simulator import source_of
from instrumentor_analysis.ops.op_report import per_op_report
from instrumentor_analysis.ops.report_options import ReportOptions
from instrumentor_analysis.summary.summarise import summarise
from tests.analysis.ops_rows import FIXTURES, Row, op, write

BARE = FIXTURES / "simulated_wormhole.csv"
MS = 1_000_000


def called(host_ms: float, cycle: int, lasted_ms: float = 0.1, device: int = 0) -> Row:
    """An op that the host began to call at that time, and the device at that cycle."""
    return op(device=device) | {
        "HOST START TS": f"{host_ms * MS:.0f}",
        "HOST DURATION [ns]": f"{lasted_ms * MS:.0f}",
        "DEVICE FW START CYCLE": str(cycle),
        "DEVICE FW END CYCLE": str(cycle + 1000),
    }


@pytest.mark.parametrize(
    ("why", "rows", "simulated"),
    [
        ("a chip's clock runs beside the host's", [called(0, MS), called(50, 51 * MS)], False),
        ("a simulator's counts instructions", [called(0, 4217), called(50, 9000)], True),
        ("of several devices one is enough", [
            called(0, 9 * MS), called(0, 4217, device=1), called(50, 9000, device=1),
        ], True),
        ("a first call that compiles", [called(0, MS, 5000), called(5000.1, MS + 9000)], False),
        ("replays bear the time of their capture", [called(0, MS), called(0, 90 * MS)], False),
        ("one op alone tells nothing", [called(0, 4217)], False),
        ("nor does a moment", [called(0, 4217), called(0.5, 4300)], False),
        ("a counter that ran over", [called(0, 1 << 43), called(50, 9000)], False),
        ("without clocks", [op(), op()], False),
    ],
)  # fmt: skip
def test_clocks(tmp_path: Path, why: str, rows: list[Row], simulated: bool) -> None:
    arch, told = source_of([write(tmp_path / "ops.csv", rows)], None)
    assert (arch == "simulated", [each.kind for each in told]) == (
        simulated,
        ["simulated"] if simulated else [],
    ), why


def test_recorded_traces_of_chips_are_of_chips() -> None:
    for csv in FIXTURES.glob("*.csv"):
        assert (source_of([csv], None)[0] == "simulated") == (csv == BARE), csv


def test_a_bare_file_has_no_times_and_says_why() -> None:
    report = per_op_report(BARE)
    assert report.architecture.name == "simulated"
    assert all(math.isnan(time) for time in report.ops["device_time_us"])
    (said,) = report.notes
    assert said.kind == "simulated" and said.weight == "wrong"
    assert "the clock of the device ran for 16,615 cycles in 398 ms" in said.message
    assert "give --arch NAME" in said.message


def test_what_was_asked_for_counts_for_more_than_clocks() -> None:
    summary = summarise(BARE, arch="wormhole")
    assert summary.architecture == "wormhole" and summary.device_time_ms is not None
    assert any("whatever --arch wormhole says" in w.message for w in summary.warnings)


def test_and_for_less_than_what_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    join(BARE, None, file, simulated=True)
    summary = summarise(file, arch="wormhole")
    assert summary.architecture == "simulated" and summary.device_time_ms is None


def test_a_user_may_know_it() -> None:
    chip = FIXTURES / "v2_plain.csv"
    summary = summarise(chip, arch="simulated")
    assert (summary.architecture, summary.device_time_ms) == ("simulated", None)
    assert [w.kind for w in summary.warnings if w.weight == "wrong"] == ["simulated"]
    assert [w.kind for w in per_op_report(chip, ReportOptions(arch="simulated")).notes] == [
        "simulated"
    ]


def test_what_cannot_be_read_is_left_to_its_reader(tmp_path: Path) -> None:
    assert source_of([tmp_path / "none.csv"], None) == (None, ())
