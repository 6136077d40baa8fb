"""What could be won at most: each op at its roofline, each gap at 6.5 us."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.model import GAP_THRESHOLD_US, Saving
from analysis.roofline import Architecture

if TYPE_CHECKING:
    import pandas as pd

#: Savings below this share of the window are not worth a line, percent.
LEAST_PERCENT = 0.1


def ideal_us(ops: pd.DataFrame, arch: Architecture) -> pd.Series[float]:
    """Time of each modelled op at its bound: the later of its FLOPs and its DRAM traffic.

    The roofline of Williams, Waterman and Patterson (2009); NaN for ops without a model.
    """
    import pandas as pd

    compute = ops["flops"] / ops["peak_flops"] * 1e6
    memory = ops["dram_bytes"] / (arch.dram_gb_s * 1e9) * 1e6
    return pd.concat([compute, memory], axis=1).max(axis=1)


def savings(ops: pd.DataFrame, arch: Architecture, pooled: int = 1) -> tuple[Saving, ...]:
    """Theoretical savings per op name and step, most first.

    Args:
        pooled: number of steps in the frame.

    They do not add up: an op that becomes faster may uncover a gap before the next one.
    """
    import pandas as pd

    time, gap = ops["device_time_us"], ops["gap_us"]
    total = float(time.sum() + gap.sum())
    table = pd.DataFrame(
        {
            "name": ops["op_code"].astype("str").str.split().str[0],
            "now_bound": time,
            "bound": (time - ideal_us(ops, arch)).clip(lower=0),
            "now_gap": gap,
            "gap": (gap - GAP_THRESHOLD_US).clip(lower=0),
        }
    )
    found: list[Saving] = []
    for name, rows in table.groupby("name", sort=True):
        for kind in ("bound", "gap"):
            useful = rows[rows[kind] > 0]
            won = float(useful[kind].sum())
            percent = won / total * 100 if total else None
            if percent is not None and percent >= LEAST_PERCENT:
                found.append(
                    Saving(
                        op=str(name),
                        kind="bound" if kind == "bound" else "gap",
                        count=round(len(useful) / pooled),
                        now_us=float(useful[f"now_{kind}"].sum()) / pooled,
                        saving_us=won / pooled,
                        percent=percent,
                    )
                )
    return tuple(sorted(found, key=lambda saving: -saving.saving_us))
