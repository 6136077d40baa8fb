"""Steps of several kinds that take turns: each kind has figures of its own.

Two models by turns, several steps of a discriminator for one of the generator, a regularizer every
n-th step, an update after several micro-steps: a median of such a mixture describes none of them.
What tells the kinds apart is what the recorder saw of each step, never its time.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Hashable, Sequence

from instrumentor_analysis.clock.intervals import median_interval
from instrumentor_analysis.model import Interval, Population

#: More kinds than that are steps that vary, not kinds that recur.
MOST_KINDS = 4
#: Kinds whose medians differ by less, as a ratio, are one.
ALIKE = 1.05


def populations(kinds: Sequence[Hashable], values: Sequence[float]) -> tuple[Population, ...]:
    """The recurring kinds of steps, most frequent first; none where all are of one.

    Args:
        kinds: of each step.
        values: its time, milliseconds.
    """
    recurring = [kind for kind, count in Counter(kinds).most_common() if count > 1]
    if not 1 < len(recurring) <= MOST_KINDS:
        return ()
    found = tuple(
        _population([at for at, each in enumerate(kinds) if each == kind], values)
        for kind in recurring
    )
    medians = [each.median_ms for each in found]
    return found if max(medians) > ALIKE * min(medians) else ()


def _population(steps: Sequence[int], values: Sequence[float]) -> Population:
    own = [values[at] for at in steps]
    return Population(
        samples=len(own),
        median_ms=statistics.median(own),
        min_ms=min(own),
        max_ms=max(own),
        median_interval_ms=median_interval(own),
        steps=tuple(steps),
    )


def typical_ms(found: Sequence[Population], values: Sequence[float]) -> float:
    """The median; of several kinds the mean of their medians, weighted by how often they come."""
    if not found:
        return statistics.median(values)
    total = sum(each.samples for each in found)
    return sum(each.median_ms * each.samples for each in found) / total


def typical_interval(found: Sequence[Population], values: Sequence[float]) -> Interval | None:
    """95 % interval of :func:`typical_ms`; None where that of one kind is not known."""
    if not found:
        return median_interval(values)
    total, middle = sum(each.samples for each in found), typical_ms(found, values)
    below = above = 0.0
    for each in found:
        interval, share = each.median_interval_ms, each.samples / total
        if interval is None:
            return None
        # The errors of the kinds are independent of each other.
        below = math.hypot(below, share * (each.median_ms - interval.low))
        above = math.hypot(above, share * (interval.high - each.median_ms))
    return Interval(middle - below, middle + above)
