"""The device's half of a run: its steps, the chosen one, and the ops of it.

A file up to :data:`.load.WHOLE_FILE_BYTES` is parsed as a whole, so that every step has
its device time. Of a larger one only the chosen step is cut out; of the others it is only known
that they were there.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from instrumentor_analysis import window
from instrumentor_analysis.device import per_op
from instrumentor_analysis.errors import EmptyWindow, NoSuchStep
from instrumentor_analysis.load import SIGNPOST, WHOLE_FILE_BYTES, Ops, Region, load, load_hosts
from instrumentor_analysis.merge import merge_devices, valid_duration_ns
from instrumentor_analysis.model import Spread, Window
from instrumentor_analysis.roofline import Architecture, resolve
from instrumentor_analysis.scan import Scan, scan
from instrumentor_analysis.window import Named, StepMarks

if TYPE_CHECKING:
    import pandas as pd

StepChoice = int | Literal["all"] | None


@dataclass(frozen=True)
class DeviceSteps:
    """The ops of the chosen window, and of every step its device figures.

    Attributes:
        rows: the raw rows of the window, all devices, signposts left out.
        ops: figures per op of the window (:func:`.device.per_op`); of pooled steps one
            after the other, each step's first gap blank.
        pooled: number of steps in the window.
        sizes: rows of each of these steps in ``ops``.
        marks: all steps of the file.
        device_ms, op_counts: by position in ``marks``; absent where not parsed.
        spread: ops whose time varies most over the complete steady steps.
        files: what was read, for another look at it.
    """

    files: Files
    window: Window
    rows: pd.DataFrame
    ops: pd.DataFrame
    architecture: Architecture
    pooled: int = 1
    sizes: tuple[int, ...] = ()
    marks: tuple[StepMarks, ...] = ()
    chosen: tuple[int, ...] = ()
    device_ms: dict[int, float] = field(default_factory=dict)
    op_counts: dict[int, int] = field(default_factory=dict)
    spread: tuple[Spread, ...] = ()
    warnings: tuple[str, ...] = ()

    def by_step(self) -> list[pd.DataFrame]:
        """``ops``, a frame for each pooled step; one frame of a window that is no step."""
        if len(self.sizes) < 2:
            return [self.ops]
        ends = list(itertools.accumulate(self.sizes))
        return [
            self.ops.iloc[end - size : end].reset_index(drop=True)
            for end, size in zip(ends, self.sizes, strict=True)
        ]


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
    files = Files.look((source,) if isinstance(source, Path) else tuple(source))
    if named is not None and named.given:
        return _by_names(files, named, arch)
    unfit = unfit or {}
    picked = files.pick(step, unfit)
    if not picked:
        return _by_names(files, named or Named(), arch)
    marks, whole = files.marks, files.whole
    warnings = _unfit_in_words([marks[at] for at in picked], marks, step, unfit)
    if step is None and not marks[picked[0]].steady:
        warnings.append(
            f"no steady step is complete; {marks[picked[0]].name} is shown, which also compiles "
            "and warms up"
        )
    if whole is None and len(marks) > len(picked):
        size = files.sources[0].stat().st_size
        warnings.append(
            f"{files.sources[0].name} is large ({size >> 20} MB): only "
            + ("the chosen step was read" if len(picked) == 1 else "the chosen steps were read")
            + "; the other steps have no device time here"
        )
    parts: dict[int, Ops] = {}
    for at, mark in enumerate(marks):
        if mark.complete and (whole is not None or at in picked):
            parts[at] = files.chosen(mark) if at in picked else files.part(mark)
    return _assemble(files, parts, picked, arch, warnings, step, unfit)


def _unfit_in_words(
    shown: Sequence[StepMarks],
    marks: Sequence[StepMarks],
    step: StepChoice,
    unfit: Mapping[str, str],
) -> list[str]:
    """What is shown although it stands for no other step, and what is not shown for that."""
    odd = [mark for mark in shown if mark.name in unfit and mark.steady]
    if odd:
        forced = "" if isinstance(step, int) else ": no other steady step is complete"
        return [f"{mark.name}, which is shown, is {unfit[mark.name]}{forced}" for mark in odd]
    if isinstance(step, int):
        return []
    first = 0 if step == "all" else max(mark.start.line for mark in shown)
    passed = [
        mark.name
        for mark in marks
        if mark.steady and mark.complete and mark.name in unfit and mark.start.line > first
    ]
    return [f"{name} is not shown: it is {unfit[name]}" for name in dict.fromkeys(passed)]


@dataclass(frozen=True)
class Files:
    """Ops CSVs of one system.

    Attributes:
        sources: one file per host.
        marks: the steps.
        whole: every row; None of a large file, of which only a window is read.
        scanned: the signposts of a single file.
    """

    sources: tuple[Path, ...]
    marks: tuple[StepMarks, ...]
    whole: Ops | None
    scanned: Scan | None

    @classmethod
    def look(cls, sources: tuple[Path, ...]) -> Files:
        """Find the steps; parse everything unless a step can be cut out of a large file."""
        if len(sources) != 1:
            whole = load_hosts(sources)
            marks = window.steps(window.signposts_of(whole.frame))
            return cls(sources, window.over_hosts(marks, len(sources)), whole, None)
        scanned = scan(sources[0])
        small = scanned.quoted or scanned.size <= WHOLE_FILE_BYTES
        only = load(sources[0], scanned=scanned) if small else None
        posts = scanned.signposts if only is None else window.signposts_of(only.frame)
        return cls(sources, window.steps(posts), only, scanned)

    def everything(self) -> Ops:
        """All rows."""
        return self.whole or load(self.sources[0], scanned=self.scanned)

    def between_names(
        self, named: Named, *, keep_signposts: bool = False
    ) -> tuple[Ops, pd.DataFrame, str]:
        """What was read, its rows in a window by names, and in words which.

        Of a large file only the window is read where that gives the same rows. The one thing
        that the rest could change is the core budget of rows that report none: it is the
        largest one of the window then, not of the file.
        """
        region = self._cut(named)
        if region is not None:
            ops = load(self.sources[0], region, self.scanned)
            rows = ops.frame if named.file_order else window.by_host_time(ops.frame)
            if not keep_signposts:
                rows = rows[rows["op_type"] != SIGNPOST]
            if not rows.empty:
                return ops, rows, f"ops after {named.start!r}, before {named.end!r}"
        ops = self.everything()
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
        return replace(part, frame=part.frame[part.frame["op_type"] != SIGNPOST])

    def chosen(self, mark: StepMarks) -> Ops:
        """The ops of a step that is to be shown.

        Raises:
            EmptyWindow: it holds none.
        """
        part = self.part(mark)
        if part.frame.empty:
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
    warnings: list[str],
    step: StepChoice,
    unfit: Collection[str],
) -> DeviceSteps:
    import pandas as pd

    marks, chosen = files.marks, parts[picked[-1]]
    architecture, notes = resolve(files.whole or chosen, arch)
    warnings += [*chosen.warnings, *notes]
    merged: dict[int, pd.DataFrame] = {}
    for at, part in parts.items():
        merged[at], odd = merge_devices(part.frame)
        if at in picked:
            warnings += odd
    ops = [per_op(merged[at], architecture) for at in picked]
    rows = [parts[at].frame for at in picked]
    replayed = bool(chosen.frame["trace_replay_session"].notna().any())
    in_order = bool(chosen.frame["host_start_ns"].dropna().is_monotonic_increasing)
    if not in_order and not replayed:
        warnings.append(
            "the rows of the step are not in the order of their host times; they are taken as "
            "they lie in the file, so gaps and the busy share may be wrong"
        )
    last = marks[picked[-1]]
    how = f"{len(picked)} steady steps" if len(picked) > 1 else "the step asked for"
    if step is None:
        how = f"the last complete {'steady ' if last.steady else ''}step"
        if any(mark.steady and mark.complete for mark in marks[picked[-1] + 1 :]):
            how = "the last usual steady step"
    return DeviceSteps(
        files=files,
        window=Window(
            start=marks[picked[0]].start.name,
            end=None if last.end is None else last.end.name,
            step=last.name if len(picked) == 1 else None,
            how=how,
            steps=tuple(marks[at].name for at in picked),
            order="host-time" if in_order and not replayed else "file",
        ),
        rows=pd.concat(rows) if len(rows) > 1 else rows[0],
        ops=pd.concat(ops, ignore_index=True) if len(ops) > 1 else ops[0],
        architecture=architecture,
        pooled=len(picked),
        sizes=tuple(len(frame) for frame in ops),
        marks=marks,
        chosen=tuple(picked),
        device_ms={at: float(_time_ns(frame).sum() / 1e6) for at, frame in merged.items()},
        op_counts={at: len(frame) for at, frame in merged.items()},
        spread=spread(
            [merged[at] for at in merged if marks[at].steady and marks[at].name not in unfit],
            merged[picked[-1]],
            ops[-1],
        ),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _time_ns(frame: pd.DataFrame) -> pd.Series[float]:
    import pandas as pd

    return pd.Series(valid_duration_ns(frame), index=frame.index)


def _by_names(files: Files, named: Named, arch: str | None) -> DeviceSteps:
    """A window between signposts; without names, as tt-perf-report reads the file, announced."""
    ops, rows, how = files.between_names(named)
    rows = rows[rows["op_type"] != SIGNPOST]
    architecture, notes = resolve(ops, arch)
    merged, odd = merge_devices(rows)
    announced = () if named.given else (f"no steps of ours in the trace; used: {how}",)
    return DeviceSteps(
        files=files,
        window=Window(
            start=named.start,
            end=named.end,
            step=None,
            how=how,
            order="file" if named.file_order else "host-time",
        ),
        rows=rows,
        ops=per_op(merged, architecture),
        architecture=architecture,
        marks=files.marks,
        warnings=(*ops.warnings, *notes, *odd, *announced),
    )


def spread(
    steps: Sequence[pd.DataFrame], shown: pd.DataFrame, ops: pd.DataFrame, most: int = 10
) -> tuple[Spread, ...]:
    """The ops that vary most over several steps: the n-th call of a name is one op.

    Args:
        steps: merged rows per step.
        shown: those of the step that is shown, and ``ops`` their figures: an op bears its name
            with shape and its ID there.
        most: how many are returned, by standard deviation.
    """
    import pandas as pd

    if len(steps) < 2:
        return ()
    tables: list[pd.DataFrame] = []
    for number, frame in enumerate(steps):
        name, nth = _calls(frame)
        tables.append(
            pd.DataFrame(
                {
                    "op": name,
                    "nth": nth,
                    "position": range(len(frame)),
                    "us": valid_duration_ns(frame) / 1000,
                    "step": number,
                }
            )
        )
    calls = pd.concat(tables).dropna(subset=["us"]).groupby(["op", "nth"])
    varied = pd.DataFrame(
        {
            "position": calls["position"].first(),
            "mean": calls["us"].mean(),
            "stdev": calls["us"].std(),
            "steps": calls["us"].size(),
        }
    )
    varied = varied.dropna(subset=["stdev"]).sort_values("stdev", ascending=False).head(most)
    here = dict(zip(zip(*_calls(shown), strict=True), range(len(shown)), strict=True))
    found: list[Spread] = []
    for row in varied.reset_index().to_dict("records"):
        at = here.get((row["op"], row["nth"]))
        found.append(
            Spread(
                position=int(row["position"]),
                op=str(row["op"] if at is None else ops["op"].iloc[at]),
                mean_us=row["mean"],
                stdev_us=row["stdev"],
                steps=int(row["steps"]),
                id=None if at is None else int(ops["id"].iloc[at]),
            )
        )
    return tuple(found)


def _calls(frame: pd.DataFrame) -> tuple[list[str], list[int]]:
    """Name of each row, and which call of that name it is."""
    name = frame["op_code"].astype("str")
    return name.tolist(), name.groupby(name).cumcount().tolist()
