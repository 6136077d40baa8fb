"""How much work a second: samples and tokens of the steady steps, latencies, and the MFU.

A rate is the work of a step on average over the median time of a step, both of the same steady
steps, so that it cannot contradict the median beside it nor a comparison of the two; of several
kinds over the mean of their medians. It is of what
its label names: samples per second of ``fwd+bwd`` leave the optimizer and the data loader out.

Percentiles are interpolated linearly between the two nearest samples (numpy's default), so that
the 50th is the median. One that the samples cannot tell is None: the 90th of fewer than 10
samples, the 95th of fewer than 20, the 99th of fewer than 100 would be about the largest one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from instrumentor_analysis.model import Sample

#: Percentile -> number of samples from which it is told.
PERCENTILES = {50: 1, 90: 10, 95: 20, 99: 100}


def percentile(values: Sequence[float], percent: int) -> float | None:
    """A percentile by linear interpolation; None of too few values (see :data:`PERCENTILES`)."""
    if len(values) < PERCENTILES[percent]:
        return None
    ordered = sorted(values)
    at = (len(ordered) - 1) * percent / 100
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def common_shape(steady: Sequence[Sample]) -> tuple[int, ...] | None:
    """The batch shape that all steady steps share, else None."""
    shapes = {sample.batch_shape for sample in steady}
    return shapes.pop() if len(shapes) == 1 else None


def rate(work: Sequence[int | None], ms: float) -> float | None:
    """Work a second; None unless every steady step says how much it did.

    Args:
        ms: what a step takes.
    """
    known = [amount for amount in work if amount is not None]
    if not known or len(known) < len(work):
        return None
    return statistics.fmean(known) / (ms / 1000) if ms > 0 else None
