"""What tt-perf-report 1.4.1 advises, in its words, so that the two can be compared.

Fidelity: a matmul's math fidelity should fit the mantissas of its operands. A bfloat16 input
(8 bits) is cut to 7 by HiFi3 and HiFi2; bfloat8_b weights fill what HiFi2 keeps; bfloat4_b
weights fit LoFi.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from msgspec import Struct

from instrumentor_analysis.load.table import Groups, Table, total
from instrumentor_analysis.model import GAP_THRESHOLD_US

Fit = Literal["sufficient", "too_high", "too_low", "not_applicable", "unknown"]

#: A gap that tracing would leave, microseconds.
TRACED_GAP_US = 6.0
_INTEGERS = {"UINT8", "UINT16", "INT32", "UINT32"}
#: Bits of the mantissa, as tt-perf-report counts them.
_MANTISSA = {"FLOAT32": 23, "BFLOAT16": 8, "BFLOAT8_B": 7, "BFLOAT4_B": 3}

_HIFI2_ENOUGH = "HiFi2 is sufficient for BFP8 multiplication and has "
_BFP4_HIFI4 = (
    "HiFi2 is very likely to work for BFP4 output; it discards the lowest bit of the "
    "activations and has 2x the throughput of HiFi4"
)
_BFP4_HIFI3 = "HiFi2 is very likely to work for BFP4 output and has higher throughput than HiFi3"
_BFP4_HIFI2 = (
    "LoFi might also be sufficient with BFP4 output and has almost 2x the throughput of HiFi2"
)
_FLOP_BOUND = "If your matmuls are not FLOP-bound use HiFi4 with BF16 activations for full accuracy"

#: (operand class, math fidelity) -> how it fits, and the sentence for a reader.
_FIDELITY: dict[tuple[str, str], tuple[Fit, str | None]] = {
    ("bf16", "HiFi4"): (
        "sufficient",
        "HiFi2 may also work, it discards the lowest bit of the activations and has 2x the "
        "throughput of HiFi4",
    ),
    ("bf16", "HiFi3"): ("too_low", _FLOP_BOUND),
    ("bf16", "HiFi2"): ("too_low", _FLOP_BOUND),
    ("bf16", "LoFi"): (
        "too_low",
        "Use HiFi2 or HiFi4 with BF16 activations for improved accuracy",
    ),
    ("bf16-bfp4", "HiFi4"): ("too_high", _BFP4_HIFI4),
    ("bf16-bfp4", "HiFi3"): ("too_high", _BFP4_HIFI3),
    ("bf16-bfp4", "HiFi2"): ("sufficient", _BFP4_HIFI2),
    ("bf16-bfp4", "LoFi"): (
        "too_low",
        "HiFi2 may give better accuracy for large matmuls with many intermediate accumulations",
    ),
    ("bfp8", "HiFi4"): ("too_high", _HIFI2_ENOUGH + "2x the throughput of HiFi4"),
    ("bfp8", "HiFi3"): ("too_high", _HIFI2_ENOUGH + "higher throughput than HiFi3"),
    ("bfp8", "HiFi2"): ("sufficient", None),
    ("bfp8", "LoFi"): (
        "too_low",
        "HiFi2 is recommended for accuracy; LoFi discards the lowest 2 bits of the weights",
    ),
    ("bfp8-bfp4", "HiFi4"): ("too_high", _HIFI2_ENOUGH + "2x the throughput of HiFi4"),
    ("bfp8-bfp4", "HiFi3"): ("too_high", _HIFI2_ENOUGH + "higher throughput than HiFi3"),
    ("bfp8-bfp4", "HiFi2"): ("sufficient", _BFP4_HIFI2),
    ("bfp8-bfp4", "LoFi"): (
        "too_low",
        "HiFi2 may give slightly better accuracy for large matmuls with many intermediate "
        "accumulations",
    ),
}
_BLOCKING = ("in0_block_w", "out_subblock_h", "out_subblock_w")
_NO_CONFIG = (
    "No program_config specified, try using one to override in0_block_w and out_subblock_h/w"
)
_SHARD = (
    "Try a DRAM-sharded program config (MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig) to "
    "improve throughput further"
)
_BFP4_WEIGHTS = "LoFi is sufficient with BFP4 weights, use it for much higher throughput"


class GapAdvice(Struct, frozen=True):
    """What tracing could save on gaps above 6.5 us.

    Attributes:
        ids: the ops behind such gaps.
        saving_us: if each shrank to 6 us.
        percent: of device time plus gaps.
    """

    ids: tuple[int, ...]
    saving_us: float
    percent: float | None


def fidelity(
    input_0: str | None, input_1: str | None, output: str | None, fidelity: str | None
) -> tuple[Fit, str | None]:
    """How a math fidelity fits the data types of a matmul, and what to say about it."""
    types = (input_0, input_1, output)
    if any(t in _INTEGERS for t in types):
        listed = "UINT8, UINT16, INT32, UINT32"
        return (
            "not_applicable",
            f"Fidelity evaluation is not applicable for integer datatypes ({listed}).",
        )
    strange = next((t for t in types if t not in _MANTISSA), "")
    if strange != "":
        return "unknown", f"Datatype {strange} is not supported for fidelity evaluation."
    first, second, out = (_MANTISSA[str(t)] for t in types)
    # An output is of 23, 8, 7 or 3 bits: the last is BFP4.
    if first != 8 and second < 7:
        return ("sufficient", None) if fidelity == "LoFi" else ("too_high", _BFP4_WEIGHTS)
    name = ("bf16" if first == 8 else "bfp8") + ("" if out >= 7 else "-bfp4")
    return _FIDELITY.get((name, fidelity or ""), ("unknown", None))


def gap_advice(ops: Table) -> GapAdvice | None:
    """Ops that waited for the host, and what tracing could save; None when there are none."""
    gaps = ops["gap_us"]
    long = gaps > GAP_THRESHOLD_US
    if not long.any():
        return None
    saving = float((gaps[long] - TRACED_GAP_US).sum())
    whole = total(ops["device_time_us"]) + total(gaps)
    ids = tuple(ops["id"][long].tolist())
    return GapAdvice(ids, saving, saving / whole * 100 if whole else None)


def matmul_advice(ops: Table) -> dict[int, tuple[str, ...]]:
    """Sentences per matmul, by position in the frame (an empty tuple: nothing to improve)."""
    code = ops["op_code"]
    matmul = code.spread(["Matmul" in str(name) for name in code.values], False, np.bool_)
    at = np.flatnonzero(matmul & ~ops["is_signpost"])
    if not len(at):
        return {}
    columns = [
        "bound", "math_fidelity", "output_datatype", "input_0_datatype", "input_1_datatype",
        "cores", "available_cores", "dram_sharded", "sparse", "sparse_batches_missing",
        "input_0_memory", "in0_block_w", "out_subblock_h", "out_subblock_w",
    ]  # fmt: skip
    matmuls = ops.take(at)
    # tt-perf-report's limit for advising a higher fidelity to a matmul that is DRAM-bound.
    low = matmuls["flops_percent"] < 40
    groups = Groups(*(matmuls[name] for name in columns), low)
    told = [
        _matmul({k: None if v != v else v for k, v in values.items()}, bool(weak))
        for values, weak in zip(
            matmuls.take(groups.first).records(columns), low[groups.first], strict=True
        )
    ]
    return {row: told[kind] for row, kind in zip(at.tolist(), groups.which.tolist(), strict=True)}


def _matmul(op: dict[str, Any], low_flops: bool) -> tuple[str, ...]:
    if op["sparse_batches_missing"]:
        return (
            "Sparse matmul utilization is omitted because the CSV row has nnz=std::nullopt; pass "
            "--active-experts K to model K active experts per input batch group",
        )
    words = str(op["math_fidelity"] or "").split()
    fit, sentence = fidelity(
        op["input_0_datatype"],
        op["input_1_datatype"],
        op["output_datatype"],
        words[0] if words else None,
    )
    told: list[str | None] = []
    if op["bound"] in ("DRAM", "BOTH"):
        told = [] if op["dram_sharded"] or op["sparse"] else [_SHARD]
        told += [sentence] if fit in ("too_high", *(["too_low"] if low_flops else [])) else []
    elif op["bound"] == "FLOP":
        told = [_grid(op), sentence if fit == "too_high" else None]
    elif op["bound"] == "SLOW":
        told = [*_placement(op), *([*_blocking(op), sentence] if _configured(op) else [_NO_CONFIG])]
    return tuple(line for line in told if line)


def _grid(op: dict[str, Any]) -> str | None:
    cores, available = op["cores"], op["available_cores"]
    if op["dram_sharded"] or cores is None or cores >= available:
        return None
    return f"Increase grid size (currently using {int(cores)} of {int(available)})"


def _configured(op: dict[str, Any]) -> bool:
    """It has a program config; without one, blocking comes before the math fidelity."""
    return bool(op["dram_sharded"]) or any(op[key] is not None for key in _BLOCKING)


def _placement(op: dict[str, Any]) -> list[str]:
    place = op["input_0_memory"]
    if place and "L1" not in place:
        return [f"If possible place input 0 in L1 (currently in {place})"]
    return []


def _blocking(op: dict[str, Any]) -> list[str]:
    """Name the block sizes of a program config that are small, or say that they look good."""
    block, height, width = (None if op[key] is None else int(op[key]) for key in _BLOCKING)
    sharded = op["dram_sharded"]
    advice: list[str] = []
    if block is None:
        advice.append("No inner dim block size found")
    elif block < 2:
        advice.append(f"in0_block_w={block} is small, try in0_block_w=2 or above")
    # A DRAM-sharded config has no output subblocks to tune.
    if not sharded:
        if height is None or width is None:
            advice.append("No output subblock size found")
        elif height * width < 2:
            advice.append(
                f"Output subblock {height}x{width} is small, try out_subblock_h * "
                "out_subblock_w >= 2 if possible"
            )
    if advice:
        return advice
    if sharded:
        return [f"in0_block_w={block} looks good \N{SHRUG}"]
    return [f"in0_block_w={block} and output subblock {height}x{width} look good \N{SHRUG}"]
