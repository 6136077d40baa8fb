"""Per-op frames to the figures of a summary: categories, slow ops, gaps, utilisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instrumentor_analysis.categories import ORDER
from instrumentor_analysis.model import (
    GAP_THRESHOLD_US,
    PAUSE_US,
    Category,
    DeviceTime,
    Gaps,
    SlowOp,
)
from instrumentor_analysis.verdict import Shares

if TYPE_CHECKING:
    import pandas as pd

#: Rising edges of the gap histogram, microseconds; one more bin lies above the last.
GAP_EDGES_US = (1.0, 2.0, 6.5, 10.0, 20.0, 50.0, 100.0, 500.0, 1000.0, 10_000.0, 100_000.0)
MOST_SLOW_OPS = 15
#: More of a peak than this is no op's doing, percent; durations and peaks are rounded.
MOST_PERCENT = 105.0


def first_word(ops: pd.DataFrame) -> pd.Series[str]:
    """Op names without shapes, as the stacked report groups them."""
    import pandas as pd

    codes, distinct = pd.factorize(ops["op_code"].astype("object"))
    words = [(str(op).split(maxsplit=1) or [""])[0] for op in distinct]
    return pd.Series([words[code] for code in codes], index=ops.index, dtype="object")


def categories(ops: pd.DataFrame, pooled: int = 1) -> tuple[Category, ...]:
    """Device time by our categories, in the order of charts; those without an op left out."""
    name = ops["category"].astype("str")
    time = ops["device_time_us"].groupby(name).sum()
    count = name.value_counts()
    total = float(time.sum())
    return tuple(
        Category(
            category,
            float(time[category]) / 1000 / pooled,
            float(time[category]) / total * 100 if total else None,
            round(int(count[category]) / pooled),
        )
        for category in ORDER
        if category in count.index
    )


def slow_ops(ops: pd.DataFrame, pooled: int = 1) -> tuple[SlowOp, ...]:
    """Ops by name, most device time first; the bound is that of most of their time."""
    name = first_word(ops)
    total = float(ops["device_time_us"].sum())
    found: list[SlowOp] = []
    for op, rows in ops.groupby(name, sort=True):
        time = float(rows["device_time_us"].sum())
        bounds = rows["device_time_us"].fillna(0).groupby(rows["bound"]).sum()
        bound = str(bounds.idxmax()) if len(bounds) else ""
        found.append(
            SlowOp(
                op=str(op),
                count=round(len(rows) / pooled),
                device_time_ms=time / 1000 / pooled
                if rows["device_time_us"].notna().any()
                else None,
                percent=time / total * 100 if total else None,
                bound=bound or None,
                category=str(rows["category"].iloc[0]),
            )
        )
    found.sort(key=lambda slow: -(slow.device_time_ms or 0.0))
    return tuple(found[:MOST_SLOW_OPS])


def matmul_flops_percent(ops: pd.DataFrame) -> float | None:
    """FLOPs utilisation of all matmuls, weighted by device time; None without any."""
    matmuls = ops[(ops["bound_analysis"] == "full") & ops["flops_percent"].notna()]
    time = float(matmuls["device_time_us"].sum())
    if time == 0:
        return None
    return float((matmuls["flops_percent"] * matmuls["device_time_us"]).sum()) / time


def overall_dram(ops: pd.DataFrame) -> tuple[float | None, float | None]:
    """DRAM GB/s and % of all modelled ops over the device time of all ops; None without any."""
    time = float(ops["device_time_us"].sum())
    moved = float(ops["dram_bytes"].sum())
    if time == 0 or moved == 0:
        return None, None
    # No share at all of an unknown peak, rather than 0 % of it.
    known = bool(ops["dram_percent"].notna().any())
    weighted = float((ops["dram_percent"] * ops["device_time_us"]).sum())
    return moved / (time * 1e-6) / 1e9, weighted / time if known else None


def gaps(ops: pd.DataFrame, pooled: int = 1) -> Gaps | None:
    """Distribution of the op-to-op gaps; None when there is none.

    Args:
        pooled: number of steps in the frame; counts and sums are of one.
    """
    import numpy as np

    values = ops["gap_us"].dropna().to_numpy()
    if len(values) == 0:
        return None
    edges = [-np.inf, *GAP_EDGES_US, np.inf]
    # Right-closed bins: a gap of just 6.5 us is not above the threshold.
    counts = np.bincount(np.searchsorted(edges[1:-1], values), minlength=len(GAP_EDGES_US) + 1)
    long, pauses = values[values > GAP_THRESHOLD_US], values[values > PAUSE_US]
    return Gaps(
        count=round(len(values) / pooled),
        total_us=float(values.sum()) / pooled,
        median_us=float(np.median(values)),
        p95_us=float(np.percentile(values, 95)),
        max_us=float(values.max()),
        over_threshold_count=round(len(long) / pooled),
        over_threshold_us=float(long.sum()) / pooled,
        histogram=tuple(
            (edge, round(count / pooled))
            for edge, count in zip((*GAP_EDGES_US, None), counts.tolist(), strict=True)
        ),
        pause_count=round(len(pauses) / pooled),
        pause_us=float(pauses.sum()) / pooled,
    )


def device_time(rows: pd.DataFrame, ops: pd.DataFrame, pooled: int = 1) -> DeviceTime:
    """Kernel and firmware time, and how busy the busiest device was.

    Args:
        rows: raw rows of the window, all devices.
        ops: the per-op frame made of them (devices merged).

    The cycles of the firmware's start and end give the span; the rows' own durations turn cycles
    to time. Over pooled steps there is no span: what lies between is no step.
    """
    kernel = ops["device_time_us"]
    firmware = ops["firmware_time_us"].where(kernel.notna())
    span, busy = _span(rows) if pooled == 1 else (None, None)
    return DeviceTime(
        kernel_ms=float(kernel.sum()) / 1000 / pooled if kernel.notna().any() else None,
        firmware_ms=float(firmware.sum()) / 1000 / pooled if firmware.notna().any() else None,
        span_ms=span,
        busy_percent=busy,
        devices=int(rows["device_id"].nunique()),
    )


def _span(rows: pd.DataFrame) -> tuple[float | None, float | None]:
    """Span in ms and busy percent of the device with most firmware time.

    Firmware times of neighbouring ops overlap (the next op is launched while one runs), so busy
    is the union of their intervals, not their sum.
    """
    import numpy as np

    good = rows.dropna(
        subset=["firmware_start_cycle", "firmware_end_cycle", "firmware_duration_ns"]
    )
    best: tuple[float, float, float] | None = None
    for _, device in good.groupby("device_id"):
        device = device.sort_values("firmware_start_cycle")
        start = device["firmware_start_cycle"].to_numpy()
        end = np.maximum.accumulate(device["firmware_end_cycle"].to_numpy())
        spent = float(device["firmware_duration_ns"].sum())
        cycles = float((device["firmware_end_cycle"] - device["firmware_start_cycle"]).sum())
        span = float(end[-1] - start[0])
        idle = float(np.maximum(start[1:] - end[:-1], 0).sum())
        if cycles > 0 and span > 0 and (best is None or spent > best[0]):
            best = spent, span * spent / cycles, (span - idle) / span * 100
    return (None, None) if best is None else (best[1] / 1e6, best[2])


def program_cache_hit_percent(ops: pd.DataFrame) -> float | None:
    """Share of ops whose program was in the cache; None where the file does not say."""
    text = ops["program_cache_hit"].dropna().astype("str").str.lower()
    return None if text.empty else float(text.isin(["true", "1", "1.0", "yes"]).mean() * 100)


def evaluates_constants(ops: pd.DataFrame) -> pd.Series[bool]:
    """Which ops prepare constants; none where the file does not say."""
    import pandas as pd

    if "const_eval" not in ops.columns:
        return pd.Series(False, index=ops.index)
    return ops["const_eval"].astype("object").astype("str").str.lower().isin(["true", "1", "1.0"])


def shares(ops: pd.DataFrame) -> Shares:
    """Shares of the device time by category and by bound, percent."""
    time = ops["device_time_us"].fillna(0)
    total = float(time.sum())

    def share(mask: Any) -> float:
        return float(time[mask].sum()) / total * 100 if total else 0.0

    name = ops["category"].astype("str")
    return Shares(
        categories={category: share(name == category) for category in ORDER},
        dram=share(ops["bound"].isin(["DRAM", "BOTH"])),
        flop=share(ops["bound"].isin(["FLOP", "BOTH"])),
        slow=share(ops["bound"] == "SLOW"),
    )


def remarks(ops: pd.DataFrame, pooled: int = 1) -> list[str]:
    """What the reader of a per-op frame must know before trusting its figures.

    Args:
        pooled: number of steps in the frame; counts are of one, and at least 1.
    """
    found: list[str] = []
    invalid = _some((ops["invalid_duration"] & ~ops["is_signpost"] & ~ops["is_host"]).sum(), pooled)
    if invalid:
        found.append(
            f"{invalid} ops have no valid device duration; they count for nothing in the figures"
        )
    if ops["sparse_batches_missing"].any():
        found.append(
            "sparse matmuls without a numeric nnz have no utilisation; "
            "--active-experts K models K active experts per input batch group"
        )
    found += [*_above_peak(ops, pooled), *_pauses(ops, pooled)]
    hits = program_cache_hit_percent(ops)
    if hits is not None and hits < 100:
        found.append(
            f"{100 - hits:.0f} % of the ops missed the program cache: their programs were compiled "
            "within the window, so it is no steady state"
        )
    again = _some(evaluates_constants(ops).sum(), pooled)
    if again:
        found.append(
            f"{again} ops evaluate constants (weights prepared on the device); a steady step "
            "should not do that again"
        )
    budgets = sorted(ops["available_cores"].dropna().unique(), reverse=True)
    if len(budgets) > 1 or (budgets and ops["sub_device_id"].notna().any()):
        found.append(
            f"ops had different worker grids ({', '.join(map(str, budgets))} cores): those on "
            "disjoint sub-devices may overlap, so sums of device time are not elapsed time"
        )
    return found


def _some(count: int, pooled: int) -> int:
    """A count per step; what happened in one of many steps is not nothing."""
    return max(round(int(count) / pooled), 1) if count else 0


def _above_peak(ops: pd.DataFrame, pooled: int) -> list[str]:
    """That ops do more than the hardware can: what they are held against is wrong."""
    above = (ops["dram_percent"] > MOST_PERCENT) | (ops["flops_percent"] > MOST_PERCENT)
    count = _some(above.sum(), pooled)
    if not count:
        return []
    highest = float(ops[["dram_percent", "flops_percent"]].max().max())
    who = "1 op shows" if count == 1 else f"{count:,} ops show"
    return [
        f"{who} more than {MOST_PERCENT:.0f} % of a peak (up to {highest:,.0f} %): the "
        "architecture or the core count is probably wrong; --arch changes it"
    ]


def _pauses(ops: pd.DataFrame, pooled: int) -> list[str]:
    """That gaps were left out of the savings: they would be most of them."""
    pauses = ops["gap_us"][ops["gap_us"] > PAUSE_US]
    count = _some(len(pauses), pooled)
    if not count:
        return []
    size_ms = float(pauses.mean()) * count / 1000
    size = f"{size_ms / 1000:.1f} s" if size_ms >= 1000 else f"{size_ms:.0f} ms"
    limit = f"above {PAUSE_US / 1000:.0f} ms"
    what = f"{count:,} gaps {limit} ({size} together) are pauses of the host, such as compilation"
    if count == 1:
        what = f"1 gap {limit} ({size}) is a pause of the host, such as compilation"
    left_out = f"{'it is' if count == 1 else 'they are'} left out of what could be won"
    return [f"{what}: {left_out}; choose a steady step"]
