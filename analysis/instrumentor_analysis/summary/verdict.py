"""What bounds the step, by which numbers, and which lever comes next.

A verdict needs both numbers, wall clock and device time of the same step; without them there
is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from instrumentor_analysis.model import (
    GAP_THRESHOLD_US,
    HOST_BOUND_PERCENT,
    Category,
    Evidence,
    Lever,
    Summary,
    Verdict,
    VerdictName,
)

#: Share of the device time from which one kind of op sets the verdict, percent.
DOMINANT_PERCENT = 50.0
#: Overhead from which a runtime trace is worth naming although the step is not host-bound.
TRACE_HELPS_PERCENT = 30.0
#: Overhead from which waiting, not the ops, is most of the step, percent.
WAITS_MOSTLY_PERCENT = 50.0
#: Device time beyond the wall clock that is still put down to two clocks, percent.
CLOCKS_DIFFER_PERCENT = 5.0

_TRACE = Lever(
    "runtime trace",
    'set TT_RUNTIME_TRACE_REGION_SIZE (e.g. "10000000") before torch_xla is imported and '
    '"enable_trace": "true" in set_custom_compile_options; measure by wall clock, Tracy\'s '
    "device profiling does not work with it",
)
_LEVEL_2 = Lever(
    "optimization level 2",
    'torch_xla.set_custom_compile_options({"optimization_level": 2}): fuses ops and keeps '
    "tensors in on-chip SRAM instead of DRAM; compiling takes longest",
)
_BFP8 = Lever(
    "bfloat8_b",
    '"enable_bfp8_conversion": "true" in set_custom_compile_options, the model already in '
    "bfloat16: half the bytes of bfloat16 and faster math",
)
_BF16 = Lever("bfloat16", "model.to(dtype=torch.bfloat16), inputs likewise, before compiling")
_BATCH = Lever(
    "batch size or sequence length",
    "double it until throughput drops or memory runs out: each op does more work",
)
_FEWER_OPS = Lever("fewer ops", "optimization level 1 or 2 fuses ops; avoid per-element host logic")
_LEVERS: Mapping[VerdictName, tuple[Lever, ...]] = {
    "host-bound": (_TRACE, _FEWER_OPS, _BATCH),
    "memory-bound": (_BFP8, _LEVEL_2, _BF16),
    "compute-bound": (
        _BFP8,
        _BF16,
        Lever("math fidelity", "HiFi2 or LoFi where the data types allow; see the matmul advice"),
    ),
    "data-movement-bound": (
        _LEVEL_2,
        Lever(
            "layout changes",
            "look at the ops that lead to Transpose, Reshape, Tilize and Untilize: shapes that "
            "are multiples of 32 and one memory layout save most of them",
        ),
    ),
    "mixed": (_LEVEL_2, _BFP8, _BATCH),
}
_CUDA_LEVERS = (
    Lever("fewer launches", "torch.compile, or CUDA graphs (torch.cuda.make_graphed_callables)"),
    _BATCH,
)


def overhead_percent(wall_ms: float | None, device_ms: float | None) -> float | None:
    """(wall - device) / wall of one step, percent.

    None unless both are known and do not contradict each other: the device may seem to work
    longer than the step took only by as much as clocks differ.
    """
    if wall_ms is None or device_ms is None or wall_ms <= 0:
        return None
    overhead = (wall_ms - device_ms) / wall_ms * 100
    return overhead if overhead >= -CLOCKS_DIFFER_PERCENT else None


def decide(
    summary: Summary, bounds: Mapping[str, float] | None = None, *, cuda: bool = False
) -> Verdict | None:
    """The verdict on the step of a summary; None where its overhead is not known.

    Args:
        bounds: share of the device time by bound, percent (``BOTH`` stands for DRAM and FLOP);
            None where ops were not modelled.
        cuda: the device is a GPU: other levers.
    """
    overhead = summary.overhead_percent
    if overhead is None or summary.step_wall_clock_ms is None or summary.device_time_ms is None:
        return None
    evidence = [
        Evidence("wall clock", summary.step_wall_clock_ms, "ms"),
        Evidence("device time", summary.device_time_ms, "ms"),
        Evidence("overhead", overhead, "%", HOST_BOUND_PERCENT),
    ]
    if summary.dispatch_ms_per_op is not None:
        evidence.append(Evidence("dispatch per op", summary.dispatch_ms_per_op, "ms"))
    gap_us = None if summary.gaps is None else summary.gaps.median_us
    if gap_us is not None:
        evidence.append(Evidence("median op-to-op gap", gap_us, "us", GAP_THRESHOLD_US))
    name: VerdictName = "mixed"
    if summary.host_bound:
        name = "host-bound"
        reason = f"the device works for {100 - overhead:.0f} % of the step and waits for the rest"
    elif bounds is None:
        reason = "ops were not modelled: only the host's share is known"
    else:
        name, reason, more = _by_device(summary.categories, bounds)
        evidence += more
    levers = _CUDA_LEVERS if cuda else _LEVERS[name]
    if overhead > WAITS_MOSTLY_PERCENT and name != "host-bound":
        reason = (
            f"the device waits for {overhead:.0f} % of the step, short of host-bound "
            f"({HOST_BOUND_PERCENT:.0f} %); {reason}"
        )
    if not cuda and TRACE_HELPS_PERCENT < overhead <= HOST_BOUND_PERCENT:
        levers = (_TRACE, *levers) if overhead > WAITS_MOSTLY_PERCENT else (*levers, _TRACE)
    return Verdict(name, reason, tuple(evidence), levers)


def _by_device(
    categories: Iterable[Category], bounds: Mapping[str, float]
) -> tuple[VerdictName, str, list[Evidence]]:
    moving = sum(each.percent or 0.0 for each in categories if each.name in ("TM", "DM", "CCL"))
    dram, flop, both = (bounds.get(bound, 0.0) for bound in ("DRAM", "FLOP", "BOTH"))
    figures: dict[VerdictName, tuple[str, float]] = {
        "memory-bound": ("ops at the DRAM bound", dram + both),
        "compute-bound": ("ops at the FLOPs bound", flop + both),
        "data-movement-bound": ("data movement (TM, DM, CCL)", moving),
    }
    evidence = [
        Evidence(what, value, "% of device time", DOMINANT_PERCENT)
        for what, value in figures.values()
    ]
    slow = bounds.get("SLOW", 0.0)
    evidence.append(Evidence("modelled ops below both bounds", slow, "% of device time"))
    name, (what, value) = max(figures.items(), key=lambda each: each[1][1])
    if value < DOMINANT_PERCENT:
        return "mixed", "no single bound holds half of the device time", evidence
    return name, f"{what} take {value:.0f} % of the device time", evidence
