"""What an iteration would take without some of its phases.

**Measured**: iterations that were given the batch of the one before, and so waited for no input.
Their median is what another run would show; its interval has in it what they differ by, and what
runs differ by, which one run cannot know and which is assumed as a gate assumes it.

**At most**: the iteration less its wait for data, by the extra steps with barriers. A host that has
waited is slower for a while than one that has not, so the truth lies below, and there is no
interval.

**A model**: the share that other phases have of each extra iteration is one value; the prediction
is the iteration as it was measured without barriers, less the median of the shares, with the
interval of a median. What barriers cost may stand in any phase: a change that saves less than
that, or that may save nothing, is not shown.

All of it holds where the rest stays as it is: a batch that another process makes meanwhile must not
take that process's CPU from the step.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from instrumentor_analysis.clock.intervals import ASSUMED, SURE, median_interval, reach
from instrumentor_analysis.clock.order_statistics import CONFIDENCE
from instrumentor_analysis.clock.phases import DATA, OTHER, PREPARE, Extra, whole_cycles
from instrumentor_analysis.model import Interval, Iteration, WhatIf

HIDDEN = "no wait for data"
#: What would be changed -> the phases that it takes off the iteration.
CHANGES: Mapping[str, tuple[str, ...]] = {
    HIDDEN: (DATA,),
    "no wait for data, batch moved ahead": (DATA, PREPARE),
    "no logging, clipping, callbacks": (OTHER,),
}
#: Changes that would save less than this share are not worth a row, percent.
LEAST_PERCENT = 2.0
#: Iterations with the same batch again from which their median says something.
FEWEST_AGAIN = 6
#: Of these the share in which the script still waited for data, in the loop's body, at most.
STILL_WAITED = 0.02


class Again(Struct, frozen=True):
    """An iteration with the batch of the one before, by the names of the record; milliseconds.

    Attributes:
        data_ms, inside_data_ms: waiting for torch's data loaders all the same.
    """

    ms: float = 0.0
    data_ms: float = 0.0
    inside_data_ms: float = 0.0


def what_if(
    taken: Sequence[Extra], without: Iteration | None, again: Sequence[Again] = ()
) -> tuple[WhatIf, ...]:
    """The predictions, what saves most first; none of iterations of several kinds.

    Args:
        without: the iterations that had no barrier inside; None: those that had are the base.
        again: iterations with the same batch again.
    """
    found = whole_cycles([each for each in taken if not each.compiled and each.ms > 0])
    if len({each.stepped for each in found}) != 1:
        return ()
    predicted = list(_by_phases(found, without))
    measured = None if without is None else _measured(again, without)
    if measured is not None:
        # Of what only bounds the same figure from above, nothing more is to be learnt.
        kept = [each for each in predicted if each.change != HIDDEN]
        kept = [each for each in kept if each.basis == "model" or each.ms < measured.ms]
        predicted = [measured, *kept]
    return tuple(sorted(predicted, key=lambda each: -each.saving_percent))


def _measured(again: Sequence[Again], without: Iteration) -> WhatIf | None:
    """The iteration that has its batch already; None where it was not seen, or saves nothing."""
    values = [each.ms for each in again if each.ms > 0]
    if len(values) < FEWEST_AGAIN:
        return None
    waited = sum(each.data_ms + each.inside_data_ms for each in again)
    middle_ms = statistics.median(values)
    saving = (1 - middle_ms / without.median_ms) * 100
    if waited > STILL_WAITED * sum(values) or saving < LEAST_PERCENT:
        return None
    return WhatIf(HIDDEN, middle_ms, saving, of_another_run(values), basis="measured")


def of_another_run(values: Sequence[float]) -> Interval:
    """Where the median of another run lies, 95 % sure, if runs differ as is assumed of them."""
    own = reach(values)
    # This run and the next one are each off by what runs differ by, and by their own steps.
    error = math.sqrt(2 * (ASSUMED**2 + own.variance))
    low, high = (math.exp(own.median + side * SURE * error) for side in (-1, 1))
    return Interval(low, high, CONFIDENCE)


def _by_phases(found: Sequence[Extra], without: Iteration | None) -> Iterator[WhatIf]:
    """What the extra steps with barriers tell."""
    taken_ms = statistics.median(each.ms for each in found)
    now_ms = taken_ms if without is None else without.median_ms
    barriers_percent = (taken_ms / now_ms - 1) * 100
    # The lower end of what the iteration takes now: a prediction has to lie below it.
    interval = None if without is None else without.median_interval_ms
    at_least_ms = now_ms if interval is None else interval.low
    predicted: list[WhatIf] = []
    for change, phases in CHANGES.items():
        left = [each.ms - sum(each.parts.get(p, 0.0) for p in phases) for each in found]
        rests = [now_ms * rest / each.ms for rest, each in zip(left, found, strict=True)]
        then_ms = statistics.median(rests)
        saving = (1 - then_ms / now_ms) * 100
        predicted.append(WhatIf(change, then_ms, saving, median_interval(rests)))
    # A batch that needs no moving makes the second the same as the first.
    distinct = {round(each.ms, 6): each for each in reversed(predicted)}.values()
    least = max(LEAST_PERCENT, barriers_percent)
    for each in distinct:
        highest_ms = each.ms if each.interval_ms is None else each.interval_ms.high
        if each.saving_percent >= least and highest_ms < at_least_ms:
            bound = DATA in CHANGES[each.change]
            yield replace(each, basis="at most", interval_ms=None) if bound else each
