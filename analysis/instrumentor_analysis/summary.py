"""A run folder to its Summary: wall clock, device, and what the two say together.

Overhead is (wall - device) / wall, both of the same step: the sample that bears the name of the
window's step. The steady mean and median stand beside it and are not mixed into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from instrumentor_analysis.analysis import Analysis
from instrumentor_analysis.caveats import Caveat, by_weight, read_caveats
from instrumentor_analysis.errors import AnalysisError, BadOption, NothingMeasured
from instrumentor_analysis.mfu import with_mfu
from instrumentor_analysis.model import (
    HOST_BOUND_PERCENT,
    Outlier,
    Step,
    Summary,
    WallClock,
)
from instrumentor_analysis.neighbours import doubts
from instrumentor_analysis.run_folder import RunFolder, open_run
from instrumentor_analysis.timings import Timings, main_label, read_timings, unfit_steps, wall_clock
from instrumentor_analysis.verdict import contradict, decide

if TYPE_CHECKING:
    from instrumentor_analysis.steps import DeviceSteps, StepChoice
    from instrumentor_analysis.table import Table
    from instrumentor_analysis.window import Named

_INFLATES = Caveat(
    "profiler-cost",
    "Tracy inflates the wall clock by some 10 to 15 %",
    hint="--untraced measures by how much",
)
_NO_SPLIT = Caveat("no-split", "Tracy does not split host time into Python and PJRT", "note")
#: Width of the median's interval from which more steps are asked for, percent of the median.
SCATTER_PERCENT = 50.0
KERNEL_TIME = "DEVICE KERNEL DURATION"


def summarise(source: Path, step: StepChoice = None, arch: str | None = None) -> Summary:
    """Summarise a run folder, a Tracy report folder, or a lone ops CSV.

    Args:
        step: number of a step, ``"all"`` for all steady ones pooled, None for the last complete
            steady one.
        arch: architecture to hold the ops against, over what the file says.

    Raises:
        AnalysisError: nothing was measured, the ops CSV is unusable, or the step is not there.
    """
    return analyse(source, step, arch).summary


def analyse(
    source: Path | Sequence[Path],
    step: StepChoice = None,
    arch: str | None = None,
    named: Named | None = None,
) -> Analysis:
    """The summary together with the frames behind it; arguments as for :func:`summarise`.

    Args:
        source: also the ops CSVs of several hosts of one system.
        named: another window of the ops than a step.
    """
    sources = (source,) if isinstance(source, Path) else tuple(source)
    folder = open_run(*sources)
    if len(sources) > 1 and not all(path.is_file() for path in sources):
        raise BadOption("several sources have to be ops CSVs, one of each host")
    if folder.mapping("verification").get("status") == "failed":
        raise NothingMeasured(
            f"{sources[0]}: the timed region of this run is not the step: {_problem(folder)}",
            "Give the lines of the step with --region, and run again.",
        )
    timings = read_timings(folder.timings, folder.batch_dim)
    summary = _base(folder, timings)
    if folder.profiler == "tracy" and folder.ops_csv is not None:
        csvs = sources if len(sources) > 1 else (folder.ops_csv,)
        analysis = _tracy(summary, folder, timings, csvs, step, arch, named)
    elif folder.profiler == "torch" and folder.torch_csv is not None:
        analysis = _torch(summary, folder, timings, folder.torch_csv)
    else:
        if folder.profiler != "wallclock":
            text = f"the {folder.profiler} profile holds no ops: wall clock only"
            summary = _warn(summary, Caveat("no-ops", text))
        if summary.wall_clock is None:
            raise NothingMeasured(
                f"{sources[0]} holds no timed step and no ops",
                "Read run.log in it: the script may have ended before its first step.",
            )
        analysis = Analysis(summary, timings, folder)
    summary = replace(analysis.summary, steps=_steps(summary, timings, analysis.device))
    return with_mfu(replace(analysis, summary=summary), arch=arch)


def _problem(folder: RunFolder) -> str:
    """The first thing that was wrong, and where."""
    problem = folder.mapping("verification")["problems"][0]
    places = "".join(f", {each['file']}:{each['line']}" for each in problem["places"][:1])
    return f"{problem['text']}{places}"


def _base(folder: RunFolder, timings: Timings) -> Summary:
    """What does not depend on a profile: the wall clock and the facts of the run."""
    by_label = {label: wall_clock(timings, label) for label in timings.labels()}
    label = main_label(timings)
    wall = None if label is None else by_label[label]
    warnings = [*read_caveats(folder.facts.get("warnings")), *folder.warnings, *timings.warnings]
    warnings += doubts(folder.facts.get("machine"))
    if wall is not None and wall.samples == 0:
        text = "no steady step was timed: only the compile step is known"
        warnings.append(Caveat("no-steady-step", text, "wrong", hint="more --steps"))
    if timings.cancelled:
        count = len(timings.cancelled)
        text = (
            f"{count} {'sample was' if count == 1 else 'samples were'} begun and never ended: the "
            "iteration left the timed lines by continue or by a branch without their end; what was "
            "timed may be only a part of a step"
        )
        warnings.append(Caveat("unended-samples", text, "wrong"))
    for each in by_label.values():
        warnings += [*_recompiled(each), *_not_steady(each), *_scatter(each)]
        warnings += [_slow(outlier) for outlier in each.outliers]
    loop = folder.mapping("loop")
    untraced = _untraced(folder, label)
    return Summary(
        profiler=folder.profiler,
        scope=label or folder.text("scope"),
        wall_clock=wall,
        wall_clock_by_label=by_label,
        loop=loop or None,
        environment=folder.environment,
        run=folder.run,
        interrupted=folder.facts.get("interrupted") is True,
        partial=folder.facts.get("partial") is True,
        script_exit_code=folder.exit_code,
        verification=folder.mapping("verification") or None,
        artifacts={k: str(v) for k, v in folder.mapping("artifacts").items()},
        warnings=by_weight(warnings),
        untraced=untraced,
        profiler_cost_percent=_cost_percent(wall, untraced),
        barrier=timings.barrier,
    )


def _slow(outlier: Outlier) -> Caveat:
    text = (
        f"{outlier.name} took {outlier.ms:.1f} ms, {outlier.times_median:.1f} times the median of "
        "the others: a pause, other work on the machine, or a compilation that no counter shows"
    )
    return Caveat("outlier", text)


def _recompiled(wall: WallClock) -> list[Caveat]:
    """That steps beyond the first compiled, which costs a run far more than its steps."""
    if not wall.compilations:
        return []
    count = len(wall.compilations)
    seconds = sum(each.ms for each in wall.compilations) / 1000
    steps = "1 step compiled" if count == 1 else f"{count} steps compiled"
    text = (
        f"{steps} after the first ({seconds:.1f} s), left out of the steady ones: usual once for "
        "the optimizer's graph; more of them mean that shapes change"
    )
    return [Caveat("recompiled", text, hint="pad to fixed sizes")]


def _not_steady(wall: WallClock) -> list[Caveat]:
    """That the steps change too much from the first to the last for one median."""
    if not wall.drifts or wall.trend_percent is None:
        return []
    way = "slower" if wall.trend_percent > 0 else "faster"
    text = (
        f"{wall.label} has not reached steady state: its steps become {way} by "
        f"{abs(wall.trend_percent):.0f} % from the first to the last; the interval is widened to "
        "hold both"
    )
    return [Caveat("not-steady", text, "wrong", hint="more --warmup, more --steps")]


def _scatter(wall: WallClock) -> list[Caveat]:
    """A median that the next run may contradict, for no single slow step's sake."""
    interval, middle = wall.median_interval_ms, wall.median_ms
    if wall.outliers or wall.drifts or interval is None or not middle:
        return []
    if interval.high - interval.low <= SCATTER_PERCENT / 100 * middle:
        return []
    text = (
        f"the median of {wall.label} is uncertain ({interval.low:.1f} .. {interval.high:.1f} ms): "
        "the steps differ too much for so few of them"
    )
    return [Caveat("scatter", text, hint="more --steps")]


def _untraced(folder: RunFolder, label: str | None) -> WallClock | None:
    """The main label's wall clock in the run without the profiler, if one went before."""
    if folder.untraced is None or label is None:
        return None
    timings = read_timings(folder.untraced, folder.batch_dim)
    return wall_clock(timings, label) if label in timings.labels() else None


def _cost_percent(traced: WallClock | None, untraced: WallClock | None) -> float | None:
    if traced is None or untraced is None or not untraced.median_ms or traced.median_ms is None:
        return None
    return (traced.median_ms / untraced.median_ms - 1) * 100


def _tracy_notes(summary: Summary) -> list[Caveat]:
    """What Tracy adds to the wall clock, unless that was measured, and what it does not show."""
    cost = [_INFLATES] if summary.profiler_cost_percent is None else []
    return cost if summary.host_layers else [*cost, _NO_SPLIT]


def _warn(summary: Summary, *warnings: Caveat) -> Summary:
    return replace(summary, warnings=by_weight((*summary.warnings, *warnings)))


def _tracy(
    summary: Summary,
    folder: RunFolder,
    timings: Timings,
    csvs: Sequence[Path],
    step: StepChoice,
    arch: str | None,
    named: Named | None,
) -> Analysis:
    from instrumentor_analysis import figures
    from instrumentor_analysis.host_layers import ZONES, layers_of_steps
    from instrumentor_analysis.locations import by_source_line
    from instrumentor_analysis.savings import savings
    from instrumentor_analysis.skew import compare_devices
    from instrumentor_analysis.steps import read_steps

    try:
        device = read_steps(csvs, step, arch, named, unfit_steps(timings))
    except AnalysisError as error:
        asked = step is not None or (named is not None and named.given)
        if summary.wall_clock is None or asked:
            raise
        # The wall clock is worth showing without the device; the reason is not hidden.
        missing = Caveat("no-device", f"no device figures: {error.message}", hint=error.hint)
        return Analysis(_warn(summary, missing, *_tracy_notes(summary)), timings, folder)
    ops, pooled = _located(folder, device.ops), device.pooled
    rows, shown = device.rows, [device.marks[at] for at in device.chosen]
    times = figures.device_time(rows, ops, pooled)
    wall_ms, why_not = _same_step_wall(timings, device)
    count = round(len(ops) / pooled)
    gaps = figures.gaps(ops, pooled)
    summary = replace(
        summary,
        window=device.window,
        device_time=times,
        devices=compare_devices(rows, pooled),
        device_time_ms=times.kernel_ms,
        device_time_source=None if times.kernel_ms is None else KERNEL_TIME,
        op_count=count,
        host_op_count=round(int(ops["is_host"].sum()) / pooled),
        categories=figures.categories(ops, pooled),
        matmul_flops_percent=figures.matmul_flops_percent(ops),
        dram_percent=figures.overall_dram(ops)[1],
        slow_ops=figures.slow_ops(ops, pooled),
        gaps=gaps,
        savings=savings(ops, device.architecture, pooled),
        spread=device.spread,
        program_cache_hit_percent=figures.program_cache_hit_percent(ops),
        locations=by_source_line(ops, folder.diff, pooled),
        architecture=device.architecture.name,
        host_layers=layers_of_steps(folder.tracy_log(ZONES), shown),
    )
    remarks = [
        *figures.unbalanced(summary.devices),
        *figures.remarks(ops, pooled),
        *device.warnings,
        *why_not,
    ]
    summary = _warn(summary, *remarks, *(_tracy_notes(summary) if wall_ms else []))
    summary = _against_wall(summary, wall_ms, timed_ops=count)
    verdict = decide(
        wall_ms,
        times.kernel_ms,
        figures.shares(ops) if device.architecture.has_peaks else None,
        op_count=count,
        median_gap_us=None if gaps is None else gaps.median_us,
    )
    return Analysis(replace(summary, verdict=verdict), timings, folder, ops, device)


def _located(folder: RunFolder, ops: Table) -> Table:
    """The ops with their source locations, from Tracy's messages where the CSV has none."""
    from instrumentor_analysis.messages import LOGS, with_locations

    if "location" in ops:
        return ops
    messages = folder.tracy_log(LOGS)
    return ops if messages is None else with_locations(ops, messages)


def _torch(summary: Summary, folder: RunFolder, timings: Timings, csv: Path) -> Analysis:
    from instrumentor_analysis.figures import categories, torch_slow_ops
    from instrumentor_analysis.torch_ops import read_torch_ops

    ops = read_torch_ops(csv)
    on_device = ops.device_time_ms is not None
    # The one step that both figures describe is the profiled one.
    wall_ms = timings.profiled.ms if on_device and timings.profiled else None
    summary = replace(
        summary,
        device_time_ms=ops.device_time_ms,
        device_time_source="CUDA kernels of the profiled step" if on_device else None,
        op_self_time_ms=ops.op_self_time_ms,
        op_count=len(ops.frame),
        categories=categories(ops.frame, column="torch_category") if on_device else (),
        slow_ops=torch_slow_ops(ops.frame),
    )
    if wall_ms is not None:
        text = (
            "overhead is of the step under torch.profiler, which slows the host down; the steady "
            "steps ran without it"
        )
        summary = _warn(summary, Caveat("profiled-overhead", text))
    summary = _against_wall(summary, wall_ms, timed_ops=len(ops.frame))
    verdict = decide(wall_ms, ops.device_time_ms, op_count=len(ops.frame), cuda=True)
    return Analysis(replace(summary, verdict=verdict), timings, folder, ops.frame)


def _against_wall(summary: Summary, wall_ms: float | None, timed_ops: int) -> Summary:
    """Overhead and dispatch per op, where both numbers are of one step."""
    device_ms = summary.device_time_ms
    if wall_ms is None or device_ms is None or wall_ms <= 0:
        return replace(summary, step_wall_clock_ms=wall_ms)
    overhead = (wall_ms - device_ms) / wall_ms * 100
    if overhead < 0:
        text = (
            f"the device worked longer ({device_ms:.1f} ms) than the step took ({wall_ms:.1f} ms): "
            "the clock did not wait for the device, or ops of sub-devices overlap"
        )
        summary = _warn(summary, Caveat("longer-than-wall", text, "wrong"))
    if contradict(wall_ms, device_ms):
        return replace(summary, step_wall_clock_ms=wall_ms)
    return replace(
        summary,
        step_wall_clock_ms=wall_ms,
        overhead_percent=overhead,
        dispatch_ms_per_op=(wall_ms - device_ms) / timed_ops if timed_ops else None,
        host_bound=overhead > HOST_BOUND_PERCENT,
    )


def _same_step_wall(timings: Timings, device: DeviceSteps) -> tuple[float | None, list[Caveat]]:
    """Wall clock of the window's step (mean of pooled ones), or None and why."""
    if not device.chosen:
        return None, []
    found: list[float] = []
    for at in device.chosen:
        mark = device.marks[at]
        of_name = [s.ms for s in timings.samples if s.name == mark.name]
        if sum(m.name == mark.name for m in device.marks) > 1 or len(of_name) > 1:
            text = f"step {mark.name} occurs more than once: which wall clock is its own is unknown"
            return None, [Caveat("no-overhead", f"{text}, so there is no overhead")]
        if not of_name:
            text = f"step {mark.name} was not timed: there is no overhead"
            return None, [Caveat("no-overhead", text)]
        found += of_name
    return sum(found) / len(found), []


def _steps(summary: Summary, timings: Timings, device: DeviceSteps | None) -> tuple[Step, ...]:
    """Every step that the record or the trace names, in the order of the record, then file."""
    walls = summary.wall_clock_by_label.values()
    odd = {outlier.name for wall in walls for outlier in wall.outliers}
    marks = {} if device is None else {m.name: at for at, m in enumerate(device.marks)}
    samples = [*timings.samples, *([timings.profiled] if timings.profiled else [])]
    steps: list[Step] = []
    for sample in samples:
        step = Step(sample.name, sample.kind, sample.label, sample.ms, outlier=sample.name in odd)
        steps.append(_with_device(step, marks.pop(sample.name, None), device))
    unnamed = (_with_device(Step(name, None, None, None), at, device) for name, at in marks.items())
    return (*steps, *unnamed)


def _with_device(step: Step, at: int | None, device: DeviceSteps | None) -> Step:
    if device is None:
        return step
    if at is None:
        return replace(step, complete=False)
    device_ms, wall = device.device_ms.get(at), step.wall_clock_ms
    overhead = None
    if device_ms is not None and wall and not contradict(wall, device_ms):
        overhead = (wall - device_ms) / wall * 100
    return replace(
        step,
        complete=device.marks[at].complete,
        op_count=device.op_counts.get(at),
        device_time_ms=device_ms,
        overhead_percent=overhead,
    )
