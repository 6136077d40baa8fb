"""timings.jsonl to wall-clock statistics: per label, never pooled.

The record is written a line at a time and flushed, so that a killed run keeps what it measured;
hence a last line that is cut short is expected, and any other unreadable line is reported.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from instrumentor_analysis.clock.drift import drift
from instrumentor_analysis.clock.flops import ModelFacts
from instrumentor_analysis.clock.intervals import median_interval
from instrumentor_analysis.clock.iterations import MOST_MS, Taken, iteration
from instrumentor_analysis.clock.memory import memory
from instrumentor_analysis.clock.modules import Called
from instrumentor_analysis.clock.neighbours import Beside
from instrumentor_analysis.clock.phases import Extra
from instrumentor_analysis.clock.populations import Kind, populations, typical_ms
from instrumentor_analysis.clock.programs import Told
from instrumentor_analysis.clock.ranks import late, ranks
from instrumentor_analysis.clock.throughput import PERCENTILES, common_shape, percentile, rate
from instrumentor_analysis.clock.what_if import Again
from instrumentor_analysis.model import (
    Barrier,
    Compilation,
    Memory,
    Outlier,
    Population,
    Ranks,
    Sample,
    WallClock,
)
from instrumentor_analysis.shared.caveats import Caveat, few, recorded
from instrumentor_analysis.shared.documents import fitted, number, parsed
from instrumentor_analysis.shared.files import LIMIT_LINES, Unfit, read_text

#: A steady sample is an outlier when it is both this many medians...
OUTLIER_TIMES_MEDIAN = 1.5
#: ...and this many scaled median absolute deviations above its label's median.
OUTLIER_DEVIATIONS = 6.0
#: Scales a median absolute deviation to the standard deviation of a normal distribution.
MAD_TO_SIGMA = 1.4826
#: Number of samples above which a single one no longer moves their median.
MANY = 200

Event = Mapping[str, Any]


class Timings(Struct, frozen=True):
    """What one record file says.

    Attributes:
        samples: of the main process, in file order.
        profiled: the extra step under a profiler; never a wall-clock sample.
        cancelled: names of steps that were left by ``continue`` or ``break``.
        warnings: what the recorder warned of, and what was wrong with the file itself.
        barrier: how the device was waited for; None where nothing can be pending.
        model: what is known of the model; None where it was not looked at.
        iterations: what lies between the starts of two samples.
        memory: peaks; None where none was read.
        extra: iterations with a barrier at each border of a phase.
        ranks: processes that train together; None of a process alone.
        called: extra steps whose modules were followed.
        told: extra steps whose programs ttnn told.
        again: extra iterations with the batch of the one before.
        beside: what other processes did during the extra steps of each kind.
        why: what ended the samples: `asked for`, `precise`, `most` of one run, `budget`, `busy`;
            empty where the script ended before, or an old record does not say.
    """

    samples: tuple[Sample, ...] = ()
    profiled: tuple[Sample, ...] = ()
    cancelled: tuple[str, ...] = ()
    warnings: tuple[Caveat, ...] = ()
    barrier: Barrier | None = None
    model: ModelFacts | None = None
    iterations: tuple[Taken, ...] = ()
    memory: Memory | None = None
    extra: tuple[Extra, ...] = ()
    ranks: Ranks | None = None
    called: tuple[Called, ...] = ()
    told: tuple[Told, ...] = ()
    again: tuple[Again, ...] = ()
    beside: tuple[Beside, ...] = ()
    why: str = ""

    def labels(self) -> tuple[str, ...]:
        """The labels in order of first appearance."""
        return tuple(dict.fromkeys(sample.label for sample in self.samples))


def read_timings(path: Path, batch_dim: int = 0, *, ended: bool = True) -> Timings:
    """Read a record file; an absent file is an empty record.

    Args:
        batch_dim: axis of a batch along which its samples lie.
        ended: the script came to its own end: only then samples of the warm-up stand in for steady
            ones that it was too short for.

    Records of several processes are kept apart: the process with most samples counts, the
    others are reported; of ranks that train together the first one. Never raises for what stands
    on a line.

    Raises:
        Unfit: it is no file, or larger than any record.
    """
    if not path.is_file():
        return Timings()
    text = read_text(path, "replace")
    if text.count("\n") > LIMIT_LINES:
        raise Unfit(path, f"has more than {LIMIT_LINES:,} lines")
    # split, not splitlines: the last entry is what follows the last newline, a record cut short.
    lines = text.split("\n")
    events: list[Event] = []
    warnings: list[Caveat] = []
    for at, line in enumerate(lines, start=1):
        event = _event(line)
        if event is not None:
            events.append(event)
        elif line.strip():
            text = f"{path.name}, line {at}, is not a record and was left out."
            if at == len(lines):
                text = f"{path.name} ends within a record: the run was cut short there."
            warnings.append(Caveat("damaged-record", text))
    if not ended:
        events = [each for each in events if each["event"] != "steady"]
    return _timings(events, [*few(warnings)], batch_dim)


def _event(line: str) -> Event | None:
    try:
        event = parsed(line)
    except ValueError:
        return None
    sound = isinstance(event, dict) and isinstance(event.get("event"), str)
    return event if sound and isinstance(event.get("pid", 0), int) else None


def _timings(events: Sequence[Event], warnings: list[Caveat], batch_dim: int) -> Timings:
    mine, others = _of_main_process(events)
    warnings += [*others, *few(recorded(e) for e in mine if e["event"] == "warning")]
    unusable: list[Caveat] = []
    found: dict[str, list[Sample]] = {"profiled": [], "sample": []}
    for kind, samples in found.items():
        for event in mine:
            if event["event"] == kind:
                sample = _sample(event, len(samples), batch_dim)
                if sample is not None:
                    samples.append(sample)
                else:
                    text = f"A record without a usable time was left out: {dict(event)}"
                    unusable.append(Caveat("damaged-record", text))
    warnings += few(unusable)
    # That a step compiled may be recorded after its sample, so the kinds are settled only here.
    settled = {str(e.get("name")): "compile" for e in events if e["event"] == "compiled"}
    # Of a script that ended early, those of the warm-up have to do.
    told = (e.get("names") for e in mine if e["event"] == "steady")
    settled |= {str(n): "steady" for names in told if isinstance(names, list) for n in names}
    barrier = _barrier(mine)
    taken = tuple(
        replace(sample, kind=settled.get(sample.name, sample.kind)) for sample in found["sample"]
    )
    together = ranks(events, (each.name for each in taken if each.kind == "steady"))
    warnings += late(together)
    warnings += _waiting(mine, barrier)
    return Timings(
        samples=taken,
        profiled=tuple(found["profiled"]),
        cancelled=tuple(str(e.get("name")) for e in events if e["event"] == "cancelled"),
        warnings=tuple(dict.fromkeys(warnings)),
        barrier=barrier,
        model=_model(mine, taken, batch_dim),
        iterations=tuple(fitted(e, Taken) for e in mine if e["event"] == "iteration"),
        memory=memory(mine, taken),
        extra=tuple(fitted(e, Extra) for e in mine if e["event"] == "phases"),
        ranks=together,
        called=tuple(fitted(e, Called) for e in mine if e["event"] == "modules"),
        told=tuple(fitted(e, Told) for e in mine if e["event"] == "programs"),
        again=tuple(fitted(e, Again) for e in mine if e["event"] == "same_batch"),
        beside=tuple(fitted(e, Beside) for e in mine if e["event"] == "beside"),
        why=next((str(e.get("why") or "") for e in mine if e["event"] == "complete"), ""),
    )


def _of_main_process(events: Sequence[Event]) -> tuple[Sequence[Event], list[Caveat]]:
    """Events of the process with most samples, and that there are others."""
    events = [each for each in events if each.get("rank") in (None, 0)]
    taken = (e for e in events if e["event"] == "sample" and _sample(e, 0, 0) is not None)
    counts = Counter(e.get("pid") for e in taken)
    if not counts:
        return events, []
    main = counts.most_common(1)[0][0]
    mine = [e for e in events if e.get("pid", main) == main]
    if len(counts) == 1:
        return mine, []
    text = (
        f"{len(counts)} processes recorded samples. Those of process {main} are used, "
        f"{counts.total() - counts[main]} of the others are left out."
    )
    return mine, [Caveat("several-processes", text)]


def _sample(event: Event, position: int, batch_dim: int) -> Sample | None:
    """The sample of an event; None without a time."""
    usual = {"name": f"step_{position}", "label": "step", "index": position}
    usual["kind"] = "profiled" if event["event"] == "profiled" else "steady"
    sample = fitted(event, Sample, **usual)
    if not abs(sample.ms) <= MOST_MS:  # nor is NaN
        return None
    if event.get("batch_returned") and sample.batch_shape is not None:
        # Only the axis of the samples is that of what went in.
        rows = sample.batch_shape[batch_dim or 0 : (batch_dim or 0) + 1]
        sample = replace(sample, batch_shape=rows or None)
    return replace(sample, samples=_along(event, batch_dim)) if batch_dim else sample


def _along(event: Event, batch_dim: int) -> int | None:
    """Samples in all micro-batches; the recorder itself counts along the first axis."""
    shapes: list[list[int]] = event.get("batch_shapes") or [event.get("batch_shape")]
    try:
        return sum(shape[batch_dim] for shape in shapes)
    except (TypeError, IndexError):
        return None


def _model(events: Sequence[Event], taken: Sequence[Sample], batch_dim: int) -> ModelFacts | None:
    """What is known of the model, its FLOPs counted in as many samples as lie along the axis."""
    found = next((fitted(e, ModelFacts) for e in events if e["event"] == "model"), None)
    if found is None or not batch_dim or found.counted_samples is None:
        return found
    return replace(found, counted_samples=taken[0].samples if taken else None)


def _barrier(events: Sequence[Event]) -> Barrier | None:
    """The barrier of the last sample and what checks found; None where nothing can be pending."""
    waited = [e for e in events if e["event"] == "sample" and e.get("barrier")]
    if not waited:
        return None
    device, method = str(waited[-1].get("device")), str(waited[-1]["barrier"])
    passed: Event = {}
    given_up: dict[str, float] = {}
    for each in events:
        if each["event"] != "barrier" or each.get("device") != device:
            continue
        used = str(each.get("method"))
        if each.get("idle") is True and used == method:
            passed = each
        elif each.get("idle") is False and used != method:
            given_up[used] = max(number(each.get("left_ms")) or 0.0, given_up.get(used, 0.0))
    return Barrier(
        device=device,
        method=method,
        left_ms=number(passed.get("left_ms")),
        tensors_read=int(number(passed.get("reads")) or 0),
        cost_ms=number(passed.get("cost_ms")),
        given_up=given_up,
    )


def _waiting(events: Sequence[Event], barrier: Barrier | None) -> Iterator[Caveat]:
    """Warnings: steps that are no samples, and barriers that nothing has confirmed."""
    refused = [e for e in events if e["event"] == "refused"]
    if refused:
        steps = "1 step was not counted as a sample"
        if len(refused) > 1:
            steps = f"{len(refused)} steps were not counted as samples"
        hint = "Return the loss from the step as a tensor, or use the model in the loop itself."
        yield Caveat("not-waited-for", f"{steps}: {refused[-1].get('reason')}. {hint}")
    if barrier is not None and barrier.left_ms is None:
        text = (
            f"The barrier is not confirmed: {barrier.method} may leave work pending on the device "
            f"{barrier.device}, because no tensor of the step was found that could be read."
        )
        yield Caveat("barrier-unconfirmed", text)


def main_label(timings: Timings) -> str | None:
    """The label whose statistics stand in the summary: most steady samples, then first seen."""
    steady = Counter(s.label for s in timings.samples if s.kind == "steady")
    # max() keeps the first of equals.
    return max(timings.labels(), key=lambda label: steady[label], default=None)


def wall_clock(
    timings: Timings, label: str, *, accumulates: bool = False, fetches: bool = True
) -> WallClock:
    """Statistics of one label; see :class:`.model.WallClock` for the figures.

    Args:
        accumulates, fetches: see :func:`.iterations.iteration`.
    """
    by_kind: dict[str, list[Sample]] = {"compile": [], "warmup": [], "steady": []}
    for sample in timings.samples:
        if sample.label == label:
            by_kind.setdefault(sample.kind, []).append(sample)
    compiled, steady = by_kind["compile"], by_kind["steady"]
    wall = WallClock(
        label=label,
        samples=len(steady),
        compile_ms=compiled[0].ms if compiled else None,
        warmup_ms=tuple(s.ms for s in by_kind["warmup"]),
        compilations=tuple(Compilation(s.name, s.ms) for s in compiled[1:]),
    )
    if not steady:
        return wall
    values = [s.ms for s in steady]
    kinds = populations([Kind(s.nodes) for s in steady], values, [s.batch_shape for s in steady])
    slow = outliers(steady, kinds)
    left_out = {o.name for o in slow}
    line = drift([s.ms for s in _alike(steady, kinds) if s.name not in left_out])
    interval = None if kinds else median_interval(values)
    whole = iteration(steady, timings.iterations, accumulates=accumulates, fetches=fetches)
    return replace(
        wall,
        mean_ms=statistics.fmean(values),
        median_ms=statistics.median(values),
        min_ms=min(values),
        max_ms=max(values),
        stdev_ms=statistics.stdev(values) if len(values) > 1 else None,
        cpu_ms=_cpu_ms(steady, kinds),
        median_interval_ms=interval if line is None else line.widen(interval),
        outliers=slow,
        trend_percent=None if line is None else line.percent,
        drifts=line is not None and line.sure,
        samples_ms=tuple(values),
        **{f"p{percent}_ms": percentile(values, percent) for percent in PERCENTILES},
        samples_per_s=rate([s.samples for s in steady], typical_ms(kinds, values)),
        tokens_per_s=rate([s.tokens for s in steady], typical_ms(kinds, values)),
        batch_shape=common_shape(steady),
        iteration=whole,
        populations=kinds,
    )


def _cpu_ms(steady: Sequence[Sample], kinds: Sequence[Population]) -> float | None:
    """The median; of several kinds the mean of their medians, weighted by how often they come.

    None where a sample does not tell, or a clock has no digit for most of them.
    """
    known = [s.cpu_ms for s in steady if s.cpu_ms is not None]
    if len(known) < len(steady):
        return None
    own = [[known[at] for at in kind.steps] for kind in kinds] or [known]
    return sum(statistics.median(each) * len(each) for each in own) / sum(map(len, own)) or None


def _alike(steady: Sequence[Sample], kinds: Sequence[Population]) -> Sequence[Sample]:
    """The samples of one kind: of several the most frequent."""
    return [steady[at] for at in kinds[0].steps] if kinds else steady


def unfit_steps(timings: Timings) -> dict[str, str]:
    """Steps that do not stand for the steady ones of the main label, and why, by name.

    A trace knows a step by its name alone; the record knows what was timed and how long it took.
    """
    label = main_label(timings)
    steady = [s for s in timings.samples if s.label == label and s.kind == "steady"]
    kinds = populations([Kind(s.nodes) for s in steady], [s.ms for s in steady])
    slow = {outlier.name: outlier for outlier in outliers(steady, kinds)}
    fit: set[str] = set()
    unfit: dict[str, str] = {}
    for sample in timings.samples:
        if sample.label != label:
            unfit[sample.name] = f"a sample of {sample.label}"
        elif sample.kind != "steady":
            unfit[sample.name] = f"a {sample.kind} step"
        elif sample.name in slow:
            times = slow[sample.name].times_median
            unfit[sample.name] = f"an outlier, {times:.1f} times the median of the others"
        else:
            fit.add(sample.name)
    return {name: why for name, why in unfit.items() if name not in fit}


def outliers(steady: Sequence[Sample], kinds: Sequence[Population] = ()) -> tuple[Outlier, ...]:
    """Steady samples far above the rest of their kind: a recompilation, or a pause.

    Each sample is held against the *other* ones of its label, so that one slow step among
    three is seen although it moves their common median. Of many samples one cannot. More than
    a quarter of the samples (and more than one) are no exception: that is how the steps are.
    """
    if kinds:
        return tuple(o for kind in kinds for o in outliers([steady[at] for at in kind.steps]))
    everything = [s.ms for s in steady]
    many = len(everything) > MANY
    common = _limit(everything) if many else None
    found: list[Outlier] = []
    for position, sample in enumerate(steady):
        others = everything[:position] + everything[position + 1 :] if not many else []
        limit = common if many else _limit(others)
        if limit is not None and sample.ms > limit[1]:
            found.append(Outlier(sample.name, sample.ms, sample.ms / limit[0]))
    return tuple(found) if len(found) <= max(1, len(steady) // 4) else ()


def _limit(values: Sequence[float]) -> tuple[float, float] | None:
    """Median, and what counts as far above it; None below two values or without a time."""
    if len(values) < 2:
        return None
    middle = statistics.median(values)
    spread = MAD_TO_SIGMA * statistics.median(abs(ms - middle) for ms in values)
    limit = max(OUTLIER_TIMES_MEDIAN * middle, middle + OUTLIER_DEVIATIONS * spread)
    return (middle, limit) if middle > 0 else None
