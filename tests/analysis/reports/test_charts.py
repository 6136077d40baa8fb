"""The figures of a run: where their shapes stand."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from instrumentor_analysis.model import Gaps, Step
from instrumentor_analysis.reports import charts
from instrumentor_analysis.reports import detail as details
from instrumentor_analysis.reports.detail import Detail
from instrumentor_analysis.reports.drawing import CHARACTER, COLOURS, Bar, Dot, Drawing, Label, Line
from instrumentor_analysis.reports.roofline_chart import op_points, roofline
from instrumentor_analysis.reports.summary import html
from instrumentor_analysis.summary.summarise import analyse
from tests.analysis.reports.summaries import (
    run_folder,
    several_labels,
    torch_cpu,
    tracy,
    wallclock_only,
)


def bars(drawing: Drawing | None, *colours: str) -> list[Bar]:
    return [s for s in drawing.shapes if isinstance(s, Bar) and s.colour in (colours or COLOURS)]


def texts(drawing: Drawing | None, colour: str) -> list[str]:
    return [s.text for s in drawing.shapes if isinstance(s, Label) and s.colour == colour]


def test_a_long_compile_step_does_not_flatten_the_others() -> None:
    drawing = charts.steps(tracy())
    first, *others = bars(drawing, "compile", "wait")
    assert first.height == 180
    assert texts(drawing, "text") == ["first", "1", "2", "3", "4"]
    assert texts(drawing, "muted") == ["0", "200", "400", "ms", "35.2 s"]
    assert all(180 * 0.8 < bar.height < 180 for bar in others)
    assert others[-1].height == pytest.approx(180 / 1.08, abs=0.01)
    assert bars(drawing, "device")[-1].height == pytest.approx(63.2 / 421 * 180 / 1.08, abs=0.01)
    assert drawing.keys[-1].text == "dashed: median 411 ms"


def test_names_and_values_of_close_bars_do_not_overlap() -> None:
    first = (
        Step("step_compile", "compile", "x", 900.0),
        Step("step_warmup_1", "warmup", "x", 800.0),
    )
    steps = (*first, *(Step(f"step_steady_{n}", "steady", "x", 10.0) for n in range(2, 30)))
    drawing = charts.steps(replace(wallclock_only(), steps=steps))
    assert texts(drawing, "text")[:4] == ["1st", "w1", "2", "3"]
    assert "900 ms" in texts(drawing, "muted") and "800 ms" not in texts(drawing, "muted")
    # Warm-up steps are cut off as the compile step is: they flatten nothing.
    drawn = bars(drawing)
    assert [bar.height == 180 for bar in drawn[:3]] == [True, True, False]
    assert drawn[1].tip == "step_warmup_1: 800 ms"


def test_outliers_and_steps_without_a_device() -> None:
    drawing = charts.steps(several_labels())
    assert [bar.colour for bar in bars(drawing)] == ["device", "device", "outlier", "device"]
    assert bars(drawing)[2].tip == "step_steady_3: 410 ms, outlier"
    assert [key.text for key in drawing.keys][:2] == ["wall clock", "outlier"]


def test_many_steps_leave_the_last() -> None:
    steps = tuple(Step(f"step_steady_{n}", "steady", "x", 1.0) for n in range(500))
    drawing = charts.steps(replace(wallclock_only(), steps=steps))
    assert len(bars(drawing)) == charts.MOST_STEPS
    assert drawing.note == "The first 300 steps are not drawn."
    assert charts.steps(replace(wallclock_only(), steps=steps[:1])) is None, "one is no chart"


def test_parts_of_the_time() -> None:
    by_category = charts.category_parts(tracy())
    assert [(part.name, part.kind) for part in by_category] == [
        ("Compute", "compute"), ("TM", "tm"), ("Other", "other"),
    ]  # fmt: skip
    by_op = charts.op_parts(tracy())
    assert sum(part.percent for part in by_op) == pytest.approx(100)
    assert by_op[-1].kind == "rest"
    assert "not measured" not in " ".join(part.text for part in by_op)
    assert [part.text for part in charts.step_parts(tracy())] == [
        "device: 63.2 ms", "rest: 358 ms",
    ]  # fmt: skip
    assert charts.step_parts(torch_cpu()) == ()
    assert charts.op_parts(torch_cpu())[0].text == "aten::addmm: 61.9 %, 19.5 ms, 12 x"


def test_stacked_bars_fill_their_width() -> None:
    drawing = charts.breakdown(tracy())
    ends = {bar.y: bar.x + bar.width for bar in bars(drawing)}
    assert list(ends.values()) == pytest.approx([999] * 3, abs=1)
    assert texts(charts.breakdown(torch_cpu()), "muted") == ["self time by op"]


@pytest.mark.parametrize("count", [2, 12, 41, 200])
def test_narrower_pages_have_all_steps_and_names_that_stand_apart(count: int) -> None:
    steps = tuple(Step(f"step_steady_{n}", "steady", "x", 1.0 + n % 3) for n in range(count))
    drawing = charts.steps(replace(wallclock_only(), steps=steps))
    assert drawing is not None
    for each in (drawing, drawing.middle, drawing.narrow):
        assert each is not None and len(bars(each)) == count
        left, _, width, _ = each.box
        assert all(left <= bar.x and bar.x + bar.width <= left + width for bar in bars(each))
        names = [s for s in each.shapes if isinstance(s, Label) and s.anchor == "middle"]
        assert names and all(
            two.x - one.x >= (len(one.text) + len(two.text)) / 2 * CHARACTER
            for one, two in pairwise(names)
        )


def test_letters_have_the_size_that_their_room_was_reckoned_with() -> None:
    # 16 px in a chart of 1,000 units: "optimizer 2.24 ms" reached into the part beside it.
    style = html(tracy())
    assert "svg.middle text { font-size: 12px !important; }" in style
    assert "svg.narrow text { font-size: 12px !important; }" in style
    parts = tuple(charts.Part("optimizer", 20.0, "", "part1", figure="2.24 ms") for _ in "12345")
    drawing = charts.stacks("Iteration", {"whole": parts})
    assert drawing is not None and drawing.middle is not None and drawing.narrow is not None
    for each, told in (
        (drawing, "optimizer 2.24 ms"), (drawing.middle, "optimizer 2.24 ms"),
        (drawing.narrow, "optimizer"),
    ):  # fmt: skip
        ends = {bar.x: bar.x + bar.width for bar in bars(each)}
        inside = [s for s in each.shapes if isinstance(s, Label) and s.text == told]
        assert len(inside) == 5
        assert all(s.x + len(told) * CHARACTER <= ends[s.x - 6] + 1 for s in inside)


@pytest.mark.parametrize("percent", [*range(6, 30), 60])
def test_a_part_is_called_by_its_name_whole_and_with_its_figure_whole(percent: int) -> None:
    part = charts.Part("optimizer", percent, "optimizer: 44.0 ms", "part1", figure="44.0 ms")
    rest = charts.Part("data", 100 - percent, "data: 9.00 s", "part2", figure="9.00 s")
    drawing = charts.stacks("Iteration", {"whole": (part, rest)}, (part, rest))
    assert drawing is not None
    (first, *_) = (text for text in [*texts(drawing, "card"), ""] if not text.startswith("data"))
    assert first in ("", "optimizer", "optimizer 44.0 ms")
    assert bool(first) == (percent >= 8) and (" ms" in first) == (percent >= 14)
    assert drawing.keys[0].text == f"optimizer 44.0 ms {percent:.1f} %"


def test_gap_bins_leave_empty_ends_out() -> None:
    histogram = ((1.0, 0), (6.5, 4), (10.0, 0), (100.0, 8), (1000.0, 0), (None, 0))
    names, counts, bars = charts.gap_table(Gaps(12, 1.0, 1.0, 1.0, 1.0, 8, 1.0, histogram)).columns
    rows = zip(names.texts, counts.texts, bars.shares, counts.colours, strict=True)
    assert list(rows) == [
        ("1 us to 6.5 us", "4", 50.0, "plain"),
        ("6.5 us to 10 us", "0", 0.0, "bad"),
        ("10 us to 100 us", "8", 100.0, "bad"),
    ]
    assert charts.gap_table(None).rows == 0
    assert charts.gap_table(Gaps(0, 0, None, None, None, 0, 0)).rows == 0


def test_roofline_points_lie_under_their_roof(tmp_path: Path) -> None:
    detail = details.of(analyse(run_folder(tmp_path / "run")))
    slow, fast = op_points(detail)
    assert slow.text.startswith("Matmul 32 x 1280 x 5120 HiFi4 BF16 x BF16 => BF16: 1 x, 187 us")
    assert slow.bound == "SLOW"
    moved = 2 * (32 * 1280 + 1280 * 5120 + 32 * 5120)
    assert slow.intensity == pytest.approx(2 * 32 * 1280 * 5120 / moved)
    assert slow.tflops == pytest.approx(2 * 32 * 1280 * 5120 / 187e-6 / 1e12)
    drawing = roofline(detail)
    assert drawing is not None and fast.time_us == 60
    (roof,) = [s for s in drawing.shapes if isinstance(s, Line) and len(s.points) == 3]
    (x0, y0), (x1, y1), (x2, y2) = roof.points
    assert x0 < x1 < x2 and y0 > y1 == y2
    drawn = [shape for shape in drawing.shapes if isinstance(shape, Dot)]
    assert all(0 <= dot.x <= 1000 and 0 <= dot.y <= 400 for dot in drawn)
    for point, dot in zip((slow, fast), drawn, strict=True):
        ceiling = min(point.intensity * 0.288, 74 / 72 * 64)
        # Two decades from 1 to 100 TFLOP/s over 400 units.
        assert dot.y == pytest.approx(400 - math.log10(point.tflops) * 200, abs=0.01)
        assert point.tflops < ceiling


def test_no_model_no_roofline() -> None:
    assert roofline(Detail()) is None
    assert op_points(Detail()) == ()
