"""A run folder to its summary, for the three profilers and for folders that lack things."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from instrumentor_analysis import steps as steps_module
from instrumentor_analysis.errors import AnalysisError, EmptyWindow, NoSuchStep, NothingMeasured
from instrumentor_analysis.model import SCHEMA, Summary, WallClock
from instrumentor_analysis.summary import analyse, summarise
from tests.analysis.ops_rows import FIXTURES, header, op, signpost, step, text, write
from tests.warned import texts

#: What the issue asks of summary.json.
KEYS = {
    *("schema", "profiler", "scope", "window", "wall_clock_ms", "wall_clock_by_label"),
    *("device_time_ms", "device_time_source", "overhead_percent", "dispatch_ms_per_op"),
    *("op_count", "categories", "matmul_flops_percent", "slow_ops", "host_bound", "verdict"),
    *("script_exit_code", "artifacts", "warnings", "loop", "steps", "environment"),
}
TORCH_HEADER = (
    "op,category,start_us,duration_us,self_time_us,device_time_us,input_shapes,input_dtypes,"
    "thread,sequence,source\n"
)


def event(name: str, ms: float, kind: str | None = None, label: str = "fwd+bwd") -> dict[str, Any]:
    """A sample, of the kind that its name says."""
    kind = kind or ("compile" if "compile" in name else "steady")
    return {"event": "sample", "pid": 1, "name": name, "kind": kind, "label": label, "ms": ms}


SAMPLES = (event("step_compile", 900.0), event("step_steady_1", 2.0), event("step_steady_2", 3.0),
           event("step_steady_3", 2.5))  # fmt: skip


def run_folder(path: Path, *events: dict[str, Any], ops: str | Path | None = None,
               torch: str | None = None, **facts: object) -> Path:  # fmt: skip
    """A run folder with what is given."""
    path.mkdir(exist_ok=True)
    (path / "run.json").write_text(json.dumps({"schema": "instrument-run/1", **facts}))
    if events:
        (path / "timings.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
    if ops is not None:
        (path / "tracy_perf").mkdir()
        target = path / "tracy_perf" / "ops_perf_results.csv"
        if isinstance(ops, Path):
            shutil.copy(ops, target)
        else:
            target.write_text(ops, encoding="utf-8", newline="")
    if torch is not None:
        (path / "torch_profile").mkdir()
        (path / "torch_profile" / "ops.csv").write_text(TORCH_HEADER + torch)
    return path


@pytest.fixture
def tracy(tmp_path: Path) -> Path:
    """A complete Tracy run."""
    return run_folder(
        tmp_path / "run", *SAMPLES, ops=FIXTURES / "training_v2_1.csv", profiler="tracy",
        name="train", label="baseline", script_exit_code=0, loop={"file": "train.py", "line": 9},
        artifacts={"log": "run.log"}, python_version="3.11.9", environment={"WANDB": "disabled"},
    )  # fmt: skip


def test_tracy(tracy: Path) -> None:
    summary = summarise(tracy)
    device_ms = (11 + 300 + 130 + 60 + 21 + 14 + 6 + 33 + 41) / 1000
    assert (summary.window.start, summary.window.end) == (
        "step_steady_2_start",
        "step_steady_2_end",
    )
    assert summary.device_time_ms == pytest.approx(device_ms)
    assert summary.device_time_source == "DEVICE KERNEL DURATION"
    assert summary.device_time.firmware_ms == pytest.approx(device_ms + 9 * 0.0005)
    # Overhead is of step_steady_2 itself; the steady mean stands beside it.
    assert summary.step_wall_clock_ms == 3.0
    assert summary.overhead_percent == pytest.approx((3.0 - device_ms) / 3.0 * 100)
    assert summary.dispatch_ms_per_op == pytest.approx((3.0 - device_ms) / 9)
    assert (summary.wall_clock.mean_ms, summary.wall_clock.median_ms) == (2.5, 2.5)
    assert summary.op_count == 9
    assert summary.host_bound is True
    assert summary.verdict.name == "host-bound"
    assert summary.architecture == "wormhole"
    assert summary.environment == {"python_version": "3.11.9", "WANDB": "disabled"}
    assert any("10 to 15 %" in warning for warning in texts(summary.warnings))
    assert {c.name for c in summary.categories} == {"Compute", "TM", "DM"}


def test_every_step_has_its_own_figures(tracy: Path) -> None:
    steps = {step.name: step for step in summarise(tracy).steps}
    assert list(steps) == ["step_compile", "step_steady_1", "step_steady_2", "step_steady_3"]
    assert (steps["step_compile"].op_count, steps["step_compile"].complete) == (10, True)
    assert steps["step_steady_1"].device_time_ms == pytest.approx(0.616 * 1.1)
    assert steps["step_steady_1"].overhead_percent == pytest.approx((2 - 0.6776) / 2 * 100)
    last = steps["step_steady_3"]
    assert (last.complete, last.device_time_ms, last.overhead_percent) == (False, None, None)


def test_another_step_and_all_of_them(tracy: Path) -> None:
    one = summarise(tracy, step=1)
    assert one.step_wall_clock_ms == 2.0
    assert one.device_time_ms == pytest.approx(0.6776)
    every = summarise(tracy, step="all")
    assert every.window.steps == ("step_steady_1", "step_steady_2")
    assert every.op_count == 9
    assert every.device_time_ms == pytest.approx((0.6776 + 0.616) / 2)
    assert every.step_wall_clock_ms == 2.5
    assert sum(c.device_time_ms for c in every.categories) == pytest.approx(0.6468)
    assert (every.spread[0].op, every.spread[0].id) == ("Matmul 2048 x 2048 x 2048", 27)
    assert every.spread[0].stdev_us == pytest.approx(30 / math.sqrt(2))
    with pytest.raises(NoSuchStep):
        summarise(tracy, step=9)


def test_gaps_and_source_lines_of_all_steps_are_those_of_one(tmp_path: Path) -> None:
    place = {"LOC": 'loc("train.py":14:5)', "CONST_EVAL_OP": "false"}
    rows = [op() | place, op(gap_us=20_000.0) | place, op(us=5.0)]
    both = [*step("step_steady_1", rows), *step("step_steady_2", rows)]
    columns = header("v2.1", tuple(place))
    folder = run_folder(tmp_path / "run", *SAMPLES, ops=text(both, columns), profiler="tracy")
    one, every = summarise(folder, step=2), summarise(folder, step="all")
    assert every.gaps.histogram == one.gaps.histogram
    assert (every.gaps.count, every.gaps.pause_count, every.gaps.pause_us) == (2, 1, 20_000.0)
    assert every.locations == one.locations
    assert (every.locations.lines[0].op_count, every.locations.unlocated_count) == (2, 1)
    assert any(w.startswith("1 gap above 10 ms (20 ms)") for w in texts(every.warnings))


def test_a_large_file_is_read_by_its_chosen_step_only(
    tracy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = summarise(tracy)
    monkeypatch.setattr(steps_module, "WHOLE_FILE_BYTES", 0)
    cut = summarise(tracy)
    for name in ("device_time", "categories", "slow_ops", "overhead_percent", "gaps", "savings"):
        assert getattr(cut, name) == getattr(whole, name)
    assert any("only the chosen step was read" in warning for warning in texts(cut.warnings))
    assert cut.steps[1].device_time_ms is None
    assert cut.steps[1].complete


def test_json_has_what_was_promised_and_null_for_what_was_not_measured(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", *SAMPLES[:2], profiler="wallclock")
    document = json.loads(json.dumps(summarise(folder).to_json(), allow_nan=False))
    assert set(document) >= KEYS
    assert document["schema"] == SCHEMA
    assert set(document["wall_clock_ms"]) >= {
        "mean", "median", "min", "max", "stdev", "samples", "compile",
    }  # fmt: skip
    for key in ("window", "device_time_ms", "overhead_percent", "dispatch_ms_per_op", "op_count",
                "matmul_flops_percent", "host_bound", "verdict", "script_exit_code"):  # fmt: skip
        assert document[key] is None
    assert document["wall_clock_ms"]["stdev"] is None
    assert document["wall_clock_ms"]["compile"] == 900.0


def test_json_of_a_full_run(tracy: Path) -> None:
    document = json.loads(json.dumps(summarise(tracy).to_json(), allow_nan=False))
    assert document["window"]["start"] == "step_steady_2_start"
    assert document["verdict"] == "host-bound"
    assert document["categories"]["TM"]["device_time_ms"] == pytest.approx(0.014)
    assert {"op", "count", "device_time_ms", "percent", "bound"} <= set(document["slow_ops"][0])
    assert document["loop"] == {"file": "train.py", "line": 9}
    assert document["artifacts"] == {"log": "run.log"}


def test_not_a_number_is_null() -> None:
    summary = Summary("tracy", wall_clock=WallClock(label="x", samples=1, mean_ms=float("nan")),
                      device_time_ms=float("inf"))  # fmt: skip
    document = summary.to_json()
    assert document["wall_clock_ms"]["mean"] is None
    assert document["device_time_ms"] is None


def test_torch_on_the_cpu_has_no_device(tmp_path: Path) -> None:
    rows = 'aten::mm,cpu_op,0,100,90,,"[[2, 2]]","[float]",1,,\naten::t,cpu_op,1,5,5,,,,1,,\n'
    profiled = {"event": "profiled", "pid": 1, "name": "step_profiled", "ms": 9.0, "device": "cpu"}
    folder = run_folder(tmp_path / "run", *SAMPLES, profiled, torch=rows, profiler="torch")
    analysis = analyse(folder)
    summary = analysis.summary
    assert summary.op_self_time_ms == pytest.approx(0.095)
    for name in ("device_time_ms", "overhead_percent", "dispatch_ms_per_op", "host_bound",
                 "verdict", "device_time_source", "step_wall_clock_ms"):  # fmt: skip
        assert getattr(summary, name) is None, name
    assert summary.categories == ()
    assert summary.op_count == 2
    slow = summary.slow_ops[0]
    assert (slow.op, slow.device_time_ms, slow.op_self_time_ms) == ("aten::mm", None, 0.09)
    assert slow.percent == pytest.approx(90 / 95 * 100)
    assert summary.wall_clock.samples == 3
    assert [step.kind for step in summary.steps][-1] == "profiled"
    assert analysis.ops is not None


def test_torch_on_cuda_has_kernels(tmp_path: Path) -> None:
    rows = "aten::mm,cpu_op,0,100,90,400,,,1,,\naten::copy_,cpu_op,1,5,5,100,,,1,,\n"
    profiled = {"event": "profiled", "pid": 1, "name": "step_profiled", "ms": 2.0, "device": "cuda"}
    folder = run_folder(tmp_path / "run", *SAMPLES, profiled, torch=rows, profiler="torch")
    summary = summarise(folder)
    assert summary.device_time_ms == 0.5
    assert summary.step_wall_clock_ms == 2.0
    assert summary.overhead_percent == 75.0
    assert summary.dispatch_ms_per_op == 0.75
    assert summary.host_bound is True
    assert [(c.name, c.percent) for c in summary.categories] == [("Compute", 80.0), ("DM", 20.0)]
    assert any("torch.profiler" in warning for warning in texts(summary.warnings))


def test_a_torch_run_without_a_profile_is_wall_clock_only(tmp_path: Path) -> None:
    summary = summarise(run_folder(tmp_path / "run", *SAMPLES, profiler="torch"))
    assert summary.op_count is None
    assert any("wall clock only" in warning for warning in texts(summary.warnings))


def test_compile_only_is_still_summarised(tmp_path: Path) -> None:
    rows = text([*step("step_compile", [op(us=50.0)]), signpost("step_steady_1_start")])
    folder = run_folder(tmp_path / "run", SAMPLES[0], ops=rows, profiler="tracy")
    summary = summarise(folder)
    assert (summary.wall_clock.samples, summary.wall_clock.compile_ms) == (0, 900.0)
    assert summary.window.step == "step_compile"
    assert any("no steady step was timed" in warning for warning in texts(summary.warnings))
    assert any("no steady step is complete" in warning for warning in texts(summary.warnings))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (text(step("step_steady_1", [])), "step step_steady_1 holds no ops"),
        (text([signpost("step_steady_1_start"), op()]), "no step is complete"),
        (text([signpost("benchmark_complete")]), "recorded no ops"),
        ("nonsense\n", "no column"),
    ],
)
def test_without_usable_ops_the_wall_clock_stays_and_the_reason_is_said(
    tmp_path: Path, rows: str, said: str
) -> None:
    folder = run_folder(tmp_path / "run", *SAMPLES, ops=rows, profiler="tracy")
    summary = summarise(folder)
    assert summary.device_time_ms is None
    assert summary.wall_clock is not None
    assert any(
        "no device figures" in warning and said in warning for warning in texts(summary.warnings)
    )
    (folder / "timings.jsonl").unlink()
    with pytest.raises(AnalysisError, match=r"step|column|no ops"):
        summarise(folder)


def test_a_step_that_was_not_timed_has_no_overhead(tmp_path: Path) -> None:
    folder = run_folder(
        tmp_path / "run", *SAMPLES[:2], ops=FIXTURES / "training_v2_1.csv", profiler="tracy"
    )
    summary = summarise(folder)
    assert summary.device_time_ms is not None
    assert (summary.overhead_percent, summary.verdict, summary.host_bound) == (None, None, None)
    assert any("step_steady_2 was not timed" in warning for warning in texts(summary.warnings))


def test_a_step_name_that_repeats_has_no_overhead(tmp_path: Path) -> None:
    rows = text([*step("step_steady_1", [op()]), *step("step_steady_1", [op()])])
    summary = summarise(run_folder(tmp_path / "run", SAMPLES[1], ops=rows, profiler="tracy"))
    assert summary.overhead_percent is None
    assert any("more than once" in warning for warning in texts(summary.warnings))


def test_a_device_that_worked_longer_than_the_step_is_warned_of(tmp_path: Path) -> None:
    rows = text(step("step_steady_1", [op(us=9000.0)]))
    summary = summarise(run_folder(tmp_path / "run", SAMPLES[1], ops=rows, profiler="tracy"))
    # Figures that contradict each other lead to none of a third kind.
    assert (summary.step_wall_clock_ms, summary.device_time_ms) == (2.0, 9.0)
    assert (summary.overhead_percent, summary.dispatch_ms_per_op) == (None, None)
    assert (summary.host_bound, summary.verdict) == (None, None)
    assert any("did not wait" in warning for warning in texts(summary.warnings))


def test_a_device_that_worked_a_little_longer_is_the_clocks_doing(tmp_path: Path) -> None:
    rows = text(step("step_steady_1", [op(us=2040.0)]))
    summary = summarise(run_folder(tmp_path / "run", SAMPLES[1], ops=rows, profiler="tracy"))
    assert summary.overhead_percent == pytest.approx(-2.0)
    assert summary.verdict.name != "host-bound"


FOUR = [op(us=us) for us in (100.0, 200.0)]


def of_four(folder: Path, *events: dict[str, Any]) -> Path:
    """Tracy runs of two ops a step, 0.3 ms, a step for each sample."""
    rows = [row for each in events for row in step(each["name"], FOUR)]
    return run_folder(folder, *events, ops=text(rows), profiler="tracy")


def test_an_outlier_is_not_the_step_that_is_shown(tmp_path: Path) -> None:
    times = (2.0, 2.0, 2.1, 20.0)
    folder = of_four(tmp_path / "run", event("step_compile", 500.0),
                     *(event(f"step_steady_{i}", ms) for i, ms in enumerate(times, 1)))  # fmt: skip
    summary = summarise(folder)
    assert (summary.window.step, summary.window.how) == (
        "step_steady_3", "the last typical steady step",
    )  # fmt: skip
    assert summary.overhead_percent == pytest.approx((2.1 - 0.3) / 2.1 * 100)
    told = "step_steady_4 is not shown: it is an outlier, 10.0 times the median of the others"
    assert told in texts(summary.warnings)
    asked = summarise(folder, step=4)
    assert asked.step_wall_clock_ms == 20.0
    assert any(
        w.startswith("step_steady_4, which is shown, is an outlier") for w in texts(asked.warnings)
    )
    pooled = summarise(folder, step="all")
    assert len(pooled.window.steps) == 3
    assert pooled.step_wall_clock_ms == pytest.approx((2.0 + 2.0 + 2.1) / 3)
    assert told in texts(pooled.warnings)


def test_only_steps_of_the_main_label_are_shown(tmp_path: Path) -> None:
    folder = of_four(
        tmp_path / "run", event("step_compile", 500.0), event("step_steady_1", 2.0),
        event("step_steady_2", 2.0), event("step_steady_3", 400.0, "compile", "step"),
        event("step_steady_4", 9.0, "steady", "step"),
    )  # fmt: skip
    summary = summarise(folder)
    assert summary.scope == "fwd+bwd"
    assert summary.window.step == "step_steady_2"
    assert summary.step_wall_clock_ms == 2.0
    assert "step_steady_3 is not shown: it is a sample of step" in texts(summary.warnings)
    pooled = summarise(folder, step="all")
    assert pooled.window.steps == ("step_steady_1", "step_steady_2")


def test_where_every_steady_step_is_odd_the_last_is_shown_and_named(tmp_path: Path) -> None:
    folder = of_four(tmp_path / "run", event("step_compile", 9.0),
                     event("step_steady_1", 2.0, "warmup"))  # fmt: skip
    summary = summarise(folder)
    assert summary.window.step == "step_steady_1"
    assert (
        "step_steady_1, which is shown, is a warmup step by the record: no other steady step is "
        "complete" in texts(summary.warnings)
    )


def test_steps_that_scatter_ask_for_more_of_them(tmp_path: Path) -> None:
    scattered = [event(f"step_steady_{i}", ms) for i, ms in enumerate((866.0, 381.0, 760.0, 341.0))]
    summary = summarise(run_folder(tmp_path / "run", *scattered, profiler="wallclock"))
    # Two of four are no exception.
    assert summary.wall_clock.outliers == ()
    assert any("is uncertain (341.0 .. 866.0 ms)" in warning for warning in texts(summary.warnings))


def test_a_recompile_is_flagged(tmp_path: Path) -> None:
    slow = [event(f"step_steady_{i}", ms) for i, ms in enumerate((10.0, 11.0, 300.0, 10.5), 1)]
    summary = summarise(run_folder(tmp_path / "run", *slow, profiler="wallclock"))
    assert [step.outlier for step in summary.steps] == [False, False, True, False]
    assert any("step_steady_3 took 300.0 ms" in warning for warning in texts(summary.warnings))


def test_samples_that_were_never_ended_are_told(tmp_path: Path) -> None:
    left = {"event": "cancelled", "pid": 1, "name": "step_steady_2"}
    summary = summarise(run_folder(tmp_path / "run", *SAMPLES, left, left, profiler="wallclock"))
    assert any(
        w.startswith("2 samples were begun and never ended") for w in texts(summary.warnings)
    )
    whole = summarise(run_folder(tmp_path / "whole", *SAMPLES, profiler="wallclock"))
    assert texts(whole.warnings) == []


def test_a_lone_csv_of_somebody_else() -> None:
    summary = summarise(FIXTURES / "two_devices_v1.csv")
    assert summary.profiler == "tracy"
    assert summary.wall_clock is None
    assert summary.op_count == 5
    assert summary.device_time.devices == 2
    assert any("no step signposts" in warning for warning in texts(summary.warnings))


def test_a_lone_csv_that_ends_with_a_signpost(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", [signpost("a"), op(), signpost("b")])
    with pytest.raises(EmptyWindow, match="no ops in the window"):
        summarise(path)


def test_nothing_measured(tmp_path: Path) -> None:
    with pytest.raises(NothingMeasured, match="does not exist"):
        summarise(tmp_path / "absent")
    with pytest.raises(NothingMeasured, match="not the folder of a run"):
        summarise(tmp_path)
    with pytest.raises(NothingMeasured, match="no timed step"):
        summarise(run_folder(tmp_path / "run", profiler="wallclock"))


@pytest.mark.parametrize("facts", ["{", "[]", '{"loop": 3, "artifacts": [], "warnings": "x"}'])
def test_a_broken_run_json_is_survived(tmp_path: Path, facts: str) -> None:
    folder = run_folder(tmp_path / "run", *SAMPLES)
    (folder / "run.json").write_text(facts)
    summary = summarise(folder)
    assert summary.wall_clock is not None
    assert summary.loop is None
    assert summary.artifacts == {}


def test_importing_the_package_is_cheap() -> None:
    code = (
        "import sys\nfrom instrumentor_analysis import model, errors, summary, timings, verdict\n"
        "print([m for m in ('pandas', 'numpy', 'matplotlib', 'instrumentor') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_report_on_ops_does_without_pandas() -> None:
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from instrumentor_analysis.report_options import per_op_report\n"
        "from instrumentor_analysis.reports import csv, ops_console\n"
        "from instrumentor_analysis.summary import summarise\n"
        "path = Path(sys.argv[1])\nsummarise(path)\nreport = per_op_report(path)\n"
        "csv.render(report), ops_console.render_ops(report)\n"
        "print([m for m in ('pandas', 'matplotlib', 'instrumentor') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(FIXTURES / "training_v2_1.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_order_of_the_ops_is_said(tmp_path: Path) -> None:
    replayed = summarise(FIXTURES / "replay.csv").window
    assert (replayed.step, replayed.order) == ("step_steady_1", "file")
    late, early = op() | {"HOST START TS": "900"}, op() | {"HOST START TS": "100"}
    path = write(tmp_path / "x.csv", step("step_steady_1", [late, early]))
    summary = summarise(path)
    assert summary.window.order == "file"
    assert any("not in the order of their host times" in w for w in texts(summary.warnings))
