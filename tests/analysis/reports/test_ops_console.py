"""The per-op table, stacked report and advice on a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from instrumentor_analysis.ops.op_report import Report, per_op_report
from instrumentor_analysis.ops.report_options import ReportOptions
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.advice_console import ids
from instrumentor_analysis.reports.ops_console import render_ops
from tests.analysis.ops_rows import matmul, op, text, write
from tests.analysis.reports.summaries import HOSTILE, step_rows

GOLDENS = Path(__file__).parent / "goldens"


@pytest.fixture
def report(tmp_path: Path) -> Report:
    return report_of(tmp_path)


def report_of(tmp_path: Path, *, hostile: bool = False, **options: object) -> Report:
    path = write(tmp_path / "ops.csv", step_rows(hostile))
    return per_op_report(path, ReportOptions(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [80, 140])
def test_text_is_exactly_this(report: Report, width: int, request: pytest.FixtureRequest) -> None:
    shown = render_ops(report, width=width)
    golden = GOLDENS / f"ops_{width}.txt"
    if request.config.getoption("--update-goldens"):
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [72, 80, 99, 100, 120, 200])
def test_fits_the_terminal(tmp_path: Path, width: int) -> None:
    report = report_of(tmp_path, hostile=True)
    shown = render_ops(report, width=width, advice=False)
    assert max(map(formatting.width, shown.splitlines())) <= width
    assert "\x1b" not in shown and "\u202e" not in shown


def painted(text: str, line: str) -> str:
    return next(each for each in text.splitlines() if line in each)


def test_colours_have_meaning(report: Report) -> None:
    shown = render_ops(report, width=140, color=True)
    norm, moreh = painted(shown, "LayerNorm"), painted(shown, "MorehAdamW")
    assert re.search(r"\x1b\[31m240\.0\x1b", norm), "a gap above 6.5 us is red"
    assert re.search(r"\x1b\[31m1\x1b", norm), "fewer than 10 of 64 cores are red"
    assert re.search(r"\x1b\[31m6\.6\x1b", moreh)
    assert re.search(r"\x1b\[32m64\x1b", moreh), "the whole grid is green"
    assert "\x1b[31m6.5\x1b" not in shown, "6.5 us itself is not above"
    matmul = painted(shown, "32 x 1280 x 5120")
    assert re.search(r"\x1b\[33mSLOW\x1b", matmul)
    assert "\x1b[31mHOST" in painted(shown, "aten::add")


def test_minor_ops_are_grey_or_hidden(tmp_path: Path) -> None:
    report = report_of(tmp_path, min_percentage=10.0)
    norm = painted(render_ops(report, color=True, width=140), "Permute")
    assert set(re.findall(r"\x1b\[(\d+)m", norm)) == {"2", "0"}
    shown = render_ops(report, width=140, hide_below=10.0)
    assert "PermuteDevice" not in shown.split("Device time by kind")[0]
    assert "aten::add" in shown, "host ops always stay"
    assert "3 ops below 10 % are not shown" in shown


def last_row(shown: str) -> str:
    """The row of counts and sums."""
    return next(line for line in shown.splitlines() if "device op" in line).strip()


def test_the_last_row_is_of_the_rows_shown(tmp_path: Path) -> None:
    report, width = report_of(tmp_path), 160

    def words_of(shown: str) -> str:
        return " ".join(last_row(shown).split())

    every = words_of(render_ops(report, width=width))
    assert every == "6 device ops, 1 on host 331 255 54 18.6"
    # A figure of all rows is none of some.
    hidden = render_ops(report, width=width, hide_below=10.0)
    assert words_of(hidden) == "3 device ops, 1 on host 300 241"
    only = render_ops(report_of(tmp_path, id_range="3-4"), width=width)
    assert words_of(only) == "2 device ops 114 240 37 12.8"
    assert "on host" not in words_of(render_ops(report_of(tmp_path, no_host_ops=True)))


def test_no_sum_of_nothing(tmp_path: Path) -> None:
    report = report_of(tmp_path)
    assert last_row(render_ops(report, hide_below=200)) == "0 device ops, 1 on host"
    path = write(tmp_path / "ops.csv", [op(us=None, gap_us=None), op(us=None, gap_us=None)])
    assert last_row(render_ops(per_op_report(path))) == "2 device ops"


def test_without_peaks_no_matmul_is_said_to_be_good(tmp_path: Path) -> None:
    path = tmp_path / "ops.csv"
    rows = [matmul(512, 512, 512, 60.0)]
    path.write_text(text(rows).replace("wormhole_b0", "quasar"), encoding="utf-8")
    shown = render_ops(per_op_report(path))
    assert "on quasar" in shown and "No peaks are known" in shown
    assert "nothing to improve" not in shown and "nan" not in shown


def test_parts_can_be_left_out(report: Report) -> None:
    shown = render_ops(report, advice=False, stacked=False)
    assert "Advice" not in shown and "by kind" not in shown
    assert "x 5120" not in render_ops(report, raw_op_codes=True, advice=False, width=140)


def test_the_same_advice_is_said_once(tmp_path: Path) -> None:
    path = write(tmp_path / "ops.csv", step_rows() * 20)
    shown = render_ops(per_op_report(path))
    assert shown.count("Matmul 32 x 1280 x 5120: 20 x") == 1
    assert len(shown.split("Advice")[1].splitlines()) < 40


def test_ids_are_named_before_they_are_counted() -> None:
    assert ids([7]) == "ID 7"
    assert ids([1, 2]) == "IDs 1, 2"
    assert ids(range(1, 1001)) == "IDs 1, 2, 3, 4, 5, 6 and 994 more"


def test_every_hostile_name_has_a_row(tmp_path: Path) -> None:
    shown = render_ops(report_of(tmp_path, hostile=True), advice=False, stacked=False)
    rows = [line for line in shown.splitlines() if re.match(r" ?\d+ ", line)]
    assert len(rows) == len(step_rows()) + len(HOSTILE)
