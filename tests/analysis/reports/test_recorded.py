"""Every format on every recorded shape of CSV: several devices, replays, host ops, signposts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instrumentor_analysis.ops.op_report import per_op_report
from instrumentor_analysis.ops.report_options import ReportOptions
from instrumentor_analysis.reports import csv, formatting, ops_console, perfetto, plots
from instrumentor_analysis.reports import detail as details
from instrumentor_analysis.reports.summary import html
from instrumentor_analysis.summary.summarise import analyse
from tests.analysis.ops_rows import FIXTURES
from tests.analysis.reports.pages import Page

OPTIONS = {
    "plain": ReportOptions(ignore_signposts=True),
    "signposts": ReportOptions(ignore_signposts=True, print_signposts=True),
    "devices_apart": ReportOptions(ignore_signposts=True, no_merge_devices=True),
    "by_category": ReportOptions(ignore_signposts=True, group_by="category", no_host_ops=True),
}
FILES = sorted(FIXTURES.glob("*.csv"))


def test_there_are_recorded_files() -> None:
    assert len(FILES) >= 8


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_report_of_ops(path: Path, options: str) -> None:
    report = per_op_report(path, OPTIONS[options])
    for width in (80, 160):
        shown = ops_console.render_ops(report, width=width)
        assert max(map(formatting.width, shown.splitlines())) <= width
        assert "nan" not in shown.lower()
    content = csv.render(report) + csv.render_stacked(report)
    assert "nan" not in content.lower()
    summary = analyse(path).summary
    detail = details.of(report=report)
    assert Page(html(summary, detail)).errors == []
    json.loads(perfetto.render(summary, detail))
    plots.figures(summary, detail)
