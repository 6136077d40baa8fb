"""What bounds the step, by which numbers, and which lever comes next.

A verdict needs both numbers, wall clock and device time of the same step; without them there
is none.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from instrumentor_analysis.model import (
    GAP_THRESHOLD_US,
    HOST_BOUND_PERCENT,
    Evidence,
    Lever,
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


class Shares(Struct, frozen=True):
    """Of the device time, percent: by category, and of ops at a bound by which one.

    Attributes:
        categories: our categories.
        dram, flop: ops at 65 % or more of the DRAM, of the FLOPs peak (``BOTH`` counts in each).
        slow: modelled ops below both.
    """

    categories: Mapping[str, float]
    dram: float = 0.0
    flop: float = 0.0
    slow: float = 0.0


def decide(
    wall_ms: float | None,
    device_ms: float | None,
    shares: Shares | None = None,
    *,
    op_count: int | None = None,
    median_gap_us: float | None = None,
    cuda: bool = False,
) -> Verdict | None:
    """The verdict on one step; None unless both its wall clock and its device time are known,
    and do not contradict each other.

    Args:
        shares: of the device time; None where ops were not modelled.
        cuda: the device is a GPU: other levers.
    """
    if wall_ms is None or device_ms is None or wall_ms <= 0 or contradict(wall_ms, device_ms):
        return None
    overhead = (wall_ms - device_ms) / wall_ms * 100
    evidence = [
        Evidence("wall clock", wall_ms, "ms"),
        Evidence("device time", device_ms, "ms"),
        Evidence("overhead", overhead, "%", HOST_BOUND_PERCENT),
    ]
    if op_count:
        evidence.append(Evidence("dispatch per op", (wall_ms - device_ms) / op_count, "ms"))
    if median_gap_us is not None:
        evidence.append(Evidence("median op-to-op gap", median_gap_us, "us", GAP_THRESHOLD_US))
    name: VerdictName = "mixed"
    if overhead > HOST_BOUND_PERCENT:
        name = "host-bound"
        reason = f"the device works for {100 - overhead:.0f} % of the step and waits for the rest"
    elif shares is None:
        reason = "ops were not modelled: only the host's share is known"
    else:
        name, reason, more = _by_device(shares)
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


def contradict(wall_ms: float, device_ms: float) -> bool:
    """The device worked longer than the step took, by more than clocks differ."""
    return device_ms > wall_ms * (1 + CLOCKS_DIFFER_PERCENT / 100)


def _by_device(shares: Shares) -> tuple[VerdictName, str, list[Evidence]]:
    moving = sum(shares.categories.get(name, 0.0) for name in ("TM", "DM", "CCL"))
    figures = {
        "memory-bound": ("ops at the DRAM bound", shares.dram),
        "compute-bound": ("ops at the FLOPs bound", shares.flop),
        "data-movement-bound": ("data movement (TM, DM, CCL)", moving),
    }
    evidence = [
        Evidence(what, value, "% of device time", DOMINANT_PERCENT)
        for what, value in figures.values()
    ]
    evidence.append(Evidence("modelled ops below both bounds", shares.slow, "% of device time"))
    names: tuple[VerdictName, ...] = ("memory-bound", "compute-bound", "data-movement-bound")
    name = max(names, key=lambda n: figures[n][1])
    what, value = figures[name]
    if value < DOMINANT_PERCENT:
        return "mixed", "no single bound holds half of the device time", evidence
    return name, f"{what} take {value:.0f} % of the device time", evidence
