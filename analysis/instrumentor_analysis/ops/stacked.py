"""The stacked report: device time of ops of one kind together.

Columns: ``percent`` (of the device time of all rows, or of the device), ``name``, ``device_id``
when devices are kept apart, ``device_time_us``, ``count``, ``tt_perf_report_category``,
``category``, and of the FLOPs utilisation ``flops_percent_min``, ``_max``, ``_mean``, ``_std``,
``_weighted_mean`` (weighted by device time), sorted by device time, most first.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from instrumentor_analysis.load.table import Categorical, Groups, Table, quotient

GroupBy = Literal["op", "memory", "category"]


def stacked(ops: Table, group_by: GroupBy = "memory", *, per_device: bool = False) -> Table:
    """Add up a per-op frame; signposts count for nothing, host ops with no device time.

    Args:
        ops: see :func:`instrumentor_analysis.ops.per_op.per_op`.
        group_by: op name, op name and place of input 0, or tt-perf-report's category.
        per_device: keep devices apart; percentages are then of each device.
    """
    rows = ops.take(~ops["is_signpost"])
    if per_device:
        rows = rows.take(~np.isnan(rows["device_id"]))
    time, used = rows["device_time_us"], rows["flops_percent"]
    name = kinds(rows, group_by)
    by_name = Groups(name)
    groups = Groups(name, rows["device_id"]) if per_device else by_name
    utilised = ~np.isnan(used)
    # Over all devices, as in tt-perf-report, even when the rows are per device.
    weights = by_name.sums(np.where(utilised, time, 0.0))
    means = quotient(by_name.sums(used * time), weights)
    sums = groups.sums(time)
    whole = np.full(len(groups), sums.sum())
    if per_device:
        devices = Groups(rows["device_id"][groups.first])
        whole = devices.sums(sums)[devices.which]
    first = groups.first
    table: dict[str, Any] = {
        "percent": np.nan_to_num(quotient(sums, whole)) * 100,
        "name": name[first],
        **({"device_id": rows["device_id"][first]} if per_device else {}),
        "device_time_us": sums,
        "count": groups.sizes,
        "tt_perf_report_category": rows["tt_perf_report_category"][first],
        "category": rows["category"][first],
        "flops_percent_min": groups.apply(np.min, used),
        "flops_percent_max": groups.apply(np.max, used),
        "flops_percent_mean": groups.means(used),
        "flops_percent_std": groups.stdevs(used),
        "flops_percent_weighted_mean": means[by_name.which[first]],
    }
    # Equal times are ordered by name, as a group-by that sorts leaves them.
    keys = [[str(text) for text in table["name"].tolist()], (-sums).tolist()]
    if per_device:
        keys.insert(1, table["device_id"].tolist())
    order = sorted(range(len(sums)), key=lambda at: (keys[-1][at], *(k[at] for k in keys[:-1])))
    return Table(table).take(np.asarray(order, np.intp))


def kinds(rows: Table, group_by: GroupBy) -> Categorical:
    """The name under which each op is added up."""
    if group_by == "category":
        category: Categorical = rows["tt_perf_report_category"]
        return category
    code: Categorical = rows["op_code"]
    words = code.map([first_word(str(op)) for op in code.values])
    if group_by == "op":
        return words
    memory = rows["input_0_memory"]
    places = memory.map(["" if place is None else _place(str(place)) for place in memory.values])
    groups = Groups(words, places)
    names = zip(words[groups.first], places[groups.first], strict=True)
    return Categorical(groups.which, [f"{word}{place or ''}" for word, place in names])


def first_word(op_code: str) -> str:
    """An op's name without what follows it."""
    return (op_code.split(maxsplit=1) or [""])[0]


def _place(memory: str) -> str:
    """``DEV_0_DRAM_INTERLEAVED`` to `` (in0:dram_interleaved)``."""
    parts = memory.split("_")
    return f" (in0:{parts[-2].lower()}_{parts[-1].lower()})" if len(parts) > 1 else ""
