"""What an iteration takes, from the start of one step to the start of the next, and its parts.

The recorder notes what lies between two samples: waiting for the data loader, the optimizer's step,
the way from the entry of the loop's body to the timed region. Iteration and timed region have the
medians of the same steps, so that a part is never longer than the whole: a sample that nothing
follows, as the last one, is taken to be followed by the median of what lies between the others.
What else was seen are means of the iterations in the middle (half of them, the quarter of the
shortest and of the longest left out), together no more than there is room for beside the region;
what they leave is ``other``. Where iterations are of several kinds, or micro-steps of an update,
all parts are means over all of them.

A validation or a save that stays between two samples is no part of a step. Iterations that hold one
are left out like that of the last sample; where there are hardly others it is a part by its name.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence, Set

from msgspec import Struct

from instrumentor_analysis.clock.intervals import median_interval
from instrumentor_analysis.clock.populations import Kind, populations, typical_ms
from instrumentor_analysis.clock.updates import updates
from instrumentor_analysis.model import (
    Interval,
    Iteration,
    KeptWork,
    Part,
    Population,
    Sample,
    Update,
)

DATA, OPTIMIZER, BEFORE, NEXT, OTHER = "data", "optimizer", "before forward", "next batch", "other"

#: Before the label of the region: what the body does behind it, in a loop that only counts.
AFTER = "after "

#: Label of the region that holds nothing of the optimizer.
FWD_BWD = "fwd+bwd"

#: No step takes longer (30 years); of what a damaged record claims, no square is out of range.
MOST_MS = 1e12
#: Share of the steps whose iterations must have been seen for those of the others to be told.
MOSTLY_SEEN = 0.5


class Taken(Struct, frozen=True):
    """One iteration, by the names of the record; times in milliseconds.

    Attributes:
        name: of its sample.
        data_ms, optimizer_ms: waiting for torch's data loaders, and the optimizers' steps with
            what the device had left to do for them, both outside of the timed region.
        inside_data_ms, inside_optimizer_ms: the same within it.
        next_ms: from the last of these to the entry of the loop's body.
        lead_ms: from there to the timed region.
        stepped: numbers of the optimizers that stepped in it.
        region: the number of its timed region, counted over all that ran, a profiled step too;
            None where that was not recorded.
        kept: what of the script ran in it that is no part of a step (`validation`), joined by
            `_and_`; empty for nothing.
        kept_ms: what that took.
    """

    name: str = ""
    ms: float = 0.0
    data_ms: float = 0.0
    optimizer_ms: float = 0.0
    inside_data_ms: float = 0.0
    inside_optimizer_ms: float = 0.0
    next_ms: float | None = None
    lead_ms: float | None = None
    stepped: tuple[int, ...] = ()
    region: int | None = None
    kept: str = ""
    kept_ms: float = 0.0


def iteration(
    steady: Sequence[Sample],
    taken: Iterable[Taken],
    *,
    accumulates: bool = False,
    fetches: bool = True,
) -> Iteration | None:
    """The figures of the iterations of these samples; None where none was seen.

    Args:
        accumulates: the script makes an update of several backwards, as its reading tells.
        fetches: the loop's head may hand out the batch. One that only counts hands out nothing:
            what comes ahead of it is the end of the body.
    """
    found = {each.name: each for each in taken if 0 < each.ms <= MOST_MS}
    every = _pairs(steady, found)
    if not every:
        return None
    without = {name: each for name, each in found.items() if not each.kept}
    apart = _tell_for(every, _pairs(steady, without))
    pairs = _pairs(steady, without) if apart else every
    values = [each.ms for _, each in pairs]
    shapes = [sample.batch_shape for sample, _ in pairs]
    kinds = populations([Kind(s.nodes, each.stepped) for s, each in pairs], values, shapes)
    update = _update(found, {sample.name for sample, _ in pairs}, accumulates)
    seen = without if apart else found
    mixed = bool(kinds) or update is not None
    alike = not mixed and len(pairs) >= MOSTLY_SEEN * len(steady)
    each_ms = _of_every(steady, seen) if alike else []
    middle_ms, interval = _middle(each_ms or values, kinds, update)
    return Iteration(
        count=len(pairs),
        median_ms=middle_ms,
        min_ms=min(values),
        max_ms=max(values),
        median_interval_ms=interval,
        parts=_parts(
            pairs,
            middle_ms,
            steady if alike else (),
            0 if mixed else len(pairs) // 4,
            fetches=fetches,
        ),
        populations=kinds,
        update=update,
        samples_per_s=_rate([sample.samples for sample, _ in pairs], middle_ms),
        tokens_per_s=_rate([sample.tokens for sample, _ in pairs], middle_ms),
        values_ms=tuple(values),
        every_ms=tuple(each_ms),
        kept=_kept([each for _, each in every], apart=apart),
    )


def _pairs(steady: Sequence[Sample], found: Mapping[str, Taken]) -> list[tuple[Sample, Taken]]:
    return [(sample, found[sample.name]) for sample in steady if sample.name in found]


def _tell_for(
    every: Sequence[tuple[Sample, Taken]], without: Sequence[tuple[Sample, Taken]]
) -> bool:
    """Whether the iterations that hold nothing kept tell for all: they are of all their kinds."""
    whole, rest = (
        {(sample.nodes, each.stepped) for sample, each in pairs} for pairs in (every, without)
    )
    return whole == rest and len(without) >= MOSTLY_SEEN * len(every)


def _kept(every: Sequence[Taken], *, apart: bool) -> KeptWork | None:
    """What ran in these iterations that is no part of a step; None of none."""
    held = [each for each in every if each.kept]
    if not held:
        return None
    middle_ms = statistics.median(each.kept_ms for each in held)
    return KeptWork(_names(held), len(held), len(every), middle_ms, left_out=apart)


def _names(taken: Iterable[Taken]) -> tuple[str, ...]:
    """What is kept in any of them, each once."""
    return tuple(
        dict.fromkeys(name for each in taken if each.kept for name in each.kept.split("_and_"))
    )


def _of_every(steady: Sequence[Sample], found: Mapping[str, Taken]) -> list[float]:
    """What each of these steps takes; of one that nothing follows, with what is usual between."""
    seen = [each for each in steady if each.name in found]
    between_ms = statistics.median(max(0.0, found[each.name].ms - each.ms) for each in seen)
    return [found[x.name].ms if x.name in found else x.ms + between_ms for x in steady]


def _update(every: Mapping[str, Taken], steady: Set[str], accumulates: bool) -> Update | None:
    """What an update takes, where these iterations are its micro-steps."""
    return updates(
        [bool(each.stepped) for each in every.values()],
        [each.ms for each in every.values()],
        {at for at, name in enumerate(every) if name in steady},
        regions=[each.region for each in every.values()],
        accumulates=accumulates,
    )


def _middle(
    values: Sequence[float], kinds: Sequence[Population], update: Update | None
) -> tuple[float, Interval | None]:
    """What an iteration takes, and how sure that is; a mixture of kinds has no interval."""
    if update is None or update.ms is None or update.micro_steps is None:
        return typical_ms(kinds, values), None if kinds else median_interval(values)
    within = update.interval_ms
    if within is not None:
        within = Interval(within.low / update.micro_steps, within.high / update.micro_steps)
    return update.ms / update.micro_steps, within


def _rate(work: Sequence[int | None], middle_ms: float) -> float | None:
    """Work a second; None unless every step says how much it did."""
    known = [amount for amount in work if amount is not None]
    if not known or len(known) < len(work) or middle_ms <= 0:
        return None
    return statistics.fmean(known) / middle_ms * 1000


def _parts(
    pairs: Sequence[tuple[Sample, Taken]],
    middle_ms: float,
    alike: Sequence[Sample],
    cut: int,
    *,
    fetches: bool,
) -> tuple[Part, ...]:
    """The parts in the order in which they come; those that were not seen left out.

    Args:
        alike: the steps of whose timed region the median is a part; empty: all parts are means.
        cut: how many of the shortest and of the longest iterations are left out. Of steps of
            several kinds they are no exceptions.
        fetches: see :func:`iteration`.
    """
    ordered = sorted(pairs, key=lambda pair: pair[1].ms)
    inside, outside = _means(ordered[cut : len(ordered) - cut], fetches=fetches)
    whole = sum(inside.values()) + sum(outside.values())
    if whole <= 0:
        return ()
    inside, outside = (
        {name: ms / whole * middle_ms for name, ms in each.items()} for each in (inside, outside)
    )
    if alike:
        region_ms = statistics.median(sample.ms for sample in alike)
        inside, outside = _with_region(inside, outside, region_ms, middle_ms)
    first = [n for n in outside if n not in (OPTIMIZER, OTHER) and not n.startswith(AFTER)]
    names = dict.fromkeys([*first, *inside, *outside])
    found = {name: inside.get(name, 0.0) + outside.get(name, 0.0) for name in names}
    return tuple(Part(name, ms, ms / middle_ms * 100) for name, ms in found.items() if ms > 0)


def _with_region(
    inside: Mapping[str, float], outside: Mapping[str, float], region_ms: float, middle_ms: float
) -> tuple[dict[str, float], dict[str, float]]:
    """What is in the region and what is not, as parts of what the medians leave for either."""
    region, others = sum(inside.values()), sum(outside.values())
    if region <= 0 or region_ms > middle_ms:
        return dict(inside), dict(outside)
    rest = middle_ms - region_ms
    fits = min(1.0, rest / others) if others > 0 else 0.0
    shown = {name: ms * fits for name, ms in outside.items()}
    shown[OTHER] = shown.get(OTHER, 0.0) + rest - others * fits
    return {name: ms / region * region_ms for name, ms in inside.items()}, shown


def region_ms(found: Iteration, label: str) -> float | None:
    """What the parts of an iteration that are in a region take together; None: not told."""
    parts = {part.name: part.ms for part in found.parts}
    names = names_of_region(list(parts), label)
    return sum(parts[name] for name in names) if names else None


def names_of_region(parts: Sequence[str], label: str) -> tuple[str, ...]:
    """Of the names of parts those that are in a region of that label; none: not told."""
    if label in parts:
        return (label,)
    rest = _rest_of(label)
    return tuple(name for name in parts if name in (rest, OPTIMIZER)) if rest in parts else ()


def _rest_of(label: str) -> str:
    """What a region is called without the optimizer's step in it: its own name says both."""
    return FWD_BWD if label in ("step", f"{FWD_BWD}+{OPTIMIZER}") else f"rest of {label}"


def _means(
    pairs: Sequence[tuple[Sample, Taken]], *, fetches: bool
) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Mean milliseconds of each part: of those in the timed region, and of the others."""

    def mean(*values: float | None) -> float:
        return sum(value or 0.0 for value in values) / len(pairs)

    taken = [each for _, each in pairs]
    # On a device the host's time within the region tells nothing of what ran meanwhile.
    within = [each for sample, each in pairs if sample.device in (None, "cpu", "unknown")]
    fetched, updated = (e.inside_data_ms for e in within), (e.inside_optimizer_ms for e in within)
    inside_data, inside_optimizer = mean(*fetched), mean(*updated)
    loader, optimizer = mean(*(e.data_ms for e in taken)), mean(*(e.optimizer_ms for e in taken))
    following, lead = mean(*(e.next_ms for e in taken)), mean(*(e.lead_ms for e in taken))
    sample_ms = mean(*(sample.ms for sample, _ in pairs))
    label = _rest_of(pairs[0][0].label) if inside_optimizer else pairs[0][0].label
    region = max(0.0, sample_ms - inside_data - inside_optimizer)
    inside = {DATA: inside_data, label: region, OPTIMIZER: inside_optimizer}
    outside = {DATA: loader, NEXT: 0.0, BEFORE: lead, OPTIMIZER: optimizer}
    # An update by hand may stand behind a region that holds none, where no optimizer was seen.
    unseen = pairs[0][0].label == FWD_BWD and not (optimizer or inside_optimizer)
    if fetches and (loader or inside_data):
        outside[DATA] += following  # what a loader hands out, the loop takes over: tqdm, enumerate
    elif fetches and not unseen:
        outside[NEXT] = following
    elif not (optimizer or inside_optimizer):
        outside[AFTER + pairs[0][0].label] = following
    kept = " and ".join(_names(taken))
    if kept:
        outside[f"kept {kept}"] = mean(*(each.kept_ms for each in taken))
    rest = mean(*(each.ms for each in taken)) - sample_ms - sum(outside.values())
    return inside, {**outside, OTHER: max(0.0, rest)}
