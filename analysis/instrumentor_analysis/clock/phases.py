"""Who owns the time of an iteration: the extra steps that had a barrier at each border of a phase.

The shares are those of the iterations in the middle (half of them, the quarter of the shortest and
of the longest left out) times the median, so that they add up to it. Where gradients are
accumulated they are of whole cycles, up to the last update. Iterations that compiled are left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from instrumentor_analysis.model import Busy, Iteration, Phase, Phases

DATA, PREPARE, FORWARD, BACKWARD = "data", "prepare", "forward", "backward"
OPTIMIZER, OTHER = "optimizer", "other"
#: In the order in which they come.
ORDER = (DATA, PREPARE, FORWARD, BACKWARD, OPTIMIZER, OTHER)


class Extra(Struct, frozen=True):
    """One extra iteration, by the names of the record; times in milliseconds.

    Attributes:
        parts: by phase.
        resident, allocated: bytes at the end of each phase, the most.
        stepped: how often optimizers stepped.
    """

    ms: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    resident: Mapping[str, int | None] = field(default_factory=dict)
    allocated: Mapping[str, int | None] = field(default_factory=dict)
    stepped: int = 0
    compiled: bool = False


def phases(
    taken: Sequence[Extra], without: Iteration | None, busy: Busy | None = None
) -> Phases | None:
    """The figures of these iterations; None without one that did not compile.

    Args:
        without: the iterations that had no barrier inside.
        busy: the machine meanwhile.
    """
    found = whole_cycles([each for each in taken if not each.compiled and each.ms > 0])
    if not found:
        return None
    values = [each.ms for each in found]
    alike = len({each.stepped for each in found}) == 1
    middle_ms = statistics.median(values) if alike else statistics.fmean(values)
    cut = len(found) // 4 if alike else 0
    shown = sorted(found, key=lambda each: each.ms)[cut : len(found) - cut]
    whole = sum(each.ms for each in shown)
    shares = {name: sum(e.parts.get(name, 0.0) for e in shown) / whole for name in ORDER}
    return Phases(
        count=len(found),
        ms=middle_ms,
        statistic="median" if alike else "mean",
        phases=tuple(
            Phase(
                name,
                share * middle_ms,
                share * 100,
                _most([each.resident.get(name) for each in found]),
                _most([each.allocated.get(name) for each in found]),
            )
            for name, share in shares.items()
            if share > 0
        ),
        unowned_percent=max(0.0, 1 - sum(shares.values())) * 100,
        longer_percent=(middle_ms / without.median_ms - 1) * 100 if without is not None else None,
        values_ms=tuple(values),
        word="iteration" if without is None else without.word,
        busy=busy,
    )


def whole_cycles(taken: Sequence[Extra]) -> Sequence[Extra]:
    """Those up to the last update; all of them where none was seen."""
    updates = [at for at, each in enumerate(taken) if each.stepped]
    return taken[: updates[-1] + 1] if updates else taken


def _most(values: Sequence[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
