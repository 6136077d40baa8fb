"""What an iteration would take on a device that had less to wait for: a model of measured parts.

The iteration as it was measured, less what the change saves of the step that was profiled. What is
saved on a device counts only where the host is not what the step waits for. Nothing is predicted of
a busy machine, of a simulator, or where the profiled step is not like the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from instrumentor_analysis.clock.compiler_breaks import keeps_from_replay
from instrumentor_analysis.clock.intervals import median_interval
from instrumentor_analysis.clock.neighbours import is_busy
from instrumentor_analysis.clock.what_if import LEAST_PERCENT
from instrumentor_analysis.model import GAP_THRESHOLD_US, Interval, Summary, WhatIf

#: What a replay of a trace takes on the host, and at most, milliseconds: as tt-blacksmith's guide
#: to trace training has it; not measured here.
REPLAY_MS, REPLAY_MOST_MS = 50.0, 150.0
TRACE = "runtime trace"
#: The profiled step stands for the others when it takes as long as their median, within this share.
ALIKE = 0.5


def of_device(summary: Summary) -> tuple[WhatIf, ...]:
    """The predictions, what saves most first; none where the parts were not measured."""
    base = _base(summary)
    if base is None or is_busy(summary.run.get("machine")):
        return ()
    now_ms, values_ms = base
    found = [
        predicted
        for change, saved_ms, more_ms in _changes(summary)
        for predicted in _predict(change, now_ms, values_ms, saved_ms, more_ms)
    ]
    return tuple(sorted(found, key=lambda each: each.ms))


def _base(summary: Summary) -> tuple[float, tuple[float, ...]] | None:
    """The iteration as it is, and each; without Tracy where a run went before without it."""
    for wall in (summary.untraced, summary.wall_clock):
        if wall is not None and wall.iteration is not None:
            return wall.iteration.median_ms, wall.iteration.values_ms
        if wall is not None and wall.median_ms:
            return wall.median_ms, wall.samples_ms
    return None


def _changes(summary: Summary) -> Iterator[tuple[str, float, float]]:
    """What would be changed, what that saves, and what it costs at most, in milliseconds."""
    waits = summary.ranks.waited_ms if summary.ranks is not None else _skew_ms(summary)
    if waits is not None:
        yield "no skew", waits, 0.0
    step_ms, device_ms = summary.step_wall_clock_ms, summary.device_time_ms
    if step_ms is None or device_ms is None or not _alike(summary, step_ms):
        return
    gaps = sum(each.saving_us for each in summary.savings if each.kind == "gap") / 1e3
    yield f"gaps at {GAP_THRESHOLD_US} us", min(gaps, max(0.0, step_ms - device_ms)), 0.0
    left_ms = (summary.op_count or 0) * GAP_THRESHOLD_US / 1e3
    saved_ms = step_ms - device_ms - left_ms - REPLAY_MS
    if summary.gaps is not None and saved_ms > 0 and not keeps_from_replay(summary.causes):
        yield TRACE, saved_ms, REPLAY_MOST_MS - REPLAY_MS
    bound = [each for each in summary.savings if each.kind == "bound"]
    if bound and not summary.host_bound:
        first = max(bound, key=lambda each: each.saving_us)
        yield f"{first.op} at its roofline", first.saving_us / 1e3, 0.0
        if len(bound) > 1:
            yield "every op at its roofline", sum(e.saving_us for e in bound) / 1e3, 0.0


def _alike(summary: Summary, step_ms: float) -> bool:
    wall = summary.untraced or summary.wall_clock
    middle_ms = None if wall is None else wall.median_ms
    return middle_ms is not None and abs(step_ms / middle_ms - 1) <= ALIKE


def _skew_ms(summary: Summary) -> float | None:
    """What the slowest device takes longer than the mean of all; None of a single one."""
    devices = summary.devices
    if devices is None or devices.slowest is None or not devices.max_over_mean:
        return None
    slowest_ms = devices.slowest.device_time_ms or 0.0
    waits = [row.waited_ms for row in devices.rows if row.waited_ms is not None]
    # A collective lasts longest on the chip that waits for the others.
    return max(waits) if waits else slowest_ms * (1 - 1 / devices.max_over_mean)


def _predict(
    change: str, now_ms: float, values_ms: tuple[float, ...], saved_ms: float, more_ms: float
) -> Iterator[WhatIf]:
    """The prediction, unless it saves too little to be told from noise."""
    saving = saved_ms / now_ms * 100 if now_ms else 0.0
    if not LEAST_PERCENT <= saving < 100:
        return
    interval = median_interval(values_ms)
    if interval is not None:
        low, high = (max(0.0, end - saved_ms) for end in (interval.low, interval.high))
        interval = Interval(low, high + more_ms, interval.confidence)
    yield WhatIf(change, now_ms - saved_ms, saving, interval)
