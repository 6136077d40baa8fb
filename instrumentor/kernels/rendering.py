"""The report's files in a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from instrumentor.outputs import write_json

if TYPE_CHECKING:
    from instrumentor_analysis.kernels.report import KernelReport


def write_reports(report: KernelReport, folder: Path) -> None:
    """summary.json, summary.txt and report.html of a measured invocation."""
    from instrumentor_analysis.reports.kernel_console import render
    from instrumentor_analysis.reports.kernel_html import render as render_html

    write_json(folder / "summary.json", report.to_json())
    (folder / "summary.txt").write_text(render(report, width=140), encoding="utf-8")
    (folder / "report.html").write_text(render_html(report), encoding="utf-8")
