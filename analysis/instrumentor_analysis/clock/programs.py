"""Device time of extra steps whose programs ttnn told: what a build without Tracy can have."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from instrumentor_analysis.model import ChipPrograms, DevicePrograms, KernelTime
from instrumentor_analysis.shared.caveats import Caveat

#: Where such a device time is from.
SOURCE = "ttnn's real-time profiler: at least one program runs, from its start to its end"
#: More than a machine has; a record of others may name one for every step.
_MOST_CHIPS = 1 << 10


class Ran(Struct, frozen=True):
    """What one chip ran, by the names of the record; times in milliseconds."""

    programs: int = 0
    ms: float = 0.0
    busy_ms: float = 0.0
    untimed: int = 0


class Told(Struct, frozen=True):
    """One extra step, by the names of the record.

    Attributes:
        ms: wall clock of its timed region.
        chips, rest: what each chip ran inside of the region, and behind it.
        kernels: (name, programs, milliseconds) inside.
        dropped: records that were lost.
    """

    ms: float = 0.0
    chips: Mapping[str, Ran] = field(default_factory=dict)
    rest: Mapping[str, Ran] = field(default_factory=dict)
    kernels: tuple[tuple[str, int, float], ...] = ()
    dropped: int = 0

    @property
    def whole(self) -> bool:
        """Nothing of it is missing."""
        lost = sum(each.untimed for each in (*self.chips.values(), *self.rest.values()))
        return bool(self.chips) and self.ms > 0 and self.dropped == 0 and lost == 0


def programs(steps: Sequence[Told]) -> DevicePrograms | None:
    """Medians of the steps that lack nothing; None where there is none."""
    found = [each for each in steps if each.whole]
    if not found:
        return None
    chips = sorted(
        {chip for each in found for chip in each.chips}, key=lambda each: (len(each), each)
    )[:_MOST_CHIPS]
    return DevicePrograms(
        steps=len(found),
        left_out=len(steps) - len(found),
        wall_ms=statistics.median(each.ms for each in found),
        device_ms=statistics.median(max(_busy(each.chips)) for each in found),
        rest_ms=statistics.median(max(_busy(each.rest), default=0.0) for each in found),
        chips=tuple(_chip(name, [e.chips.get(name, Ran()) for e in found]) for name in chips),
        kernels=_kernels(found),
    )


def _busy(chips: Mapping[str, Ran]) -> list[float]:
    return [each.busy_ms for each in chips.values()]


def _chip(name: str, ran: Sequence[Ran]) -> ChipPrograms:
    return ChipPrograms(
        name,
        round(statistics.median(each.programs for each in ran)),
        statistics.median(each.busy_ms for each in ran),
        statistics.median(each.ms for each in ran),
    )


def _kernels(found: Sequence[Told]) -> tuple[KernelTime, ...]:
    """Kernels by name, of one step on average, those of most time first."""
    count: dict[str, int] = {}
    spent: dict[str, float] = {}
    for step in found:
        for name, programs, ms in step.kernels:
            count[name] = count.get(name, 0) + programs
            spent[name] = spent.get(name, 0.0) + ms
    whole = sum(spent.values())
    return tuple(
        KernelTime(name, count[name] / len(found), ms / len(found), ms / whole * 100)
        for name, ms in sorted(spent.items(), key=lambda each: -each[1])
        if whole > 0
    )


def lost(steps: Sequence[Told]) -> tuple[Caveat, ...]:
    """That steps were left out because not all of their programs were told."""
    missing = [each for each in steps if not each.whole]
    if not missing:
        return ()
    dropped = sum(each.dropped for each in missing)
    why = f"{dropped:,} records were lost" if dropped else "no record came, or one without times"
    few = "none is left" if len(missing) == len(steps) else f"{len(steps) - len(missing)} are left"
    text = (
        f"{len(missing)} of {len(steps)} extra steps with ttnn's real-time profiler are left out "
        f"({why}): {few}"
    )
    return (Caveat("programs-lost", text, hint="Take shorter steps, or fewer at a time."),)
