"""A trial against the best so far: kept when the gain is significant, the loss the same."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct, field

from instrumentor.tune.outcome import Outcome, finite
from instrumentor_analysis.compare.ratio import Ratio, ratio_of_medians
from instrumentor_analysis.compare.statement import TOO_FEW
from instrumentor_analysis.shared.units import number, quantity

BASELINE = "baseline"
KEPT = "kept"
NO_GAIN = "no gain"
NOT_PROVEN = "not proven"
WORSE = "worse"
CHANGES_LOSS = "changes the loss"
NOT_COMPARABLE = "cannot be compared"


class Noise(Struct, frozen=True):
    """What two runs of the unchanged script differ by.

    Attributes:
        time: of the medians, as a fraction: 0.02 for 2 %.
        loss: of the median losses, likewise; None when there is no loss.
    """

    time: float = 0.0
    loss: float | None = None


class Judgement(Struct, frozen=True):
    """What a trial is worth.

    Attributes:
        verdict: one of the words above, or the outcome's own when nothing was measured.
        ratio: time for the same work, new over best so far; None when nothing can be said.
        loss_change: relative change of the median loss; None when it is not comparable.
        against_ms: a step of what it was held against; None when nothing can be said.
        text: the verdict in a sentence.
    """

    verdict: str
    text: str
    ratio: Ratio | None = None
    loss_change: float | None = None
    against_ms: float | None = None

    @property
    def time(self) -> float:
        """The ratio's value; infinity without one."""
        return self.ratio.value if self.ratio is not None else math.inf

    def to_json(self) -> dict[str, Any]:
        """Figures and words."""
        interval = self.ratio.shown if self.ratio else None
        return {
            "verdict": self.verdict,
            "text": self.text,
            "time_ratio": self.ratio.value if self.ratio else None,
            "time_ratio_interval": [interval.low, interval.high] if interval else None,
            "loss_change": finite(self.loss_change),
            "against_ms": self.against_ms,
        }


class Judge(Struct, frozen=True):
    """The rules.

    Attributes:
        noise: a gain has to exceed it beyond the interval.
        loss_tolerance: relative change of the median loss that is allowed.
    """

    noise: Noise = field(default_factory=Noise)
    loss_tolerance: float = 1e-2

    def judge(
        self, best: Outcome, new: Outcome, reference: Outcome | None, *, by_rate: bool = False
    ) -> Judgement:
        """Hold a trial against the best so far, its loss against a reference's.

        Args:
            reference: a run of the same work without the settings; None where the work differs.
            by_rate: the batch size is what changed: only samples a second can tell.
        """
        if not new.measured:
            return Judgement(new.status, f"{new.status}: {new.reason}")
        if new.label != best.label:
            return Judgement(NOT_COMPARABLE, f"timed {new.label}, the best so far {best.label}")
        if by_rate and None in (best.batch_size, new.batch_size):
            return Judgement(NOT_COMPARABLE, "the batch size of a step is not visible")
        found = ratio(best, new)
        if found is None:
            return Judgement(NOT_COMPARABLE, "there are no steady samples")
        change = _loss_change(reference, new)
        verdict, text = self._verdict(found, _reference(best, new))
        # What other programs took away shows neither that a setting helps nor that it does not.
        if verdict in (NO_GAIN, WORSE) and (best.busy or new.busy):
            verdict, text = NOT_PROVEN, f"{text}, on a busy machine"
        if change is not None and not self._same_loss(change):
            text = f"the loss changes by {_percent(change)}: {text}"
            return Judgement(CHANGES_LOSS, text, found, change, best.median_ms)
        # A script without a fixed seed: no loss can then speak against a setting.
        if verdict == KEPT and self._loss_is_noise():
            text += "; the loss of two equal runs differs as much, so it says nothing"
        return Judgement(verdict, text, found, change, best.median_ms)

    def _verdict(self, ratio: Ratio, reference: str) -> tuple[str, str]:
        faster, interval = f"x{1 / ratio.value:.2f}", ratio.interval
        if interval is None or not ratio.enough:
            return NO_GAIN, f"{faster} against {reference}, with too few samples to be significant"
        ends = f"{1 / interval.high:.2f} to {1 / interval.low:.2f}" if ratio.told else TOO_FEW
        shown = f"{faster} ({ends}) against {reference}"
        if not ratio.real:
            return NO_GAIN, shown
        # The slow end of the interval must still gain more than two equal runs differ.
        if interval.high < 1 / (1 + self.noise.time):
            return KEPT, shown
        if interval.low > 1:
            return WORSE, shown
        return NO_GAIN, f"{shown}, within what two equal runs differ by"

    def _same_loss(self, change: float) -> bool:
        return change <= self.loss_tolerance or (self._loss_is_noise() and math.isfinite(change))

    def _loss_is_noise(self) -> bool:
        return self.noise.loss is not None and self.noise.loss > self.loss_tolerance


def _reference(base: Outcome, new: Outcome) -> str:
    """What a ratio is of, as the table shows it: a rate where batches differ, else a time."""
    if base.samples_per_s is not None and new.batch_size not in (None, base.batch_size):
        return f"{number(base.samples_per_s)} samples/s"
    return "" if base.median_ms is None else f"{number(base.median_ms)} ms"


def ratio(base: Outcome, new: Outcome) -> Ratio | None:
    """Time for the same work, new over base: of a sample where both batch sizes are known."""
    sizes = base.batch_size, new.batch_size
    old, now = (size or 1 for size in (sizes if None not in sizes else (1, 1)))
    return ratio_of_medians(
        [ms / old for ms in base.samples_ms], [ms / now for ms in new.samples_ms]
    )


def noise_of(first: Outcome, again: Outcome) -> Noise:
    """What two runs of the unchanged script say about each other."""
    one, two = first.median_ms, again.median_ms
    # Of the logarithm, so that it does not matter which run was the slower one.
    time = abs(math.log(two / one)) if one and two else 0.0
    return Noise(math.expm1(time), _loss_change(first, again))


def _loss_change(reference: Outcome | None, new: Outcome) -> float | None:
    """Relative change of the median loss; infinite where only one of them is a number."""
    before, after = reference.loss if reference else None, new.loss
    if before is None or after is None:
        return None
    if before == after or (math.isnan(before) and math.isnan(after)):
        return 0.0
    change = abs(after - before) / abs(before) if before else math.inf
    return math.inf if math.isnan(change) else change


def _percent(change: float) -> str:
    return quantity(change * 100, "%") if math.isfinite(change) else "not a number"
