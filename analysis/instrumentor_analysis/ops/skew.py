"""Devices of one system held against each other: who was slow, and who waited for whom.

Only durations are compared: the clocks of chips do not agree, so when something began on one says
nothing about another. Of a collective, which ends on all devices together, the device with the
shortest duration arrived last, and each other one waited for as long as its own was longer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from instrumentor_analysis.load.table import (
    Categorical,
    Floats,
    Groups,
    Positions,
    Table,
    any_known,
    total,
)
from instrumentor_analysis.model import CollectiveWait, DeviceRow, Devices, OpSkew
from instrumentor_analysis.ops.merge import COLLECTIVES, Aligned, align, valid_duration_ns
from instrumentor_analysis.ops.overlap import communication
from instrumentor_analysis.ops.stacked import first_word

#: Ops that no device ends before all have begun.
WAITING = (*COLLECTIVES, "AllToAll", "AllBroadcast")
MOST_OPS = 10
#: A skew below this share of the slowest device's time is noise, percent.
LEAST_PERCENT = 0.5


def compare_devices(rows: Table, pooled: int = 1) -> Devices | None:
    """The devices of a window; None of a single one.

    Args:
        rows: raw rows of the window, all devices.
        pooled: number of steps in it; counts and times are of one.
    """
    aligned = align(rows)
    if len(aligned.devices) < 2:
        return None
    every_us = valid_duration_ns(rows) / 1000
    # A device that lacks the op, or its time, tells nothing of the others either.
    together = aligned.rows[np.repeat(aligned.whole, aligned.sizes)]
    times = every_us[together].reshape(-1, len(aligned.devices))
    timed = ~np.isnan(times).any(axis=1)
    times, first = times[timed], aligned.rows[aligned.starts[aligned.whole]][timed]
    op = rows["op_code"][first]
    op = op.map([first_word(str(name)) for name in op.values])
    ours = op.spread([any(c in str(v) for c in WAITING) for v in op.values], False, np.bool_)
    apart = ~ours
    devices = aligned.devices.astype(int).tolist()
    per_device = _with_overlap(_rows(aligned, every_us, times[ours], pooled), rows, pooled)
    known = [row.device_time_ms for row in per_device if row.device_time_ms is not None]
    mean = sum(known) / len(known) if known else 0.0
    least_us = max(known, default=0.0) * 1000 * LEAST_PERCENT / 100
    skews = _skews(op[apart], times[apart], rows["line"][first][apart], devices, pooled)
    return Devices(
        rows=per_device,
        max_over_mean=max(known) / mean if mean else None,
        ops=tuple(each for each in skews[:MOST_OPS] if each.skew_us >= least_us > 0),
        collectives=_waits(op[ours], times[ours], devices, pooled),
    )


def _rows(aligned: Aligned, every_us: Floats, waits: Floats, pooled: int) -> tuple[DeviceRow, ...]:
    waited = _waited(waits).sum(axis=0) / 1000
    last = np.bincount(waits.argmin(axis=1), minlength=len(aligned.devices))
    found: list[DeviceRow] = []
    for at, (device, rows) in enumerate(zip(aligned.devices, aligned.per_device, strict=True)):
        times = every_us[rows]
        found.append(
            DeviceRow(
                device_id=int(device),
                op_count=round(len(rows) / pooled),
                missing_ops=len(aligned.sizes) - len(rows),
                device_time_ms=total(times) / 1000 / pooled if any_known(times) else None,
                waited_ms=float(waited[at]) / pooled if len(waits) else None,
                arrived_last=int(last[at]) if len(waits) else None,
            )
        )
    return tuple(found)


def _with_overlap(found: tuple[DeviceRow, ...], rows: Table, pooled: int) -> tuple[DeviceRow, ...]:
    """The devices with what they spend in collectives, and how much of it other ops hide."""
    told = communication(rows)
    return tuple(
        each
        if (sends := told.get(each.device_id)) is None
        else replace(
            each,
            communication_ms=sends.ms / pooled,
            hidden_percent=sends.hidden_ms / sends.ms * 100 if sends.ms else None,
        )
        for each in found
    )


def _waited(times: Floats) -> Floats:
    """How long each device waited in a collective for the last one to arrive, microseconds."""
    return np.asarray(times - times.min(axis=1, keepdims=True), np.float64)


def _skews(
    op: Categorical, times: Floats, ids: Positions, devices: Sequence[int], pooled: int
) -> list[OpSkew]:
    """Ops by how much longer the slowest device took than the fastest, call by call."""
    differences = times.max(axis=1) - times.min(axis=1)
    found: list[OpSkew] = []
    for rows in Groups(op).rows():
        sums = times[rows].sum(axis=0) / pooled
        fast, slow = int(sums.argmin()), int(sums.argmax())
        found.append(
            OpSkew(
                op=str(op[rows[:1]].tolist()[0]),
                count=round(len(rows) / pooled),
                skew_us=float(differences[rows].sum()) / pooled,
                fastest_device=devices[fast],
                fastest_us=float(sums[fast]),
                slowest_device=devices[slow],
                slowest_us=float(sums[slow]),
                worst_id=int(ids[rows[differences[rows].argmax()]]),
            )
        )
    return sorted(found, key=lambda each: (-each.skew_us, each.op))


def _waits(
    op: Categorical, times: Floats, devices: Sequence[int], pooled: int
) -> tuple[CollectiveWait, ...]:
    waited, last = _waited(times), times.argmin(axis=1)
    found: list[CollectiveWait] = []
    for rows in Groups(op).rows():
        often = np.bincount(last[rows], minlength=len(devices))
        found.append(
            CollectiveWait(
                op=str(op[rows[:1]].tolist()[0]),
                count=round(len(rows) / pooled),
                calls=len(rows),
                last_device=devices[int(often.argmax())],
                last_calls=int(often.max()),
                # The last device to arrive waits for none.
                mean_wait_us=float(waited[rows].sum()) / (len(rows) * (len(devices) - 1)),
                longest_wait_us=float(waited[rows].max()),
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.mean_wait_us * each.calls, each.op)))
