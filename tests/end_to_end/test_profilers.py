"""The experiments, measured as a user would: each profiler ends in the summary that it can give."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from instrumentor_analysis.clock.neighbours import is_busy
from tests.end_to_end.conftest import Measure
from tests.end_to_end.small import read, records, script
from tests.warned import texts

pytest.importorskip("torch", reason="needs torch: make test installs it")

SCRIPTS = "blacksmith/experiments/torch"


def test_torch_on_the_cpu(own_experiments_repo: Path, measure: Measure) -> None:
    path = f"{SCRIPTS}/mnist/train.py"
    ran = measure(own_experiments_repo, path, profiler="torch", folder="instrument-runs/mnist-1")
    assert ran.code == 0, ran.err
    assert "one step under the profiler" in ran.err
    summary = read(ran.folder)
    assert summary["profiler"] == "torch"
    assert summary["wall_clock_ms"]["samples"] == 4
    for name in ("device_time_ms", "overhead_percent", "dispatch_ms_per_op", "host_bound"):
        assert summary[name] is None
    assert summary["op_self_time_ms"] > 1
    assert summary["op_count"] > 50
    assert any(op["op"] == "aten::addmm" for op in summary["slow_ops"])

    with (ran.folder / "torch_profile" / "ops.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    # autograd's evaluation of a node and the node within are one op
    ops = [row["op"] for row in rows if row["step"] == "0"]
    evaluated = [op for op in ops if op.startswith("autograd::engine::evaluate_function: ")]
    assert evaluated and len(ops) - len(evaluated) == summary["op_count"]
    assert all(row["device_time_us"] == "" for row in rows)
    trace = json.loads((ran.folder / "torch_profile" / "trace.json").read_text(), strict=False)
    assert trace["traceEvents"]
    # The profiled steps are more, and no samples: how many, the time decides.
    assert len(records(ran.folder, "sample")) == 5
    assert 1 <= len(records(ran.folder, "profiled")) == summary["profiled_steps"] <= 5
    if summary["profiled_steps"] > 1:  # the second one tells modules
        assert sum(each["backward_ms"] > 0 for each in summary["module_ops"]["modules"]) > 2
    assert "validation" not in ran.log.partition("[TIMER] Step 1")[0].lower().replace(
        "validation batches", ""
    )
    assert "Training finished" not in ran.log


@pytest.mark.slow
def test_wallclock_of_a_helper_with_accumulation(
    own_experiments_repo: Path, measure: Measure
) -> None:
    path = f"{SCRIPTS}/tiny_llama/train.py"
    ran = measure(own_experiments_repo, path, folder="instrument-runs/tiny_llama-1")
    assert ran.code == 0, ran.err
    summary = read(ran.folder)
    assert summary["profiler"] == "wallclock"
    # Four micro-steps make a step: five samples are reached within the second, which ends it.
    assert summary["wall_clock_ms"]["samples"] == 7
    assert read(ran.folder, "plan.json")["accumulation"] != "none"
    assert not (ran.folder / "torch_profile").exists()


def test_tracy_ends_in_a_full_summary(
    own_experiments_repo: Path, measure: Measure, tracy: dict[str, str]
) -> None:
    path = f"{SCRIPTS}/tiny_llama_lora/train.py"
    env = {**tracy, "STANDIN_TRACY_CRANK": "1"}
    ran = measure(own_experiments_repo, "--verbose", path, profiler="tracy", env=env,
                  folder="instrument-runs/tiny_llama_lora-1")  # fmt: skip
    assert ran.code == 0, ran.err
    summary = read(ran.folder)
    assert summary["profiler"] == "tracy"
    # On a busy machine the last step may be an outlier, and is then not the one shown.
    usual = [s["name"] for s in summary["steps"] if s["kind"] == "steady" and not s["outlier"]]
    name = usual[-1]
    last = next(s for s in records(ran.folder, "sample") if s["name"] == name)
    assert summary["window"]["start"] == f"{name}_start"
    assert summary["window"]["end"] == f"{name}_end"
    assert summary["step_wall_clock_ms"] == pytest.approx(last["ms"])
    device_ms, wall_ms = summary["device_time_ms"], summary["step_wall_clock_ms"]
    assert 0 < device_ms < wall_ms
    assert summary["overhead_percent"] == pytest.approx((wall_ms - device_ms) / wall_ms * 100)
    assert summary["op_count"] == 18
    assert summary["dispatch_ms_per_op"] == pytest.approx((wall_ms - device_ms) / 18)
    assert [layer["name"] for layer in summary["host_layers"]] == ["run"]
    # A third of the time between the signposts, which stand around the clock.
    assert summary["host_layers"][0]["time_ms"] > wall_ms / 3 * 0.99
    assert summary["host_bound"] is True
    busy = is_busy(summary["run"]["machine"])  # then nothing is concluded
    assert summary["verdict"] == (None if busy else "host-bound")
    assert sum(c["percent"] for c in summary["categories"].values()) == pytest.approx(100)
    assert 0 < summary["matmul_flops_percent"] < 100
    assert summary["slow_ops"][0]["device_time_ms"] >= summary["slow_ops"][-1]["device_time_ms"]
    assert any("10 to 15 %" in warning for warning in texts(summary["warnings"]))  # no word of PJRT

    perf = ran.folder / "tracy_perf"
    with (perf / "ops_perf_results.csv").open(newline="") as stream:
        codes = [row["OP CODE"] for row in csv.DictReader(stream)]
    assert {"step_compile_start", "step_compile_end", "benchmark_complete"} <= set(codes)
    for file in ("tt_perf_report.csv", "tt_perf_report_stacked.csv", "tt_perf_report_stacked.png"):
        assert (perf / file).stat().st_size > 0
    with (perf / "tt_perf_report_stacked.csv").open(newline="") as stream:
        stacked = list(csv.DictReader(stream))
    total = sum(float(row["Device Time Sum [\u03bcs]"]) for row in stacked)
    assert device_ms == pytest.approx(total / 1000, rel=1e-3)
    assert sum(int(row["Op Count"]) for row in stacked) == 18

    for words in (
        "Wall clock",
        "host run",
        "device time",
        "overhead",
        "dispatch per op",
        "matmul",
        "Top ops by device time",
        *(() if busy else ("Verdict: host-bound", "runtime trace")),
        "tt_perf_report_stacked.png",
        "tracy_profile_log_host.tracy",
    ):
        assert words in ran.out
    command = read(ran.folder, "run.json")["command"]
    assert Path(command[1]).name == "tracy_start.py" and command[2:4] == ["-p", "-r"]
    assert "--sync-host-device" in command


@pytest.mark.parametrize("here", ["tracy and a device", "tracy", "a device"])
def test_auto_takes_tracy_where_device_and_package_are(
    measured: Measure, tracy: dict[str, str], here: str
) -> None:
    if "tracy" not in here:
        del tracy["PYTHONPATH"]
    if "device" not in here:
        del tracy["INSTRUMENT_DEVICE_ROOT"]
    ran = measured(script(), "--dry-run", profiler="auto", env=tracy)
    chosen = "tracy" if here == "tracy and a device" else "torch"
    assert f"INSTRUMENT_PROFILER={chosen}" in ran.err
    assert f"Profiler {chosen}: " in ran.err


def test_a_device_that_no_known_runtime_drives_is_no_figure(
    measured: Measure, tmp_path: Path
) -> None:
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "0").touch()
    drives = script(before=f"node = open({str(tmp_path / 'nodes' / '0')!r})")
    env = {"INSTRUMENT_DEVICE_ROOT": str(tmp_path / "nodes")}
    ran = measured(drives, "--steps", "5", profiler="wallclock", env=env)
    assert ran.code == 1 and records(ran.folder, "sample") == []
    assert "is idle (no runtime that is known drives it)" in ran.err
    assert "Record its ops without a clock of the steps (instrument profile)" in ran.err
    assert "Return the loss" not in ran.err


def test_iterations_that_do_not_train_leave_no_signpost(
    measured: Measure, tracy: dict[str, str]
) -> None:
    kept = "        optimizer.zero_grad()\n"
    text = script().replace(kept, f"        training = batch % 3 > 0\n{kept}")
    step = "        loss.backward()\n        optimizer.step()\n"
    assert step in text
    branch = "        if training:\n            loss.backward()\n            optimizer.step()\n"
    ran = measured(text.replace(step, branch), profiler="tracy", env=tracy)
    assert ran.code == 0, ran.err
    names = [sample["name"] for sample in records(ran.folder, "sample")]
    with (ran.folder / "tracy_perf" / "ops_perf_results.csv").open(newline="") as stream:
        posts = [row["OP CODE"] for row in csv.DictReader(stream) if row["OP TYPE"] == "signpost"]
    ours = [post for post in posts if post.startswith("step_")]
    assert ours == [f"{name}_{side}" for name in names for side in ("start", "end")]
    summary = read(ran.folder)
    assert summary["wall_clock_ms"]["samples"] == len(names) - 1 == 4
    assert not any("begun and never ended" in text for text in texts(summary["warnings"]))
