"""What could be won at most: each op at its roofline, on all its cores, each gap at 6.5 us.

A gap above 10 ms is a pause of the host, not dispatch: no change to the step would win it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from instrumentor_analysis.model import GAP_THRESHOLD_US, PAUSE_US, Saving, SavingKind

if TYPE_CHECKING:
    import pandas as pd

    from instrumentor_analysis.roofline import Architecture

#: Savings below this share of the window are not worth a line, percent.
LEAST_PERCENT = 0.1
#: Each kind of saving, and what it takes.
CONDITIONS: Mapping[SavingKind, str] = {
    "bound": "at its bound",
    "grid": "on all its cores",
    "gap": f"gaps at {GAP_THRESHOLD_US} us",
}


def ideal_us(ops: pd.DataFrame, arch: Architecture, *, all_cores: bool = False) -> pd.Series[float]:
    """Time of each modelled op at its bound: the later of its FLOPs and its DRAM traffic.

    The roofline of Williams, Waterman and Patterson (2009); NaN for ops without a model.

    Args:
        all_cores: with the FLOPs on all the cores that the op had, not on those that it used.
    """
    import pandas as pd

    compute = ops["flops"] / ops["peak_flops"] * 1e6
    if all_cores:
        more = ops["available_cores"] / ops["cores"]
        # A DRAM-sharded matmul computes beside the DRAM banks, and nowhere else.
        compute /= more.where((more > 1) & ~ops["dram_sharded"].astype(bool), 1.0)
    memory = ops["dram_bytes"] / (arch.dram_gb_s * 1e9) * 1e6
    return pd.concat([compute, memory], axis=1).max(axis=1)


def above_bound_us(ops: pd.DataFrame, arch: Architecture) -> pd.Series[float]:
    """Time of each op beyond its bound; NaN for ops without a model."""
    return (ops["device_time_us"] - ideal_us(ops, arch)).clip(lower=0)


def _grid_us(ops: pd.DataFrame, arch: Architecture) -> pd.Series[float]:
    """What all its cores would win an op beyond its bound; one above a peak has less of it."""
    at_bound = ops["device_time_us"].clip(upper=ideal_us(ops, arch))
    return at_bound - ideal_us(ops, arch, all_cores=True)


def savings(ops: pd.DataFrame, arch: Architecture, pooled: int = 1) -> tuple[Saving, ...]:
    """Theoretical savings per op (name and shape) and step, most first.

    Args:
        pooled: number of steps in the frame.

    They do not add up: an op that becomes faster may uncover a gap before the next one.
    """
    import pandas as pd

    time, gap = ops["device_time_us"], ops["gap_us"]
    gap = gap.where(gap <= PAUSE_US)
    total = float(time.sum() + gap.sum())
    if not total:
        return ()
    kinds: dict[SavingKind, tuple[pd.Series[float], pd.Series[float]]] = {
        "bound": (time, above_bound_us(ops, arch)),
        "grid": (time, _grid_us(ops, arch)),
        "gap": (gap, gap - GAP_THRESHOLD_US),
    }
    found: list[Saving] = []
    for kind, (now, won) in kinds.items():
        useful = won > 0
        table = pd.DataFrame({"now": now[useful], "won": won[useful]})
        by_op = table.groupby(ops["op"][useful].astype("object"), sort=True)
        sums, counts = by_op.sum(), by_op.size()
        found += [
            Saving(
                op=str(name),
                kind=kind,
                count=round(int(count) / pooled),
                now_us=float(now_us) / pooled,
                saving_us=float(won_us) / pooled,
                percent=float(won_us) / total * 100,
            )
            for name, now_us, won_us, count in zip(
                sums.index, sums["now"], sums["won"], counts, strict=True
            )
            if won_us / total * 100 >= LEAST_PERCENT
        ]
    return tuple(sorted(found, key=lambda saving: -saving.saving_us))
