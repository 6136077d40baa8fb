"""The device's half of a run: its steps, the chosen one, and the ops of it.

A file up to :data:`.ops_csv.WHOLE_FILE_BYTES` is parsed as a whole, so that every step has
its device time. Of a larger one only the chosen step is cut out; of the others it is only known
that they were there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from instrumentor_analysis.load.ops_csv import SIGNPOST, WHOLE_FILE_BYTES, Ops, load, load_hosts
from instrumentor_analysis.load.scan import Region, Scan, scan
from instrumentor_analysis.load.schema import DEVICE_CLOCK, SIMULATED
from instrumentor_analysis.load.simulator import source_of
from instrumentor_analysis.load.table import Table, any_known, concat, distinct, total
from instrumentor_analysis.model import Order, Spread, Window
from instrumentor_analysis.ops import window
from instrumentor_analysis.ops.merge import merge_devices, valid_duration_ns
from instrumentor_analysis.ops.per_op import per_op, with_totals
from instrumentor_analysis.ops.pooling import spread
from instrumentor_analysis.ops.roofline import Architecture, resolve
from instrumentor_analysis.ops.window import Named, StepChoice, StepMarks
from instrumentor_analysis.shared.caveats import Caveat, by_weight
from instrumentor_analysis.shared.errors import EmptyWindow, NoSuchStep
from instrumentor_analysis.shared.units import quantity

#: Steps lie in each other where one is a part of another: so deep at most, all in all.
MOST_DEEP = 16


class DeviceSteps(Struct, frozen=True):
    """The ops of the chosen window, and of every step its device figures.

    Attributes:
        parts: the raw rows of each step in the window, all devices; of a window that is no step,
            with its signposts.
        tables: figures per op of each part (:func:`.per_op.per_op`), devices merged.
        marks: all steps of the file.
        device_ms, op_counts: by position in ``marks``; absent where not parsed.
        spread: ops whose time varies most over the complete steady steps.
        warnings: what was odd or assumed.
    """

    window: Window
    parts: tuple[Table, ...]
    tables: tuple[Table, ...]
    architecture: Architecture
    marks: tuple[StepMarks, ...] = ()
    chosen: tuple[int, ...] = ()
    device_ms: dict[int, float] = field(default_factory=dict)
    op_counts: dict[int, int] = field(default_factory=dict)
    spread: tuple[Spread, ...] = ()
    warnings: tuple[Caveat, ...] = ()

    @property
    def pooled(self) -> int:
        """Number of steps in the window; 1 of a window that is no step."""
        return len(self.parts)

    @property
    def timed(self) -> bool:
        """Cycles are times: those of a simulator are not."""
        return self.architecture.name != SIMULATED

    @property
    def devices(self) -> int:
        """Number of devices in the window."""
        return len(distinct(concat(self.parts)["device_id"]))

    @property
    def rows(self) -> Table:
        """The raw rows of the window without signposts."""
        rows = concat(self.parts)
        posts = rows["op_type"].equals(SIGNPOST)
        return rows.take(~posts) if posts.any() else rows

    @property
    def ops(self) -> Table:
        """Figures per op of the window; of pooled steps one after the other."""
        return concat([without_signposts(table) for table in self.tables])


def without_signposts(ops: Table) -> Table:
    """The ops of a per-op frame alone."""
    posts = ops["is_signpost"]
    return with_totals(ops.take(~posts)) if posts.any() else ops


def read_steps(
    source: Path | Sequence[Path],
    step: StepChoice = None,
    arch: str | None = None,
    named: Named | None = None,
    unfit: Mapping[str, str] | None = None,
    logged: str | None = None,
) -> DeviceSteps:
    """Read an ops CSV (several: the hosts of one system) and choose the window.

    Args:
        step: number of a step; ``"all"`` pools the complete steady ones; None takes the last of
            those, or, in a file without our signposts, what tt-perf-report would take.
        named: another window than a step.
        unfit: steps that stand for no other, and why, by name
            (:func:`instrumentor_analysis.clock.timings.unfit_steps`): taken by number only.
        logged: the architecture that the device's log names; ``arch`` counts for more.

    Raises:
        AnalysisError: the file is damaged or foreign, or the window is empty.
    """
    named, unfit = named or Named(), unfit or {}
    sources = (source,) if isinstance(source, Path) else tuple(source)
    arch, told = source_of(sources, arch)
    files = Files.look(sources, named, timed=arch != SIMULATED)
    picked = [] if named.given else window.choose(files.marks, step, unfit)
    if picked:
        found = _by_steps(files, picked, step, arch or logged, unfit)
    else:
        found = _by_names(files, named, arch or logged)
    return replace(found, warnings=by_weight((*found.warnings, *told)))


def _untimed(ops: Ops) -> Ops:
    """The same rows without what a device's clock has said."""
    blank = np.full(len(ops.frame), np.nan)
    clocked = [name for name in DEVICE_CLOCK if name in ops.frame]
    return replace(ops, frame=ops.frame.assign(**dict.fromkeys(clocked, blank)))


@dataclass(frozen=True)
class Files:
    """Ops CSVs of one system.

    Attributes:
        sources: one file per host.
        marks: the steps.
        whole: every row; None of a large file, of which only a window is read.
        scanned: the signposts of a single large file.
        timed: cycles are times; those of a simulator are not, and are left out.
    """

    sources: tuple[Path, ...]
    marks: tuple[StepMarks, ...]
    whole: Ops | None
    scanned: Scan | None = None
    timed: bool = True

    @classmethod
    def look(cls, sources: tuple[Path, ...], named: Named, *, timed: bool = True) -> Files:
        """Find the steps; read everything unless a window can be cut out of a large file."""
        # The CSVs of several hosts are numbered through as one file, so they are read whole.
        large = len(sources) == 1 and sources[0].stat().st_size > WHOLE_FILE_BYTES
        if large and not named.ignore:
            scanned = scan(sources[0])
            if not scanned.quoted:
                return cls(sources, window.steps(scanned.signposts), None, scanned, timed)
        whole = load_hosts(sources) if timed else _untimed(load_hosts(sources))
        marks = window.steps(window.signposts_of(whole.frame))
        return cls(sources, window.over_hosts(marks, len(sources)), whole, None, timed)

    def _load(self, region: Region | None = None) -> Ops:
        """The rows of a single file, or of a part of it."""
        ops = load(self.sources[0], region, self.scanned)
        return ops if self.timed else _untimed(ops)

    @cached_property
    def everything(self) -> Ops:
        """All rows."""
        return self.whole or self._load()

    def part(self, mark: StepMarks) -> Ops:
        """The ops of one step, without signposts."""
        if self.whole is not None:
            return replace(self.whole, frame=window.between(self.whole.frame, mark))
        part = self._load(mark.region)
        return replace(part, frame=part.frame.take(~part.frame["op_type"].equals(SIGNPOST)))

    def between_names(self, named: Named) -> tuple[Ops, Table, str]:
        """What was read, its rows in a window by names, and in words which.

        Of a large file only the window is read where that gives the same rows. The one thing
        that the rest could change is the core budget of rows that report none: it is the
        largest one of the window then, not of the file.
        """
        region = None if self.scanned is None else named.region(self.scanned)
        if region is not None:
            ops = self._load(region)
            # An empty window is left to select(), whose error says what the whole file holds.
            if not ops.frame["op_type"].equals(SIGNPOST).all():
                return ops, named.ordered(ops.frame), f"ops {named.in_words}"
        return self.everything, *named.select(self.everything.frame)


def _by_steps(
    files: Files,
    picked: Sequence[int],
    step: StepChoice,
    arch: str | None,
    unfit: Mapping[str, str],
) -> DeviceSteps:
    marks, parts = files.marks, _parts(files, picked)
    chosen = parts[picked[-1]]
    # Of the whole file where it was read: rows without a core budget take its largest.
    architecture, notes = resolve(files.whole or chosen, arch)
    rows: dict[int, Table] = {}
    odd: list[Caveat] = []
    shown = set(picked)
    for at, part in parts.items():
        rows[at], unequal = merge_devices(part.frame)
        odd += unequal if at in shown else ()
    tables = [per_op(rows[at], architecture) for at in picked]
    in_order, disorder = _in_order(chosen.frame)
    warnings = [*_unusual(marks, picked, step, unfit), *_choice(files, picked, step), *notes]
    steady = [at for at in _steady(marks) if at in rows and marks[at].name not in unfit]
    return DeviceSteps(
        window=_window(marks, picked, step, "host-time" if in_order else "file"),
        parts=tuple(parts[at].frame for at in picked),
        tables=tuple(tables),
        architecture=architecture,
        marks=marks,
        chosen=tuple(picked),
        device_ms={at: total(valid_duration_ns(frame)) / 1e6 for at, frame in rows.items()},
        op_counts={at: len(frame) for at, frame in rows.items()},
        spread=spread([rows[at] for at in steady], rows[picked[-1]], tables[-1]),
        warnings=by_weight([*warnings, *chosen.warnings, *odd, *disorder]),
    )


def _parts(files: Files, picked: Sequence[int]) -> dict[int, Ops]:
    """The ops of the steps that were read, by their positions."""
    complete = [at for at, mark in enumerate(files.marks) if mark.complete]
    read = complete if files.whole else picked
    _refuse_deep([files.marks[at] for at in read])
    parts = {at: files.part(files.marks[at]) for at in read}
    for at in picked:
        if not len(parts[at].frame):
            raise EmptyWindow(
                f"step {files.marks[at].name} holds no ops; the trace has "
                f"{window.describe(files.marks)}",
                "Was the device used between its signposts? Choose another with --step.",
            )
    return parts


def _refuse_deep(marks: Sequence[StepMarks]) -> None:
    """Refuse steps that hold each row of the file many times over.

    Raises:
        NoSuchStep: they do.
    """
    parts = [part for mark in marks for part in (mark, *mark.elsewhere)]
    spans = [(part.start.line, part.end.line) for part in parts if part.end is not None]
    lines, last = sum(end - start for start, end in spans), max(end for _, end in spans)
    if lines > MOST_DEEP * last:
        raise NoSuchStep(
            f"the {len(marks):,} steps of the file lie in each other, more than {MOST_DEEP} deep",
            "Name a window with --start-signpost and --end-signpost.",
        )


def _steady(marks: Sequence[StepMarks]) -> list[int]:
    return [at for at, mark in enumerate(marks) if mark.steady and mark.complete]


def _window(
    marks: Sequence[StepMarks], picked: Sequence[int], step: StepChoice, order: Order
) -> Window:
    first, last = marks[picked[0]], marks[picked[-1]]
    how = f"{len(picked)} steady steps" if len(picked) > 1 else "the step asked for"
    if step is None:
        how = f"the last complete {'steady ' if last.steady else ''}step"
        if any(at > picked[-1] for at in _steady(marks)):
            # A later one was passed over: an outlier, or no steady step by the record.
            how = "the last typical steady step"
    return Window(
        start=first.start.name,
        end=None if last.end is None else last.end.name,
        step=last.name if len(picked) == 1 else None,
        how=how,
        steps=tuple(marks[at].name for at in picked),
        order=order,
    )


def _unusual(
    marks: Sequence[StepMarks], picked: Sequence[int], step: StepChoice, unfit: Mapping[str, str]
) -> list[Caveat]:
    """What is shown although it stands for no other step, and what is not shown for that."""
    numbered = isinstance(step, int)
    odd, chosen = [at for at in _steady(marks) if marks[at].name in unfit], set(picked)
    shown = [marks[at].name for at in odd if at in chosen]
    if shown or numbered:
        forced = "" if numbered else ": no other steady step is complete"
        texts = [f"{name}, which is shown, is {unfit[name]}{forced}." for name in shown]
        return [Caveat("unusual-step", text) for text in texts]
    first = -1 if step == "all" else picked[-1]
    passed = dict.fromkeys(marks[at].name for at in odd if at > first)
    text = "{} is not shown, because it is {}."
    return [Caveat("step-passed-over", text.format(name, unfit[name])) for name in passed]


def _choice(files: Files, picked: Sequence[int], step: StepChoice) -> list[Caveat]:
    """That what is shown is no steady step, or that nothing else was read."""
    found: list[Caveat] = []
    shown = files.marks[picked[0]]
    if step is None and not shown.steady:
        text = f"No steady step is complete. {shown.name} is shown, which also compiles "
        found.append(Caveat("no-steady-step", f"{text}and warms up."))
    if files.whole is None and len(files.marks) > len(picked):
        source = files.sources[0]
        read = "the chosen step was read" if len(picked) == 1 else "the chosen steps were read"
        text = (
            f"{source.name} is large ({quantity(source.stat().st_size, 'B')}), so only {read}. The "
            "other steps have no device time here."
        )
        found.append(Caveat("large-file", text))
    return found


def _in_order(frame: Table) -> tuple[bool, list[Caveat]]:
    """The rows stand in the order of their host times; where they do not, what that means."""
    times = frame["host_start_ns"]
    if any_known(frame["trace_replay_session"]):
        return False, []  # They bear the time of their capture.
    if (np.diff(times[~np.isnan(times)]) >= 0).all():
        return True, []
    text = (
        "Gaps and the busy share may be wrong: the rows of the step are not in the order of their "
        "host times and are taken in file order."
    )
    return False, [Caveat("file-order", text)]


def _by_names(files: Files, named: Named, arch: str | None) -> DeviceSteps:
    """A window between signposts; without names, as tt-perf-report reads the file, announced."""
    ops, rows, how = files.between_names(named)
    architecture, notes = resolve(ops, arch)
    merged, odd = merge_devices(rows)
    announced = (
        () if named.given else (Caveat("no-steps", f"There are no step signposts; shown: {how}."),)
    )
    order: Order = "file" if named.file_order else "host-time"
    return DeviceSteps(
        window=Window(start=named.start, end=named.end, step=None, how=how, order=order),
        parts=(rows,),
        tables=(per_op(merged, architecture),),
        architecture=architecture,
        marks=files.marks,
        warnings=by_weight((*ops.warnings, *odd, *notes, *announced)),
    )
