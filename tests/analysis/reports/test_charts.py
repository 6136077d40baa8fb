"""Geometry of the charts in report.html."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from instrumentor_analysis.model import Gaps, Step
from instrumentor_analysis.reports import charts
from instrumentor_analysis.reports import detail as details
from instrumentor_analysis.reports.detail import Detail
from instrumentor_analysis.reports.roofline_chart import op_points, roofline_chart
from instrumentor_analysis.summary import analyse
from tests.analysis.reports.summaries import (
    run_folder,
    several_labels,
    torch_cpu,
    tracy,
    wallclock_only,
)


def test_a_long_compile_step_does_not_flatten_the_others() -> None:
    chart = charts.step_chart(tracy(), width=500, height=100)
    assert chart is not None
    first, *others = chart.bars
    assert first.clipped and first.height == 100 and first.value == "35,210.4 ms"
    assert [bar.label for bar in chart.bars] == ["compile", "1", "2", "3", "4"]
    assert all(80 < bar.height < 100 and not bar.clipped for bar in others)
    assert others[-1].height == pytest.approx(100 / 1.08)
    assert others[-1].device_height == pytest.approx(63.2 / 421 * 100 / 1.08)
    assert chart.median is not None and chart.median.text == "median 410.8 ms"
    assert [tick.text for tick in chart.ticks] == ["0", "200", "400"]


def test_names_and_values_of_close_bars_do_not_overlap() -> None:
    first = (
        Step("step_compile", "compile", "x", 900.0),
        Step("step_warmup_1", "warmup", "x", 800.0),
    )
    steps = (*first, *(Step(f"step_steady_{n}", "steady", "x", 10.0) for n in range(2, 30)))
    chart = charts.step_chart(replace(wallclock_only(), steps=steps))
    assert chart is not None
    assert [bar.label for bar in chart.bars[:4]] == ["c", "w1", "2", "3"]
    assert [bar.value for bar in chart.bars[:2]] == ["900.0 ms", ""]
    # Warm-up steps are cut off as the compile step is: they flatten nothing.
    assert [bar.clipped for bar in chart.bars[:3]] == [True, True, False]
    assert chart.bars[1].text == "step_warmup_1: 800.0 ms"


def test_outliers_and_steps_without_a_device() -> None:
    chart = charts.step_chart(several_labels())
    assert chart is not None and not chart.some_device
    assert [bar.kind for bar in chart.bars] == ["steady", "steady", "outlier", "steady"]
    assert chart.bars[2].text == "step_steady_3: 409.5 ms, outlier"


def test_one_step_is_no_chart() -> None:
    assert charts.step_chart(wallclock_only()) is None
    one = replace(wallclock_only(), steps=(Step("step_compile", "compile", "x", 5.0),))
    assert charts.step_chart(one) is None


def test_many_steps_leave_the_last() -> None:
    steps = tuple(Step(f"step_steady_{n}", "steady", "x", 1.0) for n in range(500))
    chart = charts.step_chart(replace(wallclock_only(), steps=steps))
    assert chart is not None
    assert (len(chart.bars), chart.left_out) == (charts.MOST_STEPS, 300)


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
        "device: 63.2 ms", "rest: 357.8 ms",
    ]  # fmt: skip
    assert charts.step_parts(torch_cpu()) == ()
    assert charts.op_parts(torch_cpu())[0].text == "aten::addmm: 61.9 %, 19.5 ms, 12 x"


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
    assert (slow.op, slow.count, slow.bound) == ("Matmul 32 x 1280 x 5120", 1, "SLOW")
    moved = 2 * (32 * 1280 + 1280 * 5120 + 32 * 5120)
    assert slow.intensity == pytest.approx(2 * 32 * 1280 * 5120 / moved)
    assert slow.tflops == pytest.approx(2 * 32 * 1280 * 5120 / 187e-6 / 1e12)
    chart = roofline_chart(detail, width=100, height=100)
    assert chart is not None and len(chart.points) == 2 and fast.time_us == 60
    (roof,) = chart.roofs
    (x0, y0), (x1, y1), (x2, y2) = roof.points
    assert x0 < x1 < x2 and y0 > y1 == y2
    # On logarithmic axes of equal scale per decade the slope is one.
    assert chart.x.at(10) - chart.x.at(1) == pytest.approx(
        100 / (chart.x.high - chart.x.low), abs=0.2
    )
    assert all(0 <= p.x <= 100 and 0 <= p.y <= 100 for p in chart.points)
    for point, drawn in zip((slow, fast), chart.points, strict=True):
        ceiling = min(point.intensity * 0.288, 74 / 72 * 64)
        assert point.tflops < ceiling and drawn.y > chart.y.at(ceiling)


def test_no_model_no_roofline() -> None:
    assert roofline_chart(Detail()) is None
    assert op_points(Detail()) == ()


@pytest.mark.parametrize("top", [0.003, 0.9, 7.0, 421.0, 9e6])
def test_ticks_are_round_and_few(top: float) -> None:
    ticks = charts._round_ticks(top)
    assert 3 <= len(ticks) <= 6 and ticks[0][0] == 0 and ticks[-1][0] <= top
    assert all(math.isfinite(value) for value, _ in ticks)
