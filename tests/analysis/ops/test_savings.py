"""What could be won at most: exact values per op, never the same time twice."""

from __future__ import annotations

import pytest

from instrumentor_analysis.load.table import concat
from instrumentor_analysis.model import CONDITIONS, Saving
from instrumentor_analysis.ops.roofline import architecture
from instrumentor_analysis.ops.savings import above_bound_us, ideal_us, savings
from tests.analysis.ops_rows import Row, host_op, matmul, op, per_op_of

WORMHOLE = architecture("wormhole")
#: FLOPs a second of one core at HiFi4, and FLOPs of 2048 x 2048 x 2048.
CORE = 74 / 72 * 1e12
FLOPS = 2 * 2048**3
SHARDED = "'program_config': 'MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(in0_block_w=1)'"


def only(found: tuple[Saving, ...], kind: str) -> list[Saving]:
    return [saving for saving in found if saving.kind == kind]


def test_to_the_roofline_and_to_short_gaps() -> None:
    ops = per_op_of(
        matmul(512, 512, 512, 60.0),
        op("CopyDeviceOperation", 10.0, 106.5),
        op("MoveDeviceOperation", 10.0, 6.5),
    )
    ideal = 2 * 512**3 / (CORE * 64) * 1e6
    assert ideal_us(ops, WORMHOLE).tolist()[0] == pytest.approx(max(ideal, 3 * 512**2 * 2 / 288e3))
    gap, bound = savings(ops, WORMHOLE)
    assert (gap.op, gap.kind, gap.count, gap.saving_us) == ("CopyDeviceOperation", "gap", 1, 100.0)
    assert gap.percent == pytest.approx(100 / 193 * 100)
    assert (bound.op, bound.kind, bound.now_us) == ("Matmul 512 x 512 x 512", "bound", 60.0)
    assert bound.saving_us == pytest.approx(60 - 3 * 512**2 * 2 / 288e3)


def test_nothing_to_win_is_nothing() -> None:
    assert savings(per_op_of(op(), op()), WORMHOLE) == ()
    assert savings(per_op_of(host_op()), WORMHOLE) == ()


def test_every_shape_stands_for_itself() -> None:
    ops = per_op_of(
        matmul(64, 64, 64, 40.0, gap_us=None),
        *[matmul(32, 128, 64, 30.0, gap_us=16.5)] * 2,
        host_op("(torch) aten::add", **{"OP TO OP LATENCY [ns]": 26_500}),
        host_op("(torch) aten::mul", **{"OP TO OP LATENCY [ns]": 36_500}),
    )
    found = savings(ops, WORMHOLE)
    assert [(s.op, s.count) for s in only(found, "bound")] == [
        ("Matmul 32 x 128 x 64", 2), ("Matmul 64 x 64 x 64", 1),
    ]  # fmt: skip
    assert [(s.op, s.count, s.saving_us) for s in only(found, "gap")] == [
        ("(torch) aten::mul", 1, 30.0),
        ("(torch) aten::add", 1, 20.0),
        ("Matmul 32 x 128 x 64", 2, 20.0),
    ]


def test_a_few_cores_could_be_all() -> None:
    on_eight = FLOPS / (CORE * 8) * 1e6
    on_all = FLOPS / (CORE * 64) * 1e6
    now = on_eight / 0.95
    ops = per_op_of(matmul(2048, 2048, 2048, now, CORE__COUNT=8))
    grid, bound = savings(ops, WORMHOLE)
    assert (grid.kind, grid.op, grid.count) == ("grid", "Matmul 2048 x 2048 x 2048", 1)
    # The row has whole nanoseconds.
    assert grid.saving_us == pytest.approx(on_eight - on_all)
    assert bound.saving_us == pytest.approx(now - on_eight, abs=1e-3)
    assert grid.saving_us + bound.saving_us == pytest.approx(now - on_all, abs=1e-3)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        # Above its own peak there is less left to the whole grid's.
        (matmul(2048, 2048, 2048, FLOPS / (CORE * 32) * 1e6 / 1.5, CORE__COUNT=32),
         FLOPS / (CORE * 32) * 1e6 / 1.5 - FLOPS / (CORE * 64) * 1e6),
        # Of the cores that it had: those of its sub-device.
        (matmul(2048, 2048, 2048, 9000.0, CORE__COUNT=8, AVAILABLE__WORKER__CORE__COUNT=16),
         FLOPS / (CORE * 16) * 1e6),
        # DRAM is the limit from some number of cores on.
        (matmul(32, 2048, 2048, 900.0, CORE__COUNT=1),
         2 * 32 * 2048**2 / CORE * 1e6 - (2048**2 + 2 * 32 * 2048) * 2 / 288e3),
    ],
)  # fmt: skip
def test_the_whole_grid(row: Row, expected: float) -> None:
    (grid,) = only(savings(per_op_of(row), WORMHOLE), "grid")
    assert grid.saving_us == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    "row",
    [
        matmul(2048, 2048, 2048, 400.0),
        # Limited by DRAM on the cores that it used.
        matmul(32, 4096, 4096, 900.0, CORE__COUNT=56),
        matmul(2048, 2048, 2048, 9000.0, attributes=SHARDED),
        matmul(2048, 2048, 2048, 9000.0, CORE__COUNT=0),
        matmul(2048, 2048, 2048, None, CORE__COUNT=8),
        op("SoftmaxDeviceOperation", 50.0, CORE__COUNT=8),
    ],
)
def test_more_cores_would_not_help(row: Row) -> None:
    assert only(savings(per_op_of(row), WORMHOLE), "grid") == []


def test_pauses_are_nothing_to_win() -> None:
    ops = per_op_of(
        op("CopyDeviceOperation", 60.0, None),
        op("CopyDeviceOperation", 60.0, 5_000_000.0),
        op("CopyDeviceOperation", 60.0, 10_000.0),
        op("MoveDeviceOperation", 20.0, 10_000.5),
    )
    (gap,) = savings(ops, WORMHOLE)
    assert (gap.op, gap.count, gap.now_us) == ("CopyDeviceOperation", 1, 10_000.0)
    assert gap.percent == pytest.approx((10_000 - 6.5) / (200 + 10_000) * 100)


def test_savings_of_pooled_steps_are_those_of_one() -> None:
    once = per_op_of(
        matmul(512, 512, 512, 60.0, CORE__COUNT=2),
        op("CopyDeviceOperation", 9.0, 50.0),
    )
    thrice = concat([once] * 3)
    for one, pooled in zip(savings(once, WORMHOLE), savings(thrice, WORMHOLE, 3), strict=True):
        assert (pooled.op, pooled.kind, pooled.count) == (one.op, one.kind, one.count)
        assert (pooled.now_us, pooled.saving_us, pooled.percent) == pytest.approx(
            (one.now_us, one.saving_us, one.percent)
        )


def test_time_beyond_the_bound_of_each_op() -> None:
    ops = per_op_of(matmul(512, 512, 512, 60.0), op(), host_op(),
                       matmul(512, 512, 512, 1.0))  # fmt: skip
    first, second, third, last = above_bound_us(ops, WORMHOLE).tolist()
    assert first == pytest.approx(60 - 3 * 512**2 * 2 / 288e3)
    assert second != second and third != third
    assert last == 0.0


def test_every_kind_says_what_it_takes() -> None:
    assert CONDITIONS["gap"] == "gaps at 6.5 us"
    assert set(CONDITIONS) == {"bound", "grid", "gap"}
