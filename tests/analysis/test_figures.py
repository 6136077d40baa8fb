"""Figures of a summary out of a per-op frame: exact values."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis import figures
from analysis.device import per_op
from analysis.load import load
from analysis.roofline import architecture
from analysis.savings import ideal_us, savings
from analysis.stacked import stacked
from tests.analysis.ops_rows import FIXTURES, Row, host_op, matmul, op, text

WORMHOLE = architecture("wormhole")


def frames(tmp_path: Path, *rows: Row) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Raw rows and per-op frame."""
    path = tmp_path / "x.csv"
    path.write_text(text(rows), encoding="utf-8")
    raw = load(path).frame
    return raw, per_op(raw, WORMHOLE)


def test_categories_in_chart_order(tmp_path: Path) -> None:
    _, ops = frames(
        tmp_path, op("TransposeDeviceOperation", 30.0), op(us=50.0), host_op(), op("X", 20.0)
    )
    found = figures.categories(ops)
    assert [(c.name, c.device_time_ms, c.percent, c.op_count) for c in found] == [
        ("Compute", 0.05, 50.0, 1), ("TM", 0.03, 30.0, 1), ("Host", 0.0, 0.0, 1),
        ("Other", 0.02, 20.0, 1),
    ]  # fmt: skip


def test_slow_ops_are_ops_of_one_name(tmp_path: Path) -> None:
    _, ops = frames(
        tmp_path, matmul(64, 64, 64, 30.0), matmul(32, 4096, 4096, 130.0, fidelity="HiFi2"),
        op("CopyDeviceOperation", 40.0), host_op(),
    )  # fmt: skip
    first, second, third = figures.slow_ops(ops)
    assert (first.op, first.count, first.device_time_ms, first.percent) == (
        "Matmul", 2, 0.16, 80.0,
    )  # fmt: skip
    assert first.bound == "DRAM"
    assert (second.op, second.bound, second.category) == ("CopyDeviceOperation", None, "DM")
    assert (third.op, third.device_time_ms, third.bound) == ("(torch)", None, "HOST")


def test_gap_distribution(tmp_path: Path) -> None:
    gaps = (99.0, 1.0, 6.5, 7.0, 200_000.0)
    _, ops = frames(tmp_path, *(op(gap_us=gap) for gap in gaps))
    found = figures.gaps(ops)
    assert found is not None
    assert (found.count, found.total_us, found.median_us, found.max_us) == (
        4, 200_014.5, 6.75, 200_000.0,
    )  # fmt: skip
    assert (found.over_threshold_count, found.over_threshold_us) == (2, 200_007.0)
    counts = dict(found.histogram)
    assert (counts[1.0], counts[6.5], counts[10.0], counts[None]) == (1, 1, 1, 1)
    assert sum(counts.values()) == 4


def test_no_gaps_is_none(tmp_path: Path) -> None:
    assert figures.gaps(frames(tmp_path, op())[1]) is None


def test_kernel_and_firmware_time_are_two_things(tmp_path: Path) -> None:
    raw, ops = frames(tmp_path, op(us=10.0, gap_us=0.0), op(us=20.0, gap_us=9.0), host_op())
    found = figures.device_time(raw, ops)
    assert (found.kernel_ms, found.firmware_ms, found.devices) == (0.03, 0.031, 1)
    assert found.span_ms == pytest.approx(0.04)
    assert found.busy_percent == pytest.approx(31 / 40 * 100)


def test_overlapping_firmware_is_busy_once(tmp_path: Path) -> None:
    rows = [op(us=10.0), op(us=10.0)]
    cycles = [{"DEVICE FW START CYCLE": "0", "DEVICE FW END CYCLE": "10500"},
              {"DEVICE FW START CYCLE": "5000", "DEVICE FW END CYCLE": "15500"}]  # fmt: skip
    raw, ops = frames(tmp_path, *(row | more for row, more in zip(rows, cycles, strict=True)))
    found = figures.device_time(raw, ops)
    assert found.busy_percent == 100.0
    assert found.span_ms == pytest.approx(0.0155)


def test_what_was_not_timed_is_none(tmp_path: Path) -> None:
    raw, ops = frames(tmp_path, host_op())
    found = figures.device_time(raw, ops)
    assert (found.kernel_ms, found.firmware_ms, found.span_ms, found.busy_percent) == (None,) * 4
    assert figures.matmul_flops_percent(ops) is None
    assert figures.overall_dram(ops) == (None, None)
    assert figures.program_cache_hit_percent(ops) is None


def test_matmul_utilisation_is_weighted_by_time(tmp_path: Path) -> None:
    _, ops = frames(tmp_path, matmul(512, 512, 512, 10.0), matmul(512, 512, 512, 30.0), op(us=99.0))
    first, second = ops["flops_percent"].tolist()[:2]
    assert figures.matmul_flops_percent(ops) == pytest.approx((first * 10 + second * 30) / 40)


def test_shares_of_bounds(tmp_path: Path) -> None:
    _, ops = frames(
        tmp_path, matmul(512, 2048, 512, 20.0), matmul(64, 64, 64, 60.0), op(us=20.0)
    )  # fmt: skip
    found = figures.shares(ops)
    assert (found.dram, found.flop, found.slow) == (20.0, 20.0, 60.0)
    assert found.categories["Compute"] == 100.0


def test_savings_to_the_roofline_and_to_short_gaps(tmp_path: Path) -> None:
    _, ops = frames(
        tmp_path,
        matmul(512, 512, 512, 60.0),
        op("CopyDeviceOperation", 10.0, 106.5),
        op("MoveDeviceOperation", 10.0, 6.5),
    )
    ideal = 2 * 512**3 / (74 / 72 * 1e12 * 64) * 1e6
    assert ideal_us(ops, WORMHOLE).tolist()[0] == pytest.approx(max(ideal, 3 * 512**2 * 2 / 288e3))
    gap, bound = savings(ops, WORMHOLE)
    assert (gap.op, gap.kind, gap.count, gap.saving_us) == ("CopyDeviceOperation", "gap", 1, 100.0)
    assert gap.percent == pytest.approx(100 / 193 * 100)
    assert (bound.op, bound.kind, bound.now_us) == ("Matmul", "bound", 60.0)
    assert bound.saving_us == pytest.approx(60 - 3 * 512**2 * 2 / 288e3)


@pytest.mark.parametrize(
    ("group_by", "names"),
    [
        ("op", ["Matmul", "(torch)"]),
        ("memory", ["Matmul (in0:dram_interleaved)", "(torch)"]),
        ("category", ["Compute", "Host"]),
    ],
)
def test_stacked_names(tmp_path: Path, group_by: str, names: list[str]) -> None:
    _, ops = frames(tmp_path, matmul(64, 64, 64, 30.0), host_op(), matmul(64, 64, 64, 10.0))
    table = stacked(ops, group_by)  # type: ignore[arg-type]
    assert table["name"].tolist() == names
    assert table["percent"].tolist() == [100.0, 0.0]
    assert table["count"].tolist() == [2, 1]


def test_cache_misses_and_constants_are_remarked_on() -> None:
    ops = per_op(load(FIXTURES / "locations.csv").frame, WORMHOLE)
    assert any("1 ops evaluate constants" in remark for remark in figures.remarks(ops))
    hits = ops.assign(program_cache_hit=["True", "False", *[None] * 6])
    assert figures.program_cache_hit_percent(hits) == 50.0
    assert any("50 % of the ops missed" in remark for remark in figures.remarks(hits))
