"""What an iteration would take without some of its phases: a model, made of what was measured.

The share that these phases have of each extra iteration is one value; the prediction is the
iteration as it was measured without barriers, less the median of the shares, with the interval of a
median. What barriers cost may stand in any phase: a change that saves less than that, or that may
save nothing, is not shown. That holds where the rest stays as it is: a batch that another
process makes meanwhile must not take that process's CPU from the step.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from instrumentor_analysis.clock.intervals import median_interval
from instrumentor_analysis.clock.phases import DATA, OTHER, PREPARE, Extra, whole_cycles
from instrumentor_analysis.model import Iteration, WhatIf

#: What would be changed -> the phases that it takes off the iteration.
CHANGES: Mapping[str, tuple[str, ...]] = {
    "input hidden": (DATA,),
    "input hidden, batch moved ahead": (DATA, PREPARE),
    "no logging, clipping, callbacks": (OTHER,),
}
#: Changes that would save less than this share are not worth a row, percent.
LEAST_PERCENT = 2.0


def what_if(taken: Sequence[Extra], without: Iteration | None) -> tuple[WhatIf, ...]:
    """The predictions, what saves most first; none of iterations of several kinds.

    Args:
        without: the iterations that had no barrier inside; None: those that had are the base.
    """
    found = whole_cycles([each for each in taken if not each.compiled and each.ms > 0])
    if len({each.stepped for each in found}) != 1:
        return ()
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
    worth = [
        each
        for each in distinct
        if each.saving_percent >= least
        and (each.ms if each.interval_ms is None else each.interval_ms.high) < at_least_ms
    ]
    return tuple(sorted(worth, key=lambda each: -each.saving_percent))
