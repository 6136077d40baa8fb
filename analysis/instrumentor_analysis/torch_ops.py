"""The ops of one step under torch.profiler.

On CUDA the ops carry the time of their kernels: that is device time. On the CPU there is no
device; what the ops have is *self time*, on possibly several threads at once, and it is never
set against the wall clock.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from instrumentor_analysis.categories import ORDER, torch_category
from instrumentor_analysis.errors import DamagedFile, NotAnOpsFile
from instrumentor_analysis.figures import MOST_SLOW_OPS
from instrumentor_analysis.model import Category, SlowOp

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("op", "start_us", "duration_us", "self_time_us", "device_time_us")


@dataclass(frozen=True)
class TorchOps:
    """Ops of the profiled step.

    Attributes:
        frame: the columns of ops.csv, plus ``torch_category``: ours.
        op_self_time_ms: sum of the self times.
        device_time_ms: sum of the kernels' times; None on the CPU.
    """

    frame: pd.DataFrame
    op_self_time_ms: float | None
    device_time_ms: float | None


def read_torch_ops(path: Path) -> TorchOps:
    """Read ``torch_profile/ops.csv``.

    Raises:
        NotAnOpsFile: a column is missing, or the file is empty.
        DamagedFile: a row does not fit the header, or a figure is none.
    """
    import pandas as pd

    try:
        with warnings.catch_warnings():
            # Rows longer than the header are only warned of.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(path, encoding_errors="replace", index_col=False)
    except pd.errors.EmptyDataError:
        raise NotAnOpsFile(path, f"{path.name} is empty", COLUMNS) from None
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise DamagedFile(path, str(error).strip()) from error
    missing = tuple(name for name in COLUMNS if name not in frame.columns)
    if missing:
        raise NotAnOpsFile(path, f"{path.name}, line 1: no column {', '.join(missing)}", missing)
    for column in COLUMNS[1:]:
        numbers = pd.to_numeric(frame[column], errors="coerce").astype("float64")
        bad = numbers.isna() & frame[column].notna()
        if bad.any():
            at = int(bad.to_numpy().argmax())
            text = f"{frame[column].iloc[at]!r} is not a number"
            raise DamagedFile(path, text, line=at + 2, column=column)
        frame[column] = numbers
    frame["op"] = frame["op"].fillna("").astype("str")
    frame["torch_category"] = frame["op"].map(torch_category)
    own, device = frame["self_time_us"], frame["device_time_us"]
    return TorchOps(
        frame,
        float(own.sum()) / 1000 if own.notna().any() else None,
        float(device.sum()) / 1000 if device.notna().any() else None,
    )


def torch_slow_ops(ops: TorchOps) -> tuple[SlowOp, ...]:
    """Ops by name: by device time where there is any, else by self time."""
    on_device = ops.device_time_ms is not None
    basis = "device_time_us" if on_device else "self_time_us"
    total = float(ops.frame[basis].sum())
    calls = ops.frame.groupby("op")
    table = calls[["self_time_us", "device_time_us"]].sum()
    table["count"] = calls.size()
    table["category"] = calls["torch_category"].first()
    table = table.sort_values(basis, ascending=False, kind="stable").head(MOST_SLOW_OPS)
    return tuple(
        SlowOp(
            op=str(row["op"]),
            count=int(row["count"]),
            device_time_ms=row["device_time_us"] / 1000 if on_device else None,
            percent=row[basis] / total * 100 if total else None,
            bound=None,
            category=str(row["category"]),
            op_self_time_ms=row["self_time_us"] / 1000,
        )
        for row in table.reset_index().to_dict("records")
    )


def torch_categories(ops: TorchOps) -> tuple[Category, ...]:
    """Device time by category on CUDA; empty on the CPU, which has no device time."""
    if ops.device_time_ms is None:
        return ()
    time = ops.frame["device_time_us"].groupby(ops.frame["torch_category"]).sum()
    count = ops.frame["torch_category"].value_counts()
    total = float(time.sum())
    return tuple(
        Category(
            name,
            float(time[name]) / 1000,
            float(time[name]) / total * 100 if total else None,
            int(count[name]),
        )
        for name in ORDER
        if name in count.index
    )
