"""Which files make a performance report of ttnn-visualizer."""

from __future__ import annotations

import os
from pathlib import Path

from instrumentor_analysis.reports.visualizer import contents


def make(path: Path, age: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x", encoding="utf-8")
    os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))
    return path


def test_a_run_folder(tmp_path: Path) -> None:
    reports = tmp_path / "tracy_profile" / "reports"
    make(reports / "old" / "profile_log_device.csv", age=100)
    log = make(reports / "new" / "profile_log_device.csv")
    trace = make(reports / "new" / "tracy_profile_log_host.tracy")
    make(tmp_path / "tracy_profile" / ".logs" / "profile_log_device.csv", age=-100)
    make(tmp_path / "ttnn_visualizer" / "run" / "profile_log_device.csv", age=-200)
    ops = make(tmp_path / "tracy_perf" / "ops_perf_results.csv")
    found = contents(tmp_path)
    assert found.missing == ()
    assert found.files == {
        "ops_perf_results.csv": ops,
        "profile_log_device.csv": log,
        "tracy_profile_log_host.tracy": trace,
    }


def test_a_report_folder_keeps_the_name_of_its_csv(tmp_path: Path) -> None:
    make(tmp_path / "ops_perf_results_2026_01_05.csv")
    make(tmp_path / "profile_log_device.csv")
    found = contents(tmp_path)
    assert found.missing == ()
    assert sorted(found.files) == ["ops_perf_results_2026_01_05.csv", "profile_log_device.csv"]


def test_the_log_is_taken_from_logs_when_there_is_no_other(tmp_path: Path) -> None:
    log = make(tmp_path / "tracy_profile" / ".logs" / "profile_log_device.csv")
    found = contents(tmp_path)
    assert found.files == {"profile_log_device.csv": log}
    assert found.missing == ("ops_perf_results.csv",)


def test_what_a_link_leads_to_elsewhere_is_no_part_of_it(tmp_path: Path) -> None:
    """A report is given on: with a file of this user's that somebody's run folder chose."""
    secret, run = make(tmp_path / "secret"), tmp_path / "run"
    ops = make(run / "tracy_perf" / "ops_perf_results.csv")
    log = run / "tracy_profile" / ".logs" / "profile_log_device.csv"
    log.parent.mkdir(parents=True)
    for beside in (log, ops.with_name("tracy_profile_log_host.tracy")):
        beside.symlink_to(secret)
    for source in (run, ops):
        assert contents(source).files == {"ops_perf_results.csv": ops}
    log.unlink()
    log.symlink_to(make(run / "kept.csv"))
    assert contents(run).files["profile_log_device.csv"] == log
    ops.unlink()
    ops.symlink_to(secret)
    assert "ops_perf_results.csv" in contents(run).missing


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    assert contents(tmp_path).missing == ("ops_perf_results.csv", "profile_log_device.csv")
