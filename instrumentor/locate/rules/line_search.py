"""The optimizer stepped in an inner loop that runs the forward again."""

from __future__ import annotations

from collections.abc import Iterator

from instrumentor.locate.gradients import Gradients
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.rules.common import SPLIT
from instrumentor.locate.syntax import contains, own_calls


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    """Loops of the iteration beside its backwards; a caller's are around it, not inside."""
    gradients, sites = Gradients(knowledge), [s.statement for s in candidate.sites]
    for update in candidate.updates:
        source, scope = update.source, update.scope
        for loop in source.loops_around(update.statement):
            if loop not in candidate.flow.begins or any(contains(loop, s) for s in sites):
                break
            if not any(gradients.forwards(source, scope, [loop]).values()):
                continue
            if any(knowledge.is_backward(source, scope, c) for c in own_calls(loop)):
                kind, remedy = "several-steps", SPLIT
                message = (
                    "a loop inside the iteration makes steps of its own: there is no single "
                    "forward + backward"
                )
            else:
                kind, remedy = "line-search", "Give a script with one optimizer step per backward."
                message = (
                    "a line search: the optimizer is stepped in a loop that runs the forward again"
                )
            yield Reason(source.path, loop.lineno, kind, message, remedy)
