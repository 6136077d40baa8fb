"""A Chrome trace of steps, signposts, ops and gaps; opens in ui.perfetto.dev.

The format is "Trace Event Format" (JSON object form, timestamps in microseconds). Three clocks
meet here and nothing calibrates them against each other, so each has tracks of its own:

* the wall clock of the script: the steps as they were timed;
* the device: ops and gaps one after the other, as their durations and op-to-op gaps say, from
  the start of the step on;
* the host: when each op was dispatched, the first one at the start of the step.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from instrumentor_analysis.model import GAP_THRESHOLD_US, Summary
from instrumentor_analysis.reports.detail import Detail
from instrumentor_analysis.reports.headline import title
from instrumentor_analysis.shared.documents import number

if TYPE_CHECKING:
    from instrumentor_analysis.load.table import Floats, Table

Event = dict[str, Any]
#: Process and thread.
Track = tuple[int, int]

#: Processes of the trace.
STEPS, DEVICE, HOST, TORCH, OWNERS = 1, 2, 3, 4, 5
_ABOUT = (
    "Steps are on the script's clock. Device ops follow each other from the start of their step, "
    "as their durations and op-to-op gaps say; host dispatches keep their distances. The three "
    "clocks are not calibrated against each other."
)


def render(summary: Summary, detail: Detail | None = None) -> str:
    """The trace as JSON text."""
    detail = detail or Detail()
    starts = _starts(summary, detail)
    events = list(_steps(summary, starts))
    window = summary.window
    origin = 0.0 if window is None else starts.get(window.step or "", 0.0)
    if detail.torch_ops is not None:
        events += _torch(detail.torch_ops, starts.get("step_profiled", origin))
    elif detail.steps:
        each = ((starts.get(n, 0.0), ops, f"{n}_start", f"{n}_end") for n, ops in detail.steps)
        events += _device(detail, [_Part(*part) for part in each])
    elif detail.ops is not None:
        ends = () if window is None else (window.start, window.end)
        events += _device(detail, [_Part(origin, detail.ops, *ends)])
    events += _owners(summary)
    document = {
        "displayTimeUnit": "ms",
        "otherData": {"title": title(summary), "about": _ABOUT, "profiler": summary.profiler},
        "traceEvents": events,
    }
    return json.dumps(document, allow_nan=False, separators=(",", ":"))


def _starts(summary: Summary, detail: Detail) -> dict[str, float]:
    """Start of each step in microseconds after the first; where not all were recorded, the steps
    stand one after the other.
    """
    samples = [] if detail.timings is None else [*detail.timings.samples, *detail.timings.profiled]
    recorded = {each.name: each.start_s for each in samples}
    known = {name: start for name, start in recorded.items() if start is not None}
    if len(known) < len(recorded):
        known = {}
    first = min(known.values(), default=0.0)
    starts, cursor = {}, 0.0
    for step in summary.steps:
        if step.wall_clock_ms is not None:
            start = (known[step.name] - first) * 1e6 if step.name in known else cursor
            starts[step.name], cursor = start, start + step.wall_clock_ms * 1000
    return starts


def _steps(summary: Summary, starts: dict[str, float]) -> Iterator[Event]:
    track = STEPS, 1
    yield from _names(STEPS, "Wall clock", {1: "steps"})
    for step in summary.steps:
        if step.wall_clock_ms is None:
            continue
        facts = {
            "kind": step.kind,
            "label": step.label,
            "wall_clock_ms": step.wall_clock_ms,
            "device_time_ms": step.device_time_ms,
            "overhead_percent": step.overhead_percent,
            "ops": step.op_count,
        }
        start, duration = starts[step.name], step.wall_clock_ms * 1000
        yield _slice(track, step.name, start, duration, facts, step.kind or "step")
        yield _signpost(track, f"{step.name}_start", start)
        yield _signpost(track, f"{step.name}_end", start + duration)
    yield from _held(summary, starts)


def _held(summary: Summary, starts: dict[str, float]) -> Iterator[Event]:
    """Memory at the end of each step, as counters."""
    ends = {
        step.name: starts[step.name] + step.wall_clock_ms * 1000
        for step in summary.steps
        if step.wall_clock_ms is not None
    }
    for each in () if summary.memory is None else summary.memory.samples:
        devices = {"devices": each.device_bytes, "devices' L1": each.l1_bytes}
        for where, size in {"process": each.resident_bytes, **devices}.items():
            if size is not None and each.step in ends:
                counter = f"memory of the {where}"
                yield _event("C", (STEPS, 1), counter, "memory", ends[each.step], args={"B": size})


def _owners(summary: Summary) -> Iterator[Event]:
    """Who owns the time of an iteration, one behind the other; of no step in particular."""
    found = summary.phases
    if found is None:
        return
    yield from _names(OWNERS, "Where the iteration goes (extra iterations)", {1: found.statistic})
    start = 0.0
    for each in found.phases:
        facts = {"percent": each.percent, "resident_bytes": each.resident_bytes}
        yield _slice((OWNERS, 1), each.name, start, each.ms * 1000, facts, "phase")
        start += each.ms * 1000


class _Part(Struct, frozen=True):
    """Ops one behind the other between two signposts: of a step, or of a window."""

    origin: float
    ops: Table
    start: str | None = None
    end: str | None = None


def _device(detail: Detail, parts: Sequence[_Part]) -> Iterator[Event]:
    """Ops and gaps per device, dispatches, signposts.

    Rows that stand for several devices at once are one track: each is the slowest device's, and
    a track per device would show ops on devices that ran others.
    """
    devices = [math.nan]
    if detail.merged_devices == 1:
        every = {d for part in parts for d in part.ops["device_id"].tolist() if d == d}
        devices = sorted(every) or devices
    tracks: dict[int, str] = {}
    for at, device in enumerate(devices):
        which = f" {device:.0f}" if len(devices) > 1 else ""
        if detail.merged_devices > 1:
            which = f", the slowest of {detail.merged_devices} devices"
        tracks |= {2 * at + 1: f"ops{which}", 2 * at + 2: f"gaps{which}"}
    yield from _names(DEVICE, "Device", tracks)
    yield from _names(HOST, "Host dispatch", {1: "ops"})
    for part in parts:
        yield from _part(part, devices)


def _part(part: _Part, devices: Sequence[float]) -> Iterator[Event]:
    first_host = _first(part.ops["host_start_ns"])
    cursors = [part.origin] * len(devices)
    if part.start:
        yield _signpost((DEVICE, 1), part.start, part.origin)
    for row in part.ops.records(_DEVICE_COLUMNS):
        # Ops on the host have NaN as device, which is equal to nothing in the list.
        at = devices.index(row["device_id"]) if row["device_id"] in devices else 0
        track, gaps, name = (DEVICE, 2 * at + 1), (DEVICE, 2 * at + 2), str(row["op"])
        if row["is_signpost"]:
            yield _signpost(track, name, cursors[at])
            continue
        gap, duration = number(row["gap_us"]), number(row["device_time_us"])
        if gap:
            long = f"gap > {GAP_THRESHOLD_US} us" if gap > GAP_THRESHOLD_US else "gap"
            yield _slice(gaps, long, cursors[at], gap, {"us": gap}, "gap")
            cursors[at] += gap
        if not row["is_host"] and duration is not None:
            yield _slice(track, name, cursors[at], duration, _facts(row), "op")
            cursors[at] += duration
        host = number(row["host_start_ns"])
        if host is not None and first_host is not None:
            start_us = part.origin + (host - first_host) / 1000
            spent = number(row["host_duration_us"]) or 0.0
            yield _slice((HOST, 1), name, start_us, spent, {"id": int(row["id"])}, "dispatch")
    if part.end:
        yield _signpost((DEVICE, 1), part.end, max(cursors))


def _facts(row: dict[str, Any]) -> Event:
    figures = {key: number(row[key]) for key in ("cores", "dram_percent", "flops_percent")}
    fidelity = row["math_fidelity"] if isinstance(row["math_fidelity"], str) else None
    what = {"id": int(row["id"]), "category": str(row["category"])}
    return {**what, "bound": str(row["bound"]) or None, **figures, "math_fidelity": fidelity}


_DEVICE_COLUMNS = (
    "id", "op", "category", "bound", "device_id", "device_time_us", "gap_us", "cores",
    "dram_percent", "flops_percent", "math_fidelity", "host_start_ns", "host_duration_us",
    "is_host", "is_signpost",
)  # fmt: skip


def _torch(ops: Table, origin: float) -> Iterator[Event]:
    """Ops of a torch profile, a track per thread; they nest as they called each other."""
    threads = [str(name) for name in ops["thread"]] if "thread" in ops else ["main"] * len(ops)
    known = list(dict.fromkeys(threads)) or ["main"]
    tracks = {at: f"thread {name}" for at, name in enumerate(known, start=1)}
    yield from _names(TORCH, "Torch ops", tracks)
    first = _first(ops["start_us"]) or 0.0
    told = [name for name in ("module", "pass") if name in ops]
    columns = ("op", "start_us", "duration_us", "self_time_us", "device_time_us", *told)
    for thread, row in zip(threads, ops.records(columns), strict=True):
        op, start, duration, own, device, *_ = row.values()
        if number(start) is None or number(duration) is None:
            continue
        track = TORCH, known.index(thread) + 1
        facts = {"self_time_us": number(own), "device_time_us": number(device)}
        facts |= {name: row[name] for name in told}
        yield _slice(track, str(op), origin + start - first, duration, facts, "op")


def _first(values: Floats) -> float | None:
    known = values[values == values]
    return float(known.min()) if len(known) else None


def _names(pid: int, process: str, threads: dict[int, str]) -> Iterator[Event]:
    yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": process}}
    # The order of the processes in the viewer, from the top.
    yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}
    for tid, name in threads.items():
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}


def _slice(
    track: Track, name: str, start_us: float, duration_us: float, args: Event, kind: str
) -> Event:
    known = {key: value for key, value in args.items() if value is not None}
    return _event("X", track, name, kind, start_us, dur=round(duration_us, 3), args=known)


def _signpost(track: Track, name: str, at_us: float) -> Event:
    # Of scope "p": a line through all tracks of the process, not a mark on one.
    return _event("i", track, name, "signpost", at_us, s="p")


def _event(kind: str, track: Track, name: str, category: str, at_us: float, **more: Any) -> Event:
    pid, tid = track
    # Three decimals of a microsecond: the nanoseconds in which the profilers record.
    where = {"pid": pid, "tid": tid, "ts": round(at_us, 3)}
    return {"ph": kind, "name": name, "cat": category, **where, **more}
