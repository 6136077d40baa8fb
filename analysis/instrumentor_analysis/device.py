"""Rows of a window to the figures of each op, vectorised.

``per_op`` gives one row per op with the columns of :data:`COLUMNS`; times in microseconds,
percentages 0 to 100, NaN or None where nothing was measured. The figures are those of
tt-perf-report 1.4.1; :func:`per_op` says where they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from instrumentor_analysis.attributes import PROGRAM_CONFIG
from instrumentor_analysis.categories import category, is_host, tt_perf_report_category
from instrumentor_analysis.cells import clean
from instrumentor_analysis.distinct import distinct
from instrumentor_analysis.load import SIGNPOST
from instrumentor_analysis.merge import BROKEN_GAP_NS, device_ids, valid_duration_ns
from instrumentor_analysis.op_models import ATTRIBUTED, OpModel, model
from instrumentor_analysis.roofline import BOUND_PERCENT, Architecture, whole_cores
from instrumentor_analysis.schema import DIMENSIONS, TENSORS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    Floats = npt.NDArray[np.float64]

_STATIC = (
    "op_code",
    "op_type",
    "attributes",
    "math_fidelity",
    "core_count",
    *(f"{tensor}_{axis}" for tensor in TENSORS for axis in DIMENSIONS),
    *(f"{tensor}_{field}" for tensor in TENSORS for field in ("datatype", "memory")),
)
_SUB_DEVICE_TEXT = 32

#: Columns of a per-op frame, in order; ``location`` and ``const_eval`` follow where the file has
#: them.
COLUMNS = (
    "id",
    "total_percent",
    "bound",
    "op",
    "op_code",
    "device_id",
    "device_time_us",
    "gap_us",
    "cores",
    "sub_device_id",
    "available_cores",
    "dram_gb_s",
    "dram_percent",
    "tflops",
    "flops_percent",
    "math_fidelity",
    "output_datatype",
    "input_0_datatype",
    "input_1_datatype",
    "dram_sharded",
    "input_0_memory",
    "in0_block_w",
    "out_subblock_h",
    "out_subblock_w",
    "global_call_count",
    "tt_perf_report_category",
    "category",
    "bound_analysis",
    "dram_bytes",
    "flops",
    "peak_flops",
    "sparse",
    "sparse_batches_missing",
    "sparse_source",
    "invalid_duration",
    "is_host",
    "is_signpost",
    "firmware_time_us",
    "host_start_ns",
    "host_duration_us",
    "program_cache_hit",
)


def per_op(
    frame: pd.DataFrame, arch: Architecture, active_experts: int | None = None
) -> pd.DataFrame:
    """Figures of each row of a window, in its order.

    Args:
        frame: rows of :class:`.load.Ops`, filtered, ordered and merged; signpost rows
            may be among them and stay without figures.
        arch: what the figures are held against.
        active_experts: active experts per group of a sparse matmul that does not say.

    Where tt-perf-report 1.4.1 crashes this does not: a matmul or conv without memory, data type
    or math fidelity lacks the figures that need them; a signpost whose name contains "Matmul"
    is a signpost; columns that a file lacks are blank.
    """
    import pandas as pd

    frame = frame.assign(attributes=_relevant_attributes(frame))
    which, first = distinct(frame, _STATIC)
    models = _models(frame, first, arch, active_experts)
    signpost = (frame["op_type"] == SIGNPOST).to_numpy()
    codes = [clean(op) for op in frame["op_code"].cat.categories]
    host = _by_code(frame, [is_host(code) for code in codes], False) & ~signpost
    modelled = _modelled(models, which)
    if signpost.any():
        posts = frame["op_code"][signpost]
        modelled["op"][signpost] = [f"{clean(name)} (signpost)" for name in posts]
        modelled["cores"][signpost] = float("nan")
    full = (modelled["bound_analysis"] == "full") & ~signpost
    columns = {
        **modelled,
        **_rates(frame, modelled, signpost, arch),
        **_cells(frame, arch),
        "op_code": _by_code(frame, codes, ""),
        "tt_perf_report_category": _categories(frame, codes, signpost, tt_perf_report_category),
        "category": _categories(frame, codes, signpost, category),
        "is_host": host,
        "is_signpost": signpost,
    }
    columns["bound"] = _bound(full, host, columns["dram_percent"], columns["flops_percent"])
    # A host op has no device time, unless a model was run for it.
    columns["device_time_us"][host & ~full] = float("nan")
    columns["gap_us"] = _gaps_us(frame, signpost, columns["invalid_duration"])
    columns["total_percent"] = float("nan")
    optional = [name for name in ("location", "const_eval") if name in frame.columns]
    table = pd.DataFrame({name: columns[name] for name in COLUMNS})
    return with_totals(table.assign(**{name: _text(frame, name) for name in optional}))


def _modelled(models: Sequence[OpModel], which: npt.NDArray[np.intp]) -> dict[str, Any]:
    """What the models of the distinct ops say, spread over the rows."""
    import numpy as np

    def spread(values: Sequence[Any], kind: str) -> Any:
        return np.asarray(values, dtype=kind)[which]

    numbers = {
        name: spread([_nan(getattr(m, name)) for m in models], "f8")
        for name in (
            *("flops", "dram_bytes", "peak_flops", "cores"),
            *("in0_block_w", "out_subblock_h", "out_subblock_w"),
        )
    }
    return numbers | {
        "op": spread([m.name for m in models], "O"),
        "math_fidelity": spread([m.fidelity for m in models], "O"),
        "bound_analysis": spread([m.modelled for m in models], "O"),
        "sparse_source": spread([m.sparse_source for m in models], "O"),
        "dram_sharded": spread([m.dram_sharded for m in models], "?"),
        "sparse": spread([m.sparse for m in models], "?"),
        "sparse_batches_missing": spread([m.sparse_batches_missing for m in models], "?"),
    }


def _rates(
    frame: pd.DataFrame, modelled: dict[str, Any], signpost: Any, arch: Architecture
) -> dict[str, Any]:
    """Times, and work and traffic over them; a row without a duration has no rate."""
    import numpy as np

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


def _cells(frame: pd.DataFrame, arch: Architecture) -> dict[str, Any]:
    """What a row says by itself."""
    import numpy as np

    rest = arch.worker_cores or float("nan")
    available = whole_cores(frame["available_core_count"]).fillna(rest)
    return {
        "id": frame["line"].to_numpy(),
        "device_id": device_ids(frame).to_numpy(),
        "sub_device_id": _sub_device_ids(frame),
        "available_cores": available.to_numpy(np.int64 if available.notna().all() else np.float64),
        "output_datatype": _text(frame, "output_0_datatype"),
        "input_0_datatype": _text(frame, "input_0_datatype"),
        "input_1_datatype": _text(frame, "input_1_datatype"),
        "input_0_memory": _text(frame, "input_0_memory"),
        "global_call_count": frame["global_call_count"].to_numpy(),
        "firmware_time_us": frame["firmware_duration_ns"].to_numpy() / 1000,
        "host_start_ns": frame["host_start_ns"].to_numpy(),
        "host_duration_us": frame["host_duration_ns"].to_numpy() / 1000,
        "program_cache_hit": _text(frame, "program_cache_hit"),
    }


def with_totals(ops: pd.DataFrame) -> pd.DataFrame:
    """The frame with ``total_percent`` of its own device times and gaps; again after a filter."""
    time, gap = ops["device_time_us"], ops["gap_us"]
    total = float(time.sum() + gap.sum())
    share = (time.fillna(0) + gap.fillna(0)) / total * 100 if total else time * float("nan")
    return ops.assign(total_percent=share.where(time.notna() | gap.notna()))


def _relevant_attributes(frame: pd.DataFrame) -> Any:
    """ATTRIBUTES of the rows whose model reads them: ops stay few even when each has its own."""
    import numpy as np
    import pandas as pd

    if "attributes" not in frame.columns:
        return None
    texts = frame["attributes"].cat.categories
    configured = np.asarray([PROGRAM_CONFIG in str(text) for text in texts] + [False])
    modelled = [
        any(name in str(op) for name in ATTRIBUTED) for op in frame["op_code"].cat.categories
    ]
    codes = frame["attributes"].cat.codes.to_numpy()
    kept = configured[codes] | _by_code(frame, modelled, False)
    return pd.Categorical.from_codes(np.where(kept, codes, -1), categories=texts)


def _models(
    frame: pd.DataFrame, first: Any, arch: Architecture, active_experts: int | None
) -> list[OpModel]:
    columns = [name for name in _STATIC if name in frame.columns]
    few = frame[columns].iloc[first].astype("object")
    few["core_count"] = whole_cores(frame["core_count"]).iloc[first].astype("object")
    few = few.where(few.notna(), None)
    models: list[OpModel] = []
    for values in few.itertuples(index=False, name=None):
        op = dict(zip(few.columns, values, strict=True))
        # A signpost's name is not an op, whatever it contains.
        models.append(OpModel("") if op["op_type"] == SIGNPOST else model(op, arch, active_experts))
    return models


def _nan(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _by_code(frame: pd.DataFrame, per_category: Sequence[Any], missing: Any) -> Any:
    """A value per distinct op code, spread over the rows."""
    import numpy as np

    kind = np.bool_ if isinstance(missing, bool) else object
    return np.asarray([*per_category, missing], dtype=kind)[frame["op_code"].cat.codes.to_numpy()]


def _categories(frame: pd.DataFrame, codes: Sequence[str], signpost: Any, classify: Any) -> Any:
    import pandas as pd

    found = _by_code(frame, [classify(code) for code in codes], "Other")
    found[signpost] = None
    return pd.Categorical(found)


def _text(frame: pd.DataFrame, column: str) -> Any:
    """A text column as it is, or blanks where the file has no such column."""
    import numpy as np

    return frame[column].array if column in frame.columns else np.full(len(frame), None)


def bound_of(ops: pd.DataFrame) -> Any:
    """The bounds of a per-op frame by its rates."""
    full = (ops["bound_analysis"] == "full").to_numpy() & ~ops["is_signpost"].to_numpy(bool)
    dram, flops = (ops[name].to_numpy() for name in ("dram_percent", "flops_percent"))
    return _bound(full, ops["is_host"].to_numpy(bool), dram, flops)


def _bound(full: Any, host: Any, dram_percent: Floats, flops_percent: Floats) -> Any:
    import numpy as np

    known = full & ~np.isnan(dram_percent) & ~np.isnan(flops_percent)
    dram, flop = dram_percent >= BOUND_PERCENT, flops_percent >= BOUND_PERCENT
    conditions = [known & dram & flop, known & dram, known & flop, known, host & ~full]
    return np.select(conditions, ["BOTH", "DRAM", "FLOP", "SLOW", "HOST"], default="")


def _gaps_us(frame: pd.DataFrame, signpost: Any, invalid: Any) -> Floats:
    """Op-to-op gaps; blank for the first op, negative ones, and long ones beside a broken time."""
    import numpy as np

    raw = frame["op_to_op_latency_ns"].to_numpy(np.float64)
    gaps = np.full(len(frame), np.nan)
    at = np.flatnonzero(~signpost)
    if len(at) < 2:
        return gaps
    here, before = at[1:], at[:-1]
    doubtful = (invalid[here] | invalid[before]) & (np.abs(raw[here]) > BROKEN_GAP_NS)
    good = np.isfinite(raw[here]) & (raw[here] >= 0) & ~doubtful
    gaps[here] = np.where(good, raw[here] / 1000, np.nan)
    return gaps


def _sub_device_ids(frame: pd.DataFrame) -> Any:
    """Sub-device ids: whole numbers as such, other text as it is (clipped), None when blank."""
    import numpy as np

    if "sub_device_id" not in frame.columns:
        return np.full(len(frame), None)
    ids: list[Any] = [None]
    for cell in frame["sub_device_id"].cat.categories:
        text = clean(cell).strip()
        try:
            number = float(text)
            ids.append(int(number) if number.is_integer() else text[:_SUB_DEVICE_TEXT])
        except (ValueError, OverflowError):
            ids.append(text[:_SUB_DEVICE_TEXT] or None)
    return np.asarray(ids, dtype=object)[frame["sub_device_id"].cat.codes.to_numpy() + 1]
