"""Several training loops, none of which is the obvious one."""

from __future__ import annotations

from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.syntax import (
    FUNCTIONS,
)


def several(candidates: list[Candidate]) -> list[Reason]:
    """One reason per loop, so that the list can be shown."""
    return [
        Reason(
            c.source.path,
            c.loop.lineno,
            "several-loops",
            f"one of {len(candidates)} training loops"
            + (f", in {c.scope.name}()" if isinstance(c.scope, FUNCTIONS) else ""),
            "Say which one: "
            + " or ".join(f"--loop {x.source.path.name}:{x.loop.lineno}" for x in candidates),
        )
        for c in candidates
    ]
