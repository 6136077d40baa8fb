"""Rows of several devices to one row per op.

The n-th op of each device belongs together when the names agree: of a collective (AllGather,
ReduceScatter, AllReduce) the mean duration counts, of any other op the slowest device's row,
as in tt-perf-report 1.4.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from instrumentor_analysis.load.ops_csv import DEVICE_OP, device_ids
from instrumentor_analysis.load.table import (
    Categorical,
    Floats,
    Groups,
    Mask,
    Positions,
    Table,
    by_figure,
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
        per_device: positions of the rows of each.
        rows: the same positions by op, those of one op in the order of the devices.
        sizes: how many devices ran each op.
        warnings: what did not fit together.
    """

    devices: Floats
    per_device: Sequence[Positions]
    rows: Positions
    sizes: Positions
    warnings: tuple[Caveat, ...] = ()

    @property
    def starts(self) -> Positions:
        """Where each op begins in ``rows``: at the first device that ran it."""
        found: Positions = np.cumsum(self.sizes) - self.sizes
        return found

    @property
    def whole(self) -> Mask:
        """Which ops every device ran."""
        found: Mask = self.sizes == len(self.devices)
        return found


def align(frame: Table) -> Aligned:
    """The n-th op of every device, where the names agree, as one op."""
    ids = np.where(frame["op_type"].equals(DEVICE_OP), device_ids(frame), np.nan)
    devices, per_device = by_figure(ids)
    if not per_device:
        return Aligned(devices, (), np.empty(0, np.intp), np.empty(0, np.intp))
    names = Groups(frame["op_code"])
    sequences = [names.which[positions] for positions in per_device]
    if all(np.array_equal(sequence, sequences[0]) for sequence in sequences[1:]):
        sizes = np.full(len(sequences[0]), len(devices), np.intp)
        return Aligned(devices, per_device, np.stack(per_device, axis=1).ravel(), sizes)
    found = Aligned(devices, per_device, *_zip(per_device, sequences))
    lacking = np.maximum.reduceat(found.rows, found.starts)[~found.whole]
    if not len(lacking):
        return found
    absent = Counter(frame["op_code"][lacking].tolist())
    listed = ", ".join(f"{name} ({count} times)" for name, count in list(absent.items())[:5])
    text = (
        f"The {len(devices)} devices did not run the same ops, so figures of these, and of later "
        f"ones of the same name, are unreliable: {listed}."
    )
    return replace(found, warnings=(Caveat(DIFFERENT_OPS, text),))


def merge_devices(frame: Table) -> tuple[Table, tuple[Caveat, ...]]:
    """One row per op over all devices, in report order; other rows stay where they are.

    Returns the rows and what did not fit together. A frame of one device is returned as it is.
    """
    aligned = align(frame)
    if len(aligned.devices) < 2:
        return frame, ()
    rows, starts, sizes = aligned.rows, aligned.starts, aligned.sizes
    durations = valid_duration_ns(frame)[rows]
    known = ~np.isnan(durations)
    # An unusable duration ranks below 0; of equal ones the first device's counts.
    rank = np.where(known, durations, -1.0)
    slow = np.flatnonzero(rank == np.repeat(np.maximum.reduceat(rank, starts), sizes))
    slowest = rows[slow[np.searchsorted(slow, starts)]]
    collective = is_collective(frame)[rows[starts]]
    base = np.where(collective, rows[starts], slowest)

    order = np.arange(len(frame))
    order[base] = np.minimum.reduceat(rows, starts)
    durations_ns = frame["kernel_duration_ns"].copy()
    sums = np.add.reduceat(np.where(known, durations, 0.0), starts)
    counts = np.add.reduceat(known.astype(np.intp), starts)
    durations_ns[base[collective]] = quotient(sums, counts)[collective]
    others = np.ones(len(frame), np.bool_)
    others[rows] = False
    kept = np.concatenate([base, np.flatnonzero(others)])
    kept = kept[np.argsort(order[kept], kind="stable")]
    return frame.assign(kernel_duration_ns=durations_ns).take(kept), aligned.warnings


def is_collective(frame: Table) -> Mask:
    """Rows of ops that wait for other devices."""
    op: Categorical = frame["op_code"]
    return op.spread([any(c in str(v) for c in COLLECTIVES) for v in op.values], False, np.bool_)


def _zip(
    per_device: Sequence[Positions], sequences: Sequence[Positions]
) -> tuple[Positions, Positions]:
    """Align sequences that differ: the first device with an op left says which is next.

    A device whose next op has another name waits. Returns the rows and the sizes of
    :class:`Aligned`.
    """
    names = [codes.tolist() for codes in sequences]
    positions = [each.tolist() for each in per_device]
    done = [0] * len(names)
    waiting: dict[int, list[int]] = {}  # name -> the devices whose next op bears it
    for device, codes in enumerate(names):
        waiting.setdefault(codes[0], []).append(device)
    rows: list[int] = []
    sizes: list[int] = []
    for first, codes in enumerate(names):
        while done[first] < len(codes):
            together = sorted(waiting.pop(codes[done[first]]))
            for device in together:
                at = done[device]
                rows.append(positions[device][at])
                done[device] = at + 1
                if at + 1 < len(names[device]):
                    waiting.setdefault(names[device][at + 1], []).append(device)
            sizes.append(len(together))
    return np.asarray(rows, np.intp), np.asarray(sizes, np.intp)
