"""Two runs: which is faster, by how much for sure, and where the difference comes from.

    from instrumentor_analysis.compare import compare, load_side

    result = compare(load_side(Path("mnist_baseline")), load_side(Path("mnist_trace")))
    result.timing.statement      # "new is 1.31 times as fast (95 % interval 1.28 .. 1.35)"
    result.to_json()             # schema instrument-comparison/1

An interval describes the steps of these two runs. Another run of the same code may differ by more
than its steps do among themselves: the clock, the caches and the neighbours are others then.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from instrumentor_analysis.comparison.differences import differences, refuse
from instrumentor_analysis.comparison.figures import categories, figures, located
from instrumentor_analysis.comparison.model import Comparison, Timing
from instrumentor_analysis.comparison.notes import notes
from instrumentor_analysis.comparison.ops import compare_ops
from instrumentor_analysis.comparison.ratio import ratio_of_medians
from instrumentor_analysis.comparison.side import Side, as_number, load_side, side_of_document
from instrumentor_analysis.comparison.statement import statement
from instrumentor_analysis.errors import NotComparable, TooFewSamples

DEVICE_TIME = "device time"
Basis = Literal["step", "sample"]


def compare(base: Side, new: Side) -> Comparison:
    """Compare two runs.

    With different batch sizes every time is of one sample, a step's time over its batch size.

    Raises:
        NotComparable: the figures mean different things, so that no number would be right.
    """
    base, new = _without_tracy(*_named_apart(base, new))
    refuse(base, new)
    basis, per = _basis(base, new)
    labels = [label for label in base.labels() if label in new.labels()]
    found = [_wall_clock(base, new, label, basis, per) for label in labels]
    timings = tuple(timing for timing in found if timing is not None)
    comparison = Comparison(
        base=base.facts(),
        new=new.facts(),
        basis=basis,
        timings=timings,
        device=_timing(
            DEVICE_TIME, base.step_device_ms(), new.step_device_ms(), base, new, basis, per
        ),
        figures=figures(base, new, basis, per),
        categories=categories(base, new, per),
        ops=compare_ops(base, new, per),
        lines=located(base, new, "lines", per),
        modules=located(base, new, "modules", per),
        differences=differences(base, new),
    )
    return replace(comparison, notes=notes(base, new, comparison, len(labels) - len(timings)))


def compare_all(sides: Sequence[Side]) -> tuple[Comparison, ...]:
    """Compare each side after the first with the first.

    Raises:
        NotComparable: as :func:`compare`; or there are fewer than two sides.
    """
    if len(sides) < 2:
        raise NotComparable("there is one run only", "Give two runs at least.")
    return tuple(compare(sides[0], side) for side in sides[1:])


def regressed(comparison: Comparison, percent: float) -> bool:
    """The wall clock's main label is slower by more than ``percent``, whatever the samples' luck.

    Decided by the lower end of the interval, never by the ratio itself.

    Raises:
        TooFewSamples: no outcome would be sure with so few samples, or there is no wall clock.
    """
    timing = comparison.timing
    if timing is None:
        raise TooFewSamples(
            f"{comparison.base.name} and {comparison.new.name} have no wall clock in common: "
            "a regression cannot be decided",
            "Run both with more steps: instrument run --steps 10.",
        )
    if not timing.enough or timing.interval is None:
        raise TooFewSamples(
            f"{len(timing.base_samples_ms)} and {len(timing.new_samples_ms)} steady steps are too "
            "few to decide about a regression",
            f"Run both with more steps: instrument run --steps {_steps(comparison, 8)}.",
        )
    return timing.regressed(percent)


def _steps(comparison: Comparison, samples: int) -> int:
    """``--steps`` for so many steady ones: the warm-up counts among them."""
    warmups = [
        as_number(side.run.get("warmup")) or 1.0 for side in (comparison.base, comparison.new)
    ]
    return samples + int(max(warmups))


def _named_apart(base: Side, new: Side) -> tuple[Side, Side]:
    """Both sides with names that differ."""
    if base.name != new.name:
        return base, new
    if base.source != new.source:
        return replace(base, name=base.source), replace(new, name=new.source)
    return replace(base, name=f"{base.name} (base)"), replace(new, name=f"{new.name} (new)")


def _without_tracy(base: Side, new: Side) -> tuple[Side, Side]:
    """The clocks without Tracy, where both sides have one: Tracy's own cost hides in the others."""
    sides = base, new
    if not all(side.has_untraced or side.profiler != "tracy" for side in sides):
        return base, new
    old, now = (replace(side, untraced=side.profiler == "tracy") for side in sides)
    return old, now


def _basis(base: Side, new: Side) -> tuple[Basis, tuple[int, int]]:
    sizes = base.batch_size, new.batch_size
    if sizes[0] is None or sizes[1] is None or sizes[0] == sizes[1]:
        return "step", (1, 1)
    return "sample", (sizes[0], sizes[1])


def _wall_clock(
    base: Side, new: Side, label: str, basis: Basis, per: tuple[int, int]
) -> Timing | None:
    return _timing(label, base.samples_ms(label), new.samples_ms(label), base, new, basis, per)


def _timing(
    label: str,
    base_ms: Sequence[float],
    new_ms: Sequence[float],
    base: Side,
    new: Side,
    basis: Basis,
    per: tuple[int, int],
) -> Timing | None:
    old = tuple(value / per[0] for value in base_ms)
    now = tuple(value / per[1] for value in new_ms)
    ratio = ratio_of_medians(old, now)
    if ratio is None or (label == DEVICE_TIME and min(len(old), len(now)) < 2):
        return None
    medians = statistics.median(old), statistics.median(now)
    return Timing(
        label=label,
        basis=basis,
        base_median_ms=medians[0],
        new_median_ms=medians[1],
        base_samples_ms=old,
        new_samples_ms=now,
        ratio=ratio.value,
        interval=ratio.interval,
        enough=ratio.enough,
        real=ratio.real,
        needed=ratio.needed,
        smallest_percent=ratio.smallest_percent,
        statement=statement(ratio, new.name, len(old), len(now)),
        base_rate=_rate(base, medians[0], per[0]),
        new_rate=_rate(new, medians[1], per[1]),
    )


def _rate(side: Side, median_ms: float, per: int) -> float | None:
    """Samples a second; ``per`` is the batch size already when the median is of one sample."""
    if side.batch_size is None:
        return None
    return side.batch_size / per / (median_ms / 1000)


__all__ = ["Side", "compare", "compare_all", "load_side", "regressed", "side_of_document"]
