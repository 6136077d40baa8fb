"""What stands against a region: it would time other than what its label says, in some iterations.

Raises:
    Declined: from either function.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from instrumentor.locate.located import Declined, Reason
from instrumentor.locate.loop.loops import Candidate
from instrumentor.locate.region.conditions import needed, skipping, tells_a_phase
from instrumentor.locate.region.modes import Region, step_updates
from instrumentor.read.syntax import FUNCTIONS

_ONE_PATH = "Give a script with one of the branches, or run every backward before the branches."


def no_update_inside(region: Region) -> None:
    """Forward + backward holds no optimizer step, and a whole step ends on every path."""
    candidate, flow = region.candidate, region.candidate.flow
    final = region.sites[-1].statement
    begin, ends = flow.before(region.begin), [flow.after(end.after) for end in region.ends]
    if region.whole:
        if flow.after(final) not in ends and not flow.path(flow.after(final), ends):
            raise _declined(
                candidate,
                final,
                "no optimizer step follows this backward, only one in the other branch: the "
                "region would stay open",
                _ONE_PATH,
            )
        return
    end = ends[0]
    for update in candidate.own_updates:
        step = update.statement
        at, done = flow.before(step), flow.after(step)
        inside = (at == begin or flow.path(begin, at, {end})) and flow.path(done, end)
        if at != end and not inside:
            continue
        message = (
            f"this runs the backward and steps {update.optimizer} as well: forward + backward has "
            "no end of its own here"
            if step is final
            else f"this steps {update.optimizer} before forward + backward is certain to be "
            f"complete (last backward: line {final.lineno}): no end comes before it"
        )
        follows = any(
            not flow.exclusive(u.statement, final) for u in step_updates(candidate, region.sites)
        )
        remedy = "Use --scope step: a sample is then the whole step." if follows else _ONE_PATH
        raise _declined(candidate, step, message, remedy)


def _declined(candidate: Candidate, at: ast.stmt, message: str, remedy: str) -> Declined:
    return Declined(Reason.at(candidate.source, at, "step-in-region", message, remedy))


def no_phase_inside(regions: Sequence[Region]) -> None:
    """What tells training from evaluation is known when the region begins."""
    for region in regions:
        candidate, flow = region.candidate, region.candidate.flow
        sites = [s.statement for r in regions if r.begin is region.begin for s in r.sites]
        for test in skipping(flow, region.begin, sites):
            if any(map(tells_a_phase, needed(flow, region.begin, test, sites)[1])):
                what = "function" if isinstance(candidate.loop, FUNCTIONS) else "loop"
                message = (
                    f"one {what} serves training and evaluation, and which of them runs cannot be "
                    "told ahead of the forward"
                )
                remedy = f"Give training a {what} of its own."
                raise Declined(Reason.at(candidate.source, test, "train-and-eval", message, remedy))
