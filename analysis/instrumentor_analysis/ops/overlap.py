"""How much of a device's communication other ops hide: collectives beside what computes.

On one device alone, whose own clock says when each op ran: chips' clocks do not agree. A kernel is
taken to run up to the end of its firmware, for as long as its duration says, since an op's firmware
begins while the op before it still runs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from instrumentor_analysis.load.table import Floats, Mask, Table, by_figure
from instrumentor_analysis.ops.merge import valid_duration_ns

#: Parts of names of ops that move data between chips, waiting or not.
COMMUNICATION = (
    "AllGather",
    "AllReduce",
    "ReduceScatter",
    "AllToAll",
    "AllBroadcast",
    "Send",
    "Recv",
)


class Communication(Struct, frozen=True):
    """Of one device in a window: time in collectives, and of it beside other ops, in ms."""

    ms: float
    hidden_ms: float


def communication(rows: Table) -> Mapping[int, Communication]:
    """By device; none of a device without collectives, or without the cycles of its ops.

    Args:
        rows: raw rows of the window, all devices.
    """
    start, end = rows["firmware_start_cycle"], rows["firmware_end_cycle"]
    firmware_ns, kernel_ns = rows["firmware_duration_ns"], valid_duration_ns(rows)
    names = rows["op_code"]
    sends: Mask = names.spread(
        [any(part in str(name) for part in COMMUNICATION) for name in names.values], False, np.bool_
    )
    known = ~np.isnan(start + end + firmware_ns + kernel_ns + rows["device_id"])
    found: dict[int, Communication] = {}
    devices, per_device = by_figure(np.where(known, rows["device_id"], np.nan))
    for device, at in zip(devices, per_device, strict=True):
        cycles = float((end[at] - start[at]).sum())
        if not sends[at].any() or cycles <= 0:
            continue
        # No column gives the clock rate: it follows from the rows' own durations and cycles.
        ns = float(firmware_ns[at].sum()) / cycles
        until = end[at] * ns
        since, sent = until - kernel_ns[at], sends[at]
        both, mine = union(since, until), union(since[sent], until[sent])
        others = union(since[~sent], until[~sent])
        found[int(device)] = Communication(mine / 1e6, max(0.0, mine + others - both) / 1e6)
    return found


def union(start: Floats, end: Floats) -> float:
    """How long at least one of these intervals lasts."""
    if not len(start):
        return 0.0
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reached = np.concatenate(([-np.inf], np.maximum.accumulate(end)[:-1]))
    return float(np.maximum(end - np.maximum(start, reached), 0).sum())
