"""Constructed summaries and run folders for the tests of the reports."""

from __future__ import annotations

import json
from pathlib import Path

from msgspec.structs import replace

from instrumentor_analysis.model import (
    Category,
    DeviceTime,
    Evidence,
    Gaps,
    Interval,
    Iteration,
    Lever,
    Locations,
    Mfu,
    Module,
    Outlier,
    Part,
    Population,
    Saving,
    SlowOp,
    SourceLine,
    Step,
    Summary,
    Update,
    Verdict,
    WallClock,
    Window,
)
from instrumentor_analysis.shared.caveats import Caveat
from tests.analysis.ops_rows import Row, host_op, matmul, op, signpost, text

#: What a careless or hostile trace may call an op.
HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    '"><svg onload=alert(2)>',
    "<!--<script>",
    "a" * 3000,
    "Würfel 立方体 \u202egnp.exe\u202c \U0001f600",
    "\x1b[31mred\x1b[0m\x07",
    "`code` | *bold* _it_ [link](javascript:alert(3)) $\\frac{1}{0}$",
    "=cmd|'/C calc'!A0",
    "{{ 7 * 7 }} {% raw %}",
    "nan",
)


def wall(label: str = "fwd+bwd", scale: float = 1.0) -> WallClock:
    """Four steady samples after a compile step."""
    samples = tuple(value * scale for value in (412.0, 405.5, 409.5, 421.0))
    return WallClock(
        label=label,
        samples=4,
        mean_ms=412.0 * scale,
        median_ms=410.75 * scale,
        min_ms=405.5 * scale,
        max_ms=421.0 * scale,
        stdev_ms=6.59 * scale,
        compile_ms=35_210.4 * scale,
        median_interval_ms=Interval(405.5 * scale, 421.0 * scale),
        trend_percent=0.4,
        samples_ms=samples,
    )


def tracy() -> Summary:
    """A host-bound step with everything measured."""
    main = wall()
    names = ("step_compile", *(f"step_steady_{n}" for n in range(1, 5)))
    walls = (35_210.4, *main.samples_ms)
    return Summary(
        profiler="tracy",
        scope="fwd+bwd",
        window=Window(
            "step_steady_4_start",
            "step_steady_4_end",
            "step_steady_4",
            "the last complete steady step",
            ("step_steady_4",),
        ),
        wall_clock=main,
        wall_clock_by_label={main.label: main},
        step_wall_clock_ms=421.0,
        device_time_ms=63.2,
        device_time_source="DEVICE KERNEL DURATION",
        device_time=DeviceTime(63.2, 64.9, 380.0, 17.1, 1),
        overhead_percent=84.99,
        dispatch_ms_per_op=0.286,
        op_count=1251,
        host_op_count=2,
        categories=(
            Category("Compute", 50.1, 79.27, 702),
            Category("TM", 12.6, 19.94, 540),
            Category("Other", 0.5, 0.79, 9),
        ),
        matmul_flops_percent=3.3,
        dram_percent=71.2,
        slow_ops=(
            SlowOp("MatmulDeviceOperation", 120, 38.4, 60.76, "SLOW", "Compute"),
            SlowOp("AttentionFlashBackwardDeviceOperation", 24, 11.7, 18.51, None, "Compute"),
            SlowOp("PermuteDeviceOperation", 240, 12.6, 19.94, None, "TM"),
            SlowOp("aten::add (torch)", 2, None, None, "HOST", "Host"),
        ),
        gaps=Gaps(
            1250,
            316_800.0,
            241.0,
            512.0,
            25_000.0,
            1249,
            316_799.5,
            ((6.5, 1), (None, 1249)),
            pause_count=2,
            pause_us=37_500.0,
        ),
        savings=(
            Saving("MatmulDeviceOperation 32 x 1280 x 5120", "gap", 119, 30_100.0, 29_326.5, 7.7),
            Saving("MatmulDeviceOperation 32 x 1280 x 5120", "bound", 80, 31_400.0, 21_000.0, 5.5),
            Saving("MatmulDeviceOperation 32 x 1280 x 1280", "grid", 40, 7_000.0, 3_200.0, 0.8),
        ),
        locations=Locations(
            (
                SourceLine("train.py", 4, 38.4, 60.76, 120, ops=("MatmulDeviceOperation",)),
                SourceLine("model/attention.py", 71, 11.7, 18.51, 24, True, ("Attention",)),
            ),
            modules=(
                Module("Net[net].Linear[0]", 38.4, 60.76, 120),
                Module("(constants, evaluated once)", 11.7, 18.51, 24, const_eval=True),
            ),
            unlocated_ms=13.1,
            unlocated_count=1107,
        ),
        host_bound=True,
        verdict=Verdict(
            "host-bound",
            "the device works for 15 % of the step and waits for the rest",
            (
                Evidence("wall clock", 421.0, "ms"),
                Evidence("device time", 63.2, "ms"),
                Evidence("overhead", 84.99, "%", 70.0),
            ),
            (
                Lever("runtime trace", 'set TT_RUNTIME_TRACE_REGION_SIZE (e.g. "10000000") first'),
                Lever("fewer ops", "optimization level 1 or 2 fuses ops"),
            ),
        ),
        steps=tuple(
            Step(
                name,
                "compile" if name == "step_compile" else "steady",
                main.label,
                ms,
                True,
                1251,
                63.2,
                (ms - 63.2) / ms * 100,
            )
            for name, ms in zip(names, walls, strict=True)
        ),
        architecture="wormhole",
        loop={"file": "train.py", "line": 96},
        environment={"python_version": "3.11.9", "git_dirty": True},
        run={"name": "mnist", "label": "baseline", "script": "train.py", "duration_s": 181.23},
        script_exit_code=0,
        artifacts={
            "ops": "tracy_perf/ops_perf_results.csv",
            "stacked": "tracy_perf/tt_perf_report_stacked.png",
            "tracy": "tracy_profile/reports/2026/tracy_profile_log_host.tracy",
        },
        warnings=(
            Caveat("no-split", "Tracy does not split host time into Python and PJRT", "note"),
            Caveat("profiler-cost", "Tracy inflates the wall clock by some 10 to 15 %"),
        ),
    )


def torch_cpu() -> Summary:
    """The default on a machine without a device: there is no device time."""
    main = wall(scale=0.1)
    return Summary(
        profiler="torch",
        scope="fwd+bwd",
        wall_clock=main,
        wall_clock_by_label={main.label: main},
        op_self_time_ms=31.5,
        op_count=412,
        slow_ops=(
            SlowOp("aten::addmm", 12, None, 61.9, None, "Compute", 19.5),
            SlowOp("aten::copy_", 88, None, 38.1, None, "DM", 12.0),
        ),
        run={"name": "mnist", "label": "baseline"},
        script_exit_code=0,
        artifacts={"trace": "torch_profile/trace.json"},
    )


def wallclock_only() -> Summary:
    """Timers only."""
    main = wall()
    return Summary(
        profiler="wallclock", scope="fwd+bwd", wall_clock=main,
        wall_clock_by_label={main.label: main}, run={"name": "mnist"},
    )  # fmt: skip


def interrupted() -> Summary:
    """Killed after its compile step; the script left with a code of its own."""
    only = WallClock(label="fwd+bwd", samples=0, compile_ms=35_210.4)
    return Summary(
        profiler="tracy",
        scope="fwd+bwd",
        wall_clock=only,
        wall_clock_by_label={only.label: only},
        run={"name": "mnist", "label": "baseline"},
        interrupted=True,
        partial=True,
        script_exit_code=130,
        warnings=(Caveat("no-device", "no device figures: there is no ops CSV", "wrong"),),
    )


def several_labels() -> Summary:
    """Two kinds of regions, never pooled; a recompilation among the steady steps."""
    first, second = wall(), wall("fwd+bwd+optimizer", 1.5)
    odd = Outlier("step_steady_3", 1900.0, 4.6)
    first = replace(first, outliers=(odd,), warmup_ms=(900.0, 450.5))
    steps = tuple(
        Step(f"step_steady_{n}", "steady", first.label, ms, outlier=n == 3)
        for n, ms in enumerate(first.samples_ms, start=1)
    )
    return Summary(
        profiler="wallclock",
        scope=first.label,
        wall_clock=first,
        wall_clock_by_label={first.label: first, second.label: second},
        steps=steps,
        run={"name": "lm", "label": "accumulate"},
        warnings=(
            Caveat(
                "longer-sample", "the last micro-batch is left pending to fuse with the optimizer"
            ),
        ),
    )


def inference() -> Summary:
    """Token batches through a model under no_grad: throughput, latencies, MFU."""
    samples = tuple(12.5 + 0.5 * (n % 7) for n in range(24))
    main = WallClock(
        label="inference",
        samples=24,
        mean_ms=13.9375,
        median_ms=14.0,
        min_ms=12.5,
        max_ms=15.5,
        stdev_ms=1.01,
        compile_ms=2410.0,
        warmup_ms=(31.0, 14.5),
        median_interval_ms=Interval(13.5, 14.5),
        samples_ms=samples,
        p50_ms=14.0,
        p90_ms=15.35,
        p95_ms=15.5,
        samples_per_s=573.99,
        tokens_per_s=73_470.9,
        batch_shape=(8, 128),
        mfu=Mfu(31.25, 2.2e9, 1.2625, 4.04, "as given", "as given"),
    )
    return Summary(
        profiler="wallclock",
        scope="inference",
        wall_clock=main,
        wall_clock_by_label={main.label: main},
        steps=tuple(Step(f"step_steady_{n}", "steady", "inference", ms)
                    for n, ms in enumerate(samples, start=3)),
        run={"name": "generate", "label": "baseline"},
    )  # fmt: skip


def micro_steps() -> Summary:
    """Four micro-steps to an update; the median of them is longer than their mean."""
    times = (20.0, 60.0, 60.0, 60.0) * 3
    whole = Iteration(
        count=12,
        median_ms=52.0,
        min_ms=20.5,
        max_ms=68.0,
        parts=(Part("fwd+bwd", 50.0, 96.2), Part("optimizer", 2.0, 3.8)),
        populations=(
            Population(9, 60.5, 20.5, 61.0, kind="without update"),
            Population(3, 67.5, 67.0, 68.0, kind="with update"),
        ),
        samples_per_s=153.8,
        update=Update(micro_steps=4, count=2, ms=208.0),
    )
    main = WallClock(
        label="fwd+bwd",
        samples=12,
        mean_ms=50.0,
        median_ms=60.0,
        min_ms=20.0,
        max_ms=60.0,
        median_interval_ms=Interval(20.0, 60.0),
        samples_ms=times,
        samples_per_s=133.3,
        batch_shape=(8, 64),
        iteration=whole,
    )
    return Summary(
        profiler="wallclock",
        scope="fwd+bwd",
        wall_clock=main,
        wall_clock_by_label={main.label: main},
        run={"name": "nano"},
    )


ALL = {
    "tracy": tracy,
    "torch_cpu": torch_cpu,
    "wallclock_only": wallclock_only,
    "interrupted": interrupted,
    "several_labels": several_labels,
    "inference": inference,
    "micro_steps": micro_steps,
}


def step_rows(hostile: bool = False) -> list[Row]:
    """Ops of one step."""
    rows = [
        matmul(32, 1280, 5120, 187.0, gap_us=None),
        matmul(512, 1024, 1024, 60.0, gap_us=0.6),
        op("LayerNormDeviceOperation", 53.5, 240.0, **{"CORE__COUNT": 1}),
        op("PermuteDeviceOperation", 19.25, 6.5),
        host_op("(torch) aten::add"),
        op("MorehAdamWDeviceOperation", 11.0, 6.6),
        op("Unary", None, 1.0),
    ]
    if hostile:
        # The writer of the format puts semicolons for commas.
        rows += [op(name.replace(",", ";"), 5.0, 2.0) for name in HOSTILE]
    return rows


def run_folder(path: Path, steps: int = 3, hostile: bool = False) -> Path:
    """A run folder under tracy, as the runner leaves it."""
    names = ["step_compile", *(f"step_steady_{n}" for n in range(1, steps))]
    rows: list[Row] = []
    record: list[dict[str, object]] = []
    for number, name in enumerate(names):
        rows += [signpost(f"{name}_start"), *step_rows(hostile), signpost(f"{name}_end")]
        record.append(
            {
                "event": "sample",
                "pid": 7,
                "index": number,
                "name": name,
                "kind": "steady" if number else "compile",
                "label": "fwd+bwd",
                "ms": 5.0 if number else 900.0,
                "start_s": 100.0 + number,
                "device": "xla",
            }
        )
    (path / "tracy_perf").mkdir(parents=True)
    (path / "tracy_perf" / "ops_perf_results.csv").write_text(text(rows), encoding="utf-8")
    lines = "".join(json.dumps(each) + "\n" for each in record)
    (path / "timings.jsonl").write_text(lines, encoding="utf-8")
    facts = {"name": "mnist", "label": "baseline", "profiler": "tracy", "script": "train.py"}
    (path / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    return path


TORCH_OPS = """op,category,start_us,duration_us,self_time_us,device_time_us,input_shapes,\
input_dtypes,thread,sequence,source
aten::linear,cpu_op,10.0,100.0,4.5,,"[[8, 16], [4, 16]]",float,1,0,
aten::addmm,cpu_op,12.0,90.0,90.0,,"[[4], [8, 16], [16, 4]]",float,1,0,train.py:7
AddmmBackward0,cpu_op,200.0,50.0,50.0,,[],,2,0,
"""


def torch_folder(path: Path) -> Path:
    """A run folder under torch on the CPU."""
    (path / "torch_profile").mkdir(parents=True)
    (path / "torch_profile" / "ops.csv").write_text(TORCH_OPS, encoding="utf-8")
    events = [
        {"event": "sample", "pid": 1, "index": n, "name": name, "kind": kind, "label": "fwd+bwd",
         "ms": 2.0 + n, "start_s": 5.0 + n, "device": "cpu"}
        for n, (name, kind) in enumerate([("step_compile", "compile"), ("step_steady_1", "steady")])
    ]  # fmt: skip
    events.append({"event": "profiled", "name": "step_profiled", "ms": 9.0, "start_s": 8.0})
    lines = "".join(json.dumps(each) + "\n" for each in events)
    (path / "timings.jsonl").write_text(lines, encoding="utf-8")
    (path / "run.json").write_text('{"profiler": "torch", "name": "mnist"}', encoding="utf-8")
    return path
