"""The device's half of a run: its steps, the chosen one, and the ops of it.

A file up to :data:`analysis.load.WHOLE_FILE_BYTES` is parsed as a whole, so that every step has
its device time. Of a larger one only the chosen step is cut out; of the others it is only known
that they were there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from analysis import window
from analysis.device import per_op
from analysis.errors import EmptyWindow, NoSuchStep
from analysis.load import SIGNPOST, WHOLE_FILE_BYTES, Ops, load
from analysis.merge import merge_devices, valid_duration_ns
from analysis.model import Spread, Window
from analysis.roofline import Architecture, resolve
from analysis.scan import Scan, scan
from analysis.window import StepMarks

if TYPE_CHECKING:
    import pandas as pd

StepChoice = int | Literal["all"] | None


@dataclass(frozen=True)
class DeviceSteps:
    """The ops of the chosen window, and of every step its device figures.

    Attributes:
        rows: the raw rows of the window, all devices, signposts left out.
        ops: figures per op of the window (:func:`analysis.device.per_op`); of pooled steps one
            after the other, each step's first gap blank.
        pooled: number of steps in the window.
        marks: all steps of the file.
        device_ms, op_counts: by position in ``marks``; absent where not parsed.
        spread: ops whose time varies most over the complete steady steps.
    """

    window: Window
    rows: pd.DataFrame
    ops: pd.DataFrame
    architecture: Architecture
    pooled: int = 1
    marks: tuple[StepMarks, ...] = ()
    chosen: tuple[int, ...] = ()
    device_ms: dict[int, float] = field(default_factory=dict)
    op_counts: dict[int, int] = field(default_factory=dict)
    spread: tuple[Spread, ...] = ()
    warnings: tuple[str, ...] = ()


def read_steps(path: Path, step: StepChoice = None, arch: str | None = None) -> DeviceSteps:
    """Read an ops CSV and choose the window.

    Args:
        step: number of a step; ``"all"`` pools the complete steady ones; None takes the last of
            those, or, in a file without our signposts, what tt-perf-report would take.

    Raises:
        AnalysisError: the file is damaged or foreign, or the window is empty.
    """
    scanned = scan(path)
    everything = scanned.quoted or scanned.size <= WHOLE_FILE_BYTES
    whole = load(path, scanned=scanned) if everything else None
    posts = window.signposts_of(whole.frame) if whole is not None else scanned.signposts
    marks = window.steps(posts)
    if step == "all":
        picked = [i for i, mark in enumerate(marks) if mark.steady and mark.complete]
        if not picked:
            raise NoSuchStep(f"no steady step is complete; the trace has {window.describe(marks)}")
    else:
        mark = window.choose(marks, step)
        if mark is None:
            return _foreign(load(path, scanned=scanned) if whole is None else whole, arch, marks)
        picked = [marks.index(mark)]
    warnings: list[str] = []
    if step is None and not marks[picked[0]].steady:
        warnings.append(
            f"no steady step is complete; {marks[picked[0]].name} is shown, which also compiles "
            "and warms up"
        )
    if whole is None and len(marks) > len(picked):
        warnings.append(
            f"{path.name} is large ({scanned.size >> 20} MB): only the chosen step was read; "
            "the other steps have no device time here"
        )
    parts: dict[int, Ops] = {}
    for at, mark in enumerate(marks):
        if mark.complete and (whole is not None or at in picked):
            parts[at] = _part(scanned, whole, mark)
    return _assemble(parts, picked, marks, whole, arch, warnings, step)


def _part(scanned: Scan, whole: Ops | None, mark: StepMarks) -> Ops:
    if whole is not None:
        return Ops(window.between(whole.frame, mark), whole.format, whole.sources, whole.warnings)
    part = load(scanned.path, mark.region, scanned)
    frame = part.frame[part.frame["op_type"] != SIGNPOST]
    return Ops(frame, part.format, part.sources, part.warnings)


def _assemble(
    parts: dict[int, Ops],
    picked: Sequence[int],
    marks: tuple[StepMarks, ...],
    whole: Ops | None,
    arch: str | None,
    warnings: list[str],
    step: StepChoice,
) -> DeviceSteps:
    import pandas as pd

    for at in picked:
        if parts[at].frame.empty:
            raise EmptyWindow(
                f"step {marks[at].name} holds no ops; the trace has {window.describe(marks)}",
                "Was the device used between its signposts? Choose another with --step.",
            )
    chosen = parts[picked[-1]]
    architecture, notes = resolve(whole or chosen, arch)
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
    return DeviceSteps(
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
        marks=marks,
        chosen=tuple(picked),
        device_ms={at: float(_time_ns(frame).sum() / 1e6) for at, frame in merged.items()},
        op_counts={at: len(frame) for at, frame in merged.items()},
        spread=spread([merged[at] for at in merged if marks[at].steady]),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _time_ns(frame: pd.DataFrame) -> pd.Series[float]:
    import pandas as pd

    return pd.Series(valid_duration_ns(frame), index=frame.index)


def _foreign(whole: Ops, arch: str | None, marks: tuple[StepMarks, ...]) -> DeviceSteps:
    """A file without our signposts, as tt-perf-report reads it, announced."""
    rows, how = window.select(window.by_host_time(whole.frame))
    window.require_ops(rows, whole.frame, how)
    architecture, notes = resolve(whole, arch)
    merged, odd = merge_devices(rows)
    return DeviceSteps(
        window=Window(start=None, end=None, step=None, how=how),
        rows=rows,
        ops=per_op(merged, architecture),
        architecture=architecture,
        marks=marks,
        warnings=(*whole.warnings, *notes, *odd, f"no steps of ours in the trace; used: {how}"),
    )


def spread(steps: Sequence[pd.DataFrame], most: int = 10) -> tuple[Spread, ...]:
    """The ops that vary most over several steps: the n-th call of a name is one op.

    Args:
        steps: merged rows per step.
        most: how many are returned, by standard deviation.
    """
    import pandas as pd

    if len(steps) < 2:
        return ()
    tables: list[pd.DataFrame] = []
    for number, frame in enumerate(steps):
        name = frame["op_code"].astype("str")
        tables.append(
            pd.DataFrame(
                {
                    "op": name.to_numpy(),
                    "nth": name.groupby(name).cumcount().to_numpy(),
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
    return tuple(
        Spread(int(row["position"]), str(row["op"]), row["mean"], row["stdev"], int(row["steps"]))
        for row in varied.reset_index().to_dict("records")
    )
