"""Figures of a comparison as the cells of its tables."""

from __future__ import annotations

from collections.abc import Sequence

from instrumentor_analysis.compare.model import Comparison, Timing
from instrumentor_analysis.compare.statement import tells
from instrumentor_analysis.reports import formatting

#: Times of a step that differ by less are no difference between ops or lines, milliseconds.
#: Half of the last decimal that a column in milliseconds shows.
_NOTHING_MS = 0.0005
#: Changes below this show no digit, percent or points.
_LEAST = 0.005


def interval(timing: Timing, inverse: bool = False) -> str:
    """Ends of the change in percent; ``inverse`` for a rate instead of a time."""
    if timing.interval is None:
        return "too few independent"
    ends = timing.interval.low, timing.interval.high
    # A rate is the reciprocal of a time, so that the ends change places.
    low, high = (1 / ends[1], 1 / ends[0]) if inverse else ends
    if not tells(timing.interval):
        return "too wide to tell"
    return f"{signed((low - 1) * 100)} .. {signed((high - 1) * 100)}"


def signed(value: float | None, unit: str = "%") -> str:
    """A change with its sign."""
    if value is None or not formatting.measured(value):
        return formatting.ABSENT
    size = abs(value)
    if size < _LEAST:
        return f"0 {unit}"
    digits = 0 if size >= 1000 else 1 if size >= 0.95 else 2
    return f"{value:+,.{digits}f} {unit}"


def changes(
    values: Sequence[float], comparison: Comparison, like: Sequence[float | None]
) -> list[str]:
    """Differences of times with their signs, in the unit that suits the times themselves.

    Args:
        values: milliseconds.
        like: the times of both sides, milliseconds.
    """
    texts = formatting.column(values, "ms", like)
    nothing = nothing_ms(comparison)
    return [
        f"0 {text.split()[-1]}" if abs(value) < nothing else text if value < 0 else f"+{text}"
        for value, text in zip(values, texts, strict=True)
    ]


def per_sample(comparison: Comparison) -> str:
    """The end of a heading over times that are per sample; empty for times of a step."""
    return ", per sample" if comparison.basis == "sample" else ""


def nothing_ms(comparison: Comparison) -> float:
    """Smallest change that counts as a difference between ops or lines, milliseconds."""
    sizes = comparison.base.batch_size or 1, comparison.new.batch_size or 1
    return _NOTHING_MS / (max(sizes) if comparison.basis == "sample" else 1)


def counts(base: int | None, new: int | None) -> str:
    """``12``, or ``12 > 10`` where both sides differ."""
    if base == new:
        return formatting.ABSENT if new is None else f"{new:,}"
    return f"{base or 0:,} > {new or 0:,}"
