"""One loop or function for training and evaluation, whose phase shows only behind the forward."""

from __future__ import annotations

from collections.abc import Sequence

from instrumentor.locate.conditions import is_tellable, skipping, tells_a_phase
from instrumentor.locate.model import Declined, Reason
from instrumentor.locate.regions import Region
from instrumentor.locate.syntax import FUNCTIONS


def no_phase_inside(regions: Sequence[Region]) -> None:
    """A region is begun in the iterations that train, and in no other.

    Raises:
        Declined: what tells them apart changes between its begin and the backward.
    """
    for region in regions:
        candidate, flow = region.candidate, region.candidate.flow
        sites = [s.statement for r in regions if r.begin is region.begin for s in r.sites]
        for test in skipping(flow, region.begin, sites):
            if tells_a_phase(test.test) and not is_tellable(flow, region.begin, test):
                what = "function" if isinstance(candidate.loop, FUNCTIONS) else "loop"
                raise Declined(
                    Reason(
                        candidate.source.path,
                        test.lineno,
                        "train-and-eval",
                        f"one {what} serves training and evaluation, and which of them runs cannot "
                        "be told ahead of the forward",
                        f"Give training a {what} of its own.",
                    )
                )
