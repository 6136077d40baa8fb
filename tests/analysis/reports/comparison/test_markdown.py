"""Markdown of a comparison: tables that hold, nothing foreign that becomes markup."""

from __future__ import annotations

from pathlib import Path

from instrumentor_analysis.reports.comparison import markdown
from tests.analysis.reports.comparison.samples import timed, traced


def test_the_verdict_comes_first() -> None:
    lines = markdown.render(timed(2.0)).splitlines()
    assert lines[0] == "## x2 against base"
    assert lines[4].startswith("- **slower** · wall clock of fwd+bwd: x2 takes 2.00 times as long")


def test_what_is_not_sure_is_said_to_be() -> None:
    assert "\n- inconclusive · wall clock" in markdown.render(timed(1.001))


def test_every_row_has_as_many_cells_as_its_heading(tmp_path: Path) -> None:
    cells: int | None = None
    for line in markdown.render(traced(tmp_path)).splitlines():
        count = line.replace("\\|", "").count("|") if line.startswith("|") else None
        assert count is None or cells is None or count == cells
        cells = count


def test_foreign_names_are_code(tmp_path: Path) -> None:
    text = markdown.render(traced(tmp_path))
    assert "| `</script><img src=x onerror=alert(1)> 1x1x64x64 -> 1x1x64x64` |" in text
