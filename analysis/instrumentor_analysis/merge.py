"""Rows of several devices to one row per op.

The n-th op of each device belongs together when the names agree: of a collective (AllGather,
ReduceScatter, AllReduce) the mean duration counts, of any other op the slowest device's row,
as in tt-perf-report 1.4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from instrumentor_analysis.load import DEVICE_OP

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    Positions = npt.NDArray[np.intp]

COLLECTIVES = ("AllGather", "ReduceScatter", "AllReduce")
#: A gap more negative than this marks a broken clock, nanoseconds.
BROKEN_GAP_NS = 1_000_000


def valid_duration_ns(frame: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Kernel durations, NaN where missing, negative, or contradicted by a hugely negative gap."""
    import numpy as np

    duration = frame["kernel_duration_ns"].to_numpy(np.float64)
    gap = frame["op_to_op_latency_ns"].to_numpy(np.float64)
    broken = (gap < -BROKEN_GAP_NS) & (np.abs(gap) > np.maximum(duration * 0.5, BROKEN_GAP_NS))
    good = np.isfinite(duration) & (duration >= 0) & ~broken
    return np.where(good, duration, np.nan)


def device_ids(frame: pd.DataFrame) -> pd.Series[float]:
    """DEVICE ID where it is one (whole, not negative), else NaN."""
    ids = frame["device_id"]
    return ids.where((ids >= 0) & (ids % 1 == 0))


def merge_devices(frame: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """One row per op over all devices, in report order; other rows stay where they are.

    Returns the rows and what did not fit together. A frame of one device is returned as it is.
    """
    import numpy as np

    ids = device_ids(frame).where((frame["op_type"] == DEVICE_OP).to_numpy())
    devices = np.sort(ids.dropna().unique())
    if len(devices) < 2:
        return frame, ()
    per_device = [np.flatnonzero((ids == device).to_numpy()) for device in devices]
    codes = frame["op_code"].cat.codes.to_numpy()
    sequences = [codes[positions] for positions in per_device]
    warnings: tuple[str, ...] = ()
    if all(np.array_equal(sequence, sequences[0]) for sequence in sequences[1:]):
        blocks = np.stack(per_device, axis=1)
    else:
        names = [str(name) for name in frame["op_code"].cat.categories]
        blocks, warnings = _zip(per_device, sequences, names, devices)
    present = blocks >= 0
    durations = np.where(present, valid_duration_ns(frame)[blocks], np.nan)
    # An unusable duration ranks below 0, an absent device below that.
    rank = np.where(present, np.where(np.isnan(durations), -1.0, durations), -2.0)
    slowest = rank.argmax(axis=1)
    first = present.argmax(axis=1)
    rows = np.arange(len(blocks))
    collective = _is_collective(frame)[blocks[rows, first]]
    base = blocks[rows, np.where(collective, first, slowest)]
    order = np.where(present, blocks, len(frame)).min(axis=1)

    merged = frame.copy()
    merged["_order"] = np.arange(len(frame))
    columns = list(merged.columns)
    others = np.flatnonzero(ids.isna().to_numpy())
    merged.iloc[base, columns.index("_order")] = order
    merged.iloc[base[collective], columns.index("kernel_duration_ns")] = _mean(
        durations[collective]
    )
    kept = merged.iloc[np.concatenate([base, others])]
    kept = kept.sort_values("_order", kind="stable").drop(columns="_order")
    return kept.reset_index(drop=True), warnings


def _is_collective(frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
    import numpy as np

    names = [any(c in str(name) for c in COLLECTIVES) for name in frame["op_code"].cat.categories]
    codes = frame["op_code"].cat.codes.to_numpy()
    return np.asarray([*names, False], dtype=np.bool_)[codes]


def _mean(durations: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Mean of the usable durations of each row; NaN where there is none."""
    import numpy as np

    count = (~np.isnan(durations)).sum(axis=1)
    total = np.nansum(durations, axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _zip(
    per_device: Sequence[Positions],
    sequences: Sequence[npt.NDArray[Any]],
    names: Sequence[str],
    devices: npt.NDArray[np.float64],
) -> tuple[Positions, tuple[str, ...]]:
    """Align sequences that differ: the first device with an op left says which is next.

    A device whose next op has another name waits. Absent devices are -1 in a block.
    """
    import numpy as np

    at = [0] * len(per_device)
    blocks: list[list[int]] = []
    absent: dict[str, int] = {}
    lists = [positions.tolist() for positions in per_device]
    codes = [sequence.tolist() for sequence in sequences]
    while True:
        block = [-1] * len(lists)
        wanted: int | None = None
        for device, positions in enumerate(lists):
            if at[device] >= len(positions):
                continue
            code = codes[device][at[device]]
            wanted = code if wanted is None else wanted
            if code == wanted:
                block[device] = positions[at[device]]
                at[device] += 1
        if wanted is None:
            break
        if -1 in block:
            absent[names[wanted]] = absent.get(names[wanted], 0) + 1
        blocks.append(block)
    listed = ", ".join(f"{name} ({count} times)" for name, count in list(absent.items())[:5])
    warning = (
        f"the {len(devices)} devices did not run the same ops; not on all of them: {listed}: "
        "do not trust the figures of these ops and of later ones of the same name"
    )
    return np.asarray(blocks, dtype=np.intp), (warning,) if absent else ()
