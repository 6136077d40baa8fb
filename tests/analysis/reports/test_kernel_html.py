"""A kernel's report as a page, and the drawing of its buffers."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from instrumentor_analysis.kernels.model import Buffer, BufferUse
from instrumentor_analysis.kernels.report import report
from instrumentor_analysis.reports.drawing import Line, svg
from instrumentor_analysis.reports.kernel_graph import graph
from instrumentor_analysis.reports.kernel_html import render
from tests.analysis.kernels.test_report import folder
from tests.analysis.reports.pages import Page
from tests.analysis.reports.test_kernel_console import RUN, WHOLE


def page(tmp_path: Path, **changes: object) -> str:
    return render(report(folder(tmp_path / "r", WHOLE, {**RUN, **changes})))


def test_it_holds_verdict_figures_heat_and_graph(tmp_path: Path) -> None:
    text = page(tmp_path)
    assert Page(text).errors == []
    for words in ("single core", "13.52 us", "a_cb.reserve()", "<svg", "Signposts", "by hand"):
        assert words in text
    assert "The validation failed" in text
    assert "<script" not in text
    assert "http" not in text


def test_source_text_is_escaped(tmp_path: Path) -> None:
    source = "\n" * 118 + "<script>alert(1)</script>"
    text = page(tmp_path, source_text=source, script="</h1><b>x")
    assert "<script>" not in text
    assert "<b>x" not in text


def test_the_drawing_is_well_formed_and_names_both_ends() -> None:
    buffers = [
        Buffer(
            0,
            "",
            (BufferUse("read", "noc", 3, "cb_reserve"),),
            (BufferUse("a<b", "compute", 4, "cb_wait"),),
            (BufferUse("read", "noc", 5, "copy", "read"),),
        ),
        Buffer(7),
    ]
    drawing = graph(buffers)
    words = [node.text for node in ElementTree.fromstring(svg(drawing)).iter("text")]
    assert words == ["DRAM · read:5", "a<b:4", "buffer 0", "buffer 7"]
    edges = [s.points for s in drawing.shapes if isinstance(s, Line) and len(s.points) == 2]
    assert [(start[0], end[0]) for start, end in edges] == [(210, 300), (500, 590)]


def test_no_buffers_no_drawing() -> None:
    assert graph([]) is None
