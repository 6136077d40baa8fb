"""What kept compilers from making one program of a step: from run.json to findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from instrumentor_analysis.model import Cause
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.documents import fitted

BREAK, RECOMPILED, FALLBACK = "graph break", "recompiled", "fallback"
NEW_GRAPH, DROPPED = "new graph", "gradients dropped"
#: What keeps a step from being recorded once and replayed as a runtime trace.
OBSTACLES = (NEW_GRAPH, RECOMPILED, FALLBACK, DROPPED)
#: Ops that read a value of the device and so wait for it.
READS = {"aten::_local_scalar_dense": "reading a value (item(), float(), a condition)"}
_HINTS = {
    BREAK: "move it out of the compiled code; torch.compile(..., fullgraph=True) names each break",
    RECOMPILED: "pad to fixed sizes, or torch.compile(..., dynamic=True)",
    FALLBACK: "move it out of the step, or use an op that the device has",
    NEW_GRAPH: "keep shapes and numbers the same in every step: pad, index with a tensor, or hold "
    "the number in a tensor on the device",
    DROPPED: "zero_grad(set_to_none=False), so that every micro-step adds to existing gradients",
}


def causes(facts: Any) -> tuple[Cause, ...]:
    """The causes that a run has noted, what cost most first; none where it noted none."""
    every = [fitted(each, Cause) for each in facts or () if isinstance(each, dict)]
    known = [each for each in every if each.kind and each.what]
    return tuple(sorted(known, key=lambda each: (-each.ms, -each.count)))


def by_place(found: Sequence[Cause]) -> Iterator[Caveat]:
    """A finding for each kind, with the place of the first cause."""
    for kind, hint in _HINTS.items():
        own = [each for each in found if each.kind == kind]
        if not own:
            continue
        first = own[0]
        where = f" at {first.place}" if first.place else ""
        what = READS.get(first.what, first.what)
        more = f", and {len(own) - 1} more like it" if len(own) > 1 else ""
        text = {
            BREAK: f"torch.compile could not make one graph of the step: {what}{where}{more}",
            RECOMPILED: f"torch.compile compiled again: {what}{where}{more}",
            FALLBACK: f"{what} runs on the host in each step and waits for the device{where}{more}",
            NEW_GRAPH: f"steps keep recompiling, because their graph changes from step to step"
            f"{where}: {what}{more}",
            DROPPED: f"zero_grad() frees the gradients{where}: the first micro-step of each update "
            f"allocates them again, in a graph of its own{more}",
        }[kind]
        yield Caveat(kind.replace(" ", "-"), text, hint=hint)


def keeps_from_replay(found: Sequence[Cause]) -> str:
    """What keeps the step from being replayed as a runtime trace, in words; "" where nothing."""
    own = [each for each in found if each.kind in OBSTACLES]
    if not own:
        return ""
    first = own[0]
    where = f" at {first.place}" if first.place else ""
    more = f", and {len(own) - 1} more" if len(own) > 1 else ""
    return f"{first.kind}{where} ({READS.get(first.what, first.what)}){more}"
