"""What became of one trial, as a value that survives in the journal."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from instrumentor_analysis.shared.documents import converted

MEASURED = "measured"
OUT_OF_MEMORY = "out of memory"
COMPILE_FAILURE = "compile failure"
TIMEOUT = "timeout"
FAILED = "failed"
KILLED = "killed"


class Outcome(Struct, frozen=True):
    """One trial. What was not measured is None or empty.

    Attributes:
        status: one of the words above; all but ``measured`` are results as well, with a reason.
        folder: the run folder.
        label: what is judged: ``iteration``, from the start of a step to the start of the next, or
            what a sample covers where that was not seen.
        samples_ms: of the steady steps.
        compile_ms: the first sample.
        batch_shape: shape of the first tensor in the batch.
        losses: of the steady samples; ``nan`` where it was none.
        peak_rss_bytes: largest sum of resident memory of the script's process tree; pages that
            its processes share count once for each.
        cuda_max_memory_allocated_bytes: as torch says.
        device: type of the device that the loss was on.
        duration_s: of the whole trial.
        batch_size: samples in a step; None where that is unknown.
        busy: other processes kept the machine busy meanwhile.
    """

    status: str
    reason: str = ""
    folder: str = ""
    label: str = ""
    samples_ms: tuple[float, ...] = ()
    compile_ms: float | None = None
    batch_shape: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()
    peak_rss_bytes: int | None = None
    cuda_max_memory_allocated_bytes: int | None = None
    device: str = ""
    duration_s: float = 0.0
    warnings: tuple[str, ...] = ()
    batch_size: int | None = None
    busy: bool = False

    @property
    def measured(self) -> bool:
        """There are steady samples of a run that ended well."""
        return self.status == MEASURED

    @property
    def median_ms(self) -> float | None:
        """Median of the steady samples."""
        return _median(self.samples_ms)

    @property
    def loss(self) -> float | None:
        """Median loss of the steady samples; nan when one of them is."""
        broken = any(math.isnan(loss) for loss in self.losses)
        return math.nan if broken else _median(self.losses)

    @property
    def samples_per_s(self) -> float | None:
        """Throughput at the median."""
        ms = self.median_ms
        return self.batch_size / ms * 1000 if ms and self.batch_size else None

    @property
    def latency_ms(self) -> float | None:
        """Time of a step over its samples, milliseconds."""
        ms = self.median_ms
        return ms / self.batch_size if ms and self.batch_size else None

    def to_json(self) -> dict[str, Any]:
        """JSON knows no nan and no infinity: such a loss is a text."""
        values = asdict(self)
        values["losses"] = [finite(loss) for loss in self.losses]
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Outcome:
        """The outcome of :meth:`to_json`; unknown keys are left out."""
        # Not strict, so that the texts nan and inf of to_json are floats again.
        return converted(values, cls, strict=False)


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def finite(number: float | None) -> float | str | None:
    """A number as JSON knows it: nan and infinity are texts."""
    return number if number is None or math.isfinite(number) else str(number)
