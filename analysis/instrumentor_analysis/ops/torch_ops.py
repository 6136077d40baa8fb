"""The ops of the steps under torch.profiler.

A single step tells more of what interrupted it than of its ops, so each op has the median of its
calls in all of them: the n-th call of a name is one op in every step.

On CUDA the ops carry the time of their kernels: that is device time. On the CPU there is no
device; what the ops have is *self time*, on possibly several threads at once, and it is never
set against the wall clock.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from msgspec import Struct

from instrumentor_analysis.load.rows import BLANKS, is_figure
from instrumentor_analysis.load.table import (
    Categorical,
    Floats,
    Groups,
    Table,
    any_known,
    concat,
    total,
)
from instrumentor_analysis.model import ModuleOps, OpsByModule
from instrumentor_analysis.ops.categories import torch_category
from instrumentor_analysis.shared.errors import DamagedFile, NotAnOpsFile
from instrumentor_analysis.shared.files import opened_text

TIMES = ("duration_us", "self_time_us", "device_time_us")
COLUMNS = ("op", "start_us", "duration_us", "self_time_us", "device_time_us")
#: What torch calls the evaluation of a node of autograd, ahead of the node's own name.
_EVALUATION = "autograd::engine::evaluate_function: "


class TorchOps(Struct, frozen=True):
    """Ops of the profiled steps.

    Attributes:
        frame: the columns of ops.csv, plus ``torch_category``: ours; the rows of the step in the
            middle, with the medians of all, and with ``module`` and ``pass``, which one step tells.
        steps: the rows of each step.
        op_self_time_ms: sum of the self times, the median of the steps.
        device_time_ms: the same of the kernels' times; None on the CPU.
    """

    frame: Table
    steps: tuple[Table, ...]
    op_self_time_ms: float | None
    device_time_ms: float | None


def read_torch_ops(path: Path) -> TorchOps:
    """Read ``torch_profile/ops.csv``.

    Raises:
        NotAnOpsFile: a column is missing, or the file is empty.
        DamagedFile: a row does not fit the header, or a figure is none.
    """
    # A byte order mark would become part of the first column's name.
    with opened_text(path, "replace", encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file)
        header = next(lines, [])
        if not header:
            raise NotAnOpsFile(f"{path.name} is empty")
        missing = tuple(name for name in COLUMNS if name not in header)
        if missing:
            text = f"{path.name}, line 1: no column {', '.join(missing)}"
            raise NotAnOpsFile(text)
        cells = _cells(path, header, lines)
    columns: dict[str, Floats | Categorical] = {
        name: _numbers(path, name, texts)
        if name in COLUMNS[1:]
        else Categorical.of([None if text in BLANKS else text for text in texts])
        for name, texts in cells.items()
    }
    op = Categorical.of(["" if text in BLANKS else text for text in cells["op"]])
    category = op.map([torch_category(name) for name in op.values])
    steps = _steps(_nodes_once(Table({**columns, "op": op, "torch_category": category})))
    on_device = any(any_known(step["device_time_us"]) for step in steps)
    return TorchOps(
        _told(_middle(steps, "device_time_us" if on_device else "self_time_us"), steps),
        steps,
        _median_ms(steps, "self_time_us"),
        _median_ms(steps, "device_time_us"),
    )


def _nodes_once(every: Table) -> Table:
    """The rows with one for each node of autograd: torch has another around it, of its evaluation.

    What the evaluation takes by itself counts for the node. One that has no row of its own inside
    keeps that of its evaluation, by the node's name.
    """
    ops = every["op"].tolist()
    if not any(op.startswith(_EVALUATION) for op in ops):
        return every
    blank = [None] * len(ops)
    where = [every[x].tolist() if x in every else blank for x in ("step", "thread")]
    latest: dict[tuple[str | None, ...], int] = {}
    inner: dict[int, int] = {}  # row of an evaluation -> that of its node
    for at, (op, *place) in enumerate(zip(ops, *where, strict=True)):
        before = latest.get(tuple(place))
        if before is not None and ops[before] == _EVALUATION + op:
            inner[before] = at
        latest[tuple(place)] = at
    outer = np.array([*inner], np.intp)
    nodes = np.array([*inner.values()], np.intp)
    times = {name: every[name].copy() for name in COLUMNS[1:]}
    for name in ("start_us", "duration_us"):
        times[name][nodes] = times[name][outer]
    for name in ("self_time_us", "device_time_us"):
        of_both = np.array([times[name][outer], times[name][nodes]])
        known = ~np.isnan(of_both).all(axis=0)
        times[name][nodes] = np.where(known, np.nansum(of_both, axis=0), np.nan)
    gone = set(inner.values())
    rows = [inner.get(at, at) for at in range(len(ops)) if at not in gone]
    names = every["op"].map([op.removeprefix(_EVALUATION) for op in every["op"].values])
    return every.assign(op=names, **times).take(np.array(rows, np.intp))


def _steps(every: Table) -> tuple[Table, ...]:
    """The rows of each step; of files without that column there is one."""
    if "step" not in every or not len(every):
        return (every,)
    groups = Groups(every["step"])
    rest = Table({name: every[name] for name in every.columns if name != "step"})
    return tuple(rest.take(rows) for rows in groups.rows())


def _middle(steps: tuple[Table, ...], time: str) -> Table:
    """The step that is in the middle by its time, each op with the median of its calls."""
    order = sorted(range(len(steps)), key=lambda at: total(steps[at][time]))
    at = order[(len(order) - 1) // 2]
    every = concat(steps)
    nth = np.concatenate([Groups(step["op"]).nth() for step in steps])
    calls = Groups(every["op"], nth)
    first = sum(map(len, steps[:at]))
    which = calls.which[first : first + len(steps[at])]
    return steps[at].assign(**{name: calls.medians(every[name])[which] for name in TIMES})


def _told(shown: Table, steps: tuple[Table, ...]) -> Table:
    """The rows with the module and the pass of each, from the step that was to tell them.

    Both are blank where that step called an op another number of times: then the n-th call is
    another one.
    """
    telling = next((each for each in steps if "pass" in each and each["pass"].known().any()), None)
    if telling is None or "module" not in telling:
        return shown
    tells = [name for name in ("module", "pass", "class") if name in telling]
    told: dict[str, list[tuple[str | None, ...]]] = {}
    for op, *rest in zip(*(telling[name].tolist() for name in ("op", *tells)), strict=True):
        told.setdefault(op, []).append(tuple(rest))
    calls = Groups(shown["op"])
    sizes, nths = (each.tolist() for each in (calls.sizes[calls.which], calls.nth()))
    found = [
        told[op][nth] if len(told.get(op, ())) == size else (None,) * len(tells)
        for op, size, nth in zip(shown["op"].tolist(), sizes, nths, strict=True)
    ]
    columns = (Categorical.of([each[at] for each in found]) for at in range(len(tells)))
    return shown.assign(**dict(zip(tells, columns, strict=True)))


def by_module(frame: Table) -> OpsByModule | None:
    """Time of the ops by the module that they belong to; None where no step told them.

    Args:
        frame: of :class:`TorchOps`.
    """
    if not {"module", "pass"} <= {*frame.columns} or not frame["pass"].known().any():
        return None
    on_device = any_known(frame["device_time_us"])
    every_ms = total(frame["device_time_us" if on_device else "self_time_us"]) / 1000
    told = frame.take(frame["pass"].known())
    time_ms = told["device_time_us" if on_device else "self_time_us"] / 1000
    backward, groups = told["pass"].equals("backward"), Groups(told["module"])
    parts = zip(
        told["module"][groups.first].tolist(),
        groups.sizes.tolist(),
        groups.sums(np.where(backward, 0.0, time_ms)).tolist(),
        groups.sums(np.where(backward, time_ms, 0.0)).tolist(),
        told["class"][groups.first].tolist() if "class" in told else [None] * len(groups.first),
        strict=True,
    )
    found = [
        ModuleOps(
            name, ops, ahead, back, (ahead + back) / every_ms * 100 if every_ms else 0.0, kind
        )
        for name, ops, ahead, back, kind in parts
    ]
    return OpsByModule(
        ms=every_ms,
        on_device=on_device,
        unknown_percent=100 - total(time_ms) / every_ms * 100 if every_ms else 0.0,
        modules=tuple(sorted(found, key=lambda each: (-each.percent, each.name or ""))),
    )


def _median_ms(steps: tuple[Table, ...], time: str) -> float | None:
    known = [total(step[time]) / 1000 for step in steps if any_known(step[time])]
    return statistics.median(known) if known else None


def _cells(path: Path, header: list[str], lines: Iterator[list[str]]) -> dict[str, list[str]]:
    rows: list[list[str]] = []
    try:
        for number, row in enumerate(lines, start=2):
            if row and len(row) != len(header):
                text = f"{len(row)} cells where the header has {len(header)}"
                raise DamagedFile(path, text, line=number)
            rows += [row] if row else []
    except csv.Error as error:
        raise DamagedFile(path, str(error)) from error
    return {name: [row[at] for row in rows] for at, name in enumerate(header)}


def _numbers(path: Path, column: str, texts: list[str]) -> Floats:
    values = np.full(len(texts), np.nan)
    for at, text in enumerate(texts):
        if text not in BLANKS:
            try:
                value = float(text)
            except ValueError:
                said = f"{text!r} is not a number"
                # Lines count from 1, and the first is the header.
                raise DamagedFile(path, said, line=at + 2, column=column) from None
            if is_figure(value):
                values[at] = value
    return values
