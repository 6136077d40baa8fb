"""What limits an op: its reader, compute or writer, the NoC, DRAM, too few cores, or the host.

On each core of an op a reader (on NCRISC), compute (TRISC0 unpacks, TRISC1 calculates, TRISC2
packs) and a writer (on BRISC) run side by side and hand each other tiles through circular buffers.
Which of them the others wait for is told

* by the waits themselves where the profiler counted them: compute's unpacker waits for input, its
  packer for room in the output;
* else by who was done early. A reader that ends long before compute was not waited for, and a
  writer that writes for long behind compute was; compute and its writer end together whichever of
  them held the other up. Where all three end together, durations tell nothing: ``unclear``.

A figure that the file lacks gives no tag. Ops whose kernels' names do not say that one reads and
another writes (a matmul's writer also reads its second operand) are told by their waits alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from instrumentor_analysis.load.table import (
    Categorical,
    Floats,
    Groups,
    Mask,
    Table,
    quotient,
    total,
)
from instrumentor_analysis.model import GAP_THRESHOLD_US, PAUSE_US, Limit, LimitName
from instrumentor_analysis.ops.figures import by_time
from instrumentor_analysis.ops.roofline import BOUND_PERCENT

#: Share of its time that compute waits, from which it is not compute that limits the op, percent.
WAITS_PERCENT = 50.0
#: A part that ends before this share of the longest one is done early; from the second on it ends
#: together with it. In between nothing is said.
EARLY, TOGETHER = 0.7, 0.9
#: Impact of congestion on the NoC that is worth a tag, percent.
CONGESTED_PERCENT = 10.0
#: Columns that the tags are made of.
JUDGED = (
    *("device_time_us", "gap_us", "cores", "available_cores", "dram_sharded", "tiles", "roles"),
    *("reader_us", "compute_us", "writer_us", "input_wait_percent", "output_wait_percent"),
    *("noc_percent", "congestion_percent", "dram_measured_percent", "dram_percent"),
    *("fpu_percent", "flops_percent", "is_host", "is_signpost", "grid_reported"),
)
_MOST_OPS = 3
_PARTS = ("reader", "compute", "writer")
#: The reader was done early; which of the other two was waited for is not told.
_LATE: LimitName = "compute or writer"


class Tag(Struct, frozen=True):
    """One cause.

    Attributes:
        holds: for which rows.
        figures: columns that show it.
        helps: what to try.
    """

    name: LimitName
    holds: Callable[[Table], Mask]
    figures: tuple[str, ...]
    helps: str


def kernel_parts(frame: Table) -> dict[str, Any]:
    """Columns about the parts of a kernel that are worked out of a row's own cells.

    Counters of circular buffers are sums over the cores, on the thread that waits: the unpacker for
    input, the packer for room.
    """
    unpack, math, pack = (frame[f"device_trisc{thread}_kernel_duration_ns"] for thread in range(3))
    cores = frame["core_count"]
    blank = Categorical(np.full(len(frame), -1, np.int32), [])
    named = "data_movement_kernels" in frame
    kernels: Categorical = frame["data_movement_kernels"] if named else blank
    return {
        "compute_us": np.fmax(np.fmax(unpack, math), pack) / 1000,
        "input_wait_percent": quotient(frame["cb_wait_front_ns"] * 100, cores * unpack),
        "output_wait_percent": quotient(frame["cb_reserve_back_ns"] * 100, cores * pack),
        # Without it the number of cores that there are would be that of an assumed architecture.
        "grid_reported": ~np.isnan(frame["available_core_count"]),
        "roles": kernels.map([roles(each) for each in kernels.values]),
    }


def roles(kernels: object) -> str | None:
    """``reader``, ``writer`` or ``reader, writer``, as the names of its kernels tell; else None.

    Args:
        kernels: a cell of DATA MOVEMENT KERNEL SOURCE: paths, parted by semicolons.
    """
    names = [path.rpartition("/")[2] for path in str(kernels or "").strip("[]").split(";")]
    told = [tuple(role for role in ("reader", "writer") if role in name) for name in names]
    if any(len(each) != 1 for each in told):
        return None
    return ", ".join(role for role in ("reader", "writer") if (role,) in told)


def _by_part(ops: Table) -> dict[str, Mask]:
    """Rows that a part of their kernel limits, as columns."""
    waits, ends = _by_waits(ops), _by_ends(ops)
    none = np.zeros(len(ops), np.bool_)
    parts = (*_PARTS, _LATE)
    return {f"by_{part}": waits.get(part, none) | ends.get(part, none) for part in parts}


def _by_waits(ops: Table) -> dict[str, Mask]:
    """By what compute waited for."""
    waits_in, waits_out = ops["input_wait_percent"], ops["output_wait_percent"]
    known = ~np.isnan(waits_in + waits_out)
    reader = known & (waits_in >= WAITS_PERCENT) & (waits_in >= waits_out)
    writer = known & (waits_out >= WAITS_PERCENT) & ~reader
    return {"reader": reader, "compute": known & ~reader & ~writer, "writer": writer}


def _by_ends(ops: Table) -> dict[str, Mask]:
    """Of ops whose waits were not counted, by which part was done early."""
    counted = ~np.isnan(ops["input_wait_percent"] + ops["output_wait_percent"])
    parts = [ops[f"{part}_us"] for part in _PARTS]
    longest = np.fmax(np.fmax(parts[0], parts[1]), parts[2])
    plain = ~counted & (longest > 0) & _has_roles(ops, parts)
    # A part that the op does not have is one that nobody waited for.
    reader, compute, writer = (np.nan_to_num(quotient(part, longest)) for part in parts)
    # What it wrote alone: longer than a single tile's way through the other parts.
    tail = writer - np.maximum(reader, compute)
    lead = np.maximum(np.minimum(reader, compute), np.abs(compute - reader))
    return {
        "reader": plain & (reader == 1) & (compute <= EARLY) & (writer <= EARLY),
        "writer": plain & (tail >= 1 - EARLY) & (tail >= TOGETHER * lead),
        # The writer ends behind the last tile of compute, whichever of the two was waited for.
        _LATE: plain & (reader <= EARLY) & (compute >= TOGETHER),
    }


def _has_roles(ops: Table, parts: list[Floats]) -> Mask:
    """The kernels' names say who reads and who writes, and their processors ran accordingly."""
    reads, writes = ~np.isnan(parts[0]), ~np.isnan(parts[2])
    named: Categorical = ops["roles"]
    return (
        (named.equals("reader, writer") & reads & writes)
        | (named.equals("reader") & reads & ~writes)
        | (named.equals("writer") & writes & ~reads)
    )


def _at(*columns: str) -> Callable[[Table], Mask]:
    """Any of these shares is at the bound."""

    def holds(ops: Table) -> Mask:
        found: Mask = np.any([ops[name] >= BOUND_PERCENT for name in columns], axis=0)
        return found

    return holds


def _noc(ops: Table) -> Mask:
    congested: Mask = ops["congestion_percent"] > CONGESTED_PERCENT
    return congested | _at("noc_percent")(ops)


def _few_cores(ops: Table) -> Mask:
    """Half of the cores or more had nothing to do, although there were tiles for more."""
    few: Mask = (ops["cores"] * 2 <= ops["available_cores"]) & (ops["tiles"] > ops["cores"])
    reported: Mask = ops["grid_reported"] & ~ops["dram_sharded"].astype(bool)
    return few & reported


def _host(ops: Table) -> Mask:
    """The device waited longer for the op than the op took; pauses of the host are left out."""
    gap: Floats = ops["gap_us"]
    found: Mask = (gap > ops["device_time_us"]) & (gap > GAP_THRESHOLD_US) & (gap <= PAUSE_US)
    return found


#: In the order of a row's text.
TAGS = (
    Tag("host", _host, ("gap_us",), "trace replay, fewer and larger ops"),
    Tag("few cores", _few_cores, ("cores", "available_cores"),
        "another sharding or program config, a larger batch"),
    Tag("NoC", _noc,
        ("noc_percent", "congestion_percent"), "multicast, sharded inputs, fewer hops"),
    Tag("DRAM", _at("dram_measured_percent", "dram_percent"),
        ("dram_measured_percent", "dram_percent"), "operands in L1, bfloat8_b"),
    Tag("reader", lambda ops: ops["by_reader"], ("input_wait_percent", *_PARTS),
        "inputs in L1 or sharded, bfloat8_b, deeper circular buffers"),
    Tag("compute", lambda ops: ops["by_compute"] | _at("fpu_percent", "flops_percent")(ops),
        ("input_wait_percent", "output_wait_percent", "fpu_percent", "flops_percent", *_PARTS),
        "lower math fidelity, bfloat8_b, more cores"),
    Tag(_LATE, lambda ops: ops["by_compute or writer"], _PARTS, "--counters waits tells which"),
    Tag("writer", lambda ops: ops["by_writer"], ("output_wait_percent", *_PARTS),
        "output in L1 or sharded, fused with the next op"),
)  # fmt: skip


def limits(ops: Table) -> Categorical:
    """What limits each row, such as ``few cores, reader``; blank where the file does not tell.

    Args:
        ops: with the columns :data:`JUDGED`.
    """
    ops = ops.assign(**_by_part(ops))
    timed = (ops["device_time_us"] > 0) & ~ops["is_host"] & ~ops["is_signpost"]
    code = np.zeros(len(ops), np.int64)
    for number, tag in enumerate(TAGS):
        code |= (tag.holds(ops) & timed).astype(np.int64) << number
    parts = ~np.isnan(ops["reader_us"]) | ~np.isnan(ops["writer_us"])
    code[(code == 0) & timed & parts] = -1
    known = np.unique(code)
    texts = [_text(each) for each in known.tolist()]
    at = np.searchsorted(known, code)
    return Categorical(np.where(code == 0, -1, at).astype(np.int32), texts)


def _text(code: int) -> str:
    if code < 0:
        return "unclear"
    return ", ".join(tag.name for number, tag in enumerate(TAGS) if code >> number & 1)


def by_limit(ops: Table, pooled: int = 1) -> tuple[Limit, ...]:
    """The tags by the time of their ops, most first; an op with several counts for each.

    Args:
        pooled: number of steps in the frame.
    """
    whole, texts = total(ops["device_time_us"]), ops["limits"]
    found: list[Limit] = []
    for name in (*(tag.name for tag in TAGS), "unclear"):
        with_it = [name in str(text or "").split(", ") for text in texts.values]
        rows = ops.take(texts.spread(with_it, False, np.bool_))
        if len(rows):
            found.append(_limit(name, rows, whole, pooled))
    return tuple(sorted(found, key=lambda each: -each.device_time_ms))


def _limit(name: LimitName, rows: Table, whole_us: float, pooled: int) -> Limit:
    tag = next((tag for tag in TAGS if tag.name == name), None)
    time = rows["device_time_us"]
    figures = _figures(rows, tag.figures if tag else _PARTS)
    by_name = by_time(Groups(rows["op"]), rows["op"], time)
    return Limit(
        name=name,
        device_time_ms=total(time) / 1000 / pooled,
        percent=total(time) / whole_us * 100 if whole_us else None,
        op_count=round(len(rows) / pooled),
        gap_ms=total(rows["gap_us"]) / 1000 / pooled if name == "host" else None,
        figures=figures,
        ops=tuple(each.name for each in by_name[:_MOST_OPS]),
        helps=tag.helps if tag else "--counters waits tells which",
    )


def _figures(rows: Table, names: tuple[str, ...]) -> Mapping[str, float]:
    """Means of these columns weighted by device time; of a kernel's parts, their share of it."""
    time = rows["device_time_us"]
    found: dict[str, float] = {}
    for name in names:
        part = name in _PARTS
        values = quotient(rows[f"{name}_us"] * 100, time) if part else rows[name]
        known = ~np.isnan(values) & (time > 0)
        if known.any():
            weighted = total(values[known] * time[known]) / total(time[known])
            found[f"{name}_percent" if part else name] = weighted
    return found
