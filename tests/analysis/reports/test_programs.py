"""What ttnn told, as figures and tables."""

from __future__ import annotations

from pathlib import Path

from instrumentor_analysis.reports import brief
from instrumentor_analysis.reports.programs import section
from instrumentor_analysis.reports.summary import console
from instrumentor_analysis.summary.summarise import summarise
from tests.analysis.records import Event, run_folder, steady_events

RAN = {"programs": 4, "ms": 6.0, "busy_ms": 6.0, "untimed": 0}


def told(**more: object) -> Event:
    kernels = [["bmm", 3, 5.0], ["exp", 1, 1.0]]
    return {
        "event": "programs", "pid": 1, "ms": 10.0, "chips": {"0": RAN}, "rest": {}, "dropped": 0,
        "kernels": kernels, **more,
    }  # fmt: skip


def test_device_time_and_overhead_stand_beside_the_clock(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", *steady_events(9, 10, 11), told(), profiler="wallclock")
    summary = summarise(run)
    assert (summary.device_time_ms, summary.overhead_percent) == (6.0, 40.0)
    assert summary.verdict is not None and summary.verdict.name == "mixed"
    text = console(summary)
    assert "Device, 1 extra step with ttnn's real-time profiler" in text
    assert "Programs on the device" in text and "bmm" in text
    assert "device time" in brief.console(summary)


def test_a_host_that_is_waited_for_is_the_verdict(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", *steady_events(40), told(ms=40.0), profiler="wallclock")
    verdict = summarise(run).verdict
    assert verdict is not None and verdict.name == "host-bound"


def test_lost_records_are_a_warning_and_no_figure(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", *steady_events(10), told(dropped=3), profiler="wallclock")
    summary = summarise(run)
    assert summary.device_time_ms is None and summary.programs is None
    assert [each.kind for each in summary.warnings if each.kind == "programs-lost"]


def test_several_chips_have_a_row_each(tmp_path: Path) -> None:
    chips = {"0": RAN, "1": {**RAN, "busy_ms": 8.0}}
    run = run_folder(tmp_path / "run", *steady_events(10), told(chips=chips), profiler="wallclock")
    found = summarise(run).programs
    chip_rows, kernels = section(found, 10).tables
    assert chip_rows.columns[0].texts == ["0", "1"] and kernels.rows == 2


def test_nothing_where_ttnn_told_nothing() -> None:
    assert section(None, 10).tables == ()
