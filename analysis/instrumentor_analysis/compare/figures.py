"""What was taken once on each side: figures, and device time by category, line and module.

Where the batch sizes differ, times that grow with the batch are divided by it (``per``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from instrumentor_analysis.compare.model import Figure, Share
from instrumentor_analysis.compare.side import Side
from instrumentor_analysis.model import Category, Locations, Module, Phases, SourceLine
from instrumentor_analysis.summary.figure_table import FIGURES, THROUGHPUT, called, value_at

Timed = Category | SourceLine | Module
NO_PHASES = Phases(0, 0.0, (), 0.0)


def figures(base: Side, new: Side, basis: str, per: tuple[int, int]) -> tuple[Figure, ...]:
    """Figures that at least one of the sides has.

    Args:
        basis: ``sample`` divides times that grow with the batch.
        per: batch size of either side.
    """
    found: list[Figure] = []
    for declared in FIGURES:
        values = [_value(side, declared.key) for side in (base, new)]
        if not declared.compared or values == [None, None]:
            continue
        name = called(declared, *(side.summary.wall_clock for side in (base, new)))
        unit = declared.unit
        if declared.grows and basis == "sample":
            unit = f"{unit}/sample"
            values = [None if v is None else v / n for v, n in zip(values, per, strict=True)]
        better = declared.better or "lower"
        found.append(Figure(declared.key, name, unit, values[0], values[1], better))
    return tuple(found)


def _value(side: Side, key: str) -> float | None:
    """A figure of a side; of several ranks the throughput is that of all, as in the report."""
    ranks = side.summary.ranks
    if key == THROUGHPUT and ranks is not None:
        return ranks.samples_per_s
    return value_at(side.summary, key)


def owners(base: Side, new: Side, per: tuple[int, int]) -> tuple[Share, ...]:
    """Phases of the iteration, the one that changed most first; empty without them on both sides.

    Args:
        per: what the times of either side are divided by.
    """
    old, now = (
        {each.name: each.ms / size for each in (side.summary.phases or NO_PHASES).phases}
        for side, size in zip((base, new), per, strict=True)
    )
    if not old or not now:
        return ()
    found = (Share(name, old.get(name), now.get(name)) for name in dict.fromkeys((*old, *now)))
    return tuple(sorted(found, key=lambda each: -abs(each.change_ms)))


def disturbed(base: Side, new: Side) -> tuple[str, ...]:
    """The sides of whose phases no time is to be trusted, by name."""
    sides = ((side.name, side.summary.phases) for side in (base, new))
    return tuple(name for name, found in sides if found is not None and found.busy is not None)


def owners_of(base: Side, new: Side) -> str:
    """What the phases of both sides are parts of, in the word of the runs where they agree."""
    words = {(side.summary.phases or NO_PHASES).word for side in (base, new)}
    return words.pop() if len(words) == 1 else NO_PHASES.word


def categories(base: Side, new: Side, per: tuple[int, int]) -> tuple[Share, ...]:
    """Device time by category, in the order of the charts; empty without it on both sides.

    Args:
        per: what the times of either side are divided by.
    """
    old, now = ({each.name: each for each in side.summary.categories} for side in (base, new))
    return _shares(old, now, per)


def located(
    base: Side, new: Side, key: Literal["lines", "modules"], per: tuple[int, int]
) -> tuple[Share, ...]:
    """Source lines or modules, most difference first; empty without them on both sides.

    Args:
        per: what the times of either side are divided by.
    """
    places = [side.summary.locations or Locations() for side in (base, new)]
    old, now = ({_named(each): each for each in getattr(place, key)} for place in places)
    return tuple(sorted(_shares(old, now, per), key=lambda s: (-abs(s.change_ms), s.name)))


def _named(place: SourceLine | Module) -> str:
    name = f"{place.file}:{place.line}" if isinstance(place, SourceLine) else place.name
    # Constants evaluated once are kept apart from what the same line does in every step.
    return f"{name} (once)" if place.const_eval else name


def _shares(
    old: Mapping[str, Timed], now: Mapping[str, Timed], per: tuple[int, int]
) -> tuple[Share, ...]:
    """The places of either side, by name; nothing where one side has none at all."""
    if not old or not now:
        return ()

    def ms(one: Timed | None, size: int) -> float | None:
        return None if one is None else one.device_time_ms / size

    def ops(one: Timed | None) -> int | None:
        return None if one is None else one.op_count

    both = {name: (old.get(name), now.get(name)) for name in (*old, *now)}
    return tuple(
        Share(name, ms(a, per[0]), ms(b, per[1]), ops(a), ops(b)) for name, (a, b) in both.items()
    )
