"""Several steps as one: means over the steps that have an op, rates of the mean time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from instrumentor_analysis.load.table import Table
from instrumentor_analysis.ops.pooling import pool
from instrumentor_analysis.ops.steps import read_steps
from tests.analysis.ops_rows import matmul, op, step, write


def frames(folder: Path, *steps: list[dict[str, str]]) -> list[Table]:
    rows = [row for at, ops in enumerate(steps, 1) for row in step(f"step_steady_{at}", ops)]
    path = write(folder / "ops.csv", rows)
    return read_steps(path, "all").tables


def test_an_op_is_its_mean_and_its_spread(tmp_path: Path) -> None:
    first = [op("A", us=10.0), op("B", us=1.0), op("A", us=3.0)]
    second = [op("A", us=14.0), op("B", us=1.0), op("A", us=5.0)]
    pooled = pool(frames(tmp_path, first, second))
    assert pooled["op_code"].tolist() == ["A", "B", "A"]
    assert pooled["device_time_us"].tolist() == [12.0, 1.0, 4.0]
    spread = pooled["device_time_stdev_us"].tolist()
    assert spread == pytest.approx([8.0**0.5, 0.0, 2.0**0.5])
    assert pooled["steps"].tolist() == [2, 2, 2]


def test_an_op_of_one_step_only_is_not_averaged_with_nothing(tmp_path: Path) -> None:
    first = [op("A", us=10.0), op("Once", us=7.0)]
    pooled = pool(frames(tmp_path, first, [op("A", us=20.0)]))
    assert pooled["op_code"].tolist() == ["A", "Once"]
    assert pooled["device_time_us"].tolist() == [15.0, 7.0]
    assert pooled["steps"].tolist() == [2, 1]
    assert np.isnan(pooled["device_time_stdev_us"]).tolist() == [False, True]


def test_rates_are_those_of_the_mean_time(tmp_path: Path) -> None:
    steps = frames(tmp_path, [matmul(512, 512, 512, 30.0)], [matmul(512, 512, 512, 10.0)])
    pooled = pool(steps)
    fast = steps[1]
    for name in ("tflops", "flops_percent", "dram_gb_s", "dram_percent"):
        assert pooled[name].tolist() == pytest.approx((fast[name] / 2).tolist()), name
