"""What can be said of one op before its time is known: work, bytes, peak, and how it is named.

Ops repeat: a step of thousands of ops has some hundred distinct ones. Everything here runs once
per distinct op, on plain values; :mod:`.per_op` does the arithmetic over all rows. The
figures and the naming agree with tt-perf-report 1.4.1 wherever that does not crash.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from instrumentor_analysis.load.attributes import (
    conv_config,
    conv_window,
    flag,
    halo_config,
    integer,
    program_config,
)
from instrumentor_analysis.load.cells import clean, datatype_bytes, dimension
from instrumentor_analysis.ops.roofline import Architecture

Modelled = Literal["full", "flops_only", "none"]

_SHORT = {"FLOAT32": "FP32", "BFLOAT16": "BF16", "BFLOAT8_B": "BFP8", "BFLOAT4_B": "BFP4"}
_DRAM_SHARDED = "MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig"


class OpModel(Struct, frozen=True):
    """The static part of one distinct op; None where it cannot be modelled.

    Attributes:
        name: the op code with shape and configuration.
        flops: floating point operations of one call.
        dram_bytes: bytes to and from DRAM of one call (0: all operands in L1).
        peak_flops: peak of the cores it used, FLOPs a second.
        cores: cores it really used.
        fidelity: math fidelity and data types, for a reader.
        modelled: which roofline there is: ``full`` (DRAM and FLOPs), ``flops_only``, ``none``.
        sparse_batches_missing: a sparse matmul whose number of active batches is unknown.
        tiles: of 32 x 32 elements in its output.
    """

    name: str
    flops: float | None = None
    dram_bytes: float | None = None
    peak_flops: float | None = None
    cores: int | None = None
    fidelity: str = ""
    modelled: Modelled = "none"
    dram_sharded: bool = False
    sparse: bool = False
    sparse_batches_missing: bool = False
    sparse_source: str | None = None
    in0_block_w: int | None = None
    out_subblock_h: int | None = None
    out_subblock_w: int | None = None
    tiles: int | None = None


def model(op: Mapping[str, Any], arch: Architecture, active_experts: int | None) -> OpModel:
    """The model of one distinct op, from the cells of its row (missing ones are None).

    Args:
        active_experts: active experts per group, for a sparse matmul whose row has no ``nnz``.
    """
    code = clean(op["op_code"])
    found: dict[str, Any]
    if "Matmul" in code:
        found = _matmul(code, op, arch, active_experts)
    elif "OptimizedConvNew" in code or "Conv2d" in code:
        found = _conv(code, op, arch)
    elif "HaloDeviceOperation" in code:
        found = {"name": f"{code} {halo_config(_attributes(op))}"}
    else:
        found = {"name": code}
    found.setdefault("cores", _cores(op))
    found.setdefault("fidelity", _datatypes(op))
    found["tiles"] = _tiles(op)
    return OpModel(**found | program_config(_attributes(op)))


def _attributes(op: Mapping[str, Any]) -> str:
    return op.get("attributes") or ""


def _cores(op: Mapping[str, Any]) -> int | None:
    count = op.get("core_count")
    return None if count is None else int(count)


def _datatypes(op: Mapping[str, Any]) -> str:
    first, second, out = (op.get(f"{t}_datatype") for t in ("input_0", "input_1", "output_0"))
    text = "" if first is None else _short(first)
    text += "" if second is None else f", {_short(second)}"
    return (text + ("" if out is None else f" => {_short(out)}")).strip()


def _short(datatype: str | None) -> str:
    return "?" if datatype is None else _SHORT.get(datatype, datatype)


def _fidelity(op: Mapping[str, Any]) -> str:
    first, second, out = (
        _short(op.get(f"{t}_datatype")) for t in ("input_0", "input_1", "output_0")
    )
    return f"{op.get('math_fidelity') or '?'} {first} x {second} => {out}"


def _peak(op: Mapping[str, Any], arch: Architecture, cores: int | None) -> float | None:
    per_core = arch.tflops_per_core.get(op.get("math_fidelity") or "")
    return None if cores is None or per_core is None else per_core * 1e12 * cores


def _shape(op: Mapping[str, Any], tensor: str) -> tuple[int, int, int, int] | None:
    sizes = [dimension(op.get(f"{tensor}_{axis}")) for axis in "wzyx"]
    if any(size is None for size in sizes):
        return None
    w, z, y, x = (size or 0 for size in sizes)
    return w, z, y, x


def _tiles(op: Mapping[str, Any]) -> int | None:
    shape = _shape(op, "output_0")
    return None if shape is None else shape[0] * shape[1] * -(-shape[2] // 32) * -(-shape[3] // 32)


def _bytes(op: Mapping[str, Any], elements: Mapping[str, int]) -> float | None:
    """DRAM traffic of the tensors that lie there; None when a place or a type is unknown."""
    total = 0.0
    for tensor, count in elements.items():
        if op.get(f"{tensor}_memory") is None:
            return None
        if "DRAM" in (op.get(f"{tensor}_memory") or ""):
            size = datatype_bytes(op.get(f"{tensor}_datatype"))
            if size is None:
                return None
            total += count * size
    return total


def _matmul(
    code: str, op: Mapping[str, Any], arch: Architecture, active_experts: int | None
) -> dict[str, Any]:
    attributes = _attributes(op)
    sharded = _DRAM_SHARDED in attributes
    # The row's core count is the grid around such a matmul, not the workers that compute.
    cores = (arch.dram_sharded_matmul_cores or None) if sharded else _cores(op)
    found: dict[str, Any] = {
        "modelled": "full",
        "dram_sharded": sharded,
        "cores": cores,
        "peak_flops": _peak(op, arch, cores),
        "fidelity": _fidelity(op),
        "sparse": "SparseMatmul" in code,
    }
    shapes = [_shape(op, tensor) for tensor in ("input_0", "input_1", "output_0")]
    if shapes[0] is None or shapes[1] is None or shapes[2] is None:
        return found | {"name": f"{code} unknown shape"}
    a, b, out = shapes[0], shapes[1], shapes[2]
    m, k, n = a[2], a[3], b[3]
    if found["sparse"]:
        return found | _sparse(code, op, (a[0] * a[1], b[0] * b[1]), (m, k, n), active_experts)
    # A dimension of 1 is broadcast to the other operand's.
    batch = max(a[0], b[0]) * max(a[1], b[1])
    size = f"b={{{batch}}} x {m} x {k} x {n}" if batch > 1 else f"{m} x {k} x {n}"
    elements = {"input_0": math.prod(a), "input_1": math.prod(b), "output_0": math.prod(out)}
    return found | {
        "name": f"{code} {size}",
        # A multiplication and an addition each.
        "flops": float(m * k * n * batch * 2),
        "dram_bytes": _bytes(op, elements),
    }


def _sparse(
    code: str,
    op: Mapping[str, Any],
    batches: tuple[int, int],
    mkn: tuple[int, int, int],
    active_experts: int | None,
) -> dict[str, Any]:
    """A sparse matmul works on its non-zero batches: `nnz`, else active experts per group."""
    attributes = _attributes(op)
    a_sparse = flag(attributes, "is_input_a_sparse", False)
    b_sparse = flag(attributes, "is_input_b_sparse", True)
    if a_sparse and b_sparse:
        groups, dense = 1, batches[1]
    elif a_sparse:
        groups = max(1, batches[0] // batches[1]) if batches[1] else batches[0]
        dense = groups * batches[1]
    else:
        groups = batches[0]
        dense = groups * batches[1] if b_sparse else max(batches)
    nnz = integer(attributes, "nnz")
    active = nnz if nnz is not None else None if active_experts is None else active_experts * groups
    m, k, n = mkn
    name = f"{code} active={'?' if active is None else active}/{dense} x {m} x {k} x {n}"
    if active is None:
        return {"name": name, "sparse_batches_missing": True, "sparse_source": "missing"}
    elements = {"input_0": m * k * active, "input_1": k * n * active, "output_0": m * n * active}
    return {
        "name": name,
        "flops": float(m * k * n * active * 2),
        "dram_bytes": _bytes(op, elements),
        "sparse_source": "active_experts" if nnz is None else "csv_nnz",
    }


def _conv(code: str, op: Mapping[str, Any], arch: Architecture) -> dict[str, Any]:
    attributes = _attributes(op)
    rows, channels = dimension(op.get("output_0_y")), dimension(op.get("input_0_x"))
    out, window = dimension(op.get("input_1_x")), conv_window(attributes)
    found: dict[str, Any] = {
        "modelled": "flops_only",
        "peak_flops": _peak(op, arch, _cores(op)),
        "fidelity": _fidelity(op),
    }
    if rows is None or channels is None or out is None or window is None:
        return found | {"name": f"{code} unknown shape {conv_config(attributes)}"}
    # As the matmul of its unfolded windows (im2col).
    k = channels * window[0] * window[1]
    return found | {
        "name": f"{code} {rows} x {k} x {out} {conv_config(attributes)}",
        "flops": float(rows * k * out * 2),
    }
