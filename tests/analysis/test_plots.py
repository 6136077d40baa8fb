"""Charts as matplotlib figures: what is drawn, the same bytes each time, no global state."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from instrumentor_analysis import plots
from instrumentor_analysis.model import SlowOp
from instrumentor_analysis.report_options import ReportOptions, per_op_report
from instrumentor_analysis.reports import detail as details
from instrumentor_analysis.summary import analyse
from tests.analysis.ops_rows import FIXTURES
from tests.analysis.reports.summaries import ALL, HOSTILE, run_folder, torch_cpu, tracy
from tests.waiting import HANG_S


def test_what_there_is_to_draw(tmp_path: Path) -> None:
    analysis = analyse(run_folder(tmp_path / "run"))
    drawn = plots.figures(analysis.summary, details.of(analysis))
    assert list(drawn) == ["step_times", "breakdown", "roofline", "gaps"]
    assert {name: list(plots.figures(make())) for name, make in ALL.items()} == {
        "tracy": ["step_times", "breakdown", "gaps"],
        "torch_cpu": ["breakdown"],
        "wallclock_only": [],
        "interrupted": [],
        "several_labels": ["step_times"],
        "inference": ["step_times"],
    }


def test_bars_have_the_heights_of_their_steps() -> None:
    figure = plots.step_figure(tracy())
    assert figure is not None
    (axes,) = figure.axes
    heights = [bar.get_height() for bar in axes.patches]  # type: ignore[attr-defined]
    assert heights[:5] == [35_210.4, 412.0, 405.5, 409.5, 421.0]
    assert heights[5:] == [63.2] * 5
    assert axes.get_ylim()[1] == pytest.approx(421 * 1.15)
    assert axes.get_title(loc="left") == "Step times: mnist baseline"
    assert [text.get_text() for text in axes.texts] == ["35,210.4 ms"]


def test_shares_add_up() -> None:
    figure = plots.breakdown_figure(tracy())
    assert figure is not None
    for axes in figure.axes:
        widths = [bar.get_width() for bar in axes.patches]  # type: ignore[attr-defined]
        assert sum(widths) == pytest.approx(100)


def test_without_a_device_it_is_self_time() -> None:
    figure = plots.breakdown_figure(torch_cpu())
    assert figure is not None
    assert figure.axes[-1].get_xlabel() == "% of the op self time"


@pytest.mark.parametrize("kind", plots.KINDS)
def test_the_same_figure_gives_the_same_bytes(kind: plots.Kind) -> None:
    first, second = (plots.gap_figure(tracy()) for _ in range(2))
    assert first is not None and second is not None
    content = plots.encode(first, kind)
    assert content == plots.encode(second, kind)
    assert content.startswith(b"\x89PNG" if kind == "png" else b"<?xml")


@pytest.mark.filterwarnings("ignore:Glyph")
def test_hostile_names_are_drawn_as_text() -> None:
    ops = tuple(SlowOp(name, 1, 1.0, 5.0, None, "Other") for name in HOSTILE)
    figure = plots.breakdown_figure(replace(tracy(), slow_ops=ops))
    assert figure is not None
    svg = plots.encode(figure, "svg").decode()
    assert "<script" not in svg.replace("<!--", "") and "onerror=alert" not in svg.split("<!--")[0]


def test_nothing_of_matplotlib_is_changed() -> None:
    code = """
import sys
from instrumentor_analysis import plots
assert "matplotlib" not in sys.modules
import matplotlib
before = dict(matplotlib.rcParams)
from tests.analysis.reports.summaries import tracy
for figure in plots.figures(tracy()).values():
    plots.encode(figure, "svg")
assert dict(matplotlib.rcParams) == before
assert "matplotlib.pyplot" not in sys.modules
"""
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, timeout=HANG_S)


def test_the_stacked_report_is_a_bar_per_device() -> None:
    report = per_op_report(
        FIXTURES / "two_devices_v1.csv", ReportOptions(no_merge_devices=True, group_by="op")
    )
    (axes,) = plots.stacked_figure(report.stacked).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["device 0", "device 1"]
    ends = [max(p.get_x() + p.get_width() for p in axes.patches if p.get_y() < y < p.get_y() + 1)
            for y in (0, 1)]  # fmt: skip
    # 10 + 30 + 100 + 44 + 12 us, and 2 + 8 - 5 + 1 us more.
    assert ends == pytest.approx([0.196, 0.202])


def test_classic_colours_tell_ops_of_a_category_apart() -> None:
    stacked = per_op_report(FIXTURES / "training_v2_1.csv").stacked
    for classic in (False, True):
        (axes,) = plots.stacked_figure(stacked, classic=classic).axes
        colours = {tuple(patch.get_facecolor()[:3]) for patch in axes.patches}
        assert (len(colours) == len(axes.patches)) is classic
