"""The ops of a torch profile: categories, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor_analysis.ops.figures import torch_slow_ops
from instrumentor_analysis.ops.torch_ops import by_module, read_torch_ops
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
    first, second = torch_slow_ops(ops.steps)
    assert (first.op, first.count, first.op_self_time_ms) == ("aten::mm", 2, 0.012)
    assert (second.category, second.device_time_ms) == ("TM", None)


def test_a_node_of_autograd_is_one_op_with_the_time_of_its_evaluation(tmp_path: Path) -> None:
    """torch has a range of the evaluation around that of the node, and of some nodes that alone."""
    around = "autograd::engine::evaluate_function: "
    rows = (
        f"{around}AddmmBackward0,cpu_op,0,20,5,,,1",
        f"{around}MulBackward0,cpu_op,1,9,2,,,2",  # another thread, meanwhile
        'AddmmBackward0,cpu_op,2,17,4,,"[[2, 2]]",1',
        'MulBackward0,cpu_op,3,7,1,,"[[3]]",2',
        "aten::mm,cpu_op,4,13,13,3,,1",
        f"{around}AccumulateGrad,cpu_op,30,6,6,,,1",
        'AddmmBackward0,cpu_op,40,8,8,,"[[4]]",1',  # evaluated by nothing that torch tells
    )
    header = HEADER.strip() + ",thread\n"
    ops = read_torch_ops(write(tmp_path / "ops.csv", "\n".join(rows), header))
    frame = ops.frame
    assert frame["op"].tolist() == [
        "AddmmBackward0", "MulBackward0", "aten::mm", "AccumulateGrad", "AddmmBackward0",
    ]  # fmt: skip
    assert frame["start_us"].tolist() == [0, 1, 4, 30, 40]
    assert frame["duration_us"].tolist() == [20, 9, 13, 6, 8]
    assert frame["self_time_us"].tolist() == [9, 3, 13, 6, 8]
    assert frame["input_shapes"].tolist() == ["[[2, 2]]", "[[3]]", None, None, "[[4]]"]
    assert str(frame["device_time_us"].tolist()) == "[nan, nan, 3.0, nan, nan]"
    assert ops.op_self_time_ms == 0.039  # none is counted twice, none lost
    of_nodes = {each.op: each.count for each in torch_slow_ops(ops.steps)}
    assert of_nodes["AddmmBackward0"] == 2


def test_an_op_has_the_median_of_the_profiled_steps(tmp_path: Path) -> None:
    """One step that was interrupted within an op does not make that op the slowest."""
    header = HEADER.strip() + ",step\n"
    times = [(10, 4, 6), (11, 900, 5), (9, 5, 7)]  # of mm, relu, mm
    rows = [
        f"aten::{op},cpu_op,{at},{us},{us},,,{step}"
        for step, of_step in enumerate(times)
        for at, (op, us) in enumerate(zip(("mm", "relu", "mm"), of_step, strict=True))
    ]
    ops = read_torch_ops(write(tmp_path / "ops.csv", "\n".join(rows), header))
    assert ops.op_self_time_ms == 0.021  # of 20, 916 and 21 us
    assert ops.frame["self_time_us"].tolist() == [10, 5, 6] and "step" not in ops.frame
    mm, relu = torch_slow_ops(ops.steps)
    assert (mm.op, mm.count, mm.op_self_time_ms) == ("aten::mm", 2, 0.016)
    assert (mm.low_ms, mm.high_ms) == (0.016, 0.016)
    assert (relu.op_self_time_ms, relu.low_ms, relu.high_ms) == (0.005, 0.004, 0.9)
    assert relu.percent == pytest.approx(5 / 21 * 100)


def test_steps_of_several_calls_are_put_together(tmp_path: Path) -> None:
    """A call that only some steps make has the median of those."""
    rows = "aten::mm,cpu_op,0,1,1,,,0\naten::mm,cpu_op,0,3,3,,,1\naten::mm,cpu_op,4,9,9,,,1\n"
    ops = read_torch_ops(write(tmp_path / "ops.csv", rows, HEADER.strip() + ",step\n"))
    assert [len(step) for step in ops.steps] == [1, 2]
    assert ops.frame["self_time_us"].tolist() == [2]  # the first of two is in the middle
    (mm,) = torch_slow_ops(ops.steps)
    assert (mm.count, mm.op_self_time_ms) == (2, pytest.approx(0.0065))


def test_a_profile_without_ops_measured_nothing(tmp_path: Path) -> None:
    ops = read_torch_ops(write(tmp_path / "ops.csv", ""))
    assert (ops.op_self_time_ms, ops.device_time_ms) == (None, None)
    assert torch_slow_ops(ops.steps) == ()


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


def test_modules_that_one_step_tells_are_those_of_the_shown_ops(tmp_path: Path) -> None:
    header = HEADER.strip() + ",step,module,pass\n"
    rows = [
        *(
            "aten::mm,cpu_op,0,4,4,,,0,,",
            "aten::mm,cpu_op,4,2,2,,,0,,",
            "aten::t,cpu_op,9,3,3,,,0,,",
        ),
        *("aten::mm,cpu_op,0,6,6,,,1,a.0,forward", "aten::mm,cpu_op,8,2,2,,,1,a.1,backward"),
        *("aten::t,cpu_op,11,1,1,,,1,,backward", "aten::t,cpu_op,12,1,1,,,1,a.0,backward"),
    ]
    ops = read_torch_ops(write(tmp_path / "ops.csv", "\n".join(rows), header))
    # Of `t`, which that step called once more than the one that is shown, nothing is known.
    assert ops.frame["module"].tolist() == ["a.0", "a.1", None]
    assert ops.frame["pass"].tolist() == ["forward", "backward", None]
    found = by_module(ops.frame)
    assert found is not None and not found.on_device
    times = [(each.name, each.ops, each.forward_ms, each.backward_ms) for each in found.modules]
    assert times == [("a.0", 1, 0.005, 0.0), ("a.1", 1, 0.0, 0.002)]
    assert found.unknown_percent == pytest.approx(100 - 7 / found.ms / 10)


def test_no_modules_where_no_step_told_them(tmp_path: Path) -> None:
    for header in (HEADER, HEADER.strip() + ",step,module,pass\n"):
        rows = "aten::mm,cpu_op,0,4,4,," + ",0,," * (header != HEADER)
        assert by_module(read_torch_ops(write(tmp_path / "ops.csv", rows, header)).frame) is None


@pytest.mark.parametrize("column", ["module", "pass"])
def test_one_column_of_two_tells_no_modules(tmp_path: Path, column: str) -> None:
    """A file that somebody prepared; and times of which no sum is a figure."""
    header = HEADER.replace("\n", f",{column}\n")
    path = write(tmp_path / "ops.csv", "aten::mm,cpu_op,0,1e308,1e308,,,x\n" * 2, header)
    found = read_torch_ops(path)
    assert by_module(found.frame) is None
    assert not found.op_self_time_ms
