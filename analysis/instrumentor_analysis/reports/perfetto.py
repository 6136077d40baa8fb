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

from instrumentor_analysis.documents import number
from instrumentor_analysis.model import GAP_THRESHOLD_US, Summary
from instrumentor_analysis.reports.detail import Detail
from instrumentor_analysis.reports.headline import title

if TYPE_CHECKING:
    from instrumentor_analysis.table import Floats, Table

Event = dict[str, Any]

STEPS, DEVICE, HOST, TORCH = 1, 2, 3, 4
_ABOUT = (
    "Steps are on the script's clock. Device ops follow each other from the start of their step, "
    "as their durations and op-to-op gaps say; host dispatches keep their distances. The three "
    "clocks are not calibrated against each other."
)


def render(summary: Summary, detail: Detail | None = None) -> str:
    """The trace as JSON text."""
    detail = detail or Detail()
    steps, starts = _steps(summary, detail)
    events = [*steps]
    window = summary.window
    if detail.torch_ops is not None:
        origin = 0.0 if window is None else starts.get(window.step or "", 0.0)
        events += _torch(detail.torch_ops, starts.get("step_profiled", origin))
    elif detail.steps:
        events += _device(detail, [_Part(starts.get(n, 0.0), o, n) for n, o in detail.steps])
    elif detail.ops is not None:
        start, end = (None, None) if window is None else (window.start, window.end)
        origin = 0.0 if window is None else starts.get(window.step or "", 0.0)
        events += _device(detail, [_Part(origin, detail.ops, None, start, end)])
    document = {
        "displayTimeUnit": "ms",
        "otherData": {"title": title(summary), "about": _ABOUT, "profiler": summary.profiler},
        "traceEvents": events,
    }
    return json.dumps(document, allow_nan=False, separators=(",", ":"))


def _steps(summary: Summary, detail: Detail) -> tuple[list[Event], dict[str, float]]:
    """The events of all steps, and the start of each in microseconds."""
    known = _starts(detail)
    events = [*_names(STEPS, "Wall clock", {1: "steps"})]
    starts: dict[str, float] = {}
    cursor = 0.0
    for step in summary.steps:
        if step.wall_clock_ms is None:
            continue
        duration = step.wall_clock_ms * 1000
        # Without recorded starts the steps stand one after the other.
        start = known.get(step.name, cursor)
        cursor = start + duration
        starts[step.name] = start
        facts = {
            "kind": step.kind,
            "label": step.label,
            "wall_clock_ms": step.wall_clock_ms,
            "device_time_ms": step.device_time_ms,
            "overhead_percent": step.overhead_percent,
            "ops": step.op_count,
        }
        events.append(_slice(STEPS, 1, step.name, start, duration, facts, step.kind or "step"))
        events.append(_instant(STEPS, 1, f"{step.name}_start", start))
        events.append(_instant(STEPS, 1, f"{step.name}_end", start + duration))
    return events, starts


def _starts(detail: Detail) -> dict[str, float]:
    """Start of each step in microseconds after the first one; empty when not all are known."""
    if detail.timings is None:
        return {}
    samples = [*detail.timings.samples]
    if detail.timings.profiled is not None:
        samples.append(detail.timings.profiled)
    known = [(s.name, s.start_s) for s in samples if s.start_s is not None]
    if not known or len(known) < len(samples):
        return {}
    first = min(start for _, start in known)
    return {name: (start - first) * 1e6 for name, start in known}


class _Part(Struct, frozen=True):
    """Ops one behind the other: of a step, or of a window between signposts."""

    origin: float
    ops: Table
    step: str | None = None
    start: str | None = None
    end: str | None = None

    @property
    def borders(self) -> tuple[str | None, str | None]:
        """Signposts at its two ends."""
        if self.step is None:
            return self.start, self.end
        return f"{self.step}_start", f"{self.step}_end"


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
    origin = part.origin
    start, end = part.borders
    first_host = _first(part.ops["host_start_ns"])
    cursors = dict.fromkeys(range(len(devices)), origin)
    if start:
        yield _instant(DEVICE, 1, start, origin)
    for row in part.ops.records(_DEVICE_COLUMNS):
        at = devices.index(row["device_id"]) if row["device_id"] in devices else 0
        track = 2 * at + 1
        if row["is_signpost"]:
            yield _instant(DEVICE, track, str(row["op"]), cursors[at])
            continue
        gap, duration = number(row["gap_us"]), number(row["device_time_us"])
        if gap:
            long = gap > GAP_THRESHOLD_US
            name = f"gap > {GAP_THRESHOLD_US} us" if long else "gap"
            yield _slice(DEVICE, track + 1, name, cursors[at], gap, {"us": gap}, "gap")
            cursors[at] += gap
        if not row["is_host"] and duration is not None:
            yield _slice(DEVICE, track, str(row["op"]), cursors[at], duration, _facts(row), "op")
            cursors[at] += duration
        host = number(row["host_start_ns"])
        if host is not None and first_host is not None:
            start_us = origin + (host - first_host) / 1000
            spent = number(row["host_duration_us"]) or 0.0
            facts = {"id": int(row["id"])}
            yield _slice(HOST, 1, str(row["op"]), start_us, spent, facts, "dispatch")
    if end:
        yield _instant(DEVICE, 1, end, max(cursors.values()))


def _facts(row: dict[str, Any]) -> Event:
    return {
        "id": int(row["id"]),
        "category": str(row["category"]),
        "bound": str(row["bound"]) or None,
        "cores": number(row["cores"]),
        "dram_percent": number(row["dram_percent"]),
        "flops_percent": number(row["flops_percent"]),
        "math_fidelity": row["math_fidelity"] if isinstance(row["math_fidelity"], str) else None,
    }


_DEVICE_COLUMNS = (
    "id", "op", "category", "bound", "device_id", "device_time_us", "gap_us", "cores",
    "dram_percent", "flops_percent", "math_fidelity", "host_start_ns", "host_duration_us",
    "is_host", "is_signpost",
)  # fmt: skip


def _torch(ops: Table, origin: float) -> Iterator[Event]:
    """Ops of a torch profile, a track per thread; they nest as they called each other."""
    threads = [str(name) for name in ops["thread"]] if "thread" in ops else ["main"] * len(ops)
    known = list(dict.fromkeys(threads)) or ["main"]
    yield from _names(
        TORCH, "Torch ops", {at + 1: f"thread {name}" for at, name in enumerate(known)}
    )
    first = _first(ops["start_us"]) or 0.0
    columns = ("op", "start_us", "duration_us", "self_time_us", "device_time_us")
    for thread, row in zip(threads, ops.records(columns), strict=True):
        op, start, duration, own, device = row.values()
        if number(start) is None or number(duration) is None:
            continue
        track = known.index(thread) + 1
        facts = {"self_time_us": number(own), "device_time_us": number(device)}
        yield _slice(TORCH, track, str(op), origin + start - first, duration, facts, "op")


def _first(values: Floats) -> float | None:
    known = values[values == values]
    return float(known.min()) if len(known) else None


def _names(pid: int, process: str, threads: dict[int, str]) -> Iterator[Event]:
    yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": process}}
    yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}
    for tid, name in threads.items():
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}


def _slice(
    pid: int, tid: int, name: str, start_us: float, duration_us: float, args: Event, kind: str
) -> Event:
    known = {key: value for key, value in args.items() if value is not None}
    return {
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "name": name,
        "cat": kind,
        "ts": round(start_us, 3),
        "dur": round(duration_us, 3),
        "args": known,
    }


def _instant(pid: int, tid: int, name: str, at_us: float) -> Event:
    return {
        "ph": "i",
        "s": "p",
        "pid": pid,
        "tid": tid,
        "name": name,
        "cat": "signpost",
        "ts": round(at_us, 3),
    }
