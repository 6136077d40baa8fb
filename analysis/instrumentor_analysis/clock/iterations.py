"""What an iteration takes, from the start of one step to the start of the next, and its parts.

The recorder notes what lies between two samples: waiting for the data loader, the optimizer's step,
the way from the entry of the loop's body to the timed region. The parts are the shares of the
iterations in the middle (half of them, the quarter of the shortest and of the longest left out)
times the median, so that they add up to it. What is in the timed region adds up to the median of
its samples, since a report has one figure of a name; the shares are those of the rest. Where
iterations are of several kinds, or micro-steps of an update, all parts are means over all of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence, Set

from msgspec import Struct

from instrumentor_analysis.clock.intervals import median_interval
from instrumentor_analysis.clock.populations import Kind, populations, typical_ms
from instrumentor_analysis.clock.updates import updates
from instrumentor_analysis.model import Interval, Iteration, Part, Population, Sample, Update

DATA, OPTIMIZER, BEFORE, NEXT, OTHER = "data", "optimizer", "before forward", "next batch", "other"

#: Label of the region that holds nothing of the optimizer.
FWD_BWD = "fwd+bwd"

#: No step takes longer (30 years); of what a damaged record claims, no square is out of range.
MOST_MS = 1e12
#: The rest of an iteration beside the region's median is shared out where it is at least this part
#: of what the others took, and at most the inverse; else the medians do not belong together.
FITS = 0.5
#: Iterations from which that is tried.
FEWEST_ALIKE = 3


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


def iteration(
    steady: Sequence[Sample], taken: Iterable[Taken], *, accumulates: bool = False
) -> Iteration | None:
    """The figures of the iterations of these samples; None where none was seen.

    The last sample has none: nothing follows it.

    Args:
        accumulates: the script makes an update of several backwards, as its reading tells.
    """
    found = {each.name: each for each in taken if 0 < each.ms <= MOST_MS}
    pairs = [(sample, found[sample.name]) for sample in steady if sample.name in found]
    if not pairs:
        return None
    values = [each.ms for _, each in pairs]
    kinds = populations([Kind(sample.nodes, each.stepped) for sample, each in pairs], values)
    update = _update(found, {sample.name for sample, _ in pairs}, accumulates)
    middle_ms, interval = _middle(values, kinds, update)
    mixed = bool(kinds) or update is not None
    return Iteration(
        count=len(values),
        median_ms=middle_ms,
        min_ms=min(values),
        max_ms=max(values),
        median_interval_ms=interval,
        parts=_parts(pairs, middle_ms, [] if mixed else [sample.ms for sample in steady]),
        populations=kinds,
        update=update,
        samples_per_s=_rate([sample.samples for sample, _ in pairs], middle_ms),
        tokens_per_s=_rate([sample.tokens for sample, _ in pairs], middle_ms),
        values_ms=tuple(values),
    )


def _update(every: Mapping[str, Taken], steady: Set[str], accumulates: bool) -> Update | None:
    """What an update takes, where these iterations are its micro-steps."""
    return updates(
        [bool(each.stepped) for each in every.values()],
        [each.ms for each in every.values()],
        {at for at, name in enumerate(every) if name in steady},
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
    pairs: Sequence[tuple[Sample, Taken]], middle_ms: float, samples_ms: Sequence[float]
) -> tuple[Part, ...]:
    """The parts in the order in which they come; those that were not seen left out.

    Args:
        samples_ms: of the timed region; empty where they are of several kinds.
    """
    ordered = sorted(pairs, key=lambda pair: pair[1].ms)
    # Of steps of several kinds the shortest and the longest are no exceptions.
    cut = len(ordered) // 4 if samples_ms else 0
    inside, outside = _means(ordered[cut : len(ordered) - cut])
    whole = sum(inside.values()) + sum(outside.values())
    if whole <= 0:
        return ()
    alike = bool(samples_ms) and len(pairs) >= FEWEST_ALIKE
    region_ms = statistics.median(samples_ms) * whole / middle_ms if alike else None
    shares = _with_region(inside, outside, region_ms)
    found = {name: share / whole * middle_ms for name, share in shares.items() if share > 0}
    return tuple(Part(name, ms, ms / middle_ms * 100) for name, ms in found.items())


def _with_region(
    inside: Mapping[str, float], outside: Mapping[str, float], region_ms: float | None
) -> Mapping[str, float]:
    """What is in the region and what is not together, in their order.

    Args:
        region_ms: what those in the region shall add up to, the others sharing the rest as
            before; None leaves them as they are.
    """
    region, others = sum(inside.values()), sum(outside.values())
    of_region = of_others = 1.0
    if region_ms is not None and region > 0 and others > 0:
        rest = region + others - region_ms
        if FITS * others <= rest <= others / FITS:
            of_region, of_others = region_ms / region, rest / others
    first = [name for name in outside if name not in (OPTIMIZER, OTHER)]
    names = dict.fromkeys([*first, *inside, *outside])
    return {
        name: inside.get(name, 0.0) * of_region + outside.get(name, 0.0) * of_others
        for name in names
    }


def region_ms(found: Iteration, label: str) -> float | None:
    """What the parts of an iteration that are in a region take together; None: not told."""
    parts = {part.name: part.ms for part in found.parts}
    if label in parts:
        return parts[label]
    rest = parts.get(_rest_of(label))
    return None if rest is None else rest + parts.get(OPTIMIZER, 0.0)


def _rest_of(label: str) -> str:
    """What a region is called without the optimizer's step in it: its own name says both."""
    return FWD_BWD if label in ("step", f"{FWD_BWD}+{OPTIMIZER}") else f"rest of {label}"


def _means(
    pairs: Sequence[tuple[Sample, Taken]],
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
    # What a loader hands out, the loop takes over: tqdm, enumerate.
    first = {DATA: loader + following} if loader or inside_data else {NEXT: following}
    outside = {**first, BEFORE: lead, OPTIMIZER: optimizer}
    rest = mean(*(each.ms for each in taken)) - sample_ms - sum(outside.values())
    return inside, {**outside, OTHER: max(0.0, rest)}
