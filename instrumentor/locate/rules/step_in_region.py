"""An optimizer step inside of forward + backward, on some path through the loop."""

from __future__ import annotations

from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Declined, Reason
from instrumentor.locate.modes import step_updates
from instrumentor.locate.regions import Region
from instrumentor.locate.tree import contains, exclusive

_ONE_PATH = "Give a script with one of the branches, or run every backward before the branches."


def no_update_inside(candidate: Candidate, region: Region) -> None:
    """A region of forward + backward never holds an optimizer step, on any path.

    Raises:
        Declined: when it would, or when a path of a whole step has no end.
    """
    source, final = candidate.source, region.sites[-1].statement
    if region.ends_after_update:
        ends = [region.end, *(e.after for e in region.other_ends)]
        apart = [e for e in ends if exclusive(source, e, final)]
        earlier = any(not exclusive(source, e, s.statement) for e in apart for s in region.sites)
        if len(apart) == len(ends) and earlier:
            raise Declined(
                Reason(
                    source.path,
                    final.lineno,
                    "step-in-region",
                    "no optimizer step follows this backward, only one in the other branch: the "
                    "region would stay open",
                    _ONE_PATH,
                )
            )
        return
    for update in candidate.updates:
        if update.source is not source or update.scope is not candidate.scope:
            continue
        step = update.statement
        ahead = region.begin.lineno <= step.lineno < region.end.lineno
        if contains(region.end, step) or (ahead and not exclusive(source, step, region.end)):
            known = step_updates(candidate, region.sites)
            raise Declined(
                Reason(
                    source.path,
                    step.lineno,
                    "step-in-region",
                    f"this runs the backward and steps {update.optimizer} as well: forward + "
                    "backward has no end of its own here"
                    if step is final
                    else (
                        f"this steps {update.optimizer} before forward + backward is certain to be "
                        f"complete (last backward: line {final.lineno}): no end comes before it"
                    ),
                    "Use --scope step: a sample is then the whole step."
                    if any(not exclusive(source, u.statement, final) for u in known)
                    else _ONE_PATH,
                )
            )
