"""Rows of several devices to one row per op.

The n-th op of each device belongs together when the names agree: of a collective (AllGather,
ReduceScatter, AllReduce) the mean duration counts, of any other op the slowest device's row,
as in tt-perf-report 1.4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from instrumentor_analysis.caveats import Caveat
from instrumentor_analysis.load import DEVICE_OP
from instrumentor_analysis.table import Categorical, Floats, Mask, Positions, Table, distinct

COLLECTIVES = ("AllGather", "ReduceScatter", "AllReduce")
#: Kind of the warning that devices ran other ops.
DIFFERENT_OPS = "different-ops"
#: A gap more negative than this marks a broken clock, nanoseconds.
BROKEN_GAP_NS = 1_000_000


def valid_duration_ns(frame: Table) -> Floats:
    """Kernel durations, NaN where missing, negative, or contradicted by a hugely negative gap."""
    duration, gap = frame["kernel_duration_ns"], frame["op_to_op_latency_ns"]
    broken = (gap < -BROKEN_GAP_NS) & (np.abs(gap) > np.maximum(duration * 0.5, BROKEN_GAP_NS))
    good = np.isfinite(duration) & (duration >= 0) & ~broken
    return np.where(good, duration, np.nan)


def device_ids(frame: Table) -> Floats:
    """DEVICE ID where it is one (whole, not negative), else NaN."""
    ids = frame["device_id"]
    return np.where((ids >= 0) & (ids % 1 == 0), ids, np.nan)


class Aligned(Struct, frozen=True):
    """The rows of several devices side by side.

    Attributes:
        devices: their ids, rising.
        blocks: per op and device the position of its row, -1 where the device did not run it.
        warnings: what did not fit together.
    """

    devices: Floats
    blocks: npt.NDArray[np.intp]
    warnings: tuple[Caveat, ...] = ()


def align(frame: Table) -> Aligned:
    """The n-th op of every device, where the names agree, as one op."""
    ids = np.where(frame["op_type"].equals(DEVICE_OP), device_ids(frame), np.nan)
    devices = distinct(ids)
    per_device = [np.flatnonzero(ids == device) for device in devices]
    codes = frame["op_code"].compact()
    sequences = [codes[positions] for positions in per_device]
    if not per_device:
        return Aligned(devices, np.empty((0, 0), np.intp))
    if all(np.array_equal(sequence, sequences[0]) for sequence in sequences[1:]):
        return Aligned(devices, np.stack(per_device, axis=1))
    blocks, absent = _zip(per_device, sequences)
    # Codes number the distinct names in their order.
    names = list(dict.fromkeys(frame["op_code"].values))
    listed = ", ".join(f"{names[code]} ({count} times)" for code, count in list(absent.items())[:5])
    warning = Caveat(
        DIFFERENT_OPS,
        f"the {len(devices)} devices did not run the same ops; not on all of them: {listed}: "
        "the figures of these ops, and of later ones of the same name, are unreliable",
        "wrong",
    )
    return Aligned(devices, blocks, (warning,) if absent else ())


def merge_devices(frame: Table) -> tuple[Table, tuple[Caveat, ...]]:
    """One row per op over all devices, in report order; other rows stay where they are.

    Returns the rows and what did not fit together. A frame of one device is returned as it is.
    """
    aligned = align(frame)
    if len(aligned.devices) < 2:
        return frame, ()
    blocks = aligned.blocks
    present = blocks >= 0
    durations = np.where(present, valid_duration_ns(frame)[blocks], np.nan)
    # An unusable duration ranks below 0, an absent device below that.
    rank = np.where(present, np.where(np.isnan(durations), -1.0, durations), -2.0)
    slowest = rank.argmax(axis=1)
    first = present.argmax(axis=1)
    rows = np.arange(len(blocks))
    collective = is_collective(frame)[blocks[rows, first]]
    base = blocks[rows, np.where(collective, first, slowest)]

    order = np.arange(len(frame))
    order[base] = np.where(present, blocks, len(frame)).min(axis=1)
    durations_ns = frame["kernel_duration_ns"].copy()
    durations_ns[base[collective]] = _mean(durations[collective])
    others = np.ones(len(frame), np.bool_)
    others[blocks[present]] = False
    kept = np.concatenate([base, np.flatnonzero(others)])
    kept = kept[np.argsort(order[kept], kind="stable")]
    return frame.assign(kernel_duration_ns=durations_ns).take(kept), aligned.warnings


def is_collective(frame: Table) -> Mask:
    """Rows of ops that wait for other devices."""
    op: Categorical = frame["op_code"]
    return op.spread([any(c in str(v) for c in COLLECTIVES) for v in op.values], False, np.bool_)


def _mean(durations: Floats) -> Floats:
    """Mean of the usable durations of each row; NaN where there is none."""
    count = (~np.isnan(durations)).sum(axis=1)
    total = np.nansum(durations, axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _zip(
    per_device: Sequence[Positions], sequences: Sequence[npt.NDArray[Any]]
) -> tuple[npt.NDArray[np.intp], dict[int, int]]:
    """Align sequences that differ: the first device with an op left says which is next.

    A device whose next op has another name waits. Returns the blocks, and how often each op was
    not on every device.
    """
    at = [0] * len(per_device)
    blocks: list[list[int]] = []
    absent: dict[int, int] = {}
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
            absent[wanted] = absent.get(wanted, 0) + 1
        blocks.append(block)
    return np.asarray(blocks, dtype=np.intp), absent
