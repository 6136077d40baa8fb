"""Rows of a window to the figures of each op, vectorised.

``per_op`` gives one row per op with the columns of :data:`.op_columns.COLUMNS`; times in
microseconds, percentages 0 to 100, NaN or None where nothing was measured. The figures are those of
tt-perf-report 1.4.1; :func:`per_op` says where they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from instrumentor_analysis.load.cells import clean
from instrumentor_analysis.load.op_columns import COLUMNS, OpColumn
from instrumentor_analysis.load.ops_csv import SIGNPOST, device_ids
from instrumentor_analysis.load.schema import DIMENSIONS, NUMBERS, TENSORS, TEXT
from instrumentor_analysis.load.table import (
    Categorical,
    Floats,
    Mask,
    Positions,
    Table,
    number,
    total,
)
from instrumentor_analysis.ops.categories import category, is_host, tt_perf_report_category
from instrumentor_analysis.ops.limits import JUDGED, kernel_parts, limits
from instrumentor_analysis.ops.merge import BROKEN_GAP_NS, valid_duration_ns
from instrumentor_analysis.ops.op_models import OpModel, model
from instrumentor_analysis.ops.roofline import BOUND_PERCENT, Architecture, whole_cores

_STATIC = (
    "op_code",
    "op_type",
    "attributes",
    "math_fidelity",
    "core_count",
    *(f"{tensor}_{axis}" for tensor in TENSORS for axis in DIMENSIONS),
    *(f"{tensor}_{field}" for tensor in TENSORS for field in ("datatype", "memory")),
)
#: Characters that are kept of a sub-device ID that is no number.
_SUB_DEVICE_TEXT = 32
# What a model says as a figure, and as a flag.
_FIGURES = (
    *("flops", "dram_bytes", "peak_flops", "cores"),
    *("in0_block_w", "out_subblock_h", "out_subblock_w", "tiles"),
)
_FLAGS = ("dram_sharded", "sparse", "sparse_batches_missing")

#: Columns of a per-op frame, in order; ``location`` and ``const_eval`` follow where the file has
#: them.
NAMES = tuple(column.name for column in COLUMNS if column.always)


def per_op(frame: Table, arch: Architecture, active_experts: int | None = None) -> Table:
    """Figures of each row of a window, in its order.

    Args:
        frame: rows of :class:`.ops_csv.Ops`, filtered, ordered and merged; signpost rows
            may be among them and stay without figures.
        arch: what the figures are held against.
        active_experts: active experts per group of a sparse matmul that does not say.

    Where tt-perf-report 1.4.1 crashes this does not: a matmul or conv without memory, data type
    or math fidelity lacks the figures that need them; a signpost whose name contains "Matmul"
    is a signpost; columns that a file lacks are blank.
    """
    signpost = frame["op_type"].equals(SIGNPOST)
    which, first = number(*(frame[name] for name in _STATIC if name in frame))
    models = _models(frame, first, arch, active_experts)
    codes = [clean(op) for op in frame["op_code"].values]
    host = frame["op_code"].spread([is_host(code) for code in codes], False, np.bool_) & ~signpost
    modelled = _modelled(models, which.astype(np.int32))
    full = modelled["bound_analysis"].equals("full") & ~signpost
    columns = {
        **modelled,
        **_rates(frame, modelled, signpost, arch),
        **_cells(frame, arch),
        "op_code": Categorical(frame["op_code"].codes, codes),
        "tt_perf_report_category": _categories(frame, codes, signpost, tt_perf_report_category),
        "category": _categories(frame, codes, signpost, category),
        "is_host": host,
        "is_signpost": signpost,
    }
    columns["bound"] = _bound(full, host, columns["dram_percent"], columns["flops_percent"])
    # A host op has no device time, unless a model was run for it.
    columns["device_time_us"][host & ~full] = np.nan
    columns["gap_us"] = _gaps_us(frame, signpost, columns["invalid_duration"])
    columns |= kernel_parts(frame)
    columns["limits"] = limits(Table({name: columns[name] for name in JUDGED}))
    columns["total_percent"] = np.full(len(frame), np.nan)
    optional = {name: frame[name] for name in ("location", "const_eval") if name in frame}
    return with_totals(Table({name: columns[name] for name in NAMES} | optional))


def _models(
    frame: Table, first: Positions, arch: Architecture, active_experts: int | None
) -> list[OpModel]:
    few = frame.take(first)
    few = few.assign(core_count=whole_cores(few["core_count"]))
    models: list[OpModel] = []
    for op in few.records([name for name in _STATIC if name in frame]):
        if op["core_count"] != op["core_count"]:
            op["core_count"] = None
        # A signpost's name is not an op, whatever it contains.
        post = op["op_type"] == SIGNPOST
        named = OpModel(f"{clean(op['op_code'])} (signpost)") if post else None
        models.append(named or model(op, arch, active_experts))
    return models


def _modelled(models: Sequence[OpModel], which: Any) -> dict[str, Any]:
    """What the models of the distinct ops say, spread over the rows."""

    def spread(name: str, kind: str) -> Any:
        values = [getattr(m, name) for m in models]
        if kind == "f8":
            values = [np.nan if value is None else value for value in values]
        return np.asarray(values, dtype=kind)[which]

    return {
        **{name: spread(name, "f8") for name in _FIGURES},
        **{name: spread(name, "?") for name in _FLAGS},
        "op": Categorical(which, [m.name for m in models]),
        "math_fidelity": Categorical(which, [m.fidelity for m in models]),
        "bound_analysis": Categorical(which, [m.modelled for m in models]),
        "sparse_source": Categorical(which, [m.sparse_source for m in models]),
    }


def _rates(
    frame: Table, modelled: dict[str, Any], signpost: Mask, arch: Architecture
) -> dict[str, Any]:
    """Times, and work and traffic over them; a row without a duration has no rate."""
    valid = valid_duration_ns(frame)
    duration_ns = np.where(signpost, np.nan, valid)
    seconds = np.where(duration_ns > 0, duration_ns * 1e-9, np.nan)
    moved = np.where(np.isnan(seconds), np.nan, modelled["dram_bytes"])
    dram_gb_s = np.where(moved > 0, moved / seconds / 1e9, np.nan)
    flops = modelled["flops"] / seconds
    return {
        "device_time_us": duration_ns / 1000,
        "invalid_duration": np.isnan(valid),
        "dram_bytes": moved,
        "dram_gb_s": dram_gb_s,
        "dram_percent": dram_gb_s / arch.dram_gb_s * 100,
        "tflops": flops / 1e12,
        "flops_percent": flops / modelled["peak_flops"] * 100,
    }


def _cells(frame: Table, arch: Architecture) -> dict[str, Any]:
    """Columns that come from a row's own cells, without a model."""
    available = whole_cores(frame["available_core_count"])
    available[np.isnan(available)] = arch.worker_cores or np.nan
    whole = not np.isnan(available).any()
    return {
        "id": frame["line"],
        "device_id": device_ids(frame),
        "sub_device_id": _sub_device_ids(frame),
        "available_cores": available.astype(np.int64) if whole else available,
        **{each.name: _copied(frame, each) for each in COLUMNS if each.source},
    }


def _copied(frame: Table, column: OpColumn) -> Any:
    """A column of the file, in our unit."""
    if column.digits is None:
        return _text(frame, TEXT[column.source])
    return frame[NUMBERS[column.source]] / column.per


def with_totals(ops: Table) -> Table:
    """The frame with ``total_percent`` of its own device times and gaps; again after a filter."""
    time, gap = ops["device_time_us"], ops["gap_us"]
    whole = total(time) + total(gap)
    share = (np.nan_to_num(time) + np.nan_to_num(gap)) / whole * 100 if whole else np.nan
    return ops.assign(total_percent=np.where(np.isnan(time) & np.isnan(gap), np.nan, share))


def _categories(frame: Table, codes: Sequence[str], signpost: Mask, classify: Any) -> Categorical:
    """The category of each op; blank for signposts, "Other" for ops without a name."""
    names = [*dict.fromkeys(classify(code) for code in codes), "Other"]
    at = frame["op_code"].spread([names.index(classify(c)) for c in codes], len(names) - 1)
    return Categorical(np.where(signpost, -1, at).astype(np.int32), names)


def _text(frame: Table, column: str) -> Categorical:
    """A text column as it is, or blanks where the file has no such column."""
    if column in frame:
        found: Categorical = frame[column]
        return found
    return Categorical(np.full(len(frame), -1, np.int32), [])


def bound_of(ops: Table) -> Categorical:
    """The bounds of a per-op frame by its rates."""
    full = ops["bound_analysis"].equals("full") & ~ops["is_signpost"]
    return _bound(full, ops["is_host"], ops["dram_percent"], ops["flops_percent"])


_BOUNDS = ("", "BOTH", "DRAM", "FLOP", "SLOW", "HOST")


def _bound(full: Mask, host: Mask, dram_percent: Floats, flops_percent: Floats) -> Categorical:
    known = full & ~np.isnan(dram_percent) & ~np.isnan(flops_percent)
    dram, flop = dram_percent >= BOUND_PERCENT, flops_percent >= BOUND_PERCENT
    conditions = [known & dram & flop, known & dram, known & flop, known, host & ~full]
    codes = np.select(conditions, [1, 2, 3, 4, 5], default=0)
    return Categorical(codes.astype(np.int32), _BOUNDS)


def _gaps_us(frame: Table, signpost: Mask, invalid: Mask) -> Floats:
    """Op-to-op gaps; blank for the first op, negative ones, and long ones beside a broken time."""
    raw = frame["op_to_op_latency_ns"]
    gaps = np.full(len(frame), np.nan)
    at = np.flatnonzero(~signpost)
    if len(at) < 2:
        return gaps
    here, before = at[1:], at[:-1]
    doubtful = (invalid[here] | invalid[before]) & (np.abs(raw[here]) > BROKEN_GAP_NS)
    good = np.isfinite(raw[here]) & (raw[here] >= 0) & ~doubtful
    gaps[here] = np.where(good, raw[here] / 1000, np.nan)
    return gaps


def _sub_device_ids(frame: Table) -> Categorical:
    """Sub-device ids: whole numbers as such, other text as it is (clipped), None when blank."""
    column = _text(frame, "sub_device_id")
    ids: list[Any] = []
    for cell in column.values:
        text = "" if cell is None else clean(cell).strip()
        try:
            value = float(text)
            ids.append(int(value) if value.is_integer() else text[:_SUB_DEVICE_TEXT])
        except (ValueError, OverflowError):
            ids.append(text[:_SUB_DEVICE_TEXT] or None)
    return column.map(ids)
