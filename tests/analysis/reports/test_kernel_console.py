"""A kernel's report on the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from instrumentor_analysis.kernels.report import report
from instrumentor_analysis.reports.kernel_console import render, us
from instrumentor_analysis.reports.words import size
from tests.analysis.kernels.printed import AUTO, FLOW, OLD_PERF, PIPES, ROOFLINE, SIGNPOSTS_NEW
from tests.analysis.kernels.test_report import folder

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
    return render(report(folder(tmp_path / "r", WHOLE, dict(RUN))), width=100)


def test_the_bottleneck_comes_first_with_goal_change_and_gain(text: str) -> None:
    lines = text.splitlines()
    assert lines[0] == "add, call 1 at line 9, from line 30: 13.52 us on the device"
    assert lines[1].startswith("The validation failed")
    assert lines[3] == "Bottleneck  the kernel runs on a single core  [use all cores]"
    assert lines[5].startswith("  change    Distribute the blocks")
    assert lines[6].startswith("  gain      at most")


def test_what_it_is_judged_by(text: str) -> None:
    assert "Cores       1 of 130 (1%), grid 1x1" in text
    assert re.search(r"DRAM read +32\.77 kB +16\n", text)
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
    assert "\x1b" not in render(found)
    assert "\x1b[31m" in render(found, color=True)


def test_a_report_without_a_summary_names_the_other_mode(tmp_path: Path) -> None:
    text = render(report(folder(tmp_path / "r", SIGNPOSTS_NEW)))
    assert "wall time not measured" in text
    assert "see --mode perf too" in text


def test_units() -> None:
    assert us(1234.5) == "1.234 ms"
    assert us(0.5) == "0.50 us"
    assert [size(n) for n in (5, 5000, 5_000_000)] == ["5 B", "5.00 kB", "5.00 MB"]
