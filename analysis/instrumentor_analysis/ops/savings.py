"""Potential savings, an upper bound: each op at its roofline, on all its cores, each gap at 6.5 us.

A gap above 10 ms is a pause of the host, not dispatch: no change to the step would win it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from instrumentor_analysis.load.table import Floats, Groups, Table, quotient, total
from instrumentor_analysis.model import GAP_THRESHOLD_US, PAUSE_US, Saving, SavingKind
from instrumentor_analysis.ops.figures import by_time

if TYPE_CHECKING:
    from instrumentor_analysis.ops.roofline import Architecture

#: Savings below this share of the window are not worth a line, percent.
LEAST_PERCENT = 0.1


def ideal_us(ops: Table, arch: Architecture, *, all_cores: bool = False) -> Floats:
    """Time of each modelled op at its bound: the later of its FLOPs and its DRAM traffic.

    The roofline of Williams, Waterman and Patterson (2009); NaN for ops without a model.

    Args:
        all_cores: with the FLOPs on all the cores that the op had, not on those that it used.
    """
    compute = ops["flops"] / ops["peak_flops"] * 1e6
    if all_cores:
        more = quotient(ops["available_cores"], ops["cores"])
        # A DRAM-sharded matmul computes beside the DRAM banks, and nowhere else.
        compute = compute / np.where((more > 1) & ~ops["dram_sharded"], more, 1.0)
    memory = ops["dram_bytes"] / (arch.dram_gb_s * 1e9) * 1e6
    later: Floats = np.fmax(compute, memory)
    return later


def above_bound_us(ops: Table, arch: Architecture) -> Floats:
    """Time of each op beyond its bound; NaN for ops without a model."""
    beyond: Floats = np.maximum(ops["device_time_us"] - ideal_us(ops, arch), 0)
    return beyond


def _grid_us(ops: Table, arch: Architecture) -> Floats:
    """Time that an op at its bound would save on all its cores; less for an op above a peak."""
    at_bound = np.fmin(ops["device_time_us"], ideal_us(ops, arch))
    return at_bound - ideal_us(ops, arch, all_cores=True)


def savings(ops: Table, arch: Architecture, pooled: int = 1) -> tuple[Saving, ...]:
    """Theoretical savings per op (name and shape) and step, most first.

    Args:
        pooled: number of steps in the frame.

    They do not add up: an op that becomes faster may uncover a gap before the next one.
    """
    time, gap = ops["device_time_us"], ops["gap_us"]
    gap = np.where(gap <= PAUSE_US, gap, np.nan)
    whole = total(time) + total(gap)
    if not whole:
        return ()
    kinds: dict[SavingKind, tuple[Floats, Floats]] = {
        "bound": (time, above_bound_us(ops, arch)),
        "grid": (time, _grid_us(ops, arch)),
        "gap": (gap, gap - GAP_THRESHOLD_US),
    }
    found: list[Saving] = []
    for kind, (now, won) in kinds.items():
        useful = np.flatnonzero(won > 0)
        if not len(useful):
            continue
        names = ops["op"][useful]
        groups = Groups(names)
        now_us = groups.sums(now[useful]).tolist()
        found += [
            Saving(
                op=each.name,
                kind=kind,
                count=round(each.count / pooled),
                now_us=now_us[each.group] / pooled,
                saving_us=each.us / pooled,
                percent=each.us / whole * 100,
            )
            for each in by_time(groups, names, won[useful])
            if each.us / whole * 100 >= LEAST_PERCENT
        ]
    return tuple(sorted(found, key=lambda saving: (-saving.saving_us, saving.op)))
