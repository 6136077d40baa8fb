"""The optimizer stepped in an inner loop that runs the forward again."""

from __future__ import annotations

from collections.abc import Iterator

from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.rules.common import SPLIT
from instrumentor.locate.syntax import (
    LOOPS,
    callee,
    contains,
    own_calls,
)


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    """The optimizer stepped in an inner loop that runs the forward again."""
    for update in candidate.updates:
        if update.scope is not candidate.scope:
            continue  # a caller's: its loops are around this one, not inside
        for parent in update.source.parents(update.statement):
            if parent is candidate.loop or any(
                contains(parent, s.statement) for s in candidate.sites
            ):
                break
            if isinstance(parent, LOOPS) and (
                knowledge.forward_call(update.source, update.scope, parent) is not None
            ):
                if any(callee(c) == "backward" for c in own_calls(parent)):
                    yield Reason(
                        update.source.path,
                        parent.lineno,
                        "several-steps",
                        "a loop inside the iteration makes steps of its own: there is no single "
                        "forward + backward",
                        SPLIT,
                    )
                    return
                yield Reason(
                    update.source.path,
                    parent.lineno,
                    "line-search",
                    "a line search: the optimizer is stepped in a loop that runs the forward again",
                    "Give a script with one optimizer step per backward.",
                )
                return
