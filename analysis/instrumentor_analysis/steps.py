"""The device's half of a run: its steps, the chosen one, and the ops of it.

A file up to :data:`.load.WHOLE_FILE_BYTES` is parsed as a whole, so that every step has
its device time. Of a larger one only the chosen step is cut out; of the others it is only known
that they were there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from instrumentor_analysis import window
from instrumentor_analysis.caveats import Caveat, by_weight
from instrumentor_analysis.device import per_op, with_totals
from instrumentor_analysis.errors import EmptyWindow, NoSuchStep
from instrumentor_analysis.load import SIGNPOST, WHOLE_FILE_BYTES, Region, load, load_hosts
from instrumentor_analysis.merge import merge_devices, valid_duration_ns
from instrumentor_analysis.model import Spread, Window
from instrumentor_analysis.ops import Ops
from instrumentor_analysis.roofline import Architecture, resolve
from instrumentor_analysis.scan import Scan, scan
from instrumentor_analysis.table import Groups, Positions, Table, any_known, concat, distinct, total
from instrumentor_analysis.window import Named, StepMarks

StepChoice = int | Literal["all"] | None


class DeviceSteps(Struct, frozen=True):
    """The ops of the chosen window, and of every step its device figures.

    Attributes:
        parts: the raw rows of each step in the window, all devices; of a window that is no step,
            with its signposts.
        tables: figures per op of each part (:func:`.device.per_op`), devices merged.
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
) -> DeviceSteps:
    """Read an ops CSV (several: the hosts of one system) and choose the window.

    Args:
        step: number of a step; ``"all"`` pools the complete steady ones; None takes the last of
            those, or, in a file without our signposts, what tt-perf-report would take.
        named: another window than a step.
        unfit: steps that stand for no other, and why, by name
            (:func:`instrumentor_analysis.timings.unfit_steps`): taken by number only.

    Raises:
        AnalysisError: the file is damaged or foreign, or the window is empty.
    """
    files = Files.look((source,) if isinstance(source, Path) else tuple(source), named)
    if named is not None and named.given:
        return _by_names(files, named, arch)
    unfit = unfit or {}
    picked = files.pick(step, unfit)
    if not picked:
        return _by_names(files, named or Named(), arch)
    marks, whole = files.marks, files.whole
    shown = [marks[at] for at in picked]
    warnings = [*_unfit_in_words(shown, marks, step, unfit), *_only(files, shown, step)]
    parts: dict[int, Ops] = {}
    for at, mark in enumerate(marks):
        if mark.complete and (whole is not None or at in picked):
            parts[at] = files.chosen(mark) if at in picked else files.part(mark)
    return _assemble(files, parts, picked, arch, warnings, step, unfit)


def _only(files: Files, shown: Sequence[StepMarks], step: StepChoice) -> list[Caveat]:
    """That what is shown is no steady step, or that nothing else was read."""
    found: list[Caveat] = []
    if step is None and not shown[0].steady:
        text = f"no steady step is complete; {shown[0].name} is shown, which also compiles "
        found.append(Caveat("no-steady-step", f"{text}and warms up", "wrong"))
    if files.whole is None and len(files.marks) > len(shown):
        source = files.sources[0]
        read = "the chosen step was read" if len(shown) == 1 else "the chosen steps were read"
        text = (
            f"{source.name} is large ({source.stat().st_size >> 20} MB): only {read}; the other "
            "steps have no device time here"
        )
        found.append(Caveat("large-file", text))
    return found


def _unfit_in_words(
    shown: Sequence[StepMarks],
    marks: Sequence[StepMarks],
    step: StepChoice,
    unfit: Mapping[str, str],
) -> list[Caveat]:
    """What is shown although it stands for no other step, and what is not shown for that."""
    numbered = isinstance(step, int)
    forced = "" if numbered else ": no other steady step is complete"
    odd = [mark for mark in _steady(marks) if mark.name in unfit]
    names = [mark.name for mark in odd if mark in shown]
    if names or numbered:
        texts = [f"{name}, which is shown, is {unfit[name]}{forced}" for name in names]
        return [Caveat("unusual-step", text, "wrong") for text in texts]
    first = 0 if step == "all" else max(mark.start.line for mark in shown)
    passed = dict.fromkeys(mark.name for mark in odd if mark.start.line > first)
    return [Caveat("unusual-step", f"{name} is not shown: it is {unfit[name]}") for name in passed]


def _steady(marks: Sequence[StepMarks]) -> list[StepMarks]:
    return [mark for mark in marks if mark.steady and mark.complete]


@dataclass(frozen=True)
class Files:
    """Ops CSVs of one system.

    Attributes:
        sources: one file per host.
        marks: the steps.
        whole: every row; None of a large file, of which only a window is read.
        scanned: the signposts of a single large file.
    """

    sources: tuple[Path, ...]
    marks: tuple[StepMarks, ...]
    whole: Ops | None
    scanned: Scan | None

    @classmethod
    def look(cls, sources: tuple[Path, ...], named: Named | None = None) -> Files:
        """Find the steps; read everything unless a window can be cut out of a large file."""
        if len(sources) != 1:
            whole = load_hosts(sources)
            marks = window.steps(window.signposts_of(whole.frame))
            return cls(sources, window.over_hosts(marks, len(sources)), whole, None)
        everything = named is not None and named.ignore
        if not everything and sources[0].stat().st_size > WHOLE_FILE_BYTES:
            scanned = scan(sources[0])
            if not scanned.quoted:
                return cls(sources, window.steps(scanned.signposts), None, scanned)
        whole = load(sources[0])
        return cls(sources, window.steps(window.signposts_of(whole.frame)), whole, None)

    @cached_property
    def everything(self) -> Ops:
        """All rows."""
        return self.whole or load(self.sources[0], scanned=self.scanned)

    def between_names(
        self, named: Named, *, keep_signposts: bool = False
    ) -> tuple[Ops, Table, str]:
        """What was read, its rows in a window by names, and in words which.

        Of a large file only the window is read where that gives the same rows. The one thing
        that the rest could change is the core budget of rows that report none: it is the
        largest one of the window then, not of the file.
        """
        region = self._cut(named)
        if region is not None:
            ops = load(self.sources[0], region, self.scanned)
            rows = ops.frame if named.file_order else window.by_host_time(ops.frame)
            posts = rows["op_type"].equals(SIGNPOST)
            if not posts.all():
                how = f"ops after {named.start!r}, before {named.end!r}"
                return ops, rows if keep_signposts else rows.take(~posts), how
        ops = self.everything
        rows, how = named.rows(ops.frame, keep_signposts=keep_signposts)
        window.require_ops(rows, ops.frame, how)
        return ops, rows, how

    def _cut(self, named: Named) -> Region | None:
        """The bytes between two named signposts; None where the whole file has to be read.

        That is a small file, several files, a quote in the file, a border that is missing, or
        borders the wrong way round.
        """
        start, end, scanned = named.start, named.end, self.scanned
        if self.whole is not None or scanned is None or named.ignore:
            return None
        if not start or not end or start == end or not window.ordered_by_host(scanned):
            return None
        first = next((p for p in scanned.signposts if p.name == start), None)
        last = next((p for p in scanned.signposts if p.name == end), None)
        if first is None or last is None or last.line <= first.line:
            return None
        return Region(first.end, last.start, first.line + 1)

    def pick(self, step: StepChoice, unfit: Collection[str] = ()) -> list[int]:
        """Positions of the steps asked for; empty when the files have none of ours."""
        if step == "all":
            steady = [i for i, mark in enumerate(self.marks) if mark.steady and mark.complete]
            picked = [i for i in steady if self.marks[i].name not in unfit] or steady
            if not picked:
                raise NoSuchStep(
                    f"no steady step is complete; the trace has {window.describe(self.marks)}"
                )
            return picked
        mark = window.choose(self.marks, step, unfit)
        return [] if mark is None else [self.marks.index(mark)]

    def part(self, mark: StepMarks) -> Ops:
        """The ops of one step, without signposts."""
        if self.whole is not None:
            return replace(self.whole, frame=window.between(self.whole.frame, mark))
        part = load(self.sources[0], mark.region, self.scanned)
        return replace(part, frame=part.frame.take(~part.frame["op_type"].equals(SIGNPOST)))

    def chosen(self, mark: StepMarks) -> Ops:
        """The ops of a step that is to be shown.

        Raises:
            EmptyWindow: it holds none.
        """
        part = self.part(mark)
        if not len(part.frame):
            raise EmptyWindow(
                f"step {mark.name} holds no ops; the trace has {window.describe(self.marks)}",
                "Was the device used between its signposts? Choose another with --step.",
            )
        return part


def _assemble(
    files: Files,
    parts: dict[int, Ops],
    picked: Sequence[int],
    arch: str | None,
    warnings: list[Caveat],
    step: StepChoice,
    unfit: Collection[str],
) -> DeviceSteps:
    marks, chosen = files.marks, parts[picked[-1]]
    architecture, notes = resolve(files.whole or chosen, arch)
    warnings += [*notes, *chosen.warnings]
    merged: dict[int, Table] = {}
    for at, part in parts.items():
        merged[at], odd = merge_devices(part.frame)
        if at in picked:
            warnings += odd
    tables = [per_op(merged[at], architecture) for at in picked]
    in_order, odd_order = _in_order(chosen.frame)
    steady = [at for at in merged if marks[at].steady and marks[at].name not in unfit]
    return DeviceSteps(
        window=_window(marks, picked, step, in_order=in_order),
        parts=tuple(parts[at].frame for at in picked),
        tables=tuple(tables),
        architecture=architecture,
        marks=marks,
        chosen=tuple(picked),
        device_ms={at: total(valid_duration_ns(frame)) / 1e6 for at, frame in merged.items()},
        op_counts={at: len(frame) for at, frame in merged.items()},
        spread=spread([merged[at] for at in steady], merged[picked[-1]], tables[-1]),
        warnings=by_weight([*warnings, *odd_order]),
    )


def _in_order(frame: Table) -> tuple[bool, list[Caveat]]:
    """The rows stand in the order of their host times; where they do not, what that means."""
    times = frame["host_start_ns"]
    if any_known(frame["trace_replay_session"]):
        return False, []  # They bear the time of their capture.
    if (np.diff(times[~np.isnan(times)]) >= 0).all():
        return True, []
    text = (
        "the rows of the step are not in the order of their host times; they are taken in file "
        "order, so gaps and the busy share may be wrong"
    )
    return False, [Caveat("file-order", text, "wrong")]


def _window(
    marks: Sequence[StepMarks], picked: Sequence[int], step: StepChoice, *, in_order: bool
) -> Window:
    last = marks[picked[-1]]
    how = f"{len(picked)} steady steps" if len(picked) > 1 else "the step asked for"
    if step is None:
        how = f"the last complete {'steady ' if last.steady else ''}step"
        if _steady(marks[picked[-1] + 1 :]):
            how = "the last typical steady step"
    return Window(
        start=marks[picked[0]].start.name,
        end=None if last.end is None else last.end.name,
        step=last.name if len(picked) == 1 else None,
        how=how,
        steps=tuple(marks[at].name for at in picked),
        order="host-time" if in_order else "file",
    )


def _by_names(files: Files, named: Named, arch: str | None) -> DeviceSteps:
    """A window between signposts; without names, as tt-perf-report reads the file, announced."""
    ops, rows, how = files.between_names(named, keep_signposts=True)
    architecture, notes = resolve(ops, arch)
    merged, odd = merge_devices(rows)
    announced = () if named.given else (Caveat("no-steps", f"no step signposts; used: {how}"),)
    return DeviceSteps(
        window=Window(
            start=named.start,
            end=named.end,
            step=None,
            how=how,
            order="file" if named.file_order else "host-time",
        ),
        parts=(rows,),
        tables=(per_op(merged, architecture),),
        architecture=architecture,
        marks=files.marks,
        warnings=by_weight((*ops.warnings, *odd, *notes, *announced)),
    )


def spread(steps: Sequence[Table], shown: Table, ops: Table, most: int = 10) -> tuple[Spread, ...]:
    """The ops that vary most over several steps: the n-th call of a name is one op.

    Args:
        steps: merged rows per step.
        shown: those of the step that is shown, and ``ops`` their figures: an op bears its name
            with shape and its ID there.
        most: how many are returned, by standard deviation.
    """
    if len(steps) < 2:
        return ()
    nth = np.concatenate([_calls(frame) for frame in steps])
    position = np.concatenate([np.arange(len(frame)) for frame in steps])
    every = concat([Table({"op": f["op_code"], "ns": valid_duration_ns(f)}) for f in steps])
    known = ~np.isnan(every["ns"])
    op, us = every["op"][known], every["ns"][known] / 1000
    calls = Groups(op, nth[known])
    stdevs, means = calls.stdevs(us), calls.means(us)
    varied = np.flatnonzero(~np.isnan(stdevs))
    varied = varied[np.argsort(-stdevs[varied], kind="stable")][:most]
    names = op[calls.first].tolist()
    firsts = nth[known][calls.first].tolist()
    shown_calls = zip(shown["op_code"], _calls(shown).tolist(), strict=True)
    here = {call: at for at, call in enumerate(shown_calls)}
    found: list[Spread] = []
    labels, ids = ops["op"].tolist(), ops["id"].tolist()
    for call in varied.tolist():
        at = here.get((names[call], firsts[call]))
        found.append(
            Spread(
                position=int(position[known][calls.first[call]]),
                op=str(names[call] if at is None else labels[at]),
                mean_us=float(means[call]),
                stdev_us=float(stdevs[call]),
                steps=int(calls.sizes[call]),
                id=None if at is None else ids[at],
            )
        )
    return tuple(found)


def _calls(frame: Table) -> Positions:
    """Of each row, which call of its name it is."""
    return Groups(frame["op_code"]).nth()
