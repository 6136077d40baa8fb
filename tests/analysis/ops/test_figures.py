"""Figures of a summary out of a per-op frame: exact values."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from instrumentor_analysis.load.ops_csv import load
from instrumentor_analysis.load.table import Categorical, concat
from instrumentor_analysis.ops import figures
from instrumentor_analysis.ops.per_op import per_op
from instrumentor_analysis.ops.roofline import architecture
from instrumentor_analysis.ops.stacked import stacked
from tests.analysis.ops_rows import FIXTURES, frame_of, host_op, matmul, op, per_op_of
from tests.warned import texts

WORMHOLE = architecture("wormhole")


def test_categories_in_chart_order() -> None:
    ops = per_op_of(
        op("TransposeDeviceOperation", 30.0),
        op(us=50.0),
        host_op(),
        op("X", 20.0),
    )
    found = figures.categories(ops)
    assert [(c.name, c.device_time_ms, c.percent, c.op_count) for c in found] == [
        ("Compute", 0.05, 50.0, 1), ("TM", 0.03, 30.0, 1), ("Host", 0.0, 0.0, 1),
        ("Other", 0.02, 20.0, 1),
    ]  # fmt: skip


def test_slow_ops_are_ops_of_one_name() -> None:
    ops = per_op_of(matmul(64, 64, 64, 30.0), matmul(32, 4096, 4096, 130.0, fidelity="HiFi2"),
        op("CopyDeviceOperation", 40.0), host_op(),
    )  # fmt: skip
    first, second, third = figures.slow_ops(ops)
    assert (first.op, first.count, first.device_time_ms, first.percent) == (
        "Matmul", 2, 0.16, 80.0,
    )  # fmt: skip
    assert first.bound == "DRAM"
    assert (second.op, second.bound, second.category) == ("CopyDeviceOperation", None, "DM")
    assert (third.op, third.device_time_ms, third.bound) == ("(torch)", None, "HOST")


def test_gap_distribution() -> None:
    gaps = (99.0, 1.0, 6.5, 7.0, 200_000.0)
    ops = per_op_of(*(op(gap_us=gap) for gap in gaps))
    found = figures.gaps(ops)
    assert (found.count, found.total_us, found.median_us, found.max_us) == (
        4, 200_014.5, 6.75, 200_000.0,
    )  # fmt: skip
    assert (found.over_threshold_count, found.over_threshold_us) == (2, 200_007.0)
    counts = dict(found.histogram)
    assert (counts[1.0], counts[6.5], counts[10.0], counts[None]) == (1, 1, 1, 1)
    assert sum(counts.values()) == 4


def test_pauses_are_gaps_above_ten_milliseconds() -> None:
    ops = per_op_of(*(op(gap_us=gap) for gap in (None, 10_000.0, 10_001.0, 30_000.0)))
    found = figures.gaps(ops)
    assert (found.pause_count, found.pause_us) == (2, 40_001.0)
    assert (found.over_threshold_count, found.over_threshold_us) == (3, 50_001.0)


def test_gaps_of_pooled_steps_are_those_of_one() -> None:
    gaps = (None, 1.0, 7.0, 20_000.0)
    once = per_op_of(*(op(gap_us=gap) for gap in gaps))
    one, of_two = figures.gaps(once), figures.gaps(concat([once, once]), pooled=2)
    assert replace(of_two, p95_us=one.p95_us) == one
    # The distribution is of both.
    assert of_two.p95_us == 20_000.0


@pytest.mark.parametrize(
    ("gaps_us", "said"),
    [
        ((10_000.0,), ""),
        (
            (12_000.0,),
            "1 gap above 10 ms (12.0 ms) is a pause of the host, such as compilation: it is",
        ),
        (
            (12_000.0, 1_400_000.0),
            "2 gaps above 10 ms (1.41 s together) are pauses of the host, such as compilation: "
            "they are",
        ),
    ],
)
def test_pauses_are_remarked_on(gaps_us: tuple[float, ...], said: str) -> None:
    ops = per_op_of(op(), *(op(gap_us=gap_us) for gap_us in gaps_us))
    left_out = " left out of the potential savings. Choose a steady step."
    assert texts(figures.remarks(ops)) == ([said + left_out] if said else [])


def test_remarks_on_pooled_steps_are_of_one() -> None:
    rows = (op(), matmul(2048, 2048, 2048, 100.0), op(gap_us=40_000.0), op(us=None))
    once = per_op_of(*rows)
    assert len(figures.remarks(once)) == 3
    assert figures.remarks(concat([once] * 4), pooled=4) == figures.remarks(once)
    # In one step of many it is said all the same.
    steady = per_op_of(op(), op())
    (said,) = figures.remarks(concat([per_op_of(*rows[::2]), *[steady] * 9]), 10)
    assert said.message.startswith("1 gap above 10 ms (40.0 ms) is a pause")


def test_more_than_a_peak_is_remarked_on() -> None:
    at_peak = 2 * 2048**3 / (74 / 72 * 1e12 * 64) * 1e6
    rounded = per_op_of(matmul(2048, 2048, 2048, at_peak / 1.04))
    assert figures.remarks(rounded) == []
    above = per_op_of(*[matmul(2048, 2048, 2048, at_peak / 1.98)] * 2, op(us=1.0))
    assert texts(figures.remarks(above)) == [
        "2 ops show more than 105 % of a peak (up to 198 %), so the architecture or the core count "
        "is probably wrong. --arch changes it."
    ]


def test_no_gaps_is_none() -> None:
    assert figures.gaps(per_op_of(op())) is None


def test_kernel_and_firmware_time_are_two_things() -> None:
    rows = op(us=10.0, gap_us=0.0), op(us=20.0, gap_us=9.0), host_op()
    found = figures.device_time(frame_of(*rows), per_op_of(*rows))
    assert (found.kernel_ms, found.firmware_ms, found.devices) == (0.03, 0.031, 1)
    assert found.span_ms == pytest.approx(0.04)
    assert found.busy_percent == pytest.approx(31 / 40 * 100)


def test_overlapping_firmware_is_busy_once() -> None:
    rows = [op(us=10.0), op(us=10.0)]
    cycles = [{"DEVICE FW START CYCLE": "0", "DEVICE FW END CYCLE": "10500"},
              {"DEVICE FW START CYCLE": "5000", "DEVICE FW END CYCLE": "15500"}]  # fmt: skip
    rows = [row | more for row, more in zip(rows, cycles, strict=True)]
    found = figures.device_time(frame_of(*rows), per_op_of(*rows))
    assert found.busy_percent == 100.0
    assert found.span_ms == pytest.approx(0.0155)


def test_what_was_not_timed_is_none() -> None:
    ops = per_op_of(host_op())
    found = figures.device_time(frame_of(host_op()), ops)
    assert (found.kernel_ms, found.firmware_ms, found.span_ms, found.busy_percent) == (None,) * 4
    assert figures.matmul_flops_percent(ops) is None
    assert figures.overall_dram(ops) == (None, None)
    assert figures.program_cache_hit_percent(ops) is None


def test_matmul_utilisation_is_weighted_by_time() -> None:
    ops = per_op_of(matmul(512, 512, 512, 10.0), matmul(512, 512, 512, 30.0), op(us=99.0))
    first, second = ops["flops_percent"].tolist()[:2]
    assert figures.matmul_flops_percent(ops) == pytest.approx((first * 10 + second * 30) / 40)


def test_shares_of_bounds() -> None:
    ops = per_op_of(matmul(512, 2048, 512, 20.0), matmul(64, 64, 64, 60.0), op(us=20.0)
    )  # fmt: skip
    assert figures.bounds(ops) == {"SLOW": 60.0, "": 20.0, "BOTH": 20.0}


@pytest.mark.parametrize(
    ("group_by", "names"),
    [
        ("op", ["Matmul", "(torch)"]),
        ("memory", ["Matmul (in0:dram_interleaved)", "(torch)"]),
        ("category", ["Compute", "Host"]),
    ],
)
def test_stacked_names(group_by: str, names: list[str]) -> None:
    ops = per_op_of(matmul(64, 64, 64, 30.0), host_op(), matmul(64, 64, 64, 10.0))
    table = stacked(ops, group_by)  # type: ignore[arg-type]
    assert table["name"].tolist() == names
    assert table["percent"].tolist() == [100.0, 0.0]
    assert table["count"].tolist() == [2, 1]


def test_cache_misses_and_constants_are_remarked_on() -> None:
    ops = per_op(load(FIXTURES / "locations.csv").frame, WORMHOLE)
    assert any("1 ops evaluate constants" in remark for remark in texts(figures.remarks(ops)))
    hits = ops.assign(program_cache_hit=Categorical.of(["True", "False", *[None] * 6]))
    assert figures.program_cache_hit_percent(hits) == 50.0
    assert any("50 % of the ops missed" in remark for remark in texts(figures.remarks(hits)))
