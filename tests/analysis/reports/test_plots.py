"""Figures as files: what is drawn, the same bytes each time, no global state."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from msgspec.structs import replace

from instrumentor_analysis.load.table import Categorical, Table
from instrumentor_analysis.model import SlowOp
from instrumentor_analysis.ops.op_report import per_op_report
from instrumentor_analysis.ops.report_options import ReportOptions
from instrumentor_analysis.reports import detail as details
from instrumentor_analysis.reports import plots
from instrumentor_analysis.reports.drawing import COLOURS, Bar, Drawing, Label, Line
from instrumentor_analysis.reports.stacked_chart import stacked
from instrumentor_analysis.summary.summarise import analyse
from tests.analysis.ops_rows import FIXTURES
from tests.analysis.reports.summaries import ALL, HOSTILE, run_folder, tracy
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
        "micro_steps": ["iteration"],
    }


def test_the_same_figure_gives_the_same_bytes() -> None:
    for kind, start in (("png", b"\x89PNG"), ("svg", b"<svg "), ("pdf", b"%PDF")):
        first, second = (plots.figures(tracy())["gaps"] for _ in range(2))
        content = plots.encode(first, kind)
        assert content == plots.encode(second, kind)
        assert content.startswith(start)


def test_a_file_is_in_light_colours_and_names_its_figure() -> None:
    text = plots.encode(plots.figures(tracy())["step_times"], "svg").decode()
    root = ElementTree.fromstring(text)
    assert "var(" not in text and COLOURS["device"][0] in text
    texts = [element.text for element in root if element.tag.endswith("text")]
    assert "Step times: mnist" in texts and "device time" in texts


def test_pictures_show_what_is_drawn() -> None:
    """Where a bar stands there is its colour, not the line before it, but the one after it."""
    image = pytest.importorskip("matplotlib.image")
    grid, over = (Line(((0, y), (100, y)), "#0000ff", width=4) for y in (30, 45))
    shapes = grid, Bar(20, 10, 30, 40, "#ff0000"), over
    drawing = Drawing("", "", (0, 0, 100, 60), shapes)
    pixels = image.imread(io.BytesIO(plots.encode(drawing, "png", dpi=100)))
    left, top = 14, 34  # What framed() adds.
    assert pixels[top + 30, left + 35, :3].tolist() == [1, 0, 0]
    assert pixels[top + 20, left + 60, :3].tolist() == [1, 1, 1]
    assert pixels[top + 30, left + 60, :3].tolist() == [0, 0, 1]
    assert pixels[top + 45, left + 35, :3].tolist() == [0, 0, 1]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_hostile_names_are_drawn_as_text() -> None:
    ops = tuple(SlowOp(name, 1, 1.0, 5.0, name, name) for name in HOSTILE)
    drawing = plots.figures(replace(tracy(), slow_ops=ops))["breakdown"]
    root = ElementTree.fromstring(plots.encode(drawing, "svg").decode())
    assert {element.tag.rpartition("}")[2] for element in root.iter()} == {
        "svg", "rect", "title", "text",
    }  # fmt: skip
    assert plots.encode(drawing, "png").startswith(b"\x89PNG")


def test_nothing_of_matplotlib_is_changed() -> None:
    code = """
import sys
from instrumentor_analysis.reports import plots
assert "matplotlib" not in sys.modules
import matplotlib
before = dict(matplotlib.rcParams)
from tests.analysis.reports.summaries import tracy
for figure in plots.figures(tracy()).values():
    plots.encode(figure, "png")
assert dict(matplotlib.rcParams) == before
assert "matplotlib.pyplot" not in sys.modules
"""
    root = Path(__file__).resolve().parents[3]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, timeout=HANG_S)


def test_the_stacked_report_is_a_bar_per_device() -> None:
    report = per_op_report(
        FIXTURES / "two_devices_v1.csv", ReportOptions(no_merge_devices=True, group_by="op")
    )
    drawing = stacked(report.stacked)
    # 10 + 30 + 100 + 44 + 12 us, and 2 + 8 - 5 + 1 us more.
    labels = [x.text for x in drawing.shapes if isinstance(x, Label) and x.colour == "muted"]
    assert labels == ["device 0: 196 us", "device 1: 202 us"]
    ends: dict[float, float] = {}
    for bar in drawing.shapes:
        if isinstance(bar, Bar):
            ends[bar.y] = max(ends.get(bar.y, 0.0), bar.x + bar.width)
    assert list(ends.values()) == pytest.approx([196 / 202 * 1000 - 1, 999])


def test_classic_colours_tell_ops_of_a_category_apart() -> None:
    frame = per_op_report(FIXTURES / "training_v2_1.csv").stacked
    for classic in (False, True):
        colours = [key.colour for key in stacked(frame, classic=classic).keys]
        assert (len(set(colours)) == len(colours)) is classic


def test_what_stands_apart_and_the_rest_are_all_the_time() -> None:
    frame = Table(
        {
            "name": Categorical.of([f"op {at}" for at in range(20)]),
            "category": Categorical.of(["Compute"] * 20),
            "device_time_us": np.arange(20, 0, -1) * 1000.0,
        }
    )
    keys = stacked(frame).keys
    assert len(keys) == 17 and keys[-1].text == f"all others {(4 + 3 + 2 + 1) / 210 * 100:.1f} %"
