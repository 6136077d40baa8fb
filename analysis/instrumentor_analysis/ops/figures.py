"""Per-op frames to the figures of a summary: categories, slow ops, gaps, utilisation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from instrumentor_analysis.load.table import (
    Categorical,
    Floats,
    Groups,
    Mask,
    Table,
    any_known,
    by_figure,
    concat,
    distinct,
    total,
)
from instrumentor_analysis.model import (
    GAP_THRESHOLD_US,
    MOST_PERCENT,
    PAUSE_US,
    UNBALANCED,
    Category,
    Devices,
    DeviceTime,
    Gaps,
    SlowOp,
)
from instrumentor_analysis.ops.categories import ORDER
from instrumentor_analysis.ops.overlap import union
from instrumentor_analysis.ops.stacked import kinds
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.units import quantity

#: Rising edges of the gap histogram, microseconds; one more bin lies above the last.
GAP_EDGES_US = (1.0, 2.0, 6.5, 10.0, 20.0, 50.0, 100.0, 500.0, 1000.0, 10_000.0, 100_000.0)
#: Ops in slow_ops of summary.json.
MOST_SLOW_OPS = 15


def categories(ops: Table, pooled: int = 1, column: str = "category") -> tuple[Category, ...]:
    """Device time by our categories, in the order of charts; those without an op left out."""
    found = [
        Category(each.name, each.us / 1000 / pooled, each.percent, round(each.count / pooled))
        for each in by_time(Groups(ops[column]), ops[column], ops["device_time_us"])
    ]
    return tuple(sorted(found, key=lambda each: ORDER.index(each.name)))


class Total(Struct, frozen=True):
    """The rows of one group: its number, name, rows, time and share of the time of all."""

    group: int
    name: str
    count: int
    us: float
    percent: float | None


def by_time(groups: Groups, names: Categorical, times_us: Floats) -> list[Total]:
    """Groups of rows by their time, most first, then by name.

    Args:
        names: name of each row; that of a group's first row names the group.
        times_us: time of each row; NaN counts as 0.
    """
    sums = groups.sums(times_us)
    whole = float(sums.sum())
    columns = names[groups.first].tolist(), groups.sizes.tolist(), sums.tolist()
    found = [
        Total(at, str(name), count, us, us / whole * 100 if whole else None)
        for at, (name, count, us) in enumerate(zip(*columns, strict=True))
    ]
    return sorted(found, key=lambda each: (-each.us, each.name))


def slow_ops(ops: Table, pooled: int = 1) -> tuple[SlowOp, ...]:
    """Ops by name, most device time first; bound and limits are those of most of their time."""
    name, time = kinds(ops, "op"), ops["device_time_us"]
    groups = Groups(name)
    timed, category = groups.counts(time), ops["category"][groups.first].tolist()
    bounds, limits = (_of_most_time(groups, name, ops[each], time) for each in ("bound", "limits"))
    return tuple(
        SlowOp(
            op=each.name,
            count=round(each.count / pooled),
            device_time_ms=each.us / 1000 / pooled if timed[each.group] else None,
            percent=each.percent,
            bound=bounds[each.group],
            category=str(category[each.group]),
            limits=limits[each.group],
        )
        for each in by_time(groups, name, time)[:MOST_SLOW_OPS]
    )


def _of_most_time(
    groups: Groups, name: Categorical, told: Categorical, time: Floats
) -> dict[int, str | None]:
    """By group of a name, what is told of most of its time; None where that is nothing."""
    apart, most = Groups(name, told), dict[int, str | None]()
    values = told[apart.first].tolist()
    for found in by_time(apart, name, time):
        # Sorted by time, so the first one of a name is that of most of its time.
        group = int(groups.which[apart.first[found.group]])
        most.setdefault(group, values[found.group] or None)
    return most


def torch_slow_ops(steps: Sequence[Table]) -> tuple[SlowOp, ...]:
    """Slow ops of profiled steps: by device time where there is any, else by self time.

    The median of the steps, with their range.
    """
    every = concat(steps)
    on_device, groups = any_known(every["device_time_us"]), Groups(every["op"])
    which = np.split(groups.which, np.cumsum([len(step) for step in steps])[:-1])

    def by_step(column: str) -> Floats:
        """Sum of each name, a row for each step, milliseconds."""
        sums = [
            np.bincount(at, np.nan_to_num(step[column]), len(groups)) / 1000
            for at, step in zip(which, steps, strict=True)
        ]
        return np.array(sums, np.float64)

    own, device = by_step("self_time_us"), by_step("device_time_us")
    ms = device if on_device else own
    middle_ms, several = np.median(ms, axis=0), len(steps) > 1
    whole = float(middle_ms.sum())
    counts = np.median([np.bincount(at, minlength=len(groups)) for at in which], axis=0)
    names = every["op"][groups.first].tolist()
    category = every["torch_category"][groups.first].tolist()
    order = sorted(range(len(groups)), key=lambda at: (-middle_ms[at], names[at]))
    return tuple(
        SlowOp(
            op=names[at],
            count=round(float(counts[at])),
            device_time_ms=float(middle_ms[at]) if on_device else None,
            percent=float(middle_ms[at]) / whole * 100 if whole else None,
            bound=None,
            category=category[at],
            op_self_time_ms=float(np.median(own[:, at])),
            low_ms=float(ms[:, at].min()) if several else None,
            high_ms=float(ms[:, at].max()) if several else None,
        )
        for at in order[:MOST_SLOW_OPS]
    )


def matmul_flops_percent(ops: Table) -> float | None:
    """FLOPs utilisation of all matmuls, weighted by device time; None without any."""
    time, used = ops["device_time_us"], ops["flops_percent"]
    matmul = ops["bound_analysis"].equals("full") & ~np.isnan(used)
    whole = total(time[matmul])
    return total(used[matmul] * time[matmul]) / whole if whole else None


def overall_dram(ops: Table) -> tuple[float | None, float | None]:
    """DRAM GB/s and % of all modelled ops over the device time of all ops; None without any."""
    time, moved = total(ops["device_time_us"]), total(ops["dram_bytes"])
    if time == 0 or moved == 0:
        return None, None
    # No share at all of an unknown peak, rather than 0 % of it.
    share = ops["dram_percent"]
    weighted = total(share * ops["device_time_us"]) / time if any_known(share) else None
    return moved / (time * 1e-6) / 1e9, weighted


def gaps(ops: Table, pooled: int = 1) -> Gaps | None:
    """Distribution of the op-to-op gaps; None when there is none.

    Args:
        pooled: number of steps in the frame; counts and sums are of one.
    """
    values = ops["gap_us"]
    values = values[~np.isnan(values)]
    if len(values) == 0:
        return None
    # Right-closed bins: a gap of just 6.5 us is not above the threshold.
    counts = np.bincount(np.searchsorted(GAP_EDGES_US, values), minlength=len(GAP_EDGES_US) + 1)
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


def device_time(rows: Table, ops: Table, pooled: int = 1) -> DeviceTime:
    """Kernel and firmware time, and how busy the busiest device was.

    Args:
        rows: raw rows of the window, all devices.
        ops: the per-op frame made of them (devices merged).

    The cycles of the firmware's start and end give the span; the rows' own durations turn cycles
    to time. Over pooled steps there is no span: what lies between is no step.
    """
    kernel = ops["device_time_us"]
    firmware = np.where(np.isnan(kernel), np.nan, ops["firmware_time_us"])
    span, busy = _span(rows) if pooled == 1 else (None, None)
    return DeviceTime(
        kernel_ms=total(kernel) / 1000 / pooled if any_known(kernel) else None,
        firmware_ms=total(firmware) / 1000 / pooled if any_known(firmware) else None,
        span_ms=span,
        busy_percent=busy,
        devices=len(distinct(rows["device_id"])),
    )


def _span(rows: Table) -> tuple[float | None, float | None]:
    """Span in ms and busy percent of the device with most firmware time.

    Firmware times of neighbouring ops overlap (the next op is launched while one runs), so busy
    is the union of their intervals, not their sum.
    """
    start, end, spent = (
        rows[name]
        for name in ("firmware_start_cycle", "firmware_end_cycle", "firmware_duration_ns")
    )
    good = ~np.isnan(start + end + spent + rows["device_id"])
    best: tuple[float, float, float] | None = None
    for at in by_figure(np.where(good, rows["device_id"], np.nan))[1]:
        found = _busy(start[at], end[at], spent[at])
        if found is not None and (best is None or found[0] > best[0]):
            best = found
    return (None, None) if best is None else best[1:]


def _busy(start: Floats, end: Floats, spent: Floats) -> tuple[float, float, float] | None:
    """Firmware time in ns, span in ms and busy percent of one device; None of broken cycles."""
    cycles, time = float((end - start).sum()), float(spent.sum())
    span = float(end.max() - start.min())
    if cycles <= 0 or span <= 0:
        return None
    # No column gives the clock rate: ns per cycle follow from the rows' own durations and cycles.
    return time, span * time / cycles / 1e6, union(start, end) / span * 100


def program_cache_hit_percent(ops: Table) -> float | None:
    """Share of ops whose program was in the cache; None where the file does not say."""
    hit = ops["program_cache_hit"]
    known = int(hit.known().sum())
    return int(_says_yes(hit).sum()) / known * 100 if known else None


def evaluates_constants(ops: Table) -> Mask:
    """Which ops prepare constants; none where the file does not say."""
    if "const_eval" not in ops:
        return np.zeros(len(ops), np.bool_)
    return _says_yes(ops["const_eval"])


def _says_yes(column: Categorical) -> Mask:
    yes = [str(value).lower() in ("true", "1", "1.0", "yes") for value in column.values]
    return column.spread(yes, False, np.bool_)


def bounds(ops: Table) -> dict[str, float]:
    """Share of the device time by bound, percent."""
    found = by_time(Groups(ops["bound"]), ops["bound"], ops["device_time_us"])
    return {each.name: each.percent or 0.0 for each in found}


def unbalanced(devices: Devices | None) -> list[Caveat]:
    """That one device has the others wait, and for which op."""
    slowest = None if devices is None else devices.slowest
    if devices is None or slowest is None or (devices.max_over_mean or 0.0) < UNBALANCED:
        return []
    text = (
        f"Device {slowest.device_id} worked {quantity(slowest.device_time_ms, 'ms')}, "
        f"{devices.max_over_mean:.2f} times the mean of the {len(devices.rows)} devices"
    )
    for op in devices.ops[:1]:
        text += (
            f"; the op that differs most is {op.op}: {quantity(op.slowest_us, 'us')} on device "
            f"{op.slowest_device}, {quantity(op.fastest_us, 'us')} on device {op.fastest_device}"
        )
    return [Caveat("unbalanced", text)]


def remarks(ops: Table, pooled: int = 1, *, timed: bool = True) -> list[Caveat]:
    """What the reader of a per-op frame must know before trusting its figures.

    Args:
        pooled: number of steps in the frame; counts are of one, and at least 1.
        timed: the device's cycles are times; of a simulator's none is missing.
    """
    found = [*_doubtful(ops, pooled), *_not_of_every_step(ops, pooled)]
    return [each for each in found if timed or each.kind != "invalid-durations"]


def _doubtful(ops: Table, pooled: int) -> Iterator[Caveat]:
    """Figures that are missing, or more than the hardware can do."""
    invalid = _some((ops["invalid_duration"] & ~ops["is_signpost"] & ~ops["is_host"]).sum(), pooled)
    if invalid:
        who, left = ("op has", "is") if invalid == 1 else ("ops have", "are")
        text = f"{invalid:,} {who} no valid device duration and {left} left out of the figures."
        yield Caveat("invalid-durations", text)
    if ops["sparse_batches_missing"].any():
        text = (
            "Sparse matmuls without a numeric nnz have no utilisation. --active-experts K models K "
            "active experts per input batch group."
        )
        yield Caveat("sparse-matmuls", text)
    above = (ops["dram_percent"] > MOST_PERCENT) | (ops["flops_percent"] > MOST_PERCENT)
    if above.any():
        count = _some(above.sum(), pooled)
        highest = float(np.nanmax([ops["dram_percent"], ops["flops_percent"]]))
        text = (
            f"{'1 op shows' if count == 1 else f'{count:,} ops show'} more than "
            f"{MOST_PERCENT:.0f} % of a peak (up to {highest:,.0f} %), so the architecture or the "
            "core count is probably wrong. --arch changes it."
        )
        yield Caveat("above-peak", text)


def _not_of_every_step(ops: Table, pooled: int) -> Iterator[Caveat]:
    """Work that a steady step would not have, pauses of the host, and ops that may overlap."""
    hits = program_cache_hit_percent(ops)
    if hits is not None and hits < 100:
        text = (
            f"Not steady: {100 - hits:.0f} % of the ops missed the program cache, because their "
            "programs were compiled within the window."
        )
        yield Caveat("program-cache", text)
    again = _some(evaluates_constants(ops).sum(), pooled)
    if again:
        text = (
            f"{again} ops evaluate constants (weights prepared on the device). A steady step "
            "should not repeat that."
        )
        yield Caveat("const-eval", text)
    pauses_us = ops["gap_us"][ops["gap_us"] > PAUSE_US]
    if len(pauses_us):
        yield _pauses(float(pauses_us.mean()) / 1000, _some(len(pauses_us), pooled))
    budgets = distinct(ops["available_cores"]).tolist()[::-1]
    if len(budgets) > 1 or (budgets and ops["sub_device_id"].known().any()):
        grids = ", ".join(f"{budget:g}" for budget in budgets)
        text = (
            f"Ops had different worker grids ({grids} cores). Those on disjoint sub-devices may "
            "overlap, so sums of device time are not elapsed time."
        )
        yield Caveat("sub-devices", text)


def _pauses(mean_ms: float, count: int) -> Caveat:
    """That gaps were left out of the savings: they would be most of them."""
    size_ms = mean_ms * count
    size = quantity(size_ms, "ms")
    limit, cause = f"above {PAUSE_US / 1000:.0f} ms", "of the host, such as compilation"
    text = f"{count:,} gaps {limit} ({size} together) are pauses {cause}: they are"
    if count == 1:
        text = f"1 gap {limit} ({size}) is a pause {cause}: it is"
    text += " left out of the potential savings. Choose a steady step."
    return Caveat("pauses", text)


def _some(count: int, pooled: int) -> int:
    """A count per step; what happened in one of many steps is not nothing."""
    return max(round(int(count) / pooled), 1) if count else 0
