"""The console's comparison: what is sure first, no line too long, colours only for what is sure."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from instrumentor_analysis.reports.comparison import console, html, markdown
from tests.analysis.reports.comparison.samples import timed, traced


def test_the_first_lines_say_which_is_faster() -> None:
    lines = console.render(timed(0.5)).splitlines()
    assert lines[0] == "x0.5 against base  wallclock · fwd+bwd"
    assert lines[2].startswith("  wall clock of fwd+bwd: x0.5 is 2.00 times as fast (95 % interval")


def test_medians_rates_and_differences() -> None:
    text = console.render(timed(2.0), width=100)
    assert "wall clock of fwd+bwd  100.0 ms  200.0 ms  +100.0 %" in text
    assert "samples a second       100.0 /s   50.0 /s   -50.0 %" in text


def test_several_runs_end_with_all_against_the_first_the_fastest_first() -> None:
    text = console.render(timed(2.0, 0.5), width=100)
    last = text[text.index("Against base") :]
    assert last.index("x0.5 is 2.00") < last.index("x2 takes 2.00")
    assert "2 comparisons of 95 % each" in last


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_is_longer_than_the_terminal(tmp_path: Path, width: int) -> None:
    text = console.render(traced(tmp_path), width=width)
    if width >= 80:
        assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text


def test_colours_only_for_what_is_sure() -> None:
    sure = console.render(timed(2.0), color=True)
    assert "\x1b[31m" in sure
    unsure = console.render(timed(1.001), color=True)
    assert "\x1b[31m" not in unsure and "\x1b[32m" not in unsure


def test_ops_that_were_added(tmp_path: Path) -> None:
    text = console.render(traced(tmp_path), width=120)
    assert "Ops by device time: 7 the same, 0 changed, 10 added, 0 removed" in text


def test_ops_that_are_all_the_same_are_one_line(tmp_path: Path) -> None:
    (found,) = traced(tmp_path)
    same = tuple(c for c in found.ops.changes if c.status == "same")
    text = console.render([replace(found, ops=replace(found.ops, changes=same))], width=100)
    assert "Ops by device time: 7 the same" in text
    for each in (markdown, html):
        assert "7 the same" in each.render([replace(found, ops=replace(found.ops, changes=same))])
