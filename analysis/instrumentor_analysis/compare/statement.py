"""What two sets of samples say about each other, in one sentence."""

from __future__ import annotations

from instrumentor_analysis.compare.ratio import Ratio
from instrumentor_analysis.compare.runs import MOST_RUNS, Between
from instrumentor_analysis.model import Interval

#: Ends of an interval that are further apart than this factor say nothing about a change.
_TELLS_NOTHING = 10.0
#: In the place of an interval of fewer than six independent steps on a side.
TOO_FEW = "too few independent steps for an interval"


def tells(interval: Interval) -> bool:
    """Whether an interval is worth showing."""
    return interval.low > 0 and interval.high / interval.low <= _TELLS_NOTHING


def statement(
    ratio: Ratio, name: str, base_samples: int, new_samples: int, *, told: bool = True
) -> str:
    """What the samples say, and what it would take to say more: the verdict first.

    Args:
        told: with the interval, of samples that are enough for one.
    """
    counts = f"{base_samples} and {new_samples} steady steps"
    if ratio.interval is None:
        return (
            # The 4 here and below is ratio._surest(): fewer cannot separate two sides at 95 %.
            f"No conclusion from {counts}: a significant result takes at least 4 on each side. By "
            f"the medians alone {by_size(ratio.value, name)}."
        )
    between = _between(ratio.interval, ratio.value) if told else TOO_FEW
    if ratio.real:
        return f"{by_size(ratio.value, name)} ({between})"
    if not ratio.enough:
        return (
            f"No conclusion. {by_size(ratio.value, name)} ({between}), but so few samples "
            f"({counts}) may differ by chance. Measure at least 4 on each side."
        )
    if ratio.needed is None:
        return f"No difference ({between}){_resolution(ratio)}"
    return (
        f"No conclusion. {by_size(ratio.value, name)} ({between}) by {counts}; to confirm a change "
        f"of this size takes about {ratio.needed:,} steady steps on each side."
    )


def statement_of_runs(found: Between, name: str) -> str:
    """What several runs on a side say of their ratio, and how many more it would take."""
    counted = f"{found.base_runs} and {found.new_runs} runs"
    if found.noise.history:
        counted += f" and {found.noise.history} of the history"
    noise = f"{_percent(found.noise.percent / 100)} %"
    size, between = by_size(found.ratio, name), _between(found.interval, found.ratio)
    if not found.real and not tells(found.interval) and (found.needed or 0) <= MOST_RUNS:
        more = "" if found.needed is None else _more(found.needed)
        return (
            f"No conclusion. By the medians alone {size}, but runs of this script vary by {noise} "
            f"({counted}), too much for an interval.{more}"
        )
    if found.real or found.needed is None:
        said = f"{size} ({between}; {counted}, which differ by {noise})"
        return said if found.real else f"No conclusion. {said}"
    if found.needed > MOST_RUNS:
        return (
            f"No conclusion. {size} by the medians, but runs of this script vary by {noise} "
            f"({counted}). This machine is too noisy for a change of that size: quieten it, pin "
            "its clock, or take more steps a run."
        )
    return (
        f"No conclusion. {size} ({between}), but runs of this script vary by {noise} ({counted})."
        f"{_more(found.needed)}"
    )


def _more(runs: int) -> str:
    return f" Run both sides {runs} times (--repeat {runs})."


def _resolution(ratio: Ratio) -> str:
    size = ratio.smallest_percent
    if not size:
        return ""
    return f"; a change below {_percent(size / 100)} % would not be seen"


def by_size(ratio: float, name: str) -> str:
    """``new is 1.31 times as fast``; small changes in percent of the time."""
    if ratio == 1:
        return f"{name} is exactly as fast"
    faster = ratio < 1
    factor = 1 / ratio if faster else ratio
    if factor >= 1.1:
        return (
            f"{name} is {factor:.2f} times as fast"
            if faster
            else (f"{name} takes {factor:.2f} times as long")
        )
    return f"{name} is {_percent(abs(ratio - 1))} % {'faster' if faster else 'slower'}"


def _between(interval: Interval, ratio: float) -> str:
    """The interval on the scale on which the size is said."""
    low, high = interval.low, interval.high
    if not tells(interval):
        return "too wide an interval to tell"
    head = f"{interval.confidence * 100:.0f} % interval"
    factor = 1 / ratio if ratio < 1 else ratio
    if factor >= 1.1:
        ends = (1 / high, 1 / low) if ratio < 1 else (low, high)
        return f"{head} {ends[0]:.2f} .. {ends[1]:.2f}"
    return f"{head} {_signed(low - 1)} .. {_signed(high - 1)} %"


def _percent(share: float) -> str:
    """``12``, ``3.4``, ``0.56``: percent of a share, about two digits."""
    value = share * 100
    size = abs(value)
    # From 9.95 on one decimal would make three digits, 10.0.
    return f"{value:,.0f}" if size >= 9.95 else f"{value:.1f}" if size >= 1 else f"{value:.2g}"


def _signed(share: float) -> str:
    return f"{'+' if share > 0 else ''}{_percent(share)}"
