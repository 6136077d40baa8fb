"""The stacked report: device time of ops of one kind together.

Columns: ``percent`` (of the device time of all rows, or of the device), ``name``, ``device_id``
when devices are kept apart, ``device_time_us``, ``count``, ``tt_perf_report_category``,
``category``, and of the FLOPs utilisation ``flops_percent_min``, ``_max``, ``_mean``, ``_std``,
``_weighted_mean`` (weighted by device time), sorted by device time, most first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pandas as pd

GroupBy = Literal["op", "memory", "category"]


def stacked(
    ops: pd.DataFrame, group_by: GroupBy = "memory", *, per_device: bool = False
) -> pd.DataFrame:
    """Add up a per-op frame; signposts count for nothing, host ops with no device time.

    Args:
        ops: see :func:`instrumentor_analysis.device.per_op`.
        group_by: op name, op name and place of input 0, or tt-perf-report's category.
        per_device: keep devices apart; percentages are then of each device.
    """
    import pandas as pd

    rows = ops[~ops["is_signpost"]]
    name = _names(rows, group_by)
    time = rows["device_time_us"].where(~rows["is_host"], rows["device_time_us"].fillna(0))
    utilised = rows["flops_percent"].notna()
    table = pd.DataFrame(
        {
            "name": name,
            "device_id": rows["device_id"],
            "device_time_us": time,
            "tt_perf_report_category": rows["tt_perf_report_category"].astype("str"),
            "category": rows["category"].astype("str"),
            "flops_percent": rows["flops_percent"],
            "_weighted": rows["flops_percent"] * time,
            "_weight": time.where(utilised),
        }
    )
    keys = ["name", "device_id"] if per_device else ["name"]
    grouped = table.groupby(keys, sort=True)
    result = grouped.agg(
        device_time_us=("device_time_us", "sum"),
        count=("device_time_us", "size"),
        tt_perf_report_category=("tt_perf_report_category", "first"),
        category=("category", "first"),
        flops_percent_min=("flops_percent", "min"),
        flops_percent_max=("flops_percent", "max"),
        flops_percent_mean=("flops_percent", "mean"),
        flops_percent_std=("flops_percent", "std"),
    ).reset_index()
    # Over all devices, as in tt-perf-report, even when the rows are per device.
    sums = table.groupby("name")[["_weighted", "_weight"]].sum()
    weight = sums["_weight"].where(sums["_weight"] > 0)
    result["flops_percent_weighted_mean"] = result["name"].map(sums["_weighted"] / weight)
    if per_device:
        total = result.groupby("device_id")["device_time_us"].transform("sum")
    else:
        total = pd.Series(result["device_time_us"].sum(), index=result.index)
    result.insert(0, "percent", (result["device_time_us"] / total * 100).fillna(0.0))
    return result.sort_values("device_time_us", ascending=False, kind="stable", ignore_index=True)


def _names(rows: pd.DataFrame, group_by: GroupBy) -> pd.Series[str]:
    import pandas as pd

    if group_by == "category":
        return rows["tt_perf_report_category"].astype("str")
    # Per distinct value, not per row: there are few.
    codes, distinct = pd.factorize(rows["op_code"].astype("object"))
    words = [(str(op).split(maxsplit=1) or [""])[0] for op in distinct]
    name = pd.Series([words[code] for code in codes], index=rows.index, dtype="object")
    if group_by == "op":
        return name
    places, memories = pd.factorize(rows["input_0_memory"].astype("object"))
    labels = [_place(str(memory)) for memory in memories]
    where = pd.Series([labels[p] if p >= 0 else "" for p in places], index=rows.index)
    return name + where


def _place(memory: str) -> str:
    """``DEV_0_DRAM_INTERLEAVED`` to `` (in0:dram_interleaved)``."""
    parts = memory.split("_")
    return f" (in0:{parts[-2].lower()}_{parts[-1].lower()})" if len(parts) > 1 else ""
