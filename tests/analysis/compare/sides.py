"""Sides for the tests of comparisons, made of a few figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from instrumentor_analysis.clock.timings import Sample, Timings, wall_clock
from instrumentor_analysis.compare.model import OpKind
from instrumentor_analysis.compare.op_lists import OpList
from instrumentor_analysis.compare.side import Side, side_of
from instrumentor_analysis.model import Summary, WallClock


def wall(samples: Sequence[float], label: str = "fwd+bwd", warmup: int = 1) -> WallClock:
    """Statistics of a label after a compile step of a second."""
    first = [Sample("step_compile", "compile", label, 1000.0, 0)]
    rest = [
        Sample(f"step_steady_{at}", "steady", label, ms, at)
        for at, ms in enumerate(samples, start=warmup)
    ]
    return wall_clock(Timings(samples=(*first, *rest)), label)


def summary(
    samples: Sequence[float], label: str = "fwd+bwd", profiler: str = "wallclock", **more: Any
) -> Summary:
    """A summary with a wall clock and whatever else is given."""
    main = wall(samples, label)
    return Summary(
        profiler=profiler,
        scope=label,
        wall_clock=main,
        wall_clock_by_label={label: main},
        **more,
    )


def side(
    samples: Sequence[float],
    name: str = "base",
    label: str = "fwd+bwd",
    profiler: str = "wallclock",
    ops: OpList | None = None,
    batch_size: int | None = None,
    run: Mapping[str, Any] | None = None,
    **more: Any,
) -> Side:
    """One side; with ``batch_size`` as a run records it."""
    facts = {**(run or {}), **({} if batch_size is None else {"batch_size": batch_size})}
    found = summary(samples, label, profiler, run=facts, **more)
    return replace(side_of(found, name, f"{name}/summary.json"), ops=ops)


def op_list(*ops: tuple[OpKind, float | None], time: str = "device time") -> OpList:
    """Ops in the order given, with their microseconds."""
    kinds = list(dict.fromkeys(kind for kind, _ in ops))
    return OpList(
        tuple(kinds),
        tuple(kinds.index(kind) for kind, _ in ops),
        tuple(us for _, us in ops),
        time,
    )
