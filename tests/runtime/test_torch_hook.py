"""The hook that profiles one extra step: table, trace, and never a broken script."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

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
        ("xla", torch.profiler.profile, "out", "torch.profiler does not see xla operations"),
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
