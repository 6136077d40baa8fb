"""CSV output against tt-perf-report's own, and cells that a spreadsheet must not evaluate."""

from __future__ import annotations

import csv as csv_module
import io
from pathlib import Path

import pytest

from instrumentor_analysis.ops.op_report import per_op_report
from instrumentor_analysis.ops.report_options import ReportOptions
from instrumentor_analysis.reports import csv
from tests.analysis import theirs
from tests.analysis.ops_rows import FIXTURES, op, write
from tests.analysis.reports.summaries import step_rows


def rows(content: str) -> list[dict[str, str]]:
    return list(csv_module.DictReader(io.StringIO(content)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = write(tmp_path / "ops.csv", step_rows())
    return path


def test_cells_are_those_of_tt_perf_report(path: Path, tmp_path: Path) -> None:
    named = ("training_v2_1.csv", "models_v2_1.csv", "two_devices_v1.csv")
    paths = [path, *(FIXTURES / name for name in named)]
    whole = ("--ignore-signposts", "--raw-op-codes", "--group-by", "op")
    options = ReportOptions(ignore_signposts=True, group_by="op")
    for source, their in zip(
        paths, theirs.run([((p,), whole) for p in paths], tmp_path), strict=True
    ):
        assert their.crashed is None
        report = per_op_report(source, options)
        ours = rows(csv.render(report, raw_op_codes=True))
        assert list(ours[0]) == list(their.rows[0])
        for mine, other in zip(ours, their.rows, strict=True):
            for name, cell in other.items():
                assert _same(mine[name], cell), (source.name, name, mine[name], cell)
        stacked = rows(csv.render_stacked(report))
        assert list(stacked[0]) == list(their.stacked[0])
        assert sorted(map(str, stacked)) == sorted(map(str, their.stacked))


def _same(ours: str, theirs: str) -> bool:
    """Equal texts, or figures equal to the last digits; ``nan`` of theirs is a blank of ours."""
    if ours == theirs or (theirs in ("nan", "None") and ours == ""):
        return True
    try:
        return float(ours) == pytest.approx(float(theirs), rel=1e-12)
    except ValueError:
        return False


def test_a_text_of_any_length_is_cut(tmp_path: Path) -> None:
    report = per_op_report(write(tmp_path / "ops.csv", [op("x" * 60_000), op("Unary")]))
    for text in (csv.render(report, raw_op_codes=True), csv.render_stacked(report)):
        assert " characters)" in text and len(text) < 30_000


def test_columns_on_demand(path: Path) -> None:
    report = per_op_report(path)
    plain = rows(csv.render(report, advice=False))
    assert list(plain[0])[-1] == "Bound Analysis"
    raw = rows(csv.render(report, raw_op_codes=True))
    assert raw[0]["Raw OP Code"] == "Matmul" and raw[0]["OP Code"] == "Matmul 32 x 1280 x 5120"
    assert list(raw[0])[-2:] == ["Advice", "Raw OP Code"]


def test_blank_is_blank_and_whole_is_whole(path: Path) -> None:
    table = rows(csv.render(per_op_report(path)))
    assert table[0]["Op-to-Op Gap"] == "" and table[0]["Cores"] == "64"
    assert table[-1]["Device Time"] == ""
    assert {row["Device"] for row in table} == {"0", ""}


@pytest.mark.parametrize("name", ["=1+1", "+cmd", "-2", "@SUM(A1)"])
def test_formulas_are_text(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "ops.csv", [op(name), op("Unary")])
    report = per_op_report(path)
    assert rows(csv.render(report, raw_op_codes=True))[0]["OP Code"] == f"'{name}"
    assert rows(csv.render_stacked(report))[0]["Op Code"].startswith("'")
