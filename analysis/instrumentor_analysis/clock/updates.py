"""Iterations that are micro-steps: only the last of several makes an update.

An iteration in which no optimizer stepped is no step of the training, but one of the micro-steps of
accumulated gradients. How many make an update follows from the iterations in which one stepped;
what an update takes is the sum of its micro-steps, of updates that were measured whole.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise

from instrumentor_analysis.clock.intervals import median_interval
from instrumentor_analysis.model import Update

#: Share of the updates that have to agree on the number of their micro-steps.
AGREE = 0.5


def updates(
    stepped: Sequence[bool],
    values_ms: Sequence[float],
    steady: set[int],
    *,
    regions: Sequence[int | None] = (),
    accumulates: bool = False,
) -> Update | None:
    """What an update takes; None where each iteration makes one, or where none was seen.

    Args:
        stepped: of each iteration in order, whether an optimizer stepped in it.
        values_ms: what it took.
        steady: positions of those that count; an update with another one in it was not measured.
        regions: the number of each among all that ran. An update during which one was not measured
            (a profiled step) tells neither how many micro-steps there are nor how long they take.
        accumulates: the script does, as its reading tells: that holds where no update was seen.
    """
    ends = [at for at, each in enumerate(stepped) if each]
    known = [each for each in regions if each is not None]
    places = known if len(known) == len(stepped) else range(len(stepped))
    spans = [
        (first, last)
        for first, last in pairwise(ends)
        if places[last] - places[first] == last - first
    ]
    counts = [last - first for first, last in spans]
    if not counts:
        # An update comes behind iterations without any: more than one of them makes it.
        return Update() if (not all(stepped) if ends else accumulates) else None
    usual = statistics.mode(counts)
    if usual < 2:
        return None
    if counts.count(usual) < AGREE * len(counts):
        return Update()
    whole = [range(first + 1, last + 1) for first, last in spans if last - first == usual]
    sums = [sum(values_ms[at] for at in steps) for steps in whole if steady.issuperset(steps)]
    return Update(
        micro_steps=usual,
        count=len(sums),
        ms=statistics.median(sums) if sums else None,
        interval_ms=median_interval(sums) if sums else None,
        values_ms=tuple(sums),
    )
