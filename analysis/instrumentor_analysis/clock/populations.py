"""Steps of several kinds that take turns: each kind has figures of its own.

Two models by turns, several steps of a discriminator for one of the generator, a regularizer every
n-th step, an update after several micro-steps: a median of such a mixture describes none of them.
What tells the kinds apart is what the recorder saw of each step, never its time. A kind is another
graph; a shape is that of the batch. Where each kind has a shape of its own, that is what it is
called: a loop over longer sequences makes a larger graph of the same step.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from instrumentor_analysis.clock.intervals import median_interval
from instrumentor_analysis.model import Population

#: More kinds than that are steps that vary, not kinds that recur.
MOST_KINDS = 4
#: Kinds whose medians differ by less, as a ratio, are one.
ALIKE = 1.05


Shape: TypeAlias = "tuple[int, ...] | None"


class Kind(Struct, frozen=True):
    """What the recorder saw of a step that tells it from others.

    Attributes:
        nodes: that autograd made for it.
        stepped: numbers of the optimizers that stepped; None where that does not count.
    """

    nodes: int | None = None
    stepped: tuple[int, ...] | None = None


#: Begins the name of a kind that has a shape of its own.
_BATCH = "batch "


def populations(
    kinds: Sequence[Kind], values: Sequence[float], shapes: Sequence[Shape] = ()
) -> tuple[Population, ...]:
    """The recurring kinds of steps, most frequent first; none where all are of one.

    Args:
        kinds: of each step.
        values: its time, milliseconds.
        shapes: of its batch, where they are known.
    """
    recurring = [kind for kind, count in Counter(kinds).most_common() if count > 1]
    if not 1 < len(recurring) <= MOST_KINDS:
        return ()
    names = _shapes(recurring, kinds, shapes) or _names(recurring)
    found = tuple(
        _population(name, [at for at, each in enumerate(kinds) if each == kind], values)
        for kind, name in zip(recurring, names, strict=True)
    )
    medians = [each.median_ms for each in found]
    return found if max(medians) > ALIKE * min(medians) else ()


def of_shapes(found: Sequence[Population]) -> bool:
    """Whether each kind has a shape of its own."""
    return bool(found) and all(each.kind.startswith(_BATCH) for each in found)


def _shapes(recurring: Sequence[Kind], kinds: Sequence[Kind], shapes: Sequence[Shape]) -> list[str]:
    """The shape of each kind; empty where that does not tell them apart, or optimizers do."""
    if not shapes or len({each.stepped for each in recurring}) > 1:
        return []
    pairs = [*zip(kinds, shapes, strict=True)]
    own = [{shape for of, shape in pairs if of == kind} for kind in recurring]
    each = {shape for found in own for shape in found if shape is not None and len(found) == 1}
    if len(each) < len(recurring):
        return []
    return [_BATCH + "x".join(map(str, shape or ())) for found in own for shape in found]


def _names(kinds: Sequence[Kind]) -> list[str]:
    """What tells each kind from the others: its update, and its graph where that is not enough."""
    updates = [_update(each.stepped, kinds) for each in kinds]
    if len(set(updates)) == len(kinds):
        return updates
    graphs = ["no graph" if each.nodes is None else f"{each.nodes} nodes" for each in kinds]
    told = updates if len(set(updates)) > 1 else [""] * len(kinds)
    return [", ".join(filter(None, each)) for each in zip(told, graphs, strict=True)]


def _update(stepped: tuple[int, ...] | None, kinds: Sequence[Kind]) -> str:
    """``with update``; which optimizer's, where several take turns."""
    if not stepped:
        return "without update"
    if len({each.stepped for each in kinds if each.stepped}) == 1:
        return "with update"
    numbers = sorted({number + 1 for number in stepped})
    return f"optimizer {' and '.join(map(str, numbers))}"


def _population(kind: str, steps: Sequence[int], values: Sequence[float]) -> Population:
    own = [values[at] for at in steps]
    return Population(
        samples=len(own),
        median_ms=statistics.median(own),
        min_ms=min(own),
        max_ms=max(own),
        median_interval_ms=median_interval(own),
        steps=tuple(steps),
        kind=kind,
    )


def typical_ms(found: Sequence[Population], values: Sequence[float]) -> float:
    """The median; of several kinds the mean of their medians, weighted by how often they come."""
    if not found:
        return statistics.median(values)
    total = sum(each.samples for each in found)
    return sum(each.median_ms * each.samples for each in found) / total
