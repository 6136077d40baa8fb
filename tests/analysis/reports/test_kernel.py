"""A kernel's report on the terminal and as a page, and the drawing of its buffers."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from instrumentor_analysis.kernels.model import Buffer, BufferUse
from instrumentor_analysis.kernels.report import report
from instrumentor_analysis.reports.drawing import Line, svg
from instrumentor_analysis.reports.formatting import size, us
from instrumentor_analysis.reports.kernel import console, html
from instrumentor_analysis.reports.kernel_graph import graph
from tests.analysis.kernels.printed import AUTO, FLOW, OLD_PERF, PIPES, ROOFLINE, SIGNPOSTS_NEW
from tests.analysis.kernels.test_report import folder
from tests.analysis.reports.pages import Page

WHOLE = AUTO + ROOFLINE + OLD_PERF + FLOW.format(name="CB") + PIPES + SIGNPOSTS_NEW
RUN = {
    "kernel": "add",
    "mode": "perf",
    "invocation": {"number": 1, "line": 9, "through": [{"line": 30}]},
    "rerun": "TTLANG_AUTO_PROFILE=1 python add.py",
    "validated": False,
}


@pytest.fixture
def text(tmp_path: Path) -> str:
    return console(report(folder(tmp_path / "r", WHOLE, dict(RUN))), width=100)


def test_the_bottleneck_comes_first_with_goal_change_and_gain(text: str) -> None:
    lines = text.splitlines()
    assert lines[0] == "add, call 1 at line 9, from line 30: 13.5 us on the device"
    assert lines[1].startswith("The validation failed")
    assert lines[3] == "Bottleneck  the kernel runs on a single core  [use all cores]"
    assert lines[5].startswith("  change    Distribute the blocks")
    assert lines[7].startswith("  gain      at most")


def test_what_it_is_judged_by(text: str) -> None:
    assert "Cores       1 of 130 (1%), grid 1x1" in text
    assert re.search(r"DRAM read +32\.8 kB +16\n", text)
    assert "barriers: 16 read, 8 write" in text
    assert "Bound       96 % compute bound" in text
    assert re.search(r"NCRISC +demo_read +[\d,]+ +[\d,]+ +[\d.]+ %", text)
    assert re.search(r"store +TRISC_0 +\d", text)
    assert "  dm0:10 --> [buffer 0] --> comp:20" in text
    assert "  pipe (0,0) --> [[1, 0], [2, 0]]" in text


def test_heat_map_fits_the_width(text: str) -> None:
    rows = [line for line in text.splitlines() if line.startswith("   1")]
    assert any("a_cb.reserve()" in row for row in rows)
    assert all(len(row) <= 100 for row in rows)


def test_the_command_by_hand_never_dumps(text: str) -> None:
    assert text.rstrip().endswith("TTLANG_AUTO_PROFILE=1 python add.py")
    assert "TTLANG_PERF_DUMP" not in text


def test_no_colour_unless_asked(tmp_path: Path) -> None:
    found = report(folder(tmp_path / "r", WHOLE))
    assert "\x1b" not in console(found)
    assert "\x1b[31m" in console(found, color=True)


def test_a_report_without_a_summary_names_the_other_mode(tmp_path: Path) -> None:
    text = console(report(folder(tmp_path / "r", SIGNPOSTS_NEW)))
    assert "wall time not measured" in text
    assert "see --mode perf too" in text


def test_units() -> None:
    assert us(1234.5) == "1.23 ms"
    assert us(0.5) == "0.5 us"
    assert [size(n) for n in (5, 5000, 5_000_000)] == ["5 B", "5.0 kB", "5.0 MB"]


def page(tmp_path: Path, **changes: object) -> str:
    return html(report(folder(tmp_path / "r", WHOLE, {**RUN, **changes})))


def test_it_holds_verdict_figures_heat_and_graph(tmp_path: Path) -> None:
    text = page(tmp_path)
    assert Page(text).errors == []
    for words in ("single core", "13.5 us", "a_cb.reserve()", "<svg", "Signposts", "by hand"):
        assert words in text
    assert "The validation failed" in text
    assert "<script" not in text
    assert "http:" not in text and "https:" not in text


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
