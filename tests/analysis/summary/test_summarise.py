"""A run folder to its summary, for the three profilers and for folders that lack things."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from instrumentor_analysis.model import SCHEMA, Summary, WallClock
from instrumentor_analysis.ops import steps as steps_module
from instrumentor_analysis.reports.summary import console
from instrumentor_analysis.shared.errors import (
    AnalysisError,
    EmptyWindow,
    NoSuchStep,
    NothingMeasured,
)
from instrumentor_analysis.summary.summarise import analyse, summarise
from tests.analysis.ops_rows import FIXTURES, Row, header, matmul, op, signpost, step, text, write
from tests.analysis.records import Event, event, run_folder, steady_events
from tests.warned import texts

SAMPLES = (event("step_compile", 900.0), *steady_events(2.0, 3.0, 2.5))


def warned(summary: Summary, *parts: str) -> bool:
    """Each of these parts stands in a warning."""
    return all(any(part in warning for warning in texts(summary.warnings)) for part in parts)


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
    assert (summary.op_count, summary.host_bound, summary.verdict.name) == (9, True, "host-bound")
    assert summary.architecture == "wormhole"
    assert summary.environment == {"python_version": "3.11.9", "WANDB": "disabled"}
    assert warned(summary, "10 to 15 %")
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
    assert (every.op_count, every.step_wall_clock_ms) == (9, 2.5)
    assert every.device_time_ms == pytest.approx((0.6776 + 0.616) / 2)
    assert sum(c.device_time_ms for c in every.categories) == pytest.approx(0.6468)
    assert (every.spread[0].op, every.spread[0].id) == ("Matmul 2048 x 2048 x 2048", 27)
    assert every.spread[0].position == 1
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
    assert warned(every, "1 gap above 10 ms (20.0 ms)")


def test_a_large_file_is_read_by_its_chosen_step_only(
    tracy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = summarise(tracy)
    monkeypatch.setattr(steps_module, "WHOLE_FILE_BYTES", 0)
    cut = summarise(tracy)
    for name in ("device_time", "categories", "slow_ops", "overhead_percent", "gaps", "savings"):
        assert getattr(cut, name) == getattr(whole, name)
    assert warned(cut, "only the chosen step was read")
    assert cut.steps[1].device_time_ms is None
    assert cut.steps[1].complete


def test_json_is_null_where_nothing_was_measured(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", *SAMPLES[:2], profiler="wallclock")
    document = json.loads(json.dumps(summarise(folder).to_json(), allow_nan=False))
    assert document["schema"] == SCHEMA
    for key in ("window", "device_time_ms", "overhead_percent", "dispatch_ms_per_op", "op_count",
                "matmul_flops_percent", "host_bound", "verdict", "script_exit_code"):  # fmt: skip
        assert document[key] is None
    assert document["wall_clock_ms"]["stdev"] is None
    assert document["wall_clock_ms"]["compile"] == 900.0
    summary = Summary("tracy", wall_clock=WallClock(label="x", samples=1, mean_ms=float("nan")),
                      device_time_ms=float("inf"))  # fmt: skip
    document = summary.to_json()
    assert document["wall_clock_ms"]["mean"] is document["device_time_ms"] is None


def test_json_of_a_full_run(tracy: Path) -> None:
    document = json.loads(json.dumps(summarise(tracy).to_json(), allow_nan=False))
    assert document["window"]["start"] == "step_steady_2_start"
    assert document["verdict"] == "host-bound"
    assert document["categories"]["TM"]["device_time_ms"] == pytest.approx(0.014)
    assert document["loop"] == {"file": "train.py", "line": 9}
    assert document["artifacts"] == {"log": "run.log"}


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
    assert (summary.categories, summary.op_count) == ((), 2)
    slow = summary.slow_ops[0]
    assert (slow.op, slow.device_time_ms, slow.op_self_time_ms) == ("aten::mm", None, 0.09)
    assert slow.percent == pytest.approx(90 / 95 * 100)
    assert summary.wall_clock.samples == 3
    assert [step.kind for step in summary.steps][-1] == "profiled"
    assert analysis.ops is not None
    for choice in (9, "all"):
        with pytest.raises(NoSuchStep, match="has no ops of a device"):
            analyse(folder, choice)


def test_torch_on_cuda_has_kernels(tmp_path: Path) -> None:
    rows = "aten::mm,cpu_op,0,100,90,400,,,1,,\naten::copy_,cpu_op,1,5,5,100,,,1,,\n"
    profiled = {"event": "profiled", "pid": 1, "name": "step_profiled", "ms": 2.0, "device": "cuda"}
    folder = run_folder(tmp_path / "run", *SAMPLES, profiled, torch=rows, profiler="torch")
    summary = summarise(folder)
    assert (summary.device_time_ms, summary.step_wall_clock_ms) == (0.5, 2.0)
    assert (summary.overhead_percent, summary.dispatch_ms_per_op) == (75.0, 0.75)
    assert summary.host_bound is True
    assert [(c.name, c.percent) for c in summary.categories] == [("Compute", 80.0), ("DM", 20.0)]
    assert warned(summary, "torch.profiler")


LEFT = {"event": "cancelled", "pid": 1, "name": "step_steady_2"}


@pytest.mark.parametrize(
    ("events", "profiler", "said"),
    [
        (SAMPLES, "torch", "the wall clock alone"),
        ((*SAMPLES, LEFT, LEFT), "wallclock", "2 samples were begun and never ended"),
        # Two of four are no exception.
        (
            steady_events(866.0, 381.0, 760.0, 341.0, 830.0, 300.0, 810.0, 350.0),
            "wallclock",
            "uncertain (300 to 866 ms)",
        ),
        (
            steady_events(10.0, 11.0, 300.0, 10.5),
            "wallclock",
            "step_steady_3 300 ms, 28.6x the median",
        ),
    ],
)
def test_what_is_to_be_doubted_of_the_clock(
    tmp_path: Path, events: tuple[Event, ...], profiler: str, said: str
) -> None:
    summary = summarise(run_folder(tmp_path / "run", *events, profiler=profiler))
    (only,) = texts(summary.warnings)
    assert said in only
    assert [s.name for s in summary.steps if s.outlier] == [
        outlier.name for outlier in summary.wall_clock.outliers
    ]


def test_compile_only_is_still_summarised(tmp_path: Path) -> None:
    rows = text([*step("step_compile", [op(us=50.0)]), signpost("step_steady_1_start")])
    folder = run_folder(tmp_path / "run", SAMPLES[0], ops=rows, profiler="tracy")
    summary = summarise(folder)
    assert (summary.wall_clock.samples, summary.wall_clock.compile_ms) == (0, 900.0)
    assert summary.window.step == "step_compile"
    assert warned(summary, "No steady step was timed", "No steady step is complete")


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
    (why,) = (w for w in texts(summary.warnings) if "no device figures" in w)
    assert said in why
    (folder / "timings.jsonl").unlink()
    with pytest.raises(AnalysisError, match=r"step|column|no ops"):
        summarise(folder)


ONE = step("step_steady_1", [op()])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (step("step_steady_9", [op()]), "step_steady_9 was not timed"),
        ([*ONE, *ONE], "more than once"),
        # Figures that contradict each other lead to none of a third kind.
        (step("step_steady_1", [op(us=9000.0)]), "the clock did not wait for the device"),
    ],
)
def test_no_overhead_without_two_figures_of_one_step(
    tmp_path: Path, rows: list[dict[str, str]], said: str
) -> None:
    folder = run_folder(tmp_path / "run", SAMPLES[1], ops=text(rows), profiler="tracy")
    summary = summarise(folder)
    assert summary.device_time_ms is not None
    assert (summary.overhead_percent, summary.dispatch_ms_per_op) == (None, None)
    assert (summary.host_bound, summary.verdict) == (None, None)
    assert warned(summary, said)


def test_a_device_that_worked_a_little_longer_is_the_clocks_doing(tmp_path: Path) -> None:
    rows = text(step("step_steady_1", [op(us=2040.0)]))
    summary = summarise(run_folder(tmp_path / "run", SAMPLES[1], ops=rows, profiler="tracy"))
    assert summary.overhead_percent == pytest.approx(-2.0)
    assert summary.verdict.name != "host-bound"


def of_two(folder: Path, *events: dict[str, Any]) -> Path:
    """A Tracy run of two ops a step, 0.3 ms, a step for each sample."""
    ops = [op(us=us) for us in (100.0, 200.0)]
    rows = [row for each in events for row in step(each["name"], ops)]
    return run_folder(folder, *events, ops=text(rows), profiler="tracy")


def test_an_outlier_is_not_the_step_that_is_shown(tmp_path: Path) -> None:
    events = event("step_compile", 500.0), *steady_events(2.0, 2.0, 2.1, 20.0)
    folder = of_two(tmp_path / "run", *events)
    summary = summarise(folder)
    assert (summary.window.step, summary.window.how) == (
        "step_steady_3", "the last typical steady step",
    )  # fmt: skip
    assert summary.overhead_percent == pytest.approx((2.1 - 0.3) / 2.1 * 100)
    told = (
        "step_steady_4 is not shown, because it is an outlier, 10.0 times the median of the others."
    )
    assert told in texts(summary.warnings)
    asked = summarise(folder, step=4)
    assert asked.step_wall_clock_ms == 20.0
    assert warned(asked, "step_steady_4, which is shown, is an outlier")
    pooled = summarise(folder, step="all")
    assert len(pooled.window.steps) == 3
    assert pooled.step_wall_clock_ms == pytest.approx((2.0 + 2.0 + 2.1) / 3)
    assert told in texts(pooled.warnings)


def test_only_steps_of_the_main_label_are_shown(tmp_path: Path) -> None:
    folder = of_two(
        tmp_path / "run", event("step_compile", 500.0), *steady_events(2.0, 2.0),
        event("step_steady_3", 400.0, "step", "compile"), event("step_steady_4", 9.0, "step"),
    )  # fmt: skip
    summary = summarise(folder)
    assert (summary.scope, summary.window.step) == ("fwd+bwd", "step_steady_2")
    assert summary.step_wall_clock_ms == 2.0
    assert "step_steady_3 is not shown, because it is a sample of step." in texts(summary.warnings)
    pooled = summarise(folder, step="all")
    assert pooled.window.steps == ("step_steady_1", "step_steady_2")


def test_where_every_steady_step_is_odd_the_last_is_shown_and_named(tmp_path: Path) -> None:
    warmup = event("step_steady_1", 2.0, kind="warmup")
    summary = summarise(of_two(tmp_path / "run", event("step_compile", 9.0), warmup))
    assert summary.window.step == "step_steady_1"
    assert (
        "step_steady_1, which is shown, is a warmup step: no other steady step is "
        "complete." in texts(summary.warnings)
    )


def test_a_lone_csv_of_somebody_else() -> None:
    summary = summarise(FIXTURES / "two_devices_v1.csv")
    assert (summary.profiler, summary.wall_clock, summary.op_count) == ("tracy", None, 5)
    assert summary.device_time.devices == 2
    assert warned(summary, "no step signposts")


def test_a_mesh_uses_as_much_of_its_peaks_as_each_of_its_chips(tmp_path: Path) -> None:
    """Were bytes of all chips held against one's bandwidth, four would use four times."""
    meshes = [[row for chip in range(chips) for row in products(chip)] for chips in (1, 4)]
    found = [summarise(write(tmp_path / f"{len(mesh)}.csv", mesh)) for mesh in meshes]
    one, four = found
    assert one.dram_percent == four.dram_percent and (one.dram_percent or 0) > 10
    assert one.matmul_flops_percent == four.matmul_flops_percent
    said = [" ".join(console(each).split()) for each in found]
    assert ["of one chip" in each for each in said] == [False, True]


def products(chip: int) -> list[Row]:
    """What one chip runs: a product of matrices and a copy."""
    return [matmul(32, 4096, 4096, 200.0, device=chip), op(us=50.0, device=chip)]


def test_nothing_measured(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", [signpost("a"), op(), signpost("b")])
    with pytest.raises(EmptyWindow, match="no ops in the window"):
        summarise(path)
    with pytest.raises(NothingMeasured, match="no timed step"):
        summarise(run_folder(tmp_path / "run", profiler="wallclock"))


@pytest.mark.parametrize("facts", ["{", "[]", '{"loop": 3, "artifacts": [], "warnings": "x"}'])
def test_a_broken_run_json_is_survived(tmp_path: Path, facts: str) -> None:
    folder = run_folder(tmp_path / "run", *SAMPLES)
    (folder / "run.json").write_text(facts)
    summary = summarise(folder)
    assert summary.wall_clock is not None
    assert (summary.loop, summary.artifacts) == (None, {})


_REPORTED = """
from pathlib import Path
from instrumentor_analysis.ops.op_report import per_op_report
from instrumentor_analysis.reports import csv, ops_console
path = Path(sys.argv[1])
summarise.summarise(path)
report = per_op_report(path)
csv.render(report), ops_console.render_ops(report)
"""


@pytest.mark.parametrize(("code", "light"), [("", ("numpy",)), (_REPORTED, ())])
def test_only_what_reads_ops_loads_numpy_and_nothing_loads_pandas(
    code: str, light: tuple[str, ...]
) -> None:
    heavy = (*light, "pandas", "matplotlib", "instrumentor")
    code = (
        "import sys\nfrom instrumentor_analysis import model\n"
        "from instrumentor_analysis.shared import errors\n"
        "from instrumentor_analysis.summary import summarise, verdict\n"
        "from instrumentor_analysis.clock import timings\n"
        f"{code}\nprint([m for m in {heavy} if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(FIXTURES / "training_v2_1.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_devices_that_ran_other_ops_in_the_step_are_said(tmp_path: Path) -> None:
    both = [op(), op(device=1)]
    odd = step("step_steady_1", [*both, op("CopyDeviceOperation", device=1)])
    path = write(tmp_path / "x.csv", [*odd, *step("step_steady_2", both)])
    assert warned(summarise(path, step=1), "The 2 devices did not run the same ops")
    # Not of a step that is not shown.
    assert not warned(summarise(path), "did not run the same ops")


def test_the_order_of_the_ops_is_said(tmp_path: Path) -> None:
    replayed = summarise(FIXTURES / "replay.csv").window
    assert (replayed.step, replayed.order) == ("step_steady_1", "file")
    late, early = op() | {"HOST START TS": "900"}, op() | {"HOST START TS": "100"}
    summary = summarise(write(tmp_path / "x.csv", step("step_steady_1", [late, early])))
    assert summary.window.order == "file"
    assert warned(summary, "not in the order of their host times")


@pytest.mark.parametrize("seen", ["environment", "by the script"])
def test_of_a_simulated_device_only_the_structure_is_shown(tmp_path: Path, seen: str) -> None:
    model = [event("", 0.0, event="model", arch="simulated", chips=1)]
    run = run_folder(
        tmp_path / "run", *SAMPLES, *(model if seen == "by the script" else ()),
        ops=FIXTURES / "training_v2_1.csv", profiler="tracy",
        environment={"simulator": "/sim/libttsim.so"} if seen == "environment" else {},
    )  # fmt: skip
    analysis = analyse(run)
    summary = analysis.summary
    assert (summary.architecture, summary.op_count, summary.verdict) == ("simulated", 9, None)
    assert summary.device_time_ms is None and summary.overhead_percent is None
    assert not summary.savings
    assert all(math.isnan(time) for time in analysis.ops["device_time_us"])
    assert analysis.ops["op_code"].known().all() and (analysis.ops["cores"] > 0).any()
    (said,) = [each for each in summary.warnings if each.kind == "simulated"]
    assert said.weight == "wrong"


def test_recorded_ops_of_a_simulated_device_keep_what_was_emitted(tmp_path: Path) -> None:
    run = run_folder(
        tmp_path / "run", *SAMPLES, ops=FIXTURES / "simulated_wormhole.csv", profiler="tracy",
        environment={"simulator": "/sim/libttsim_wh.so"},
    )  # fmt: skip
    csv = run / "tracy_perf" / "ops_perf_results.csv"
    # Alone, too, it is known as the file of that run.
    for analysis in (analyse(run), analyse(csv)):
        frame, summary = analysis.ops, analysis.summary
        assert summary.architecture == "simulated" and summary.verdict is None
        assert list(frame["cores"]) == [6, 2, 6, 3, 4, 6]
        assert list(frame["global_call_count"]) == [13, 14, 15, 16, 17, 18]
        assert set(map(str, frame["op_code"])) == {"MatmulDeviceOperation"}
        assert all(math.isnan(time) for time in frame["device_time_us"])
        ours = [step for step in summary.steps if step.op_count]
        assert ours and all(step.device_time_ms is None for step in ours)
        assert all(step.overhead_percent is None for step in ours)
        assert not warned(summary, "no valid device duration")
    text = console(summarise(run))
    assert "Ops\n" in text and "self time" not in text


def test_the_device_log_names_the_architecture(tracy: Path) -> None:
    logs = tracy / "tracy_profile" / ".logs"
    logs.mkdir(parents=True)
    line = "ARCH: blackhole, CHIP_FREQ[MHz]: 1350, Max Compute Cores: 110\n"
    (logs / "profile_log_device.csv").write_text(line)
    summary = summarise(tracy)
    assert summary.architecture == "blackhole"
    assert not warned(summary, "is assumed")


def test_on_a_busy_machine_recompilations_and_outliers_are_told_and_no_scatter(
    tmp_path: Path,
) -> None:
    busy = {"cpus": 2, "other_cpus": 1.5}
    again = event("step_steady_9", 900.0, kind="compile")
    scattered = steady_events(10.0, 10.1, 300.0, 10.2, 10.0)
    first = event("step_compile", 4000.0)
    found = summarise(run_folder(tmp_path / "run", first, *scattered, again, machine=busy))
    assert warned(found, "1 later step compiled")
    assert warned(found, "an outlier") and not warned(found, "uncertain")


def test_an_iteration_on_a_simulator_bounds_nothing(tmp_path: Path) -> None:
    waits = {"event": "iteration", "pid": 1, "name": "step_steady_1", "ms": 90.0, "data_ms": 80.0}
    found = [
        summarise(run_folder(tmp_path / str(at), *SAMPLES, waits, environment=environment)).verdict
        for at, environment in enumerate(({}, {"simulator": "/sim/libttsim.so"}))
    ]
    assert found[0] is not None and found[0].name == "input-bound"
    assert found[1] is None


def test_a_crashed_run_takes_no_figure_from_its_warm_up(tmp_path: Path) -> None:
    told: Event = {"event": "steady", "pid": 1, "names": ["step_warmup_1"]}
    events = (event("step_compile", 900.0), event("step_warmup_1", 50.0, kind="warmup"), told)
    crashed = summarise(run_folder(tmp_path / "a", *events, partial=True, script_exit_code=1))
    assert (crashed.wall_clock.samples, crashed.wall_clock.median_ms) == (0, None)
    assert warned(crashed, "No steady step was timed") and not warned(crashed, "--steps")
    short = summarise(run_folder(tmp_path / "b", *events, partial=False, script_exit_code=0))
    assert (short.wall_clock.samples, short.wall_clock.median_ms) == (1, 50.0)


def test_steps_that_warm_up_are_told_what_to_type(tmp_path: Path) -> None:
    first = [10.0, 9.5, 9.9, 9.4, 9.6, 9.1, 9.5, 8.8, 9.0, 8.5]
    falling = steady_events(*first, *[8.4, 8.7, 8.3, 8.6, 8.5] * 2)
    for budget, typed in ((30.0, "Give --warmup 20."), (None, "Give --warmup 20 --steps 40.")):
        folder = run_folder(tmp_path / "run", *falling, time_budget_s=budget)
        (text,) = (each.message for each in summarise(folder).warnings if each.kind == "not-steady")
        assert text.startswith("Still warming up: steps got") and text.endswith(typed)


def test_steps_that_get_faster_to_the_end_are_not_said_to_warm_up(tmp_path: Path) -> None:
    falling = steady_events(*[10.0 * 0.97**at for at in range(40)])
    folder = run_folder(tmp_path / "run", *falling, time_budget_s=30.0)
    (text,) = (each.message for each in summarise(folder).warnings if each.kind == "not-steady")
    assert "in its second half too" in text and "--warmup" not in text
    assert text.endswith("Give --time-budget 120 to see whether that ends.")


@pytest.mark.parametrize("why", ["most", "precise", "budget"])
def test_more_time_is_advised_only_where_time_ended_the_run(tmp_path: Path, why: str) -> None:
    rising = steady_events(*[10.0 * 1.03**at for at in range(40)])
    events = [*rising, {"event": "complete", "pid": 1, "samples": 40, "why": why}]
    folder = run_folder(tmp_path / "run", *events, time_budget_s=30.0)
    (text,) = (each.message for each in summarise(folder).warnings if each.kind == "not-steady")
    assert ("--time-budget 120" in text) == (why == "budget")
    assert ("Give --steps " in text) == (why != "budget")


@pytest.mark.parametrize(("device", "told"), [("cpu", False), ("cuda", True)])
def test_to_the_cpu_nothing_is_copied(tmp_path: Path, device: str, told: bool) -> None:
    warned = [{"kind": "copy-inside", "message": "A copy to the device.", "weight": "caution"}]
    events = steady_events(*[10.0, 10.1] * 3, device=device)
    found = summarise(run_folder(tmp_path / "run", *events, warnings=warned))
    assert any(each.kind == "copy-inside" for each in found.warnings) is told


def test_a_run_without_a_step_says_how_its_script_ended(tmp_path: Path) -> None:
    missing = "train.py: error: the following arguments are required: --corpus"
    tail = f"the script ended with code 2; its last lines:\nusage: train.py [-h]\n{missing}"
    before = "The script ended with exit code 2 before its first step"
    not_run = "the script ended without running the loop at train.py:9"
    cases: list[tuple[int, str | None, str]] = [
        (0, None, "Read run.log in it: the script may have ended before its first step."),
        (0, not_run, f"Its run failed: {not_run}"),
        (2, None, f"{before}; read run.log in "),
        (2, tail, f"{before}: {missing}"),
    ]
    for number, (code, failed, told) in enumerate(cases):
        folder = run_folder(tmp_path / str(number), script_exit_code=code, failure=failed)
        with pytest.raises(NothingMeasured) as nothing:
            summarise(folder)
        assert nothing.value.hint.startswith(told)
