"""The figures of a summary in the order in which a person asks for them, for every format.

To add one: a row of :mod:`..summary.figure_table`, which declares what they are called. What
stands beside them is said here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from instrumentor_analysis.clock.iterations import OTHER, names_of_region, region_ms
from instrumentor_analysis.clock.memory import peak_of
from instrumentor_analysis.clock.neighbours import BUSY, is_busy, said
from instrumentor_analysis.clock.order_statistics import effective_samples
from instrumentor_analysis.clock.programs import SOURCE
from instrumentor_analysis.clock.throughput import PERCENTILES
from instrumentor_analysis.model import (
    GAP_THRESHOLD_US,
    HOST_BOUND_PERCENT,
    MOST_PERCENT,
    PAUSE_US,
    Barrier,
    Interval,
    Iteration,
    KeptWork,
    Part,
    Summary,
    Update,
    WallClock,
)
from instrumentor_analysis.reports import formatting, programs
from instrumentor_analysis.reports.document import Figures, Line, Statement, Tone
from instrumentor_analysis.shared.caveats import Caveat, by_weight, together, without
from instrumentor_analysis.shared.documents import listed
from instrumentor_analysis.shared.warning_codes import code_of
from instrumentor_analysis.summary.figure_table import (
    CLOCK,
    PEAK_MEMORY,
    UNTRACED,
    Group,
    called,
    of_group,
    value_at,
)
from instrumentor_analysis.summary.mfu import NO_PEAK_OF_A_CPU
from instrumentor_analysis.summary.verdict import FEW_SAMPLES, ended_too_early

#: Utilisation from which an op uses what it has, and below which there is room, percent.
#: tt-perf-report calls an op bound by DRAM or FLOPs from there on.
GOOD_PERCENT = 65.0
#: Share of the steady steps that they are worth at most, where that is said.
WORTH_SHARE = 0.75
#: Share from which a part of the iteration is named, percent; what the others add up to always is.
LEAST_PART_PERCENT = 1.0
#: Independent steps below which a median has no interval, and steps to ask for there.
FEW_STEPS, ENOUGH_STEPS = 6, 30
_MORE_STEPS = f": --steps {ENOUGH_STEPS}"
#: Label of samples that are iterations themselves.
WHOLE_STEP = "whole step"
#: Later compilations that are listed by name.
_MOST_COMPILATIONS = 8


def title(summary: Summary) -> str:
    """What was measured: the name of the run's folder, else what was read."""
    run = summary.run
    unnamed = "Ops of a trace" if summary.wall_clock is None else "Run"
    read = run.get("ops") or ""
    ops = Path(read).name if isinstance(read, str) else formatting.plural(len(read), "ops CSV")
    return str(run.get("name") or run.get("script") or "") or ops or unnamed


def subtitle(summary: Summary) -> str:
    """How: profiler, scope, architecture, and whether it came to its end."""
    ended = "interrupted" if summary.interrupted else "partial" if summary.partial else ""
    parts = summary.profiler, summary.scope, summary.architecture, ended, _verified(summary)
    return " · ".join(part for part in parts if part)


def _verified(summary: Summary) -> str:
    """What the run itself showed of its timed region; empty when nothing looked."""
    found = summary.verification
    if not found:
        return ""
    shown = ", ".join(found["verified"])
    reasons = "; ".join(dict.fromkeys(found["unverified"].values()))
    if not shown:
        # Where nothing is to be trained, nothing of a training step can be shown.
        return "" if summary.scope == "inference" else f"region not verified: {reasons}"
    missing = ", ".join(found["unverified"])
    rest = f"; not verified: {missing} ({reasons})" if missing else ""
    return f"region verified: {shown}{rest}"


def figures(summary: Summary) -> tuple[Figures, ...]:
    """All figures of a summary; sections without one left out."""
    found = [*wall_clock_figures(summary), *_untraced(summary), step_figures(summary)]
    return tuple(section for section in found if section.lines)


def wall_clock_figures(summary: Summary) -> tuple[Figures, ...]:
    """One section per label that was timed, the main one first, with what is of the whole run."""
    main = summary.wall_clock
    if main is None:
        absent = Line("wall clock", formatting.NOT_MEASURED, "no step was timed", "absent")
        return (Figures("Wall clock", (absent,)),)
    others = [wall for wall in summary.wall_clock_by_label.values() if wall.label != main.label]
    return tuple(
        Figures(
            f"{_heading(wall)}, {steady_steps(wall)}",
            (
                *wall_clock_figures_of(wall, more=more_steps(summary)),
                *(fastest(wall) if is_busy(summary.run.get("machine")) else ()),
                *(_of_run(summary) if wall is main else ()),
            ),
        )
        for wall in (main, *others)
    )


def _heading(wall: WallClock) -> str:
    """Whose wall clock it is: with the iteration beside it no longer that of the region alone."""
    return f"Wall clock of {wall.label}" if wall.iteration is None else "Wall clock"


def of_region(wall: WallClock, name: str) -> str:
    """A figure of the timed region by its name, which says so where an iteration has one too."""
    return name if wall.iteration is None else f"{wall.label}, {name}"


def step_word(wall: WallClock) -> str:
    """What a sample is to the training: a step, or one of several micro-steps of an update."""
    micro = wall.iteration is not None and wall.iteration.update is not None
    return "micro-step" if micro else "step"


def steady_steps(wall: WallClock) -> str:
    """``24 steady micro-steps``."""
    return formatting.plural(wall.samples, f"steady {step_word(wall)}")


_Note = Callable[[Any], str | None]


def _lines(
    of: Any, group: Group, notes: Mapping[str, _Note], label: str = "", within: str = ""
) -> Iterator[Line]:
    """The figures of one heading that were measured, in the order of their declaration.

    Args:
        of: what holds the values.
        notes: by key what is said beside a figure; one of which it says None is not shown.
        within: of the keys, what is not in the document of ``of``.
    """
    for figure in of_group(group):
        key = figure.key.removeprefix(within)
        value = value_at(of, key)
        note = notes.get(key, lambda _, about=figure.about: about)(of)
        if note is None or not formatting.measured(value):
            continue
        tone = _TONES.get(key, _plain)(of)
        name = called(figure, of) if isinstance(of, WallClock) else figure.name
        if isinstance(of, WallClock) and key in _OF_REGION:
            name = of_region(of, name)
        yield Line(name.format(label=label), figure.text(value), note, tone)


def _plain(_: Any) -> Tone:
    return "plain"


def _of_run(summary: Summary) -> Iterator[Line]:
    yield from _lines(summary, "run", {PEAK_MEMORY: _peak})
    yield from _barrier(summary.barrier)


def _peak(summary: Summary) -> str:
    """Whose peak it is, and up to when."""
    process = "of the script's process"
    return ", ".join(filter(None, (process, peak_of(summary.memory, summary.profiler))))


def _barrier(found: Barrier | None) -> Iterator[Line]:
    """What every sample waited by, and what was left after it."""
    if found is None:
        return
    note = f"waited for by {found.method}"
    if found.left_ms is not None:
        read = formatting.plural(found.tensors_read, "tensor")
        check = f"reading {read}" if found.tensors_read else "waiting again"
        note += f"; {check} then found {formatting.ms(found.left_ms)} left"
        if found.cost_ms is not None:
            note += f", and waiting for an idle device takes {formatting.ms(found.cost_ms)}"
    else:
        note += "; not checked, because no tensor was found to read"
    for method, left in found.given_up.items():
        note += f"; {method} left {formatting.ms(left)} of work and is not used"
    yield Line("barrier", found.device, note)


def _untraced(summary: Summary) -> Iterator[Figures]:
    """The wall clock without the profiler, and what the profiler costs."""
    wall = summary.untraced
    if wall is None:
        return
    notes = {
        f"{UNTRACED}median": lambda _: _between(wall),
        f"{UNTRACED}mean": lambda _: _spread(wall),
    }
    samples = formatting.plural(wall.samples, "steady step")
    lines = tuple(_lines(summary, "untraced", notes))
    yield Figures(f"Without the profiler, {samples}", lines)


def more_steps(summary: Summary) -> bool:
    """More steps are a remedy: not where the script ends before, nor of a busy machine."""
    none = (FEW_SAMPLES, BUSY)
    return not summary.partial and all(each.kind not in none for each in summary.warnings)


def wall_clock_figures_of(wall: WallClock, *, more: bool = True) -> Iterator[Line]:
    """The figures of one label.

    Args:
        more: more steps may be asked for.
    """
    for line in _lines(wall, "clock", _CLOCK_NOTES, wall.label, CLOCK):
        mean = region_in_iteration(wall) if line.name == of_region(wall, "median") else None
        if mean is not None:
            # As the report that ends a run has it; the median is of samples that differ.
            yield mean
            line = replace(line, note=f"of each {step_word(wall)} by itself; {line.note}")
        yield line if more else replace(line, note=line.note.removesuffix(_MORE_STEPS))
    yield from _unseen(wall)
    if wall.warmup_ms:
        values, unit = formatting.alike(wall.warmup_ms, "ms")
        steps = formatting.plural(len(wall.warmup_ms), "step")
        note = f"{', '.join(values)} {unit}, not in the figures above either"
        yield Line("warm-up", steps, note)
    if wall.compilations:
        each = (f"{step.name} {formatting.ms(step.ms)}" for step in wall.compilations)
        told = f"{listed(each, _MOST_COMPILATIONS)}; not in the figures above"
        count = formatting.plural(len(wall.compilations), "later step")
        yield Line("recompiled", count, told)


def fastest(wall: WallClock) -> Iterator[Line]:
    """What others' load has lengthened least; of several kinds it would be that of one of them."""
    whole = wall.iteration
    if wall.samples < FEW_STEPS or wall.populations or wall.min_ms is None:
        return
    micro = whole is not None and whole.update is not None
    of = f" a {step_word(wall)}" if micro else ""
    shown = {wall.label: wall.min_ms}
    if whole is not None and not whole.is_mean:
        shown = {whole.word: whole.min_ms} | shown
    told = ", ".join(f"{name} {formatting.ms(each_ms)}" for name, each_ms in shown.items())
    yield Line("fastest", f"{told}{of}", "other programs disturbed these least")


def _unseen(wall: WallClock) -> Iterator[Line]:
    """What a reader looks for in vain: throughput, a percentile of inference."""
    rates = wall.samples_per_s, wall.tokens_per_s
    if wall.samples and wall.mfu is None and not any(map(formatting.measured, rates)):
        note = "no batch was recognised"
        yield Line("throughput", formatting.NOT_MEASURED, note, "absent")
    if not is_inference(wall):
        return
    latencies = {90: wall.p90_ms, 95: wall.p95_ms, 99: wall.p99_ms}
    missing = [at for at, value in latencies.items() if not formatting.measured(value)]
    for percent in missing[:1]:
        note = f"needs {PERCENTILES[percent]} steady steps (--steps)"
        yield Line(f"latency p{percent}", formatting.NOT_MEASURED, note, "absent")


def parts_in_words(found: Iteration, label: str) -> str:
    """``data 69.0 | fwd+bwd 7.2 | optimizer 1.1``: in the unit of the iteration."""
    parts, values, _ = parts_in_figures(found, label)
    return " | ".join(f"{part.name} {ms}" for part, ms in zip(parts, values, strict=True))


def parts_in_figures(found: Iteration, label: str) -> tuple[tuple[Part, ...], list[str], str]:
    """The parts that are worth a word, their figures, which add up, and the unit of all.

    The timed region is told by itself, too: its part is never bent so that the others fit.

    Args:
        label: of the timed region.
    """
    parts = shown_parts(found)
    names = [part.name for part in parts]
    region = [names.index(name) for name in names_of_region(names, label)]
    rest = names.index(OTHER) if OTHER in names else None
    times = [part.ms for part in parts]
    return parts, *formatting.adding_up(times, "ms", found.median_ms, region, rest)


def _iteration(wall: WallClock) -> str:
    """What an iteration, from the start of one step to the start of the next, is made of."""
    found = wall.iteration
    if found is None:
        return ""
    note, said = f"= {parts_in_words(found, wall.label)}" if found.parts else "", []
    if found.median_interval_ms is not None and found.update is None:
        said.append(f"95 %: {between(found.median_interval_ms, found.median_ms)}")
    note += f" ({'; '.join(said)})" if said else ""
    kept = _kept(found.kept)
    return "; ".join(filter(None, (note, _in_update(found.update), _of_kinds(found), kept)))


def _kept(found: KeptWork | None) -> str:
    """What of the script ran between samples that is no part of a step, and where its time is."""
    if found is None:
        return ""
    what, took = " and ".join(found.names), formatting.ms(found.median_ms)
    if found.left_out:
        return f"without the {found.count} of {found.of} that hold a kept {what} of {took}"
    return f"holds a kept {what} of {took} in {found.count} of {found.of}, and so does throughput"


def mean_in_iteration(wall: WallClock) -> float | None:
    """The region's part, ms, of an iteration that is a mean itself; None of all others."""
    found = wall.iteration
    if found is None or not found.is_mean:
        return None
    return region_ms(found, wall.label)


def region_in_iteration(wall: WallClock) -> Line | None:
    """The region as a part of an iteration that is a mean; of an update all its micro-steps."""
    mean_ms, whole = mean_in_iteration(wall), wall.iteration
    if whole is None or mean_ms is None:
        return None
    shown, note = formatting.ms(mean_ms), f"its part of the {whole.word} above"
    if whole.update is not None and whole.update.ms is not None and whole.update.micro_steps:
        count = whole.update.micro_steps
        shown, note = formatting.ms(mean_ms * count), f"an update ({count} x {shown})"
    return Line(wall.label, shown, note)


def _in_update(found: Update | None) -> str:
    """Where the time of an update is not known, what is: it is shown nowhere else."""
    if found is None or found.ms is not None:
        return ""
    if found.micro_steps is None:
        return "several make one update, how many is unknown"
    return f"{found.micro_steps} make one update, and no update was measured whole"


def _of_kinds(found: Iteration) -> str:
    """``medians: 47.9 ms (18 without update), 82.6 ms (6 with update)``, and what that is to it."""
    kinds = ", ".join(
        f"{formatting.ms(each.median_ms)} ({each.samples} "
        f"{'' if each.kind.startswith('with') else 'of '}{each.kind})"
        for each in found.populations
    )
    if found.update is not None and found.update.ms is not None:
        return "mean within an update" + (f"; medians: {kinds}" if kinds else "")
    return f"mean of the medians: {kinds}" if kinds else ""


def _update(wall: WallClock) -> str:
    """How many micro-steps it is, and how sure."""
    found = None if wall.iteration is None else wall.iteration.update
    if found is None or found.ms is None:
        return ""
    note = f"= {found.micro_steps} micro-steps, "
    note += f"median of {found.count} updates" if found.count > 1 else "one update"
    if found.interval_ms is not None:
        note += f" (95 %: {between(found.interval_ms, found.ms)})"
    return note


def shown_parts(found: Iteration) -> tuple[Part, ...]:
    """The parts that are worth a word; the rest goes to the others, so that they still add up.

    Only a rest that has no digit beside the iteration's is left out.
    """
    shown = [part for part in found.parts if part.percent >= LEAST_PART_PERCENT]
    named = [part for part in shown if part.name != OTHER]
    rest = max(0.0, found.median_ms - sum(part.ms for part in named))
    (digits,), _ = formatting.alike([rest], "ms", [found.median_ms])
    if not digits.strip("0."):
        return tuple(named)
    return (*named, Part(OTHER, rest, rest / found.median_ms * 100))


def _between(wall: WallClock) -> str:
    """The interval of the median, or why there is none."""
    interval, worth = wall.median_interval_ms, effective_samples(wall.samples_ms)
    if wall.populations:
        kinds = (
            f"{each.samples} of {formatting.ms(each.median_ms)} ({each.kind})"
            for each in wall.populations
        )
        return f"no median describes steps of several kinds: {', '.join(kinds)}"
    if interval is None:
        return _no_interval(wall.samples, worth)
    found = f"95 % interval {between(interval, wall.median_ms)}"
    if worth <= WORTH_SHARE * len(wall.samples_ms):
        count = len(wall.samples_ms)
        found += f"; consecutive steps are correlated: {count} count as {worth:.0f}"
    return found


def _no_interval(samples: int, worth: float) -> str:
    """Why there is none: of few steps a remedy, of many that go with each other none."""
    if samples < FEW_STEPS:
        return f"too few steps for an interval{_MORE_STEPS}" if samples else ""
    return f"no interval: consecutive steps are correlated, {samples} count as {worth:.0f}"


def between(interval: Interval, median_ms: float | None) -> str:
    """``405 to 421``: the ends of an interval, in the unit of the median beside them."""
    (low, high), _ = formatting.alike([interval.low, interval.high], "ms", of=median_ms)
    return f"{low} to {high}"


def _spread(wall: WallClock) -> str:
    """The standard deviation."""
    return "" if wall.stdev_ms is None else f"standard deviation {formatting.ms(wall.stdev_ms)}"


def batch(wall: WallClock) -> str:
    """``batch 64x3x32x32``; empty where the steps do not share one."""
    size = wall.batch_shape
    return "" if size is None else f"batch {'x'.join(map(str, size))}"


def _throughput(wall: WallClock) -> str:
    """The batch, and that its axis of samples is a guess."""
    if wall.batch_shape is None or not wall.batch_axis_guessed:
        return batch(wall)
    return f"{batch(wall)}, axis 0 taken: --batch-dim 1 if samples lie along the second"


def _region_only(wall: WallClock) -> str | None:
    """Samples a second of the region alone, where that is another figure than the iteration's."""
    if wall.iteration is None:
        return _throughput(wall)
    # Of a mixture the region's median is of other steps than the iteration's mean.
    if wall.label == WHOLE_STEP or wall.iteration.is_mean:
        return None
    return "without data loading and the rest of the iteration"


def _tokens_only(wall: WallClock) -> str | None:
    """Tokens are told once: of the iteration, where it is known."""
    return "any padding included" if wall.iteration is None else None


def _model_flops(wall: WallClock) -> str:
    return "" if wall.mfu is None else f"per sample, {wall.mfu.formula}"


def _flop_rate(wall: WallClock) -> str:
    """Over what it is, and how to give the peak that it is held against, where that is missing."""
    micro = step_word(wall)
    over = f"in {wall.label}" + (f" of a {micro}" if micro != "step" else "")
    if wall.mfu is None or wall.mfu.percent is not None:
        return over
    if wall.mfu.peak_source == NO_PEAK_OF_A_CPU:
        return over
    return f"{over}; for the MFU give --peak-tflops N: {wall.mfu.peak_source}"


def _mfu(wall: WallClock) -> str:
    if wall.mfu is None:
        return ""
    return f"of {formatting.quantity(wall.mfu.peak_tflops, 'TFLOP/s')}, {wall.mfu.peak_source}"


def is_inference(wall: WallClock | None) -> bool:
    """Whether the timed code is inference, of which people ask latency and throughput."""
    return wall is not None and wall.label == "inference"


def _of_inference(wall: WallClock) -> str | None:
    """Percentiles beyond the median are asked for of inference alone."""
    return "" if is_inference(wall) else None


def _cpu(wall: WallClock) -> str:
    return f"of the process in a {step_word(wall)}: user and system, all threads"


def _trend(wall: WallClock) -> str | None:
    """Only of steps that drift: any line through numbers has a slope."""
    return "from the first steady step to the last, by a linear fit" if wall.drifts else None


#: Keys of figures that an iteration has as well.
_OF_REGION = ("median", "mean", "min", "max")
_CLOCK_NOTES: Mapping[str, _Note] = {
    "iteration.update.ms": _update,
    "iteration.median_ms": _iteration,
    "iteration.samples_per_s": _throughput,
    "median": _between,
    "mean": _spread,
    "cpu": _cpu,
    "p90": _of_inference,
    "p95": _of_inference,
    "p99": _of_inference,
    "samples_per_s": _region_only,
    "tokens_per_s": _tokens_only,
    "mfu.flops_per_sample": _model_flops,
    "mfu.tflops": _flop_rate,
    "mfu.percent": _mfu,
    "trend_percent": _trend,
}


def step_figures(summary: Summary) -> Figures:
    """Wall clock and device time of one and the same step, and what follows from the two."""
    if summary.programs is not None and summary.device_time_source == SOURCE:
        lines = (*_lines(summary, "step", _STEP_NOTES), *_host(summary))
        return programs.figures(summary.programs, *lines)
    if summary.profiler == "wallclock":
        note = "the run had timers only"
        untimed = Line("device time", formatting.NOT_MEASURED, note, "absent")
        return Figures("Device", (untimed, *_host(summary)))
    window = summary.window
    if window is None:
        title = "Step"
        if summary.profiler == "torch":
            several = (summary.profiled_steps or 1) > 1
            title = f"{summary.profiled_steps} profiled steps" if several else "Profiled step"
            title += "" if summary.profiled_busy is None else " (machine busy)"
    else:
        title = f"{window.step or formatting.shared_start(window.steps) or 'Ops'}: {window.how}"
    return Figures(
        title, (*_lines(summary, "step", _STEP_NOTES), *_unknown(summary), *_host(summary))
    )


def _unknown(summary: Summary) -> Iterator[Line]:
    """Why a device has no time, and a step no overhead. The CPU has neither."""
    if on_cpu(summary):
        return
    if not formatting.measured(summary.device_time_ms):
        yield Line("device time", formatting.NOT_MEASURED, "no op was timed", "absent")
    if summary.op_count is not None and not formatting.measured(summary.overhead_percent):
        yield Line("overhead", formatting.NOT_MEASURED, _no_overhead(summary), "absent")


def on_cpu(summary: Summary) -> bool:
    """torch.profiler saw no device."""
    return summary.profiler == "torch" and summary.device_time_ms is None


def _host(summary: Summary) -> Iterator[Line]:
    """What the runtime did on the host, by its own zones or metrics."""
    for layer in summary.host_layers:
        times = f"{layer.count:,.4g} x" if layer.count != 1 else "once"
        note = f"of the host, in {layer.of}, {times}: {', '.join(layer.zones)}"
        yield Line(f"host {layer.name}", formatting.ms(layer.time_ms), note)


def _step_wall(summary: Summary) -> str:
    if summary.device_time_source == SOURCE:
        return "of these steps, median"
    steps = () if summary.window is None else summary.window.steps
    if (summary.profiled_steps or 1) > 1:
        return f"median of the {summary.profiled_steps} profiled steps"
    return "of this step" if len(steps) < 2 else f"mean of the {len(steps)} steps"


def _device_time(summary: Summary) -> str:
    note = summary.device_time_source or "source unknown"
    if summary.devices is not None:
        note += f"; the slowest of {len(summary.devices.rows)} devices, op by op"
    return note


def _host_ops(summary: Summary) -> str | None:
    return "of them" if summary.host_op_count else None


def _overhead(summary: Summary) -> str:
    return f"(wall - device) / wall; host-bound above {HOST_BOUND_PERCENT:.0f} %"


def _no_overhead(summary: Summary) -> str:
    if not formatting.measured(summary.device_time_ms):
        return "needs a device time"
    if summary.step_wall_clock_ms is not None:
        return "the device worked longer than the step took"
    return "needs the wall clock of the same step"


def _busy(summary: Summary) -> str:
    device = summary.device_time
    span_ms = None if device is None else device.span_ms
    return f"of the {formatting.ms(span_ms)} from its first op to its last"


def _cpu_only(summary: Summary) -> str | None:
    """Beside a device time nobody asks what the ops took on the CPU."""
    if not on_cpu(summary):
        return None
    count, wall = summary.profiled_steps or 1, summary.wall_clock
    step = f"profiled {'step' if wall is None else step_word(wall)}"
    of = f"one {step}" if count == 1 else f"median of {count} {step}s"
    busy = "" if summary.profiled_busy is None else f". {said(summary.profiled_busy)}"
    return f"elapsed, all threads, {of}{busy}"


def _gap(summary: Summary) -> str:
    gaps = summary.gaps
    if gaps is None:
        return ""
    note = f"median; none of {gaps.count:,} above {GAP_THRESHOLD_US} us"
    if gaps.over_threshold_count:
        over = f"{gaps.over_threshold_count:,} of {gaps.count:,}"
        together = formatting.us(gaps.over_threshold_us)
        note = f"median; {over} above {GAP_THRESHOLD_US} us, {together} together"
    if gaps.pause_us:
        pauses = formatting.plural(gaps.pause_count, "pause") if gaps.pause_count else "pauses"
        together = formatting.us(gaps.pause_us)
        note += f" ({pauses} above {PAUSE_US / 1000:.0f} ms: {together})"
    return note


def _of_chips(key: str) -> _Note:
    """What is said of a share of a peak; of several chips that it is one's, not all of theirs."""
    about = next(each.about for each in of_group("step") if each.key == key)
    return lambda summary: about if summary.devices is None else f"{about}; of one chip"


_STEP_NOTES: Mapping[str, _Note] = {
    "matmul_flops_percent": _of_chips("matmul_flops_percent"),
    "dram_percent": _of_chips("dram_percent"),
    "step_wall_clock_ms": _step_wall,
    "device_time_ms": _device_time,
    "op_self_time_ms": _cpu_only,
    "overhead_percent": _overhead,
    "host_op_count": _host_ops,
    "device_time.busy_percent": _busy,
    "gaps.median_us": _gap,
}


def _used(percent: float | None) -> Tone:
    """Good from the share at which an op counts as bound by it, else room; bad beyond a peak."""
    if percent is None or percent < GOOD_PERCENT:
        return "room"
    return "bad" if percent > MOST_PERCENT else "good"


def _gap_tone(summary: Summary) -> Tone:
    median_us = summary.gaps.median_us if summary.gaps else None
    return "bad" if (median_us or 0.0) > GAP_THRESHOLD_US else "plain"


_TONES: Mapping[str, Callable[[Any], Tone]] = {
    "trend_percent": lambda wall: "bad" if (wall.trend_percent or 0.0) > 0 else "room",
    "overhead_percent": lambda summary: "bad" if summary.host_bound else "plain",
    "matmul_flops_percent": lambda summary: _used(summary.matmul_flops_percent),
    "dram_percent": lambda summary: _used(summary.dram_percent),
    "gaps.median_us": _gap_tone,
}


def warnings(summary: Summary, *, notes: bool = True) -> tuple[Caveat, ...]:
    """What stands in the way of trusting the figures, the worst first."""
    found: list[Caveat] = []
    if summary.interrupted:
        text = "The run was interrupted: the figures cover the steps before the interrupt."
        found.append(Caveat("interrupted", text))
    elif summary.script_exit_code:
        ended = f"ended with exit code {summary.script_exit_code}"
        if summary.script_exit_code < 0:  # as Python tells it of a process
            ended = f"was ended by signal {-summary.script_exit_code}"
        text = f"The script {ended}; read run.log."
        found.append(Caveat("exit-code", text))
    above = (BUSY, *(each.kind for each in (*_above(summary), *_of_the_load(summary))))
    rest = (each for each in summary.warnings if each.kind not in above)
    return together(by_weight(without((*found, *rest), _ignored(summary)), notes=notes))


def _ignored(summary: Summary) -> tuple[str, ...]:
    """Codes that the run was told to ignore."""
    codes = summary.run.get("ignored_warnings")
    return tuple(map(str, codes)) if isinstance(codes, list) else ()


def _of_the_load(summary: Summary) -> tuple[Caveat, ...]:
    """What is to be expected of a busy machine, and said with it: that the steps are not alike."""
    ignored = _ignored(summary)
    if BUSY not in {each.kind for each in summary.warnings} or code_of(BUSY) in ignored:
        return ()
    kinds = ["not-steady", "outlier"]
    # Of so many samples as were asked for it is the script that was short.
    known = summary.run.get("steps") is None and not ended_too_early(summary)
    kinds += [FEW_SAMPLES] if known else []
    return tuple(x for x in summary.warnings if x.kind in kinds and x.code not in ignored)


def above_the_figures(summary: Summary) -> tuple[Statement, ...]:
    """What is to be known before any figure is read: that the machine was busy.

    With the codes of what it explains; ahead of it what no quiet machine would have mended.
    """
    above = _above(summary)
    more = dict.fromkeys(each.code for each in _of_the_load(summary))
    codes = {each: (each.code, *(more if each.kind == BUSY else ())) for each in above}
    return tuple(
        Statement("", f"{each} [{', '.join(codes[each])}]", "bad", each.kind) for each in above
    )


def _above(summary: Summary) -> tuple[Caveat, ...]:
    """The warnings that stand above the figures, where the machine was busy."""
    kinds = [FEW_SAMPLES] if ended_too_early(summary) else []
    ignored = _ignored(summary)
    shown = [x for kind in (*kinds, BUSY) for x in summary.warnings if x.kind == kind]
    found = tuple(each for each in shown if each.code not in ignored)
    return found if any(each.kind == BUSY for each in found) else ()
