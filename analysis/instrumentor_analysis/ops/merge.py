"""Rows of several devices to one row per op.

The n-th op of each device belongs together when the names agree: of a collective (AllGather,
ReduceScatter, AllReduce) the mean duration counts, of any other op the slowest device's row,
as in tt-perf-report 1.4.1.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from instrumentor_analysis.load.ops_csv import DEVICE_OP, device_ids
from instrumentor_analysis.load.table import (
    Categorical,
    Floats,
    Groups,
    Mask,
    Positions,
    Table,
    distinct,
    quotient,
)
from instrumentor_analysis.shared.caveats import Caveat

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
    names = Groups(frame["op_code"])
    sequences = [names.which[positions] for positions in per_device]
    if not per_device:
        return Aligned(devices, np.empty((0, 0), np.intp))
    if all(np.array_equal(sequence, sequences[0]) for sequence in sequences[1:]):
        return Aligned(devices, np.stack(per_device, axis=1))
    blocks = _zip(per_device, sequences)
    lacking = blocks[(blocks < 0).any(axis=1)].max(axis=1)
    if not len(lacking):
        return Aligned(devices, blocks)
    absent = Counter(frame["op_code"][lacking].tolist())
    listed = ", ".join(f"{name} ({count} times)" for name, count in list(absent.items())[:5])
    text = (
        f"The {len(devices)} devices did not run the same ops, so figures of these, and of later "
        f"ones of the same name, are unreliable: {listed}."
    )
    return Aligned(devices, blocks, (Caveat(DIFFERENT_OPS, text),))


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
    known = (~np.isnan(durations)).sum(axis=1)
    durations_ns[base[collective]] = quotient(np.nansum(durations, axis=1), known)[collective]
    others = np.ones(len(frame), np.bool_)
    others[blocks[present]] = False
    kept = np.concatenate([base, np.flatnonzero(others)])
    kept = kept[np.argsort(order[kept], kind="stable")]
    return frame.assign(kernel_duration_ns=durations_ns).take(kept), aligned.warnings


def is_collective(frame: Table) -> Mask:
    """Rows of ops that wait for other devices."""
    op: Categorical = frame["op_code"]
    return op.spread([any(c in str(v) for c in COLLECTIVES) for v in op.values], False, np.bool_)


def _zip(per_device: Sequence[Positions], sequences: Sequence[Positions]) -> npt.NDArray[np.intp]:
    """Align sequences that differ: the first device with an op left says which is next.

    A device whose next op has another name waits.
    """
    left = [
        deque(zip(codes.tolist(), positions.tolist(), strict=True))
        for codes, positions in zip(sequences, per_device, strict=True)
    ]
    blocks: list[list[int]] = []
    while any(left):
        wanted = next(ops[0][0] for ops in left if ops)
        blocks.append([ops.popleft()[1] if ops and ops[0][0] == wanted else -1 for ops in left])
    return np.asarray(blocks, dtype=np.intp)
