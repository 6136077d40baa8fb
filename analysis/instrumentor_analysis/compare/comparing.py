"""Two runs, or several of each code: which is faster, by how much, and where from.

    from instrumentor_analysis.compare.comparing import compare
    from instrumentor_analysis.compare.side import load_side

    result = compare(load_side(Path("mnist_baseline")), load_side(Path("mnist_trace")))
    result.timing.statement      # "new is 1.31 times as fast (95 % interval 1.28 .. 1.35)"
    result.to_json()             # schema instrument-comparison/1

The interval of one run against one describes the steps of these two. Another run of the same code
may differ by more than its steps do among themselves: the clock, the caches and the neighbours are
others then. Several runs on a side tell by how much (:func:`compare_runs`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from instrumentor_analysis.clock.intervals import ASSUMED, reach
from instrumentor_analysis.clock.neighbours import doubts, is_busy
from instrumentor_analysis.clock.populations import typical_ms
from instrumentor_analysis.compare import gate
from instrumentor_analysis.compare.differences import differences, refuse
from instrumentor_analysis.compare.figures import (
    categories,
    disturbed,
    figures,
    located,
    owners,
    owners_of,
)
from instrumentor_analysis.compare.in_turn import advised
from instrumentor_analysis.compare.model import Comparison, SideFacts, Timing
from instrumentor_analysis.compare.notes import notes
from instrumentor_analysis.compare.ops import compare_ops
from instrumentor_analysis.compare.ratio import ratio_of_medians
from instrumentor_analysis.compare.runs import ASSUMED_BUSY, between
from instrumentor_analysis.compare.side import Side
from instrumentor_analysis.compare.statement import by_size, statement, statement_of_runs
from instrumentor_analysis.model import Interval
from instrumentor_analysis.shared.errors import NotComparable

DEVICE_TIME = "device time"
Basis = Literal["step", "sample"]
Medians = Sequence[Sequence[float]]
#: Medians of earlier runs, by the name of the figure.
Earlier = Mapping[str, Medians]
Runs = Sequence[Sequence[float]]


def compare(base: Side, new: Side) -> Comparison:
    """Compare two runs.

    With different batch sizes every time is of one sample, a step's time over its batch size.

    Raises:
        NotComparable: the figures mean different things, so that no number would be right.
    """
    return compare_runs([base], [new])


def compare_runs(
    base: Sequence[Side],
    new: Sequence[Side],
    earlier: Earlier | None = None,
    *,
    of_region: bool = False,
) -> Comparison:
    """Compare several runs of one code with several of another.

    Ops, figures and device time are those of one run on each side, whose median is in the middle.

    Args:
        earlier: medians of further runs, milliseconds, in groups of equal code, by figure: they
            tell how much runs differ even where there is one on a side.
        of_region: conclude from the timed region, not from the iteration around it.

    Raises:
        NotComparable: as :func:`compare`; or there is no run on a side.
    """
    if not base or not new:
        raise NotComparable("one side has no run", "Give a run on each side of the --.")
    every = _without_tracy([*base, *new])
    groups = every[: len(base)], every[len(base) :]
    middle = [_in_the_middle(group, of_region=of_region) for group in groups]
    old, now = _named_apart(*middle)
    for other in every:
        refuse(old, other)
    refuse(old, now)
    basis, per = _basis(old, now)
    pair = _Pair(groups, old, now, basis, per, earlier or {})
    iteration = None if of_region else _iteration(pair)
    labels = [label for label in old.labels() if label in now.labels()]
    # The median of a mixture is no step's: neither a sentence nor a row is made of it.
    alike = [label for label in labels if not any(side.mixed(label) for side in every)]
    found = [_wall_clock(pair, label, first=iteration is None) for label in alike]
    timings = tuple(timing for timing in found if timing is not None)
    comparison = Comparison(
        base=_facts(old, groups[0]),
        new=_facts(now, groups[1]),
        basis=basis,
        iteration=iteration,
        timings=timings,
        device=_device_time(pair),
        mixed=tuple(s.name for s in (old, now) if any(s.mixed(label) for label in labels)),
        figures=figures(old, now, basis, per),
        owners=owners(old, now, per),
        owners_busy=disturbed(old, now),
        owners_of=owners_of(old, now),
        categories=categories(old, now, per),
        ops=compare_ops(old, now, per),
        lines=located(old, now, "lines", per),
        modules=located(old, now, "modules", per),
        differences=differences(old, now),
    )
    unusable = len(alike) - len(timings)
    return replace(comparison, notes=notes((old, now), groups, comparison, unusable))


def compare_all(
    sides: Sequence[Side], earlier: Earlier | None = None, *, of_region: bool = False
) -> tuple[Comparison, ...]:
    """Compare each side after the first with the first.

    Raises:
        NotComparable: as :func:`compare`; or there are fewer than two sides.
    """
    if len(sides) < 2:
        raise NotComparable("only one run was given", "Give at least two.")
    return tuple(
        compare_runs(sides[:1], [side], earlier, of_region=of_region) for side in sides[1:]
    )


def judge(comparison: Comparison, percent: float) -> gate.Gate:
    """Is the new side slower by more than that? Of what the comparison concludes from.

    Raises:
        NotComparable: there is no wall clock on both sides.
    """
    timing = comparison.main
    if timing is None and comparison.mixed:
        raise NotComparable(
            f"steps of several kinds take turns in {' and '.join(comparison.mixed)}: no median "
            "decides a regression",
            "Pairs of runs decide it by the iteration: instrument compare --refs A..B "
            f"--fail-on-regression {percent:g} train.py",
        )
    if timing is None:
        raise NotComparable(
            f"{comparison.base.name} and {comparison.new.name} have no wall clock in common: "
            "a regression cannot be decided",
            "Run both again with more steps: --steps 10.",
        )
    noise = _assumed_noise(comparison.base.run, comparison.new.run)
    # An interval without bounds: too few steps, or a busy machine, must not decide anything.
    busy = timing.between is None and any(
        is_busy(side.run.get("machine")) for side in (comparison.base, comparison.new)
    )
    # The limit of the assumed noise is enough for the gate, also where no interval is shown.
    ratio = ratio_of_medians(timing.base_samples_ms, timing.new_samples_ms, noise)
    ends = None if ratio is None or busy or not timing.enough else ratio.interval
    steps = ends or Interval(0.0, math.inf)
    return gate.judge(timing.between, timing.ratio, percent, noise=noise, steps=steps)


def _assumed_noise(*runs: Mapping[str, Any]) -> float:
    """Assumed noise from run to run: larger where one of the machines was busy."""
    return ASSUMED_BUSY if any(doubts(run.get("machine")) for run in runs) else ASSUMED


class _Pair(Struct, frozen=True):
    """What is compared with what: all runs, the one shown of each side, and on which basis."""

    groups: tuple[Sequence[Side], Sequence[Side]]
    base: Side
    new: Side
    basis: Basis
    per: tuple[int, int]
    earlier: Earlier


def _in_the_middle(sides: Sequence[Side], *, of_region: bool) -> Side:
    """The run whose median is in the middle: of the iteration, where it has one."""

    def median(side: Side) -> float:
        whole, wall = () if of_region else side.iterations_ms()[2], side.main_wall
        if not whole and wall is not None and wall.populations:
            return typical_ms(wall.populations, ())
        samples = whole or [ms for label in side.labels()[:1] for ms in side.samples_ms(label)]
        return statistics.median(samples) if samples else 0.0

    # One real run, not an average: its ops, figures and device time belong together. Of an even
    # number the faster of the two in the middle.
    return sorted(sides, key=median)[(len(sides) - 1) // 2]


def _facts(shown: Side, group: Sequence[Side]) -> SideFacts:
    facts = shown.facts()
    if len(group) == 1:
        return facts
    names = tuple(side.name for side in group)
    return replace(facts, name=f"{names[0]} ({len(group)} runs)", runs=names)


def _named_apart(base: Side, new: Side) -> tuple[Side, Side]:
    """Both sides with names that differ."""
    if base.name != new.name:
        return base, new
    if base.source != new.source:
        return replace(base, name=base.source), replace(new, name=new.source)
    return replace(base, name=f"{base.name} (base)"), replace(new, name=f"{new.name} (new)")


def _without_tracy(sides: Sequence[Side]) -> Sequence[Side]:
    """The clocks without Tracy, where all have one: Tracy's own cost hides in the others."""
    if not all(side.has_untraced or side.profiler != "tracy" for side in sides):
        return sides
    return [replace(side, untraced=side.profiler == "tracy") for side in sides]


def _basis(base: Side, new: Side) -> tuple[Basis, tuple[int, int]]:
    sizes = base.batch_size, new.batch_size
    if sizes[0] is None or sizes[1] is None or sizes[0] == sizes[1]:
        return "step", (1, 1)
    # Steps of different batch sizes do different work, samples do not.
    return "sample", (sizes[0], sizes[1])


def _iteration(pair: _Pair) -> Timing | None:
    """The whole iteration, or update; None where it is not one thing in all runs."""
    found = [[side.iterations_ms() for side in group] for group in pair.groups]
    labels = {label for group in found for label, _, _ in group}
    if len(labels) > 1 or "" in labels:
        return None
    # A batch is that of a micro-step.
    old, now = (
        [[ms / (steps if pair.basis == "sample" else 1) for ms in values] for _, steps, values in g]
        for g in found
    )
    label = labels.pop()
    return _timing(pair, label, old, now, pair.earlier.get(label, ()))


def _wall_clock(pair: _Pair, label: str, *, first: bool) -> Timing | None:
    old, now = ([side.samples_ms(label) for side in group] for group in pair.groups)
    return _timing(pair, label, old, now, pair.earlier.get(label, ()), first=first)


def _device_time(pair: _Pair) -> Timing | None:
    old, now = pair.base.step_device_ms(), pair.new.step_device_ms()
    # A single device time on a side has no spread, and so no interval: it is one of the figures.
    if min(len(old), len(now)) < 2:
        return None
    return _timing(pair, DEVICE_TIME, [old], [now], first=False)


def _timing(
    pair: _Pair,
    label: str,
    base: Runs,
    new: Runs,
    earlier: Medians = (),
    *,
    first: bool = True,
) -> Timing | None:
    """Compare the samples of a label, by runs where their noise is known, else by steps.

    Args:
        first: of those of a comparison, which says in full why there is no conclusion.

    None where no run of a side has samples, or one of them is 0 ms.
    """
    old, now = (
        [tuple(ms / per for ms in run) for run in runs if run]
        for runs, per in zip((base, new), pair.per, strict=True)
    )
    steps = tuple(chain(*old)), tuple(chain(*now))
    noise = _assumed_noise(pair.base.summary.run, pair.new.summary.run)
    by_steps = ratio_of_medians(*steps, noise)
    if by_steps is None:
        return None
    # Noise is relative, so it does not matter whether times are per step or per sample.
    by_runs = between([*map(reach, old)], [*map(reach, now)], earlier)
    told = by_runs is not None or by_steps.told
    if by_runs is None:
        ratio, medians = by_steps.value, [statistics.median(each) for each in steps]
        said = statement(by_steps, pair.new.name, len(steps[0]), len(steps[1]), told=told)
    else:
        ratio, medians = by_runs.ratio, [by_runs.base_ms, by_runs.new_ms]
        said = statement_of_runs(by_runs, _facts(pair.new, pair.groups[1]).name)
    found = by_runs or by_steps
    # Several runs of each side show what their machines did to them, one run does not.
    shown = (pair.base, pair.new) if by_runs is None else tuple(chain(*pair.groups))
    shown = () if by_runs is not None and by_runs.real else shown
    busy = [side.name for side in shown if is_busy(side.summary.run.get("machine"))]
    if busy:
        who = " and ".join(busy) if len(busy) <= 2 else f"{len(busy)} of {len(shown)} runs"
        alone = by_size(ratio, _facts(pair.new, pair.groups[1]).name)
        said = (
            f"No conclusion, because the machine was busy in {who} [W201]. By the "
            f"medians alone {alone}. Measure again when it is quiet"
            f"{advised(pair.base.facts(), pair.new.facts())}"
            if first
            else f"No conclusion; by the medians alone {alone}."
        )
    # Samples a second; times per sample are already divided by the batch size.
    rates = [
        None if side.batch_size is None else side.batch_size / per / (median / 1000)
        for side, per, median in zip((pair.base, pair.new), pair.per, medians, strict=True)
    ]
    return Timing(
        label=label,
        basis=pair.basis,
        base_median_ms=medians[0],
        new_median_ms=medians[1],
        base_samples_ms=steps[0],
        new_samples_ms=steps[1],
        ratio=ratio,
        interval=by_steps.shown if by_runs is None else by_runs.interval,
        enough=by_steps.enough or by_runs is not None,
        told=told,
        real=found.real and not busy,
        needed=found.needed,
        smallest_percent=found.smallest_percent,
        statement=said,
        base_rate=rates[0],
        new_rate=rates[1],
        between=by_runs,
    )
