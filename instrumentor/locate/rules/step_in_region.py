"""An optimizer step inside of forward + backward, on some path through the loop."""

from __future__ import annotations

import ast

from instrumentor.locate.control import Flow
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Declined, Reason
from instrumentor.locate.modes import step_updates
from instrumentor.locate.regions import Region

_ONE_PATH = "Give a script with one of the branches, or run every backward before the branches."


def no_update_inside(candidate: Candidate, region: Region) -> None:
    """A region of forward + backward never holds an optimizer step, on any path.

    Raises:
        Declined: when it would, or when a path of a whole step has no end.
    """
    flow, final = candidate.flow, region.sites[-1].statement
    line = final.lineno
    if region.whole:
        ends = [flow.after(end) for end in region.ends]
        if final not in region.ends and not flow.path(flow.after(final), ends):
            raise _declined(
                candidate,
                line,
                "no optimizer step follows this backward, only one in the other branch: the "
                "region would stay open",
                _ONE_PATH,
            )
        return
    for update in candidate.own_updates:
        step = update.statement
        if not _inside(flow, region, step):
            continue
        message = (
            f"this runs the backward and steps {update.optimizer} as well: forward + backward has "
            "no end of its own here"
            if step is final
            else f"this steps {update.optimizer} before forward + backward is certain to be "
            f"complete (last backward: line {line}): no end comes before it"
        )
        known = step_updates(candidate, region.sites)
        follows = any(not flow.exclusive(u.statement, final) for u in known)
        remedy = "Use --scope step: a sample is then the whole step." if follows else _ONE_PATH
        raise _declined(candidate, step.lineno, message, remedy)


def _inside(flow: Flow, region: Region, step: ast.stmt) -> bool:
    """Whether a path from the begin of a region to its end meets a statement."""
    begin, end, at = flow.before(region.begin), flow.after(region.end), flow.before(step)
    if at == end:
        return True
    return (at == begin or flow.path(begin, at, {end})) and flow.path(flow.after(step), end)


def _declined(candidate: Candidate, line: int, message: str, remedy: str) -> Declined:
    return Declined(Reason(candidate.source.path, line, "step-in-region", message, remedy))
