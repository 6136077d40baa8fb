"""Figures per op: exact values on small rows. Equality with tt-perf-report: test_parity."""

from __future__ import annotations

import numpy as np
import pytest

from instrumentor_analysis.ops.per_op import NAMES, with_totals
from tests.analysis.ops_rows import Row, host_op, matmul, op, per_op_of, signpost


def test_columns_and_one_row_per_row() -> None:
    ops = per_op_of(op(), signpost("s"), op())
    assert tuple(ops.columns) == NAMES
    assert ops["id"].tolist() == [2, 3, 4]
    assert ops["is_signpost"].tolist() == [False, True, False]
    assert ops["op"].tolist()[1] == "s (signpost)"


def test_a_matmul_by_hand() -> None:
    (row,) = per_op_of(matmul(1024, 512, 256, 20.0)).records()
    flops = 2 * 1024 * 512 * 256
    moved = 2 * (1024 * 512 + 512 * 256 + 1024 * 256)
    assert row["tflops"] == pytest.approx(flops / 20e-6 / 1e12)
    assert row["flops_percent"] == pytest.approx(flops / 20e-6 / (74 / 72 * 1e12 * 64) * 100)
    assert row["dram_gb_s"] == pytest.approx(moved / 20e-6 / 1e9)
    assert row["dram_percent"] == pytest.approx(moved / 20e-6 / 288e9 * 100)
    assert row["dram_bytes"] == moved
    assert (row["op"], row["bound"]) == ("Matmul 1024 x 512 x 256", "SLOW")
    assert row["math_fidelity"] == "HiFi4 BF16 x BF16 => BF16"


@pytest.mark.parametrize(
    ("row", "bound"),
    [
        (matmul(2048, 2048, 2048, 300.0), "FLOP"),
        (matmul(32, 4096, 4096, 130.0, fidelity="HiFi2"), "DRAM"),
        (matmul(512, 2048, 512, 20.0), "BOTH"),
        (matmul(512, 512, 512, 60.0), "SLOW"),
        (matmul(512, 512, 512, None), ""),
        (matmul(512, 512, 512, 0.0), ""),
        (op(), ""),
        (host_op(), "HOST"),
    ],
)
def test_bounds(row: Row, bound: str) -> None:
    assert per_op_of(row)["bound"].tolist() == [bound]


def test_gaps_are_blank_at_the_start_and_where_they_are_nonsense() -> None:
    ops = per_op_of(
        op(gap_us=5.0),
        op(gap_us=7.0),
        signpost("s"),
        op(gap_us=8.0),
        op(gap_us=-1.0),
        op(gap_us=None),
        op(us=None, gap_us=2000.0),
        op(gap_us=2000.0),
        op(gap_us=2000.0),
    )
    nan = float("nan")
    np.testing.assert_equal(ops["gap_us"], [nan, 7.0, nan, 8.0, nan, nan, nan, nan, 2000.0])


def test_a_broken_clock_costs_the_duration() -> None:
    ops = per_op_of(op(us=10.0), op(us=10.0, gap_us=-2000.0), op(us=8000.0, gap_us=-2000.0))
    assert ops["invalid_duration"].tolist() == [False, True, False]
    np.testing.assert_equal(ops["device_time_us"], [10.0, np.nan, 8000.0])


def test_shares_add_up_to_a_hundred() -> None:
    ops = per_op_of(op(us=10.0), op(us=20.0, gap_us=10.0), host_op(), signpost("s"))
    assert ops["total_percent"].tolist()[:2] == [25.0, 75.0]
    assert np.isnan(ops["total_percent"]).tolist() == [False, False, True, True]
    assert with_totals(ops.take(slice(1, None)))["total_percent"].tolist()[0] == 100.0


def test_missing_cells_cost_their_figures_only() -> None:
    no_memory = matmul(64, 64, 64, 5.0) | {"INPUT_0_MEMORY": ""}
    no_fidelity = matmul(64, 64, 64, 5.0, fidelity="")
    no_shape = matmul(64, 64, 64, 5.0) | {"INPUT_1_X_PAD[LOGICAL]": "1e300"}
    ops = per_op_of(no_memory, no_fidelity, no_shape)
    assert np.isnan(ops["dram_percent"]).tolist() == [True, False, True]
    assert np.isnan(ops["flops_percent"]).tolist() == [False, True, True]
    assert np.isnan(ops["tflops"]).tolist() == [False, False, True]
    assert ops["op"].tolist()[2] == "Matmul unknown shape"


def test_control_characters_do_not_reach_a_table() -> None:
    ops = per_op_of(op("Bad\x1b[31mOp"))
    assert ops["op"].tolist() == ["Bad[31mOp"]
