"""A run folder to its Summary: wall clock, device, and what the two say together.

Overhead is (wall - device) / wall, both of the same step: the sample that bears the name of the
window's step. The steady mean and median stand beside it and are not mixed into it.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from instrumentor_analysis.clock.compiler_breaks import by_place, causes
from instrumentor_analysis.clock.iterations import FWD_BWD
from instrumentor_analysis.clock.memory import growing
from instrumentor_analysis.clock.modules import modules
from instrumentor_analysis.clock.neighbours import busy, busy_beside, disturbed, doubts, is_busy
from instrumentor_analysis.clock.phases import phases
from instrumentor_analysis.clock.populations import of_shapes
from instrumentor_analysis.clock.programs import SOURCE, lost, programs
from instrumentor_analysis.clock.steadiness import unsteady
from instrumentor_analysis.clock.telemetry import readings, slower, telemetry
from instrumentor_analysis.clock.timings import (
    Timings,
    main_label,
    read_timings,
    unfit_steps,
    wall_clock,
)
from instrumentor_analysis.clock.what_if import what_if
from instrumentor_analysis.clock.xla_layers import xla_layers
from instrumentor_analysis.load.run_folder import RunFolder, open_run
from instrumentor_analysis.load.schema import SIMULATED
from instrumentor_analysis.load.simulator import no_times
from instrumentor_analysis.model import (
    HOST_BOUND_PERCENT,
    Busy,
    Iteration,
    Step,
    Summary,
    WallClock,
    WhatIf,
)
from instrumentor_analysis.ops.roofline import known
from instrumentor_analysis.shared.caveats import OF_XLA, Caveat, by_weight, read_caveats
from instrumentor_analysis.shared.errors import (
    AnalysisError,
    BadOption,
    NoSuchStep,
    NothingMeasured,
)
from instrumentor_analysis.shared.units import quantity
from instrumentor_analysis.summary.analysis import Analysis
from instrumentor_analysis.summary.mfu import with_mfu
from instrumentor_analysis.summary.verdict import decide, overhead_percent
from instrumentor_analysis.summary.what_if import of_device

if TYPE_CHECKING:
    from instrumentor_analysis.load.table import Table
    from instrumentor_analysis.ops.steps import DeviceSteps
    from instrumentor_analysis.ops.window import Named, StepChoice

_INFLATES = Caveat(
    "profiler-cost",
    "Tracy makes the wall clock some 10 to 15 % longer; --untraced measures by how much.",
)
_NO_SPLIT = Caveat("no-split", "Tracy does not split host time into Python and PJRT.")
#: What is planned for a script that can run on any other device than the CPU.
_OF_A_DEVICE = ("copy-inside",)
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
    folder = _opened(sources)
    timings = read_timings(folder.timings, folder.batch_dim, ended=folder.ended)
    simulated = _told(folder, timings)
    device = SIMULATED if simulated else arch
    analysis = Analysis(_base(folder, timings), timings, folder)
    analysis = _with_ops(analysis, sources, step, device, named)
    summary = replace(analysis.summary, steps=_steps(analysis))
    if simulated or not (analysis.device is None or analysis.device.timed):
        return replace(analysis, summary=_of_simulated(summary))
    summary = _without_tracy(summary)
    if summary.verdict is None:
        summary = replace(summary, verdict=decide(summary))
    summary = replace(summary, what_if=(*summary.what_if, *of_device(summary)))
    summary = _warn(summary, *_of_extra_steps(summary))
    return with_mfu(replace(analysis, summary=summary), arch=arch)


def _opened(sources: Sequence[Path]) -> RunFolder:
    """The run of these sources, where what it timed is the step."""
    folder = open_run(*sources)
    if len(sources) > 1 and not all(path.is_file() for path in sources):
        raise BadOption("several sources have to be ops CSVs, one of each host")
    if folder.mapping("verification").get("status") == "failed":
        raise NothingMeasured(
            f"{sources[0]}: the timed region of this run is not the step: {_problem(folder)}",
            "Give the lines of the step with --region, and run again.",
        )
    return folder


def _with_ops(
    analysis: Analysis,
    sources: Sequence[Path],
    step: StepChoice,
    arch: str | None,
    named: Named | None,
) -> Analysis:
    """With what a profiler saw of the device's ops; the wall clock alone where none did."""
    folder = analysis.folder
    if folder.profiler == "tracy" and folder.ops_csv is not None:
        csvs = sources if len(sources) > 1 else (folder.ops_csv,)
        return _tracy(analysis, csvs, step, arch, named)
    if step is not None or (named is not None and named.given):
        text = f"{sources[0]} has no ops of a device, of which --step or a signpost chooses"
        raise NoSuchStep(text, "Leave the option out: the report is of all steps of this run.")
    if folder.profiler == "torch" and folder.torch_csv is not None:
        return _torch(analysis, folder.torch_csv)
    if analysis.summary.wall_clock is None:
        raise NothingMeasured(
            f"{sources[0]} holds no timed step and no ops", _what_to_read(folder, sources[0])
        )
    if folder.profiler == "wallclock" or _ops_explained(analysis.summary):
        return analysis
    text = f"The {folder.profiler} profile holds no ops; there is the wall clock alone."
    return replace(analysis, summary=_warn(analysis.summary, Caveat("no-ops", text)))


def _what_to_read(folder: RunFolder, source: Path) -> str:
    """Where it stands why a run measured nothing."""
    if (folder.text("schema") or "").startswith("instrument-kernel"):
        return f"It is a kernel's run: instrument kernel report {source}"
    failure = (folder.text("failure") or "").strip()
    if folder.exit_code:
        # A failure that nothing explains ends in the script's own last lines.
        _, lines, last = failure.rpartition("\n")
        said = f": {last}" if lines else f"; read run.log in {source}."
        return f"The script ended with exit code {folder.exit_code} before its first step{said}"
    if failure:
        return f"Its run failed: {failure}"
    return "Read run.log in it: the script may have ended before its first step."


def _ops_explained(summary: Summary) -> bool:
    """Why there are no ops is told already, or the run did not come that far."""
    told = ("no-torch-ops", "few-samples")
    return summary.partial or any(each.kind in told for each in summary.warnings)


def _told(folder: RunFolder, timings: Timings) -> bool:
    """Whether the device was a simulator, as the run says, or the one around a lone ops CSV."""
    around = folder.run_around
    if around is not None:
        folder = open_run(around)
        timings = read_timings(folder.timings, folder.batch_dim, ended=folder.ended)
    told = timings.model is not None and timings.model.arch == SIMULATED
    return told or folder.says_simulated


def _of_simulated(summary: Summary) -> Summary:
    """The summary of a device none of whose times is one of a device."""
    said = any(each.kind == "simulated" for each in summary.warnings)
    summary = replace(summary, architecture=SIMULATED, verdict=None)
    return summary if said else _warn(summary, no_times())


def _in_log(folder: RunFolder) -> str | None:
    """The architecture that the device's log names, where it is a known one."""
    named = folder.architecture
    return named if named is not None and named.lower() in known() else None


def _problem(folder: RunFolder) -> str:
    """The first thing that was wrong, and where."""
    problem = folder.mapping("verification")["problems"][0]
    places = "".join(f", {each['file']}:{each['line']}" for each in problem["places"][:1])
    return f"{problem['text']}{places}"


def _base(folder: RunFolder, timings: Timings) -> Summary:
    """What does not depend on a profile: the wall clock and the facts of the run."""
    accumulates = folder.text("accumulation") not in (None, "none")
    by_label = {
        label: replace(
            wall_clock(
                timings,
                label,
                accumulates=accumulates and label == FWD_BWD,
                fetches=folder.loop_fetches,
            ),
            batch_axis_guessed=folder.batch_dim_guessed,
        )
        for label in timings.labels()
    }
    label = main_label(timings)
    wall = None if label is None else by_label[label]
    noted = causes(folder.facts.get("causes"))
    shown = telemetry(readings(folder.path), timings.samples, wall)
    untraced, cost_percent, why = _untraced(folder, wall)
    warnings = (
        *_of_the_record(folder, timings),
        *doubts(folder.facts.get("machine")),
        *_unfinished(folder, timings, wall),
        *(each for of in by_label.values() for each in _of_steps(of, folder, timings.why)),
        *(_of_steps(untraced, folder, why, " without Tracy") if untraced else ()),
        *by_place(noted),
        *lost(timings.told),
        *slower(shown),
        *growing(timings.memory),
    )
    whole, machine = None if wall is None else wall.iteration, busy(folder.facts.get("machine"))
    return Summary(
        profiler=folder.profiler,
        scope=label or folder.text("scope"),
        wall_clock=wall,
        wall_clock_by_label=by_label,
        loop=folder.mapping("loop") or None,
        environment={**folder.environment, **_threads(timings)},
        run=folder.run,
        interrupted=folder.facts.get("interrupted") is True,
        partial=folder.facts.get("partial") is True,
        script_exit_code=folder.exit_code,
        verification=folder.mapping("verification") or None,
        artifacts={k: str(v) for k, v in folder.mapping("artifacts").items()},
        warnings=by_weight(warnings),
        untraced=untraced,
        profiler_cost_percent=cost_percent,
        barrier=timings.barrier,
        memory=timings.memory,
        host_layers=xla_layers(timings.samples, label),
        causes=noted,
        phases=phases(timings.extra, whole, machine or busy_beside(timings.beside, "phases")),
        ranks=timings.ranks,
        modules=modules(timings.called, machine or busy_beside(timings.beside, "modules")),
        telemetry=shown,
        programs=programs(timings.told),
        what_if=_what_if(timings, whole, machine),
    )


def _of_the_record(folder: RunFolder, timings: Timings) -> Iterator[Caveat]:
    """What was told during the run, and what is wrong with what it left."""
    told = [*read_caveats(folder.facts.get("warnings")), *folder.warnings, *timings.warnings]
    yield from (each for each in told if _applies(each, timings))


def _unfinished(folder: RunFolder, timings: Timings, wall: WallClock | None) -> Iterator[Caveat]:
    """Steps that are missing, or that were never ended."""
    if wall is not None and wall.samples == 0:
        remedy = " Give more --steps, or the script more data." if folder.ended else ""
        first = "only the first step is known"
        if wall.warmup_ms:
            first = f"the run ended within the warm-up, after {len(wall.warmup_ms) + 1} steps"
        yield Caveat("no-steady-step", f"No steady step was timed: {first}.{remedy}")
    if timings.cancelled:
        count = len(timings.cancelled)
        text = (
            f"{count} {'sample was' if count == 1 else 'samples were'} begun and never ended, "
            "because the iteration left the timed lines early (continue, or another branch). What "
            "was timed may be only a part of a step."
        )
        yield Caveat("unended-samples", text)


def _of_steps(wall: WallClock, folder: RunFolder, why: str, where: str = "") -> Iterator[Caveat]:
    """What the times of the steps tell against their median."""
    if not where:  # they are of several kinds with Tracy, too
        yield from _of_several_kinds(wall)
    # Without a budget of time the number of steps was chosen by the user.
    chosen = folder.facts.get("time_budget_s") is None
    disturbed = is_busy(folder.facts.get("machine"))
    yield from unsteady(wall, chosen=chosen, why=why, disturbed=disturbed, where=where)


def _what_if(timings: Timings, whole: Iteration | None, machine: Busy | None) -> tuple[WhatIf, ...]:
    """Nothing is predicted from steps that others' load has lengthened."""
    if machine is not None or busy_beside(timings.beside, "phases") is not None:
        return ()
    disturbed = busy_beside(timings.beside, "same_batch") is not None
    return what_if(timings.extra, whole, () if disturbed else timings.again)


def _applies(warning: Caveat, timings: Timings) -> bool:
    """What is true of a script on XLA says nothing of its run on another device; to the CPU
    nothing is copied.

    Ranks that are all recorded are measured as the several processes that they are.
    """
    if warning.kind == "several-processes" and timings.ranks is not None:
        return False
    devices = {sample.device for sample in timings.samples}
    if warning.kind in _OF_A_DEVICE and devices == {"cpu"}:
        return False
    return warning.kind not in OF_XLA or not devices or bool(devices & {"xla", None})


def _threads(timings: Timings) -> dict[str, int]:
    """How many threads torch had, where the record tells."""
    told = timings.model
    return {} if told is None or told.threads is None else {"torch_threads": told.threads}


def _of_several_kinds(wall: WallClock) -> Iterator[Caveat]:
    """That some steps of a label did something else than the others."""
    if wall.compilations:
        # Recompiling costs a run far more than its steps.
        count, seconds = len(wall.compilations), sum(c.ms for c in wall.compilations) / 1000
        text = (
            f"{'1 later step' if count == 1 else f'{count} later steps'} compiled "
            f"({quantity(seconds, 's')}) and {'is' if count == 1 else 'are'} left out. Once is "
            "usual (the optimizer's graph); more often, batch shapes change: pad to fixed sizes."
        )
        yield Caveat("recompiled", text)
    if wall.populations:
        kinds = (
            f"{x.samples} of {quantity(x.median_ms, 'ms')}, {x.kind}" for x in wall.populations
        )
        by_shape = of_shapes(wall.populations)
        remedy = "Pad the batches to one shape" if by_shape else "Use --loop or --region"
        text = (
            f"Steps of {len(wall.populations)} kinds take turns"
            f"{', each with a batch shape of its own' * by_shape} ({'; '.join(kinds)}), so their "
            f"common median describes none of them. {remedy} to time one."
        )
        yield Caveat("several-kinds", text)


def _untraced(
    folder: RunFolder, traced: WallClock | None
) -> tuple[WallClock | None, float | None, str]:
    """The label's clock in an earlier run without the profiler; what Tracy adds to it, percent.

    The third is what ended that run's samples.
    """
    if folder.untraced is None or traced is None:
        return None, None, ""
    timings = read_timings(folder.untraced, folder.batch_dim, ended=folder.ended)
    if traced.label not in timings.labels():
        return None, None, ""
    untraced = wall_clock(timings, traced.label)
    if traced.median_ms is None or not untraced.median_ms:
        return untraced, None, timings.why
    return untraced, (traced.median_ms / untraced.median_ms - 1) * 100, timings.why


def _of_extra_steps(summary: Summary) -> Iterator[Caveat]:
    """That others disturbed steps beside the samples; of a busy run all are known to be."""
    if is_busy(summary.run.get("machine")):
        return
    phases, modules = summary.phases, summary.modules
    extra = {
        "phases": None if phases is None else phases.busy,
        "modules": None if modules is None else modules.busy,
        "ops": summary.profiled_busy,
    }
    yield from disturbed({of: found for of, found in extra.items() if found is not None})


def _warn(summary: Summary, *warnings: Caveat) -> Summary:
    return replace(summary, warnings=by_weight((*summary.warnings, *warnings)))


def _tracy(
    analysis: Analysis,
    csvs: Sequence[Path],
    step: StepChoice,
    arch: str | None,
    named: Named | None,
) -> Analysis:
    from instrumentor_analysis.ops import figures
    from instrumentor_analysis.ops.locations import MESSAGES, located
    from instrumentor_analysis.ops.steps import read_steps

    summary, folder, timings = analysis.summary, analysis.folder, analysis.timings
    # Tracy's usual cost, said only where a run without it has not measured the real one.
    inflates = [_INFLATES] if summary.profiler_cost_percent is None else []
    try:
        unfit, logged = unfit_steps(timings), _in_log(folder)
        device = read_steps(csvs, step, arch, named, unfit, logged)
    except AnalysisError as error:
        # A step or window that was asked for is never replaced by less in silence.
        asked = step is not None or (named is not None and named.given)
        if summary.wall_clock is None or asked:
            raise
        # The wall clock is worth showing without the device; the reason is not hidden.
        missing = Caveat(
            "no-device", f"There are no device figures: {error.message}", hint=error.hint
        )
        return replace(analysis, summary=_warn(summary, missing, *inflates, _NO_SPLIT))
    ops = located(device.ops, folder.tracy_log(MESSAGES))
    summary = _of_ops(summary, device, ops, folder)
    wall_ms, why_not = _same_step_wall(timings, device)
    remarks = [*figures.unbalanced(summary.devices), *device.warnings, *why_not]
    remarks += figures.remarks(ops, device.pooled, timed=device.timed)
    if wall_ms and device.timed:  # else there is no device to compare with
        remarks += inflates if summary.host_layers else [*inflates, _NO_SPLIT]
    summary = _against_wall(_warn(summary, *remarks), wall_ms)
    bounds = figures.bounds(ops) if device.architecture.has_peaks else None
    summary = replace(summary, verdict=decide(summary, bounds))
    return replace(analysis, summary=summary, ops=ops, device=device)


def _of_ops(summary: Summary, device: DeviceSteps, ops: Table, folder: RunFolder) -> Summary:
    """The summary with the figures of the window's ops."""
    from instrumentor_analysis.clock.host_layers import ZONES, layers_of_steps
    from instrumentor_analysis.ops import figures
    from instrumentor_analysis.ops.limits import by_limit
    from instrumentor_analysis.ops.locations import by_source_line
    from instrumentor_analysis.ops.savings import savings
    from instrumentor_analysis.ops.skew import compare_devices

    pooled, rows = device.pooled, device.rows
    shown = [device.marks[at] for at in device.chosen]
    device_time = figures.device_time(rows, ops, pooled)
    return replace(
        summary,
        window=device.window,
        device_time=device_time,
        devices=compare_devices(rows, pooled),
        device_time_ms=device_time.kernel_ms,
        device_time_source=None if device_time.kernel_ms is None else KERNEL_TIME,
        op_count=round(len(ops) / pooled),
        host_op_count=round(int(ops["is_host"].sum()) / pooled),
        categories=figures.categories(ops, pooled),
        matmul_flops_percent=figures.matmul_flops_percent(ops),
        dram_percent=figures.overall_dram(ops)[1],
        slow_ops=figures.slow_ops(ops, pooled),
        gaps=figures.gaps(ops, pooled),
        limits=by_limit(ops, pooled),
        savings=savings(ops, device.architecture, pooled),
        spread=device.spread,
        program_cache_hit_percent=figures.program_cache_hit_percent(ops),
        locations=by_source_line(ops, folder.diff, pooled),
        architecture=device.architecture.name,
        host_layers=(*layers_of_steps(folder.tracy_log(ZONES), shown), *summary.host_layers),
    )


def _torch(analysis: Analysis, csv: Path) -> Analysis:
    from instrumentor_analysis.ops.figures import categories, torch_slow_ops
    from instrumentor_analysis.ops.torch_ops import by_module, read_torch_ops

    ops = read_torch_ops(csv)
    on_device = ops.device_time_ms is not None
    summary = replace(
        analysis.summary,
        device_time_ms=ops.device_time_ms,
        device_time_source="CUDA kernels of the profiled steps" if on_device else None,
        profiled_steps=len(ops.steps),
        profiled_busy=busy_beside(analysis.timings.beside, "profiled"),
        op_self_time_ms=ops.op_self_time_ms,
        op_count=len(ops.frame),
        categories=categories(ops.frame, column="torch_category") if on_device else (),
        slow_ops=torch_slow_ops(ops.steps),
        module_ops=by_module(ops.frame),
    )
    profiled = analysis.timings.profiled
    if on_device and profiled:
        text = (
            "The overhead is that of the steps under torch.profiler, which slows the host down; "
            "the steady steps ran without it."
        )
        # The steps that both figures describe are the profiled ones.
        summary = _warn(summary, Caveat("profiled-overhead", text))
        summary = _against_wall(summary, statistics.median(each.ms for each in profiled))
    summary = replace(summary, verdict=decide(summary, cuda=True))
    return replace(analysis, summary=summary, ops=ops.frame)


def _against_wall(summary: Summary, wall_ms: float | None) -> Summary:
    """Overhead and dispatch per op, where both numbers are of one step."""
    summary, device_ms = replace(summary, step_wall_clock_ms=wall_ms), summary.device_time_ms
    if wall_ms is None or device_ms is None or wall_ms <= 0:
        return summary
    if device_ms > wall_ms:
        text = (
            f"The device worked longer ({quantity(device_ms, 'ms')}) than the step took "
            f"({quantity(wall_ms, 'ms')}): the clock did not wait for the device, or ops of "
            "sub-devices overlap."
        )
        summary = _warn(summary, Caveat("longer-than-wall", text))
    overhead = overhead_percent(wall_ms, device_ms)
    if overhead is None:
        return summary
    return replace(
        summary,
        overhead_percent=overhead,
        dispatch_ms_per_op=(wall_ms - device_ms) / summary.op_count if summary.op_count else None,
        host_bound=overhead > HOST_BOUND_PERCENT,
    )


def _without_tracy(summary: Summary) -> Summary:
    """The device time that ttnn told, where no profiler has one; of its own steps' wall clock."""
    found = summary.programs
    if found is None or summary.device_time_ms is not None:
        return summary
    summary = replace(summary, device_time_ms=found.device_ms, device_time_source=SOURCE)
    return _against_wall(summary, found.wall_ms)


def _same_step_wall(timings: Timings, device: DeviceSteps) -> tuple[float | None, list[Caveat]]:
    """Wall clock of the window's step (mean of pooled ones), or None and why."""
    if not device.chosen:
        return None, []
    found: list[float] = []
    often = Counter(mark.name for mark in device.marks)
    by_name: dict[str, list[float]] = {}
    for sample in timings.samples:
        by_name.setdefault(sample.name, []).append(sample.ms)
    for at in device.chosen:
        mark = device.marks[at]
        of_name = by_name.get(mark.name, [])
        if often[mark.name] > 1 or len(of_name) > 1:
            text = (
                f"There is no overhead: step {mark.name} occurs more than once, and which wall "
                "clock is its own is unknown."
            )
            return None, [Caveat("no-overhead", text)]
        if not of_name:
            text = f"There is no overhead, because step {mark.name} was not timed."
            return None, [Caveat("no-overhead", text)]
        found += of_name
    return sum(found) / len(found), []


def _steps(analysis: Analysis) -> tuple[Step, ...]:
    """Every step that the record or the trace names, in the order of the record, then file."""
    timings, device = analysis.timings, analysis.device
    walls = analysis.summary.wall_clock_by_label.values()
    odd = {outlier.name for wall in walls for outlier in wall.outliers}
    marks = {} if device is None else {m.name: at for at, m in enumerate(device.marks)}
    steps: list[Step] = []
    for sample in (*timings.samples, *timings.profiled):
        step = Step(sample.name, sample.kind, sample.label, sample.ms, outlier=sample.name in odd)
        steps.append(_with_device(step, marks.pop(sample.name, None), device))
    unnamed = (_with_device(Step(name, None, None, None), at, device) for name, at in marks.items())
    return (*steps, *unnamed)


def _with_device(step: Step, at: int | None, device: DeviceSteps | None) -> Step:
    if device is None:
        return step
    if at is None:
        return replace(step, complete=False)
    device_ms = device.device_ms.get(at) if device.timed else None
    return replace(
        step,
        complete=device.marks[at].complete,
        op_count=device.op_counts.get(at),
        device_time_ms=device_ms,
        overhead_percent=overhead_percent(step.wall_clock_ms, device_ms),
    )
