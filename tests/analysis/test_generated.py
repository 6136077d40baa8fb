"""The benchmarks' traces: reproducible, of the real ones' size, and read alike by both tools."""

from __future__ import annotations

from pathlib import Path

from instrumentor_analysis.load.scan import scan
from instrumentor_analysis.ops.op_report import per_op_report
from instrumentor_analysis.ops.report_options import ReportOptions
from instrumentor_analysis.summary.summarise import summarise
from tests.analysis.theirs import differences, run, stacked_differences
from tests.benchmarks.ops_csv import HEADER, rows, write


def test_a_generated_trace_is_like_a_real_one(tmp_path: Path) -> None:
    path = tmp_path / "ops.csv"
    write(path, ops=50, ops_per_step=20, devices=2)
    assert list(rows(50, 20, devices=2)) == path.read_text(encoding="utf-8").splitlines()
    scanned = scan(path)
    assert not scanned.quoted
    content = path.read_bytes()
    assert content.count(b"\n") == 1 + 2 * 50 + 7
    assert 1200 < len(content) / content.count(b"\n") < 1700
    assert len(scanned.header.columns) == len(HEADER)


def test_both_tools_read_it_alike(tmp_path: Path) -> None:
    path = tmp_path / "ops.csv"
    write(path, ops=50, ops_per_step=20, devices=2)
    summary = summarise(path)
    assert (summary.window.step, summary.op_count) == ("step_steady_2", 10)
    assert summary.program_cache_hit_percent == 100.0
    (theirs,) = run([([path], ["--ignore-signposts"])], tmp_path)
    ours = per_op_report(path, ReportOptions(ignore_signposts=True))
    assert len(theirs.rows) == 57
    assert differences(ours, theirs.rows, advice=True) == []
    assert stacked_differences(ours, theirs.stacked) == []
