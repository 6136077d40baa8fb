"""The ops of one step under torch.profiler.

On CUDA the ops carry the time of their kernels: that is device time. On the CPU there is no
device; what the ops have is *self time*, on possibly several threads at once, and it is never
set against the wall clock.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from msgspec import Struct

from instrumentor_analysis.load.rows import BLANKS
from instrumentor_analysis.load.table import Categorical, Floats, Table, any_known, total
from instrumentor_analysis.ops.categories import torch_category
from instrumentor_analysis.shared.errors import DamagedFile, NotAnOpsFile
from instrumentor_analysis.shared.files import opened_text

COLUMNS = ("op", "start_us", "duration_us", "self_time_us", "device_time_us")


class TorchOps(Struct, frozen=True):
    """Ops of the profiled step.

    Attributes:
        frame: the columns of ops.csv, plus ``torch_category``: ours.
        op_self_time_ms: sum of the self times.
        device_time_ms: sum of the kernels' times; None on the CPU.
    """

    frame: Table
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
    frame = Table({**columns, "op": op, "torch_category": category})
    own, device = frame["self_time_us"], frame["device_time_us"]
    return TorchOps(
        frame,
        total(own) / 1000 if any_known(own) else None,
        total(device) / 1000 if any_known(device) else None,
    )


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
                values[at] = float(text)
            except ValueError:
                said = f"{text!r} is not a number"
                # Lines count from 1, and the first is the header.
                raise DamagedFile(path, said, line=at + 2, column=column) from None
    return np.where(np.isinf(values), np.nan, values)
