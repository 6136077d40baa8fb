"""One schema for every format of the ops CSV: our column names, with units, and theirs.

Formats: ``v1`` (``INPUT_0_X``), ``v2`` (``INPUT_0_X_PAD[LOGICAL]``, cells such as ``32[19]``),
``v2.1`` (v2 with DEVICE ARCH or AVAILABLE WORKER CORE COUNT). Traces of tt-torch add LOC,
CONST_EVAL_OP and PROGRAM_METADATA to any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from instrumentor_analysis.load.op_columns import COLUMNS

CsvFormat = Literal["v1", "v2", "v2.1"]

#: DEVICE ARCH of a simulated device: cycles of a functional simulator are no times.
SIMULATED = "simulated"

DIMENSIONS = ("w", "z", "y", "x")
TENSORS = ("input_0", "input_1", "output_0")

#: Text with few distinct values; read as categoricals.
TEXT = {
    "OP CODE": "op_code",
    "OP TYPE": "op_type",
    "DEVICE ARCH": "device_arch",
    "ATTRIBUTES": "attributes",
    "MATH FIDELITY": "math_fidelity",
    "SUB DEVICE ID": "sub_device_id",
    "DATA MOVEMENT KERNEL SOURCE": "data_movement_kernels",
    "PROGRAM CACHE HIT": "program_cache_hit",
    "LOC": "location",
    "CONST_EVAL_OP": "const_eval",
} | {
    f"{tensor}_{field}".upper(): f"{tensor}_{field}"
    for tensor in TENSORS
    for field in ("datatype", "memory")
}

#: Figures; read as float64, NaN where blank.
NUMBERS = {
    "DEVICE ID": "device_id",
    "GLOBAL CALL COUNT": "global_call_count",
    "CORE COUNT": "core_count",
    "AVAILABLE WORKER CORE COUNT": "available_core_count",
    "HOST START TS": "host_start_ns",
    "HOST DURATION [ns]": "host_duration_ns",
    "DEVICE FW START CYCLE": "firmware_start_cycle",
    "DEVICE FW END CYCLE": "firmware_end_cycle",
    "OP TO OP LATENCY [ns]": "op_to_op_latency_ns",
    "DEVICE FW DURATION [ns]": "firmware_duration_ns",
    "DEVICE KERNEL DURATION [ns]": "kernel_duration_ns",
    "METAL TRACE REPLAY SESSION ID": "trace_replay_session",
    "DEVICE COMPUTE CB WAIT FRONT [ns]": "cb_wait_front_ns",
    "DEVICE COMPUTE CB RESERVE BACK [ns]": "cb_reserve_back_ns",
}

# What a column of ops is a copy of.
_COPIED = [each for each in COLUMNS if each.source and each.source not in TEXT | NUMBERS]
TEXT |= {each.source: each.cells for each in _COPIED if each.digits is None}
NUMBERS |= {each.source: each.cells for each in _COPIED if each.digits is not None}

#: Of these, what the device's own clock says.
DEVICE_CLOCK = (
    *("firmware_start_cycle", "firmware_end_cycle", "op_to_op_latency_ns"),
    *("firmware_duration_ns", "kernel_duration_ns"),
)

#: Without these a file is no ops CSV.
REQUIRED = ("OP CODE", "OP TYPE", "DEVICE KERNEL DURATION [ns]")
#: What a CSV of the device alone has (profiling in real time, or without the host's half): the
#: durations of programs, and at most their names.
DEVICE_ONLY = ("GLOBAL CALL COUNT", "DEVICE ID", "DEVICE KERNEL DURATION [ns]")
#: The same column, as such a CSV calls it.
_ALIASES = {"OP NAME": "OP CODE"}


def known_names(header: Sequence[str]) -> tuple[str, ...]:
    """The columns, those of a CSV of the device alone by their usual names."""
    if "OP CODE" in header:
        return tuple(header)
    return tuple(_ALIASES.get(name, name) for name in header)


def is_records(header: Sequence[str]) -> bool:
    """The columns are those of the real-time profiler's records: ticks, no durations."""
    names = {name.strip().lower().replace(" ", "_") for name in header}
    ticks = {"start_timestamp", "end_timestamp"} <= names
    return ticks and bool(names & {"program_id", "runtime_id", "chip_id"})


def detect_format(header: Sequence[str]) -> CsvFormat:
    """The format by its columns, as tt-perf-report tells them apart."""
    if "DEVICE ARCH" in header or "AVAILABLE WORKER CORE COUNT" in header:
        return "v2.1"
    return "v2" if any("_PAD[LOGICAL]" in name for name in header) else "v1"


def dimension_columns(header: Sequence[str]) -> dict[str, str]:
    """Tensor dimension columns of this header: theirs to ours (``input_0_x``)."""
    suffix = "" if detect_format(header) == "v1" else "_PAD[LOGICAL]"
    names = {
        f"{tensor}_{axis}".upper() + suffix: f"{tensor}_{axis}"
        for tensor in TENSORS
        for axis in DIMENSIONS
    }
    return {theirs: ours for theirs, ours in names.items() if theirs in header}


def wanted_columns(header: Sequence[str]) -> dict[str, str]:
    """All columns of this header that the analysis reads: theirs to ours."""
    known = TEXT | NUMBERS
    present = {theirs: ours for theirs, ours in known.items() if theirs in header}
    return present | dimension_columns(header)
