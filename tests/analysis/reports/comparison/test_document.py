"""Comparisons in every format: what is sure first, nothing foreign that becomes markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from instrumentor_analysis.compare.model import Figure, Share
from instrumentor_analysis.reports.comparison import charts, document
from instrumentor_analysis.reports.drawing import CHARACTER, Label
from tests.analysis.reports.comparison.samples import timed, traced
from tests.analysis.reports.pages import Page


def test_the_first_lines_say_which_is_faster() -> None:
    lines = document.console(timed(0.5)).splitlines()
    assert lines[0] == "x0.5 against base  wallclock · fwd+bwd"
    assert lines[2].startswith("  wall clock of fwd+bwd: x0.5 is 2.00 times as fast (95 % interval")


def test_medians_rates_and_differences() -> None:
    text = document.console(timed(2.0), width=100)
    assert "fwd+bwd              100.0 ms        200.0 ms  +100.0 %" in text
    assert "fwd+bwd only  100.0 samples/s  50.0 samples/s   -50.0 %" in text
    assert "throughput" not in text  # that is of the iteration, which was not seen


def test_several_runs_end_with_all_against_the_first_the_fastest_first() -> None:
    text = document.console(timed(2.0, 0.5), width=100)
    last = text[text.index("Against base") :]
    assert last.index("x0.5 is 2.00") < last.index("x2 takes 2.00")
    assert "2 comparisons of 95 % each" in last


@pytest.mark.parametrize("width", [40, 50, 60, 80, 100, 160])
def test_no_line_is_longer_than_the_terminal(tmp_path: Path, width: int) -> None:
    text = document.console(traced(tmp_path), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text


def test_colours_only_for_what_is_sure() -> None:
    sure = document.console(timed(2.0), color=True)
    assert "\x1b[31m" in sure
    unsure = document.console(timed(1.001), color=True)
    assert "\x1b[31m" not in unsure and "\x1b[32m" not in unsure


def test_ops_that_were_added(tmp_path: Path) -> None:
    text = document.console(traced(tmp_path), width=120)
    assert "Ops by device time: 7 the same, 0 changed, 10 added, 0 removed" in text


def test_ops_that_are_all_the_same_are_one_line(tmp_path: Path) -> None:
    (found,) = traced(tmp_path)
    same = tuple(c for c in found.ops.changes if c.status == "same")
    text = document.console([replace(found, ops=replace(found.ops, changes=same))], width=100)
    assert "Ops by device time: 7 the same" in text
    for each in (document.markdown, document.html):
        assert "7 the same" in each([replace(found, ops=replace(found.ops, changes=same))])


def test_the_verdict_comes_first() -> None:
    lines = document.markdown(timed(2.0)).splitlines()
    assert lines[0] == "## x2 against base"
    assert lines[4].startswith("- **slower** · wall clock of fwd+bwd: x2 takes 2.00 times as long")


def test_what_is_not_sure_is_said_to_be() -> None:
    assert "\n- inconclusive · wall clock" in document.markdown(timed(1.001))


def test_every_row_has_as_many_cells_as_its_heading(tmp_path: Path) -> None:
    cells: int | None = None
    for line in document.markdown(traced(tmp_path)).splitlines():
        count = line.replace("\\|", "").count("|") if line.startswith("|") else None
        assert count is None or cells is None or count == cells
        cells = count


def test_foreign_names_are_code(tmp_path: Path) -> None:
    text = document.markdown(traced(tmp_path))
    assert "| `</script><img src=x onerror=alert(1)> 1x1x64x64 -> 1x1x64x64` |" in text


def tags(text: str) -> list[tuple[str, dict[str, str | None]]]:
    page = Page(text)
    assert page.errors == []
    return page.elements


def test_the_page_needs_nothing_from_outside(tmp_path: Path) -> None:
    found = tags(document.html(traced(tmp_path)))
    assert not {"script", "link", "iframe", "img"} & {tag for tag, _ in found}
    outside = [a for tag, a in found if "src" in a or (tag != "a" and "href" in a)]
    assert outside == []


def test_foreign_names_are_text(tmp_path: Path) -> None:
    text = document.html(traced(tmp_path))
    assert "&lt;/script&gt;&lt;img src=x" in text
    assert "\u202e" not in text and "\\u202e" in text
    assert not any(name.startswith("on") for _, attributes in tags(text) for name in attributes)


def test_every_sample_and_every_interval_is_drawn() -> None:
    whole = document.html(timed(2.0, 0.5))
    drawn = [
        re.findall(rf'<svg[^>]*class="{name}".*?</svg>', whole, re.DOTALL)
        for name in ("not-middle not-narrow", "middle", "narrow")
    ]
    assert {len(each) for each in drawn} == {whole.count("<svg") / 3}
    for text in map("".join, drawn):
        assert len(re.findall(r"<circle[^>]*steady step", text)) == 18
        assert text.count("<circle") - 18 == 2
    text = whole
    first = text[text.index("<svg") : text.index("</svg>")]
    assert [colour for colour in ("good", "bad", "other") if f"var(--{colour})" in first] == [
        "good",
        "bad",
        "other",
    ]


def test_a_narrow_page_shows_all_of_a_chart_and_breaks_an_interval_between_its_ends() -> None:
    found = timed(2.0, 0.5)
    for each in (charts.samples(found), charts.ratios(found)):
        assert each is not None and each.narrow is not None
        left, _, width, _ = each.narrow.box
        labels = [shape for shape in each.narrow.shapes if isinstance(shape, Label)]
        assert {label.text for label in labels} >= {found[0].new.name}
        for label in labels:
            taken = len(label.text) * CHARACTER
            start = label.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[label.anchor] * taken
            assert left <= start + 10 and start + taken <= left + width + 10
    assert re.search(r' range"><span class="end">[^ ]+ % ..</span> <span', document.html(found))


def test_the_axis_of_a_large_change_has_all_its_digits() -> None:
    drawn = charts.ratios(timed(12.0))
    assert drawn is not None
    texts = [shape.text for shape in drawn.shapes if isinstance(shape, Label)]
    assert "+1,000 %" in texts and not any("e+" in text for text in texts)


def test_the_conclusion_comes_first_and_shared_warnings_once() -> None:
    text = document.html(timed(2.0, 0.5))
    assert text.index(">Conclusion<") < text.index(">Warnings<") < text.index("<svg")
    assert text.count("There is only one run on each side") == 1
    assert "&lt;section" not in text


def test_both_sides_stand_side_by_side() -> None:
    text = document.html(timed(2.0))
    row = re.search(r"<tr><th[^>]*>fwd\+bwd</th>(.*?)</tr>", text)
    assert re.findall(r">([^<]+)</td>", row[1])[:3] == ["100.0 ms", "200.0 ms", "+100.0 %"]


def test_owners_are_those_of_what_both_runs_have(tmp_path: Path) -> None:
    (found,) = traced(tmp_path)
    found = replace(found, owners=(Share("forward", 1.0, 3.0),))
    assert "Where the iteration goes" in document.console([found])
    assert "Where the micro-step goes" in document.console([replace(found, owners_of="micro-step")])


def test_a_table_that_is_too_wide_is_folded_and_no_figure_of_it_is_cut() -> None:
    lines = document.console(timed(2.0), width=40).splitlines()
    at = lines.index("  fwd+bwd")
    assert lines[at + 1 : at + 4] == [
        "    base           100.0 ms",
        "    x2             200.0 ms",
        "    change         +100.0 %",
    ]


def test_single_measurements_of_a_busy_host_have_no_change_and_those_of_a_device_have(
    tmp_path: Path,
) -> None:
    (found,) = traced(tmp_path)
    figures = tuple(
        Figure(key, name, unit, 100.0, 150.0)
        for key, name, unit in (
            ("wall_clock_ms.cpu", "CPU time", "ms"),
            ("device_time_ms", "device time", "ms"),
            ("memory.resident_bytes", "peak memory", "B"),
        )
    )
    found = replace(found, figures=figures, device=None)
    quiet = document.console([found], width=200)
    assert "because the machine was busy" not in quiet and quiet.count("+50.0 %") == 3
    run = {**found.new.run, "machine": {"cpus": 2, "other_cpus": 1.6}}
    owners = (Share("forward", 1.0, 3.0),)
    busy = replace(found, owners=owners, new=replace(found.new, run=run))
    text = document.console([busy], width=200)
    assert text.count("have no change here, because the machine was busy in") == 2
    told = {line.split("  ")[1]: line for line in text.splitlines() if line.startswith("  ")}
    assert re.search(r" -  +-$", told["fwd+bwd"])  # neither change nor interval
    assert told["CPU time"].endswith(" -") and told["forward"].endswith(" -")
    assert told["device time"].endswith("+50.0 %") and told["peak memory"].endswith("+50.0 %")
    assert found.ops is not None and "times of single ops" not in text
    host = replace(busy, ops=replace(found.ops, time="self time"))
    ops = document.console([host], width=200).partition("Ops by self time")[2]
    assert "times of single ops are not compared, because the machine was busy" in ops
    same = [c for c in found.ops.changes if c.status == "same"]
    assert same and not any(f"  {c.op} " in ops.partition("not compared")[0] for c in same)
