"""One timed step, as the recorder noted it."""

from __future__ import annotations

from msgspec import Struct


class Sample(Struct, frozen=True):
    """One timed step.

    Attributes:
        ms: wall clock.
        start_s: on the script's own perf_counter.
        batch_shape: of the first tensor in its (first) batch.
        samples, tokens: in all batches of the step: along the axis of the batch, and the elements
            of two-dimensional integer tensors; None where unknown.
    """

    name: str
    kind: str
    label: str
    ms: float
    index: int
    start_s: float | None = None
    device: str | None = None
    batch_shape: tuple[int, ...] | None = None
    samples: int | None = None
    tokens: int | None = None
