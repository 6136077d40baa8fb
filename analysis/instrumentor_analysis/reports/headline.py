"""The figures of a summary in the order in which a person asks for them, for every format.

What the figures are called, how they are rounded and what stands beside them is decided here;
console, Markdown and HTML only lay them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from instrumentor_analysis.caveats import Caveat, by_weight
from instrumentor_analysis.intervals import effective_samples
from instrumentor_analysis.model import (
    GAP_THRESHOLD_US,
    HOST_BOUND_PERCENT,
    MOST_PERCENT,
    PAUSE_US,
    Barrier,
    Mfu,
    Summary,
    WallClock,
)
from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.document import Figures, Line, Tone
from instrumentor_analysis.throughput import PERCENTILES

#: Utilisation from which an op uses what it has, and below which there is room, percent.
GOOD_PERCENT = 65.0
#: Share of the steady steps that they are worth at most, where that is said.
WORTH_SHARE = 0.75


def title(summary: Summary) -> str:
    """What was measured: the run, its label and its script."""
    run = summary.run
    name, label = (str(run[key]) if run.get(key) else "" for key in ("name", "label"))
    both = " ".join(part for part in (name, label) if part)
    unnamed = "Ops of a trace" if summary.wall_clock is None else "Run"
    read = run.get("ops") or ""
    ops = Path(read).name if isinstance(read, str) else words.plural(len(read), "ops CSV")
    return both or str(run.get("script") or "") or ops or unnamed


def subtitle(summary: Summary) -> str:
    """How: profiler, scope, architecture, and whether it came to its end."""
    parts = [summary.profiler, summary.scope, summary.architecture]
    if summary.interrupted:
        parts.append("interrupted")
    elif summary.partial:
        parts.append("partial")
    parts.append(verified(summary))
    return " · ".join(part for part in parts if part)


def verified(summary: Summary) -> str:
    """What the run itself showed of its timed region; empty when nothing looked."""
    found = summary.verification
    if not found:
        return ""
    shown = ", ".join(found["verified"])
    reasons = list(dict.fromkeys(found["unverified"].values()))
    if not shown:
        return f"region not verified: {'; '.join(reasons)}"
    missing = ", ".join(found["unverified"])
    rest = f"; not verified: {missing} ({'; '.join(reasons)})" if missing else ""
    return f"region verified: {shown}{rest}"


def figures(summary: Summary) -> tuple[Figures, ...]:
    """All figures of a summary; sections without one left out."""
    found = [*wall_clock_figures(summary), _untraced(summary), step_figures(summary)]
    return tuple(section for section in found if section.lines)


def wall_clock_figures(summary: Summary) -> tuple[Figures, ...]:
    """One section per label that was timed, the main one first."""
    main = summary.wall_clock
    if main is None:
        absent = Line("wall clock", words.NOT_MEASURED, "no step was timed", "absent")
        return (Figures("Wall clock", (absent,)),)
    others = [wall for wall in summary.wall_clock_by_label.values() if wall.label != main.label]
    first = _wall_clock(main)
    first = Figures(first.title, (*first.lines, *_barrier(summary.barrier)))
    return (first, *(_wall_clock(wall) for wall in others))


def _barrier(found: Barrier | None) -> list[Line]:
    """What every sample waited by, and what was left after it."""
    if found is None:
        return []
    note = f"waited for by {found.method}"
    if found.left_ms is not None:
        read = words.plural(found.tensors_read, "tensor")
        note += f"; reading {read} then found {words.ms(found.left_ms)} left"
    else:
        note += "; not checked, because no tensor was in sight"
    for method, left in found.given_up.items():
        note += f"; {method} had left {words.ms(left)}"
    return [Line("barrier", found.device, note)]


def _untraced(summary: Summary) -> Figures:
    """The wall clock without the profiler, and what the profiler costs."""
    wall = summary.untraced
    if wall is None:
        return Figures("", ())
    lines = _statistics(wall)
    if summary.profiler_cost_percent is not None:
        cost = f"{summary.profiler_cost_percent:+.1f} %"
        lines.append(Line("profiler's cost", cost, "of the median step, in the figures above"))
    samples = words.plural(wall.samples, "steady step")
    return Figures(f"Without the profiler, {samples}", tuple(lines))


def _wall_clock(wall: WallClock) -> Figures:
    samples = words.plural(wall.samples, "steady step")
    lines = [
        *_throughput(wall),
        *_statistics(wall, _between(wall), _latencies(wall)),
        _line("compile", wall.compile_ms, "the first step, not in the figures above"),
    ]
    if wall.warmup_ms:
        warmup = ", ".join(words.number(value) for value in wall.warmup_ms)
        steps = words.plural(len(wall.warmup_ms), "step")
        lines.append(Line("warm-up", steps, f"{warmup} ms, not in the figures above either"))
    lines += _compilations(wall)
    if wall.trend_percent is not None and (wall.drifts or abs(wall.trend_percent) >= 1):
        change = f"{wall.trend_percent:+.1f} %"
        note = "from the first steady step to the last, by a linear fit"
        lines.append(Line("trend", change, note, "bad" if wall.drifts else "plain"))
    return Figures(f"Wall clock of {wall.label}, {samples}", tuple(lines))


def _statistics(wall: WallClock, median: str = "", latencies: Sequence[Line] = ()) -> list[Line]:
    spread = "" if wall.stdev_ms is None else f"± {words.number(wall.stdev_ms)}"
    return [
        _line("mean", wall.mean_ms, spread),
        _line("median", wall.median_ms, median),
        *latencies,
        _line("min", wall.min_ms),
        _line("max", wall.max_ms),
    ]


def _between(wall: WallClock) -> str:
    """The interval of the median, and why it is wider than so many steps would have it."""
    interval = wall.median_interval_ms
    if interval is None:
        return ""
    sure = f"{interval.confidence:.0%}".replace("%", " %")
    found = f"{sure} interval {words.number(interval.low)} .. {words.number(interval.high)}"
    worth = effective_samples(wall.samples_ms)
    if wall.samples_ms and worth <= WORTH_SHARE * len(wall.samples_ms):
        independent = words.plural(max(1, round(worth)), "independent step")
        found += f"; neighbouring steps are correlated: worth {independent}"
    return found


def _compilations(wall: WallClock) -> list[Line]:
    """Later steps that compiled."""
    if not wall.compilations:
        return []
    listed = ", ".join(f"{each.name} {words.ms(each.ms)}" for each in wall.compilations[:8])
    more = len(wall.compilations) - 8
    listed += f" and {more} more" if more > 0 else ""
    count = words.plural(len(wall.compilations), "later step")
    return [Line("recompiled", count, f"{listed}; not in the figures above")]


def _throughput(wall: WallClock) -> list[Line]:
    """Work a second, and how much of the peak that is; nothing where no batch was seen."""
    lines: list[Line] = []
    shape = "" if wall.batch_shape is None else f", {shown_shape(wall.batch_shape)} a step"
    if words.measured(wall.samples_per_s):
        rate = f"{words.number(wall.samples_per_s)} /s"
        lines.append(Line("throughput", rate, f"samples of {wall.label} at the median{shape}"))
    if words.measured(wall.tokens_per_s):
        rate = f"{words.number(wall.tokens_per_s)} /s"
        lines.append(Line("token throughput", rate, "tokens, padding included"))
    if wall.mfu is not None:
        lines += _model_flops(wall.mfu)
    if not lines and wall.samples:
        note = "no batch was seen to enter the forward"
        lines.append(Line("throughput", words.NOT_MEASURED, note, "absent"))
    return lines


def _model_flops(mfu: Mfu) -> list[Line]:
    """The model's FLOPs a second, and what part of the peak that is, with formula and peak."""
    small = mfu.tflops < 0.1
    rate = words.with_unit(mfu.tflops * (1e3 if small else 1), "GFLOP/s" if small else "TFLOP/s")
    note = f"{words.with_unit(mfu.flops_per_sample / 1e9, 'GFLOPs')} a sample, {mfu.formula}"
    if mfu.percent is None or mfu.peak_tflops is None:
        return [Line("model FLOPs", rate, f"{note}; no MFU: {mfu.peak_source}")]
    peak = f"of {words.with_unit(mfu.peak_tflops, 'TFLOP/s')}, {mfu.peak_source}"
    lines = [Line("model FLOPs", rate, note), Line("MFU", words.percent(mfu.percent), peak)]
    if mfu.hfu_percent is not None:
        note = "by the FLOPs and the peak that tt-mlir reports of the compiled graphs"
        lines.append(Line("HFU", words.percent(mfu.hfu_percent), note))
    return lines


def is_inference(wall: WallClock | None) -> bool:
    """What is timed answers requests: latency and throughput are what people ask for."""
    return wall is not None and wall.label == "inference"


def shown_shape(shape: tuple[int, ...]) -> str:
    """``32 x 784``."""
    return " x ".join(str(size) for size in shape)


def _latencies(wall: WallClock) -> list[Line]:
    """Percentiles beyond the median, of inference; the first that the samples cannot tell, too."""
    lines: list[Line] = []
    if not is_inference(wall):
        return lines
    for percent, value in ((90, wall.p90_ms), (95, wall.p95_ms), (99, wall.p99_ms)):
        name = f"latency p{percent}"
        if not words.measured(value):
            note = f"takes {PERCENTILES[percent]} steady steps (--steps)"
            return [*lines, Line(name, words.NOT_MEASURED, note, "absent")]
        lines.append(Line(name, words.ms(value)))
    return lines


def _line(name: str, value: float | None, note: str = "") -> Line:
    if not words.measured(value):
        return Line(name, words.NOT_MEASURED, "", "absent")
    return Line(name, words.ms(value), note)


def step_figures(summary: Summary) -> Figures:
    """Wall clock and device time of one and the same step, and what follows from the two."""
    if summary.profiler == "wallclock":
        note = "the run had timers only"
        device = Line("device time", words.NOT_MEASURED, note, "absent")
        return Figures("Device", (device,))
    lines = [
        _line("wall clock", summary.step_wall_clock_ms, _of_which(summary)),
        _device_time(summary),
        *_self_time(summary),
        *(_overhead(summary) if summary.op_count is not None else ()),
        *_utilisation(summary),
        *_gaps(summary),
        *_host_layers(summary),
    ]
    if summary.step_wall_clock_ms is None:
        del lines[0]
    return Figures(_step_title(summary), tuple(lines))


def _of_which(summary: Summary) -> str:
    steps = () if summary.window is None else summary.window.steps
    return "of this step" if len(steps) < 2 else f"mean of the {len(steps)} steps"


def _step_title(summary: Summary) -> str:
    window = summary.window
    if window is None:
        return "Profiled step" if summary.profiler == "torch" else "Step"
    name = window.step or words.shared_start(window.steps) or "Ops"
    return f"{name}: {window.how}"


def _device_time(summary: Summary) -> Line:
    if not words.measured(summary.device_time_ms):
        note = "torch on the CPU has no device" if _torch_cpu(summary) else "no op was timed"
        return Line("device time", words.NOT_MEASURED, note, "absent")
    note = summary.device_time_source or "source unknown"
    firmware = None if summary.device_time is None else summary.device_time.firmware_ms
    if words.measured(firmware):
        note += f"; by firmware {words.ms(firmware)}"
    if summary.devices is not None:
        note += f"; the slowest of {len(summary.devices.rows)} devices, op by op"
    return Line("device time", words.ms(summary.device_time_ms), note)


def _torch_cpu(summary: Summary) -> bool:
    return summary.profiler == "torch" and summary.device_time_ms is None


def _self_time(summary: Summary) -> list[Line]:
    if not _torch_cpu(summary) or not words.measured(summary.op_self_time_ms):
        return []
    note = "all threads together, under the profiler; no device time"
    return [Line("op self time", words.ms(summary.op_self_time_ms), note)]


def _overhead(summary: Summary) -> list[Line]:
    overhead = summary.overhead_percent
    ops = Line("ops", words.count(summary.op_count), _host_ops(summary))
    if _torch_cpu(summary):
        return [ops]
    if words.measured(overhead):
        tone: Tone = "bad" if summary.host_bound else "plain"
        note = f"(wall - device) / wall; host-bound above {HOST_BOUND_PERCENT:.0f} %"
        first = Line("overhead", words.percent(overhead), note, tone)
    else:
        first = Line("overhead", words.NOT_MEASURED, _why_no_overhead(summary), "absent")
    dispatch = _line("dispatch per op", summary.dispatch_ms_per_op, "(wall - device) / ops")
    return [first, dispatch, ops]


def _why_no_overhead(summary: Summary) -> str:
    if not words.measured(summary.device_time_ms):
        return "needs a device time"
    if summary.step_wall_clock_ms is not None:
        return "the device worked longer than the step took"
    return "needs the wall clock of the same step"


def _host_ops(summary: Summary) -> str:
    hosts = summary.host_op_count
    return f"of them {hosts:,} on the host" if hosts else ""


def _utilisation(summary: Summary) -> list[Line]:
    device, matmul, dram = summary.device_time, summary.matmul_flops_percent, summary.dram_percent
    span_ms, busy = (device.span_ms, device.busy_percent) if device else (None, None)
    span = words.readable_us(None if span_ms is None else span_ms * 1000)
    matmuls = "of the peak of the cores used, weighted by device time"
    found: tuple[tuple[str, float | None, str, Tone], ...] = (
        ("device busy", busy, f"of the {span} from its first op to its last", "plain"),
        ("matmul FLOPs", matmul, matmuls, _tone(matmul)),
        ("DRAM", dram, "of the peak, over the whole device time", _tone(dram)),
        ("program cache", summary.program_cache_hit_percent, "of the ops hit it", "plain"),
    )
    return [
        Line(name, words.percent(value), note, tone)
        for name, value, note, tone in found
        if words.measured(value)
    ]


def _tone(value: float | None) -> Tone:
    """Good from the share at which an op counts as bound by it, else room; bad beyond a peak."""
    if value is None or value < GOOD_PERCENT:
        return "room"
    return "bad" if value > MOST_PERCENT else "good"


def _gaps(summary: Summary) -> list[Line]:
    gaps = summary.gaps
    if gaps is None:
        return []
    median = words.readable_us(gaps.median_us)
    long = (gaps.median_us or 0.0) > GAP_THRESHOLD_US
    note = f"median; none of {gaps.count:,} above {GAP_THRESHOLD_US} us"
    if gaps.over_threshold_count:
        note = (
            f"median; {gaps.over_threshold_count:,} of {gaps.count:,} above {GAP_THRESHOLD_US} us, "
            f"{words.readable_us(gaps.over_threshold_us)} together"
        )
    if gaps.pause_us:
        pauses = words.plural(gaps.pause_count, "pause") if gaps.pause_count else "pauses"
        together = words.readable_us(gaps.pause_us)
        note += f" ({pauses} above {PAUSE_US / 1000:.0f} ms: {together})"
    return [Line("op-to-op gap", median, note, "bad" if long else "plain")]


def _host_layers(summary: Summary) -> list[Line]:
    """What tt-crank did on the host, by its own zones."""
    lines: list[Line] = []
    for layer in summary.host_layers:
        times = f"{layer.count:,.4g} x" if layer.count != 1 else "once"
        note = f"of the host, in tt-crank, {times}: {', '.join(layer.zones)}"
        lines.append(Line(f"host {layer.name}", words.ms(layer.time_ms), note))
    return lines


def warnings(summary: Summary, *, notes: bool = True) -> tuple[Caveat, ...]:
    """What stands in the way of trusting the figures, the worst first."""
    found: list[Caveat] = []
    if summary.interrupted:
        text = "the run was interrupted: the figures are of what came before"
        found.append(Caveat("interrupted", text, "wrong"))
    if summary.script_exit_code:
        text = f"the script ended with exit code {summary.script_exit_code}"
        found.append(Caveat("exit-code", text, "wrong"))
    return by_weight((*found, *summary.warnings), notes=notes)
