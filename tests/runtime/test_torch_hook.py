"""The hook that profiles one extra step: table, trace, and never a broken script."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: make test installs it")

from instrumentor.run.profilers.base import RUNTIME  # noqa: E402
from instrumentor.runtime import torch_hook  # noqa: E402

HOOK = RUNTIME / "torch_hook.py"
STEP = """\
import os, runpy, sys, torch
hook = runpy.run_path(os.environ["INSTRUMENT_HOOK"])
model = torch.nn.Linear(64, 32)
x = torch.randn(16, 64)
profile = hook["open_profile"]()
loss = model(x).sum()
loss.backward()
hook["close_profile"](profile, "cpu")
print("the script goes on")
"""


def test_a_real_step_gives_table_and_trace(tmp_path: Path) -> None:
    output, record = tmp_path / "torch_profile", tmp_path / "timings.jsonl"
    own = {"HOOK": HOOK, "HOOK_OUTPUT": output, "RECORD": record}
    env = {**os.environ, **{f"INSTRUMENT_{name}": str(path) for name, path in own.items()}}
    printed = subprocess.check_output([sys.executable, "-c", STEP], env=env, text=True)
    assert printed == "the script goes on\n" and not record.exists()
    assert json.loads((output / "trace.json").read_text(), strict=False)["traceEvents"]
    with (output / "ops.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == torch_hook.COLUMNS
    assert {"aten::linear", "aten::addmm", "aten::mm"} <= {row["op"] for row in rows}
    starts = [float(row["start_us"]) for row in rows]
    assert starts == sorted(starts)
    assert starts[0] == 0
    addmm = next(row for row in rows if row["op"] == "aten::addmm")
    assert json.loads(addmm["input_shapes"])[:3] == [[32], [16, 64], [64, 32]]
    assert json.loads(addmm["input_dtypes"])[0] == "float"
    assert {row["device_time_us"] for row in rows} == {""}
    for row in rows:
        assert 0 <= float(row["self_time_us"]) <= float(row["duration_us"])


@pytest.mark.parametrize(
    ("device", "profiler", "output", "text"),
    [
        ("cpu", None, "out", "could not be started"),
        ("cpu", torch.profiler.profile, "/dev/null/no", "result was lost"),
    ],
)
def test_what_goes_wrong_is_a_warning_and_the_script_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    device: str, profiler: object, output: str, text: str,
) -> None:  # fmt: skip
    record = tmp_path / "timings.jsonl"
    monkeypatch.setenv("INSTRUMENT_HOOK_OUTPUT", str(tmp_path / output))
    monkeypatch.setenv("INSTRUMENT_RECORD", str(record))
    monkeypatch.setattr(torch.profiler, "profile", profiler)
    torch_hook.close_profile(torch_hook.open_profile(), device)
    (told,) = (json.loads(line) for line in record.read_text().splitlines())
    assert told["event"] == "warning" and text in told["text"]
    assert not (tmp_path / "out").exists()


def test_self_time_is_what_nested_operations_leave() -> None:
    outer = {"ts": 0, "dur": 100, "tid": 1}
    inner = {"ts": 10, "dur": 30, "tid": 1}
    innermost = {"ts": 15, "dur": 5, "tid": 1}
    next_to_it = {"ts": 40, "dur": 20, "tid": 1}
    elsewhere = {"ts": 20, "dur": 50, "tid": 2}
    ops = [outer, inner, innermost, elsewhere, next_to_it]
    assert torch_hook.self_times(ops) == [50, 25, 5, 50, 20]


def test_kernels_count_for_the_operation_that_launched_them() -> None:
    def event(name: str, cat: str, ts: int, dur: int, external: int) -> dict[str, object]:
        args = {"External id": external}
        return {"ph": "X", "name": name, "cat": cat, "ts": ts, "dur": dur, "tid": 1, "args": args}

    events = [
        event("aten::mm", "cpu_op", 5, 10, 7),
        event("aten::linear", "cpu_op", 0, 20, 6),
        event("gemm", "kernel", 30, 40, 7),
        event("reduce", "kernel", 70, 2, 7),
    ]
    rows = torch_hook.operations(events, on_device=True)
    assert [(row["op"], row["device_time_us"]) for row in rows] == [
        ("aten::linear", 0),
        ("aten::mm", 42),
    ]
    assert rows[1]["start_us"] == 5


def test_a_trace_without_operations_gives_the_header(tmp_path: Path) -> None:
    torch_hook.write_table(torch_hook.operations([], False), str(tmp_path / "ops.csv"))
    assert (tmp_path / "ops.csv").read_text().strip() == ",".join(torch_hook.COLUMNS)


def test_compiles_for_the_oldest_python(interpreter: Path) -> None:
    for file in RUNTIME.glob("*.py"):
        subprocess.run(
            [interpreter, "-c", "import sys; compile(open(sys.argv[1]).read(), 'f', 'exec')", file],
            check=True,
        )


class Doubled(torch.autograd.Function):  # type: ignore[misc]
    """A function of the script's own, whose ops autograd does not see."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


class Inner(torch.nn.Module):
    """A layer with one product of matrices and one function."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.line = torch.nn.Linear(width, out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = Doubled.apply(torch.tanh(self.line(x)))
        return made


class Net(torch.nn.Module):
    """Three layers of different widths, the second computed again in the backward."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Inner(6, 5), Inner(5, 4), Inner(4, 3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from torch.utils.checkpoint import checkpoint

        first, second, third = self.layers
        made: torch.Tensor = third(checkpoint(second, first(x), use_reentrant=False))
        return made


def profile_a_step(old: str) -> None:
    """Profile a real step that tells its modules."""
    if old:
        del torch._C._profiler._RecordFunctionFast
    real, net = torch.nn.Module.__call__, Net()
    profile = torch_hook.open_profile(True)
    loss = net(torch.ones(2, 6)).square().sum() + torch.nn.L1Loss()(
        net.layers[0].line.bias, torch.ones(5)
    )
    loss.backward()
    torch_hook.close_profile(profile, "cpu")
    assert torch.nn.Module.__call__ is real


@pytest.fixture(params=["", "torch before 2.1"])
def told(request: pytest.FixtureRequest, tmp_path: Path) -> list[dict[str, str]]:
    """Rows of a real step, in a process of its own: a dispatch mode that is on runs ops again."""
    module = "import sys; from tests.runtime.test_torch_hook import profile_a_step"
    subprocess.run(
        [sys.executable, "-c", f"{module}; profile_a_step(sys.argv[1])", request.param],
        env={**os.environ, "INSTRUMENT_HOOK_OUTPUT": str(tmp_path)},
        cwd=Path(__file__).parents[2],
        check=True,
    )
    with (tmp_path / "ops.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_each_op_has_its_module_forward_and_backward(told: list[dict[str, str]]) -> None:
    assert all(row["pass"] for row in told)
    assert not any(row["op"].startswith(torch_hook.RANGE) for row in told)

    def of(op: str, run: str) -> list[str]:
        return [row["module"] for row in told if (row["op"], row["pass"]) == (op, run)]

    lines = [f"layers.{at}.line" for at in range(3)]
    assert of("aten::addmm", "forward") == lines
    assert of("aten::addmm", "backward") == lines[1:2]  # called again by the checkpoint
    assert of("aten::tanh", "forward") == ["layers.0", "layers.1", "layers.2"]
    assert of("aten::tanh_backward", "backward") == ["layers.2", "layers.1", "layers.0"]
    assert of("DoubledBackward", "backward") == ["layers.2", "layers.1", "layers.0"]
    assert set(of("torch::autograd::AccumulateGrad", "backward")) == {""}
    assert set(of("aten::square", "forward")) == {""} and of("aten::sub", "forward") == ["L1Loss"]
    lines_of = {row["module"]: row["class"] for row in told if row["module"].endswith("line")}
    assert sorted(lines_of.values()) == ["Linear 3x4", "Linear 4x5", "Linear 5x6"]
    # Which layer a product of the backward is of, its shapes tell as well.
    products = [row for row in told if row["op"] == "aten::mm" and row["pass"] == "backward"]
    assert len(products) == 5  # the input of the first one needs no gradient
    for row in products:
        width = 6 - int(row["module"].split(".")[1])
        sides = [side for shape in json.loads(row["input_shapes"]) for side in shape]
        assert {width, width - 1, 2} >= set(sides) and width - 1 in sides


def test_a_mode_of_the_script_s_sees_no_op_for_a_module() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, *_: Any) -> Any:
            raise AssertionError(func)

    named, nothing = torch_hook.Named(), torch.nn.Identity()
    named.on()
    try:
        with Seen():
            assert nothing(1) == 1
    finally:
        named.off()


def test_models_of_one_class_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    named, nets = torch_hook.Named(), (Inner(2, 2), Inner(2, 2), torch.nn.L1Loss())
    places = [named.place(each) for net in nets for each in net.modules()]
    names = named.names()
    first, second = ["Inner", "Inner.line"], ["Inner#2", "Inner#2.line"]
    assert [names[place] for place in places] == [*first, *second, "L1Loss"]


def test_of_numbers_that_two_threads_have_used_no_module_is_known() -> None:
    def event(name: str, ts: int, dur: int, tid: int, **args: int) -> dict[str, object]:
        known = {key.replace("_", " "): value for key, value in args.items()}
        cat = "user_annotation" if name.startswith(torch_hook.RANGE) else "cpu_op"
        return {
            "ph": "X",
            "name": name,
            "cat": cat,
            "ts": ts,
            "dur": dur,
            "tid": tid,
            "args": known,
        }

    node = f"{torch_hook.NODE}: MmBackward0"
    events = [
        event(f"{torch_hook.RANGE}0", 0, 10, 1),
        event("aten::mm", 0, 10, 1, Sequence_number=4),
        event(f"{torch_hook.RANGE}1", 0, 20, 2),
        event("aten::mm", 1, 5, 2, Sequence_number=4),
        event("aten::mm", 8, 5, 2, Sequence_number=5),
        event("aten::view", 22, 1, 2, Sequence_number=6),  # makes no node: the number stays
        event(f"{torch_hook.RANGE}0", 23, 5, 2),
        event("aten::mm", 24, 3, 2, Sequence_number=6),
        event(node, 30, 5, 3, Sequence_number=4, Fwd_thread_id=1),
        event(node, 40, 5, 3, Sequence_number=5, Fwd_thread_id=2),
        event(node, 50, 5, 3, Sequence_number=6, Fwd_thread_id=2),
    ]
    rows = torch_hook.operations(events, on_device=False)
    torch_hook.tell_modules(rows, events, ["a", "b"], ["A", "B 2x3"])
    found = [(row["module"], row["pass"][0]) for row in rows]
    forward = [("a", "f"), ("b", "f"), ("b", "f"), ("", "f"), ("a", "f")]
    assert found == [*forward, ("", "b"), ("b", "b"), ("a", "b")]
