"""The ops of a torch profile: categories, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor_analysis.ops.figures import torch_slow_ops
from instrumentor_analysis.ops.torch_ops import read_torch_ops
from instrumentor_analysis.shared.errors import DamagedFile, NotAnOpsFile

HEADER = "op,category,start_us,duration_us,self_time_us,device_time_us,input_shapes\n"


def write(path: Path, rows: str, header: str = HEADER) -> Path:
    path.write_text(header + rows, encoding="utf-8")
    return path


def test_cpu_times_are_self_times(tmp_path: Path) -> None:
    rows = (
        'aten::mm,cpu_op,0,9,8,,"[[2, 2], [2, 2]]"',
        "aten::mm,cpu_op,9,9,4,,",
        "aten::t,cpu_op,1,1,1,,",
    )
    ops = read_torch_ops(write(tmp_path / "ops.csv", "\n".join(rows)))
    assert (ops.op_self_time_ms, ops.device_time_ms) == (0.013, None)
    first, second = torch_slow_ops(ops.frame)
    assert (first.op, first.count, first.op_self_time_ms) == ("aten::mm", 2, 0.012)
    assert (second.category, second.device_time_ms) == ("TM", None)


def test_a_profile_without_ops_measured_nothing(tmp_path: Path) -> None:
    ops = read_torch_ops(write(tmp_path / "ops.csv", ""))
    assert (ops.op_self_time_ms, ops.device_time_ms) == (None, None)
    assert torch_slow_ops(ops.frame) == ()


def test_foreign_and_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "ops.csv"
    with pytest.raises(NotAnOpsFile, match="is empty"):
        read_torch_ops(write(path, "", header=""))
    with pytest.raises(NotAnOpsFile, match="no column self_time_us"):
        read_torch_ops(write(path, "", header="op,start_us,duration_us,device_time_us\n"))
    with pytest.raises(DamagedFile, match="'soon' is not a number") as caught:
        read_torch_ops(write(path, "aten::mm,cpu_op,0,9,8,,\naten::mm,cpu_op,soon,9,8,,\n"))
    assert (caught.value.line, caught.value.column) == (3, "start_us")
    with pytest.raises(DamagedFile):
        read_torch_ops(write(path, "aten::mm,cpu_op,0,9,8,,,,,,,\nx\n"))
