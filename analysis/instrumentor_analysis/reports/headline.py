"""The figures of a summary in the order in which a person asks for them, for every format.

What the figures are called, how they are rounded and what stands beside them is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from instrumentor_analysis.clock.iterations import OTHER
from instrumentor_analysis.clock.neighbours import BUSY
from instrumentor_analysis.clock.order_statistics import effective_samples
from instrumentor_analysis.clock.throughput import PERCENTILES
from instrumentor_analysis.model import (
    GAP_THRESHOLD_US,
    HOST_BOUND_PERCENT,
    MOST_PERCENT,
    PAUSE_US,
    Barrier,
    Gaps,
    Iteration,
    Memory,
    Mfu,
    Part,
    Summary,
    WallClock,
)
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.document import Figures, Line, Statement, Tone
from instrumentor_analysis.shared.caveats import Caveat, by_weight

#: Utilisation from which an op uses what it has, and below which there is room, percent.
#: tt-perf-report calls an op bound by DRAM or FLOPs from there on.
GOOD_PERCENT = 65.0
#: Share of the steady steps that they are worth at most, where that is said.
WORTH_SHARE = 0.75
#: Share from which a part of the iteration is named, percent.
LEAST_PART_PERCENT = 1.0
#: Steps to ask for where there are too few.
ENOUGH_STEPS = 30
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
        return f"region not verified: {reasons}"
    missing = ", ".join(found["unverified"])
    rest = f"; not verified: {missing} ({reasons})" if missing else ""
    return f"region verified: {shown}{rest}"


def figures(summary: Summary) -> tuple[Figures, ...]:
    """All figures of a summary; sections without one left out."""
    found = [*wall_clock_figures(summary), *_untraced(summary), step_figures(summary)]
    return tuple(section for section in found if section.lines)


def wall_clock_figures(summary: Summary) -> tuple[Figures, ...]:
    """One section per label that was timed, the main one first."""
    main = summary.wall_clock
    if main is None:
        absent = Line("wall clock", formatting.NOT_MEASURED, "no step was timed", "absent")
        return (Figures("Wall clock", (absent,)),)
    others = [wall for wall in summary.wall_clock_by_label.values() if wall.label != main.label]
    return tuple(
        Figures(
            f"Wall clock of {wall.label}, {formatting.plural(wall.samples, 'steady step')}",
            (
                *_wall_clock(wall),
                *_barrier(summary.barrier if wall is main else None),
                *_memory(summary.memory if wall is main else None),
            ),
        )
        for wall in (main, *others)
    )


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
            note += f", and waiting for nothing takes {formatting.ms(found.cost_ms)}"
    else:
        note += "; not checked, because no tensor was in sight"
    for method, left in found.given_up.items():
        note += f"; {method} had left {formatting.ms(left)}"
    yield Line("barrier", found.device, note)


def _untraced(summary: Summary) -> Iterator[Figures]:
    """The wall clock without the profiler, and what the profiler costs."""
    wall = summary.untraced
    if wall is None:
        return
    lines = [*_statistics(wall)]
    if summary.profiler_cost_percent is not None:
        cost = f"{summary.profiler_cost_percent:+.1f} %"
        lines.append(Line("profiler's cost", cost, "of the median step, in the figures above"))
    samples = formatting.plural(wall.samples, "steady step")
    yield Figures(f"Without the profiler, {samples}", tuple(lines))


def _wall_clock(wall: WallClock) -> Iterator[Line]:
    yield from _iteration(wall.iteration)
    yield from _throughput(wall)
    yield from _statistics(wall, _between(wall), _latencies(wall))
    yield _line("first step", wall.compile_ms, "not in the figures above")
    if wall.warmup_ms:
        warmup = ", ".join(formatting.number(value) for value in wall.warmup_ms)
        steps = formatting.plural(len(wall.warmup_ms), "step")
        yield Line("warm-up", steps, f"{warmup} ms, not in the figures above either")
    if wall.compilations:
        shown = wall.compilations[:_MOST_COMPILATIONS]
        listed = ", ".join(f"{each.name} {formatting.ms(each.ms)}" for each in shown)
        more = len(wall.compilations) - len(shown)
        listed += f" and {more} more" if more else ""
        count = formatting.plural(len(wall.compilations), "later step")
        yield Line("recompiled", count, f"{listed}; not in the figures above")
    if wall.trend_percent is not None and (wall.drifts or abs(wall.trend_percent) >= 1):
        note = "from the first steady step to the last, by a linear fit"
        tone: Tone = "bad" if wall.drifts else "plain"
        yield Line("trend", f"{wall.trend_percent:+.1f} %", note, tone)


def _statistics(
    wall: WallClock, median: str = "", latencies: Iterator[Line] | None = None
) -> Iterator[Line]:
    spread = "" if wall.stdev_ms is None else f"± {formatting.number(wall.stdev_ms)}"
    yield _line("mean", wall.mean_ms, spread)
    yield _line("median", wall.median_ms, median)
    yield from latencies or ()
    yield _line("min", wall.min_ms)
    yield _line("max", wall.max_ms)


def _iteration(found: Iteration | None) -> Iterator[Line]:
    """From the start of one step to the start of the next, and what it is made of."""
    if found is None:
        return
    note = " | ".join(f"{part.name} {formatting.number(part.ms)}" for part in shown_parts(found))
    if found.populations:
        kinds = ", ".join(
            f"{each.samples} of {formatting.ms(each.median_ms)}" for each in found.populations
        )
        note += f"; mean of several kinds: {kinds}"
    yield Line("iteration", formatting.ms(found.median_ms), note)


def shown_parts(found: Iteration) -> tuple[Part, ...]:
    """The parts that are worth a word; the rest goes to the others, so that they still add up."""
    shown = [part for part in found.parts if part.percent >= LEAST_PART_PERCENT]
    named = [part for part in shown if part.name != OTHER]
    rest = found.median_ms - sum(part.ms for part in named)
    percent = 100 - sum(part.percent for part in named)
    return (*named, *([Part(OTHER, rest, percent)] if percent >= LEAST_PART_PERCENT else ()))


def _between(wall: WallClock) -> str:
    """The interval of the median, or why there is none."""
    interval, worth = wall.median_interval_ms, effective_samples(wall.samples_ms)
    if wall.populations:
        kinds = (
            f"{each.samples} steps of {formatting.ms(each.median_ms)}" for each in wall.populations
        )
        return f"no median describes steps of several kinds: {', '.join(kinds)}"
    if interval is None:
        return f"too few for an interval: --steps {ENOUGH_STEPS}" if wall.samples else ""
    low, high = formatting.number(interval.low), formatting.number(interval.high)
    found = f"95 % interval {low} .. {high}"
    if worth <= WORTH_SHARE * len(wall.samples_ms):
        found += f"; neighbouring steps are alike: worth {worth:.0f} independent ones"
    return found


def _throughput(wall: WallClock) -> Iterator[Line]:
    """Work a second, and how much of the peak that is; nothing where no batch was seen."""
    whole, part = wall.iteration, (wall.samples_per_s, wall.tokens_per_s)
    rates = part if whole is None else (whole.samples_per_s, whole.tokens_per_s)
    size = wall.batch_shape
    shape = "" if size is None else f"; {' x '.join(map(str, size))} a step"
    if formatting.measured(rates[0]):
        what = f"samples of {wall.label} alone" if whole is None else "samples, of the iteration"
        yield Line("throughput", f"{formatting.number(rates[0])} /s", what + shape)
    if formatting.measured(rates[1]):
        rate = f"{formatting.number(rates[1])} /s"
        yield Line("token throughput", rate, "tokens, padding included")
    if whole is not None and formatting.measured(part[0]) and wall.label != WHOLE_STEP:
        without = "without data loading and what else lies between two of them"
        yield Line(f"{wall.label} only", f"{formatting.number(part[0])} /s", f"samples, {without}")
    if wall.mfu is not None:
        yield from _model_flops(wall.mfu)
    elif not formatting.measured(rates[0]) and not formatting.measured(rates[1]) and wall.samples:
        note = "no batch was seen to enter the forward"
        yield Line("throughput", formatting.NOT_MEASURED, note, "absent")


def _memory(found: Memory | None) -> Iterator[Line]:
    """What the script's process had at most."""
    if found is None:
        return
    if found.allocated_bytes is not None:
        size = formatting.size(found.allocated_bytes)
        yield Line("peak memory", size, "allocated on the GPU, by torch")
    if found.resident_bytes is not None:
        name = "peak memory" if found.allocated_bytes is None else "peak on the host"
        yield Line(name, formatting.size(found.resident_bytes), "of the script's process")


def _model_flops(mfu: Mfu) -> Iterator[Line]:
    """The model's FLOPs a second, and what part of the peak that is, with formula and peak."""
    scale, unit = (1e3, "GFLOP/s") if mfu.tflops < 0.1 else (1.0, "TFLOP/s")
    rate = formatting.with_unit(mfu.tflops * scale, unit)
    note = f"{formatting.with_unit(mfu.flops_per_sample / 1e9, 'GFLOPs')} a sample, {mfu.formula}"
    if mfu.percent is None or mfu.peak_tflops is None:
        yield Line("model FLOPs", rate, f"{note}; no MFU: {mfu.peak_source}")
        return
    yield Line("model FLOPs", rate, note)
    peak = f"of {formatting.with_unit(mfu.peak_tflops, 'TFLOP/s')}, {mfu.peak_source}"
    yield Line("MFU", formatting.percent(mfu.percent), peak)
    if mfu.hfu_percent is not None:
        note = "by the FLOPs and the peak that tt-mlir reports of the compiled graphs"
        yield Line("HFU", formatting.percent(mfu.hfu_percent), note)


def is_inference(wall: WallClock | None) -> bool:
    """Whether the timed code is inference, of which people ask latency and throughput."""
    return wall is not None and wall.label == "inference"


def _latencies(wall: WallClock) -> Iterator[Line]:
    """Percentiles beyond the median, of inference; the first that the samples cannot tell, too."""
    values = {90: wall.p90_ms, 95: wall.p95_ms, 99: wall.p99_ms} if is_inference(wall) else {}
    for percent, value in values.items():
        name = f"latency p{percent}"
        if not formatting.measured(value):
            note = f"takes {PERCENTILES[percent]} steady steps (--steps)"
            yield Line(name, formatting.NOT_MEASURED, note, "absent")
            return
        yield Line(name, formatting.ms(value))


def _line(name: str, value_ms: float | None, note: str = "") -> Line:
    if not formatting.measured(value_ms):
        return Line(name, formatting.NOT_MEASURED, "", "absent")
    return Line(name, formatting.ms(value_ms), note)


def step_figures(summary: Summary) -> Figures:
    """Wall clock and device time of one and the same step, and what follows from the two."""
    if summary.profiler == "wallclock":
        note = "the run had timers only"
        return Figures("Device", (Line("device time", formatting.NOT_MEASURED, note, "absent"),))
    window = summary.window
    if window is None:
        title = "Profiled step" if summary.profiler == "torch" else "Step"
    else:
        title = f"{window.step or formatting.shared_start(window.steps) or 'Ops'}: {window.how}"
    return Figures(title, tuple(_step(summary)))


def _step(summary: Summary) -> Iterator[Line]:
    on_cpu = summary.profiler == "torch" and summary.device_time_ms is None
    if summary.step_wall_clock_ms is not None:
        steps = () if summary.window is None else summary.window.steps
        of = "of this step" if len(steps) < 2 else f"mean of the {len(steps)} steps"
        yield _line("wall clock", summary.step_wall_clock_ms, of)
    yield _device_time(summary, on_cpu)
    if on_cpu and formatting.measured(summary.op_self_time_ms):
        note = "all threads together, under the profiler; no device time"
        yield Line("op self time", formatting.ms(summary.op_self_time_ms), note)
    if summary.op_count is not None:
        if not on_cpu:
            yield _overhead(summary)
            yield _line("dispatch per op", summary.dispatch_ms_per_op, "(wall - device) / ops")
        hosts = summary.host_op_count
        host_ops = f"of them {hosts:,} on the host" if hosts else ""
        yield Line("ops", formatting.count(summary.op_count), host_ops)
    yield from _utilisation(summary)
    if summary.gaps is not None:
        yield _gap(summary.gaps)
    for layer in summary.host_layers:  # what tt-crank did on the host, by its own zones
        times = f"{layer.count:,.4g} x" if layer.count != 1 else "once"
        note = f"of the host, in tt-crank, {times}: {', '.join(layer.zones)}"
        yield Line(f"host {layer.name}", formatting.ms(layer.time_ms), note)


def _device_time(summary: Summary, on_cpu: bool) -> Line:
    if not formatting.measured(summary.device_time_ms):
        note = "torch on the CPU has no device" if on_cpu else "no op was timed"
        return Line("device time", formatting.NOT_MEASURED, note, "absent")
    note = summary.device_time_source or "source unknown"
    firmware = None if summary.device_time is None else summary.device_time.firmware_ms
    if formatting.measured(firmware):
        note += f"; by firmware {formatting.ms(firmware)}"
    if summary.devices is not None:
        note += f"; the slowest of {len(summary.devices.rows)} devices, op by op"
    return Line("device time", formatting.ms(summary.device_time_ms), note)


def _overhead(summary: Summary) -> Line:
    if formatting.measured(summary.overhead_percent):
        tone: Tone = "bad" if summary.host_bound else "plain"
        note = f"(wall - device) / wall; host-bound above {HOST_BOUND_PERCENT:.0f} %"
        return Line("overhead", formatting.percent(summary.overhead_percent), note, tone)
    if not formatting.measured(summary.device_time_ms):
        why = "needs a device time"
    elif summary.step_wall_clock_ms is not None:
        why = "the device worked longer than the step took"
    else:
        why = "needs the wall clock of the same step"
    return Line("overhead", formatting.NOT_MEASURED, why, "absent")


def _utilisation(summary: Summary) -> Iterator[Line]:
    device, matmul, dram = summary.device_time, summary.matmul_flops_percent, summary.dram_percent
    span_ms, busy = (device.span_ms, device.busy_percent) if device else (None, None)
    span = formatting.readable_us(None if span_ms is None else span_ms * 1000)
    matmuls = "of the peak of the cores used, weighted by device time"
    found: tuple[tuple[str, float | None, str, Tone], ...] = (
        ("device busy", busy, f"of the {span} from its first op to its last", "plain"),
        ("matmul FLOPs", matmul, matmuls, _tone(matmul)),
        ("DRAM", dram, "of the peak, over the whole device time", _tone(dram)),
        ("program cache", summary.program_cache_hit_percent, "of the ops hit it", "plain"),
    )
    for name, value, note, tone in found:
        if formatting.measured(value):
            yield Line(name, formatting.percent(value), note, tone)


def _tone(value: float | None) -> Tone:
    """Good from the share at which an op counts as bound by it, else room; bad beyond a peak."""
    if value is None or value < GOOD_PERCENT:
        return "room"
    return "bad" if value > MOST_PERCENT else "good"


def _gap(gaps: Gaps) -> Line:
    long = (gaps.median_us or 0.0) > GAP_THRESHOLD_US
    note = f"median; none of {gaps.count:,} above {GAP_THRESHOLD_US} us"
    if gaps.over_threshold_count:
        together = formatting.readable_us(gaps.over_threshold_us)
        over = f"{gaps.over_threshold_count:,} of {gaps.count:,}"
        note = f"median; {over} above {GAP_THRESHOLD_US} us, {together} together"
    if gaps.pause_us:
        pauses = formatting.plural(gaps.pause_count, "pause") if gaps.pause_count else "pauses"
        together = formatting.readable_us(gaps.pause_us)
        note += f" ({pauses} above {PAUSE_US / 1000:.0f} ms: {together})"
    return Line(
        "op-to-op gap", formatting.readable_us(gaps.median_us), note, "bad" if long else "plain"
    )


def warnings(summary: Summary, *, notes: bool = True) -> tuple[Caveat, ...]:
    """What stands in the way of trusting the figures, the worst first."""
    found: list[Caveat] = []
    if summary.interrupted:
        text = "the run was interrupted: the figures are of what came before"
        found.append(Caveat("interrupted", text, "wrong"))
    if summary.script_exit_code:
        text = f"the script ended with exit code {summary.script_exit_code}"
        found.append(Caveat("exit-code", text, "wrong"))
    rest = (each for each in summary.warnings if each.kind != BUSY)  # stands above the figures
    return by_weight((*found, *rest), notes=notes)


def above_the_figures(summary: Summary) -> tuple[Statement, ...]:
    """What is to be known before any figure is read: that the machine was busy."""
    return tuple(
        Statement("", str(each), "bad", "busy") for each in summary.warnings if each.kind == BUSY
    )
