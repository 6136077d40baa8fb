"""Several training loops, none of which is the obvious one."""

from __future__ import annotations

from collections.abc import Iterator

from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.syntax import FUNCTIONS
from instrumentor_analysis.caveats import Caveat


def several(candidates: list[Candidate], what: str = "training") -> list[Reason]:
    """One reason per loop, so that the list can be shown."""
    return [
        Reason(
            c.source.path,
            c.loop.lineno,
            "several-loops",
            f"one of {len(candidates)} {what} loops"
            + (f", in {c.scope.name}()" if isinstance(c.scope, FUNCTIONS) else ""),
            "Say which one: "
            + " or ".join(f"--loop {x.source.path.name}:{x.loop.lineno}" for x in candidates),
        )
        for c in candidates
    ]


def by_options(chosen: Candidate, others: list[Candidate]) -> Iterator[Caveat]:
    """That the script's own options chose one of several loops."""
    if others:
        lines = " or ".join(f"--loop {c.source.at(c.loop.lineno)}" for c in others)
        yield Caveat(
            "loop-by-options",
            f"one of {len(others) + 1} training loops: the one that the script's options leave",
            place=chosen.source.at(chosen.loop.lineno),
            hint=f"For another one give the script's arguments, or {lines}.",
        )
