"""The report that ends a run: about twelve lines, the verdict first; the rest is on the page."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from instrumentor_analysis.clock.memory import peak_of
from instrumentor_analysis.clock.neighbours import is_busy
from instrumentor_analysis.model import Summary, WallClock
from instrumentor_analysis.reports import formatting, headline, terminal
from instrumentor_analysis.reports.document import Document, Figures, Line, Verdict
from instrumentor_analysis.reports.summary import one_conclusion, verdict_of
from instrumentor_analysis.summary.verdict import THE_DATA, threads_spin

#: Ops that are named, and the least share that one of them has, percent.
_MOST_OPS, _LEAST_OP_PERCENT = 4, 3.0
#: Warnings that are shown.
_MOST_WARNINGS = 3
#: Figures of a step on a device that decide what to do next.
_OF_DEVICE = ("device time", "overhead")


def console(summary: Summary, *, width: int = 80, color: bool = False) -> str:
    """The text; a figure that was not measured has no line."""
    every = headline.warnings(summary, notes=False)
    more = len(every) - _MOST_WARNINGS
    verdict = verdict_of(summary)
    document = Document(
        headline.title(summary),
        headline.subtitle(summary),
        verdict=None if verdict is None else _short(verdict),
        statements=headline.above_the_figures(summary),
        figures=(Figures("", tuple(_lines(summary))),),
        warnings=every[:_MOST_WARNINGS],
    )
    document = one_conclusion(document)
    text = terminal.render([document], width=width, color=color)
    return f"{text}{formatting.plural(more, 'more warning')} in the report\n" if more > 0 else text


def _short(verdict: Verdict) -> Verdict:
    """What it is and the first thing to try: its evidence is among the figures.

    Of a busy machine, which is to be quiet first, also the data that most of the run waited for.
    """
    shown = (*verdict.levers[:1], *(each for each in verdict.levers[1:] if each.what == THE_DATA))
    first = tuple(Line("next", f"{lever.what}: {lever.said}") for lever in shown)
    return replace(verdict, evidence=(), details=first, levers=())


def _lines(summary: Summary) -> Iterator[Line]:
    wall = summary.wall_clock
    if wall is not None:
        yield from _clock(wall, more=headline.more_steps(summary))
        if is_busy(summary.run.get("machine")):
            yield from headline.fastest(wall)
            yield from _cpu_time(summary, wall)
    for line in headline.step_figures(summary).lines:
        if line.name in _OF_DEVICE and line.tone != "absent":
            yield line
    if summary.ranks is not None and summary.ranks.samples_per_s is not None:
        rate = formatting.quantity(summary.ranks.samples_per_s, "samples/s")
        yield Line(
            "all ranks", rate, f"{summary.ranks.world} together; the other figures are rank 0's"
        )
    yield from _memory(summary)
    ops = _ops(summary)
    # Profiled steps on a busy machine tell which op was interrupted.
    busy = is_busy(summary.run.get("machine")) or summary.profiled_busy is not None
    if ops and not busy:
        yield Line("top ops", ops)


def _memory(summary: Summary) -> Iterator[Line]:
    found = summary.memory
    if found is None:
        return
    process = ", ".join(filter(None, ("of the process", peak_of(found, summary.profiler))))
    peaks = found.allocated_bytes, found.resident_bytes
    for peak, note in zip(peaks, ("on the GPU", process), strict=True):
        if peak is not None:
            yield Line("peak memory", formatting.size(peak), note)
    held, room = found.device_bytes, found.device_room_bytes
    if held is not None and found.allocated_bytes is None:
        of_all = "" if room is None else f" of {formatting.size(room)}"
        yield Line("device memory", formatting.size(held) + of_all, "at the end of a step")


def _clock(wall: WallClock, *, more: bool) -> Iterator[Line]:
    """The iteration and its parts, throughput, and the timed region with its interval.

    Args:
        more: more steps may be asked for.
    """
    found = {line.name: line for line in headline.wall_clock_figures_of(wall, more=more)}
    only = found.get(f"{wall.label} only")
    for name in ("update", "iteration", "micro-step"):
        if name in found:
            whole = found[name]
            yield replace(whole, value=f"{whole.value} {whole.note}", note="")
    tokens = found.get("tokens", found.get(f"{wall.label} tokens"))
    for line in (found.get("throughput", only), tokens):
        if line is not None:
            yield line
    median = found.get(headline.of_region(wall, "median"))
    if median is not None:
        yield _region(wall, median)
    elif "first step" in found:
        yield replace(found["first step"], note="no steady step was timed")


def _cpu_time(summary: Summary, wall: WallClock) -> Iterator[Line]:
    """What the steps cost, however long they waited for a CPU.

    Several threads may spin while one of them waits for its CPU, which is said where the ops do not
    account for it; of a host that waits for a device it tells nothing.
    """
    if wall.cpu_ms is None or summary.barrier is not None:
        return
    threads = summary.environment.get("torch_threads")
    a_step = f"{formatting.ms(wall.cpu_ms)} a {headline.step_word(wall)}"
    if threads == 1:
        yield Line("CPU time", a_step, f"in {wall.label}; waiting for a CPU is not in it")
    elif threads is not None:
        note = f"in {wall.label}, of all {threads} threads"
        if threads_spin(summary):
            note += ", which spin: try OMP_NUM_THREADS=1"
        yield Line("CPU time", a_step, note)


def _region(wall: WallClock, median: Line) -> Line:
    """The timed region, by the same statistic as the iteration: a part is never longer than it.

    Of an update it is that of all its micro-steps together.
    """
    steps = formatting.plural(wall.samples, headline.step_word(wall))
    mean = headline.region_in_iteration(wall)
    if mean is not None:
        return replace(mean, note=f"{mean.note}; of {steps}")
    interval = median.note.partition(";")[0]
    which = steps if wall.samples == 1 else f"median of {steps}"
    note = ", ".join(filter(None, (which, interval)))
    return replace(median, name=wall.label, note=note)


def _ops(summary: Summary) -> str:
    """``mm 38 %, addmm 24 %``: by device time, on the CPU by their own time."""
    shares = [(op.op, op.percent or 0.0) for op in summary.slow_ops]
    shown = [each for each in shares if each[1] >= _LEAST_OP_PERCENT][:_MOST_OPS]
    return ", ".join(f"{formatting.squeezed(name)} {percent:.0f} %" for name, percent in shown)
