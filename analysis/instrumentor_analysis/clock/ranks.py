"""Ranks that train together: what each one took, and which one the others wait for.

Collectives end together. So of each call the rank with the shortest duration came last, and what
the call took longer elsewhere was waited there. Calls may overlap: a rank waits in a step for as
long as any of its calls does.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from instrumentor_analysis.model import RankRow, Ranks
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.documents import fitted, number

#: Share of a step that the others wait for one rank, from which it is told, percent.
LATE_PERCENT = 5.0
#: Collectives that every rank leaves at the same time; a broadcast's root goes on alone.
TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")


class Profiled(Struct, frozen=True):
    """Collectives of one step of one rank, by the names of the record.

    Attributes:
        calls: name, start in the step and duration, milliseconds, in the order of their starts.
    """

    rank: int = 0
    step: int = 0
    ms: float = 0.0
    calls: tuple[tuple[str, float, float], ...] = field(default=())

    @property
    def together(self) -> list[tuple[str, float, float]]:
        """The calls that tell who waits."""
        return [call for call in self.calls if call[0].partition(":")[2].startswith(TOGETHER)]


def ranks(events: Sequence[Mapping[str, Any]], steady: Iterable[str]) -> Ranks | None:
    """The ranks of a record; None of a process alone.

    Args:
        events: of all processes.
        steady: names of the steps that the figures describe.
    """
    found = sorted({each["rank"] for each in events if isinstance(each.get("rank"), int)})
    if not found:
        return None
    names = set(steady)
    waits = _waits([fitted(each, Profiled) for each in events if each["event"] == "collectives"])
    of_each: dict[int, list[Mapping[str, Any]]] = {rank: [] for rank in found}
    for each in events:
        if isinstance(each.get("rank"), int) and each.get("name") in names:
            of_each[each["rank"]].append(each)
    rows = tuple(_row(mine, rank, waits) for rank, mine in of_each.items())
    world = max(int(number(each.get("world")) or 0) for each in events)
    rates = [row.samples_per_s for row in rows if row.samples_per_s is not None]
    together = sum(rates) if len(rates) == max(world, len(found)) else None
    return Ranks(max(world, len(found)), rows, waits.steps, waits.calls, *waits.latest(), together)


def _row(mine: Sequence[Mapping[str, Any]], rank: int, waits: _Waits) -> RankRow:
    steps = _numbers(mine, "sample", "ms")
    wholes, batches = _numbers(mine, "iteration", "ms"), _numbers(mine, "sample", "batch_samples")
    middle_ms = statistics.median(steps) if steps else None
    whole_ms = statistics.median(wholes) if wholes else None
    took_ms = whole_ms or middle_ms
    rate = 0.0
    if took_ms and len(batches) == len(steps):
        rate = statistics.fmean(batches) / took_ms * 1000
    return RankRow(rank, len(steps), middle_ms, whole_ms, *waits.of(rank), rate or None)


def late(found: Ranks | None) -> tuple[Caveat, ...]:
    """That one rank makes the others wait, or that some ranks recorded nothing."""
    if found is None:
        return ()
    told = []
    timed = [row for row in found.rows if row.samples]
    if len(timed) < found.world:
        text = (
            f"Only {len(timed)} of {found.world} ranks recorded steps; nothing is known of the "
            "others."
        )
        told.append(Caveat("ranks-missing", text))
    percent = found.waited_percent or 0.0
    if found.slowest is not None and percent >= LATE_PERCENT:
        text = (
            f"Rank {found.slowest} is late: the others wait for it for {percent:.0f} % of each "
            "step. Compare its data, its host and its device with theirs."
        )
        told.append(Caveat("late-rank", text))
    return tuple(told)


class _Waits:
    """Sums over the steps that all ranks have in common."""

    def __init__(self) -> None:
        self.steps = self.calls = 0
        self.ms = 0.0
        self.waited: defaultdict[int, float] = defaultdict(float)
        self.last: Counter[int] = Counter()
        self.behind: defaultdict[int, float] = defaultdict(float)  # what each made others wait

    def of(self, rank: int) -> tuple[float | None, int | None]:
        """Milliseconds that a rank waits in a step, and how often it came last."""
        return (self.waited[rank] / self.steps, self.last[rank]) if self.calls else (None, None)

    def latest(self) -> tuple[int | None, float | None, float | None]:
        """The rank that the others wait for most, and their mean wait in a step: ms, percent."""
        if not self.calls:
            return None, None, None
        rank = max(self.behind, key=lambda each: self.behind[each])
        others = [ms for each, ms in self.waited.items() if each != rank]
        ms = statistics.fmean(others) / self.steps if others else 0.0
        return rank, ms, ms / (self.ms / self.steps) * 100 if self.ms else None


def _waits(taken: Sequence[Profiled]) -> _Waits:
    found, steps = _Waits(), defaultdict(list)
    for each in taken:
        steps[each.step].append(each)
    count = max(map(len, steps.values()), default=0)
    for step in steps.values():
        # Another order in another rank: which calls belong together is not known.
        same = {tuple(name for name, _, _ in each.together) for each in step}
        if len(step) == count > 1 and len(same) == 1 and same != {()}:
            _add(found, step)
    return found


def _add(found: _Waits, step: Sequence[Profiled]) -> None:
    found.steps += 1
    found.ms += statistics.fmean(each.ms for each in step)
    waiting: dict[int, list[tuple[float, float]]] = {each.rank: [] for each in step}
    for calls in zip(*(each.together for each in step), strict=True):
        found.calls += 1
        at = min(range(len(calls)), key=lambda n: calls[n][2])
        last, least = step[at].rank, calls[at][2]
        found.last[last] += 1
        for each, (_, start, ms) in zip(step, calls, strict=True):
            waiting[each.rank].append((start, start + ms - least))
            found.behind[last] += ms - least
    for rank, intervals in waiting.items():
        found.waited[rank] += covered(intervals)


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """The length that intervals cover together."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _numbers(events: Iterable[Mapping[str, Any]], kind: str, key: str) -> list[float]:
    found = (number(each.get(key)) for each in events if each["event"] == kind)
    return [each for each in found if each is not None]
