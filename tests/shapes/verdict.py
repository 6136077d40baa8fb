"""Holds the samples of a run against what the observer saw: every broken promise as a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Observed = Mapping[str, Sequence[Any]]
CLOCK_S = 2e-6  # a sample's end is its start plus rounded milliseconds


@dataclass(frozen=True)
class Span:
    """A sample, a backward or an update on the clock, seconds."""

    name: str
    start: float
    end: float

    def holds(self, other: Span) -> bool:
        """Whether the other one lies inside as a whole."""
        return self.start <= other.start and other.end <= self.end + CLOCK_S

    def meets(self, other: Span) -> bool:
        """Whether any of the other one lies inside."""
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True)
class Promise:
    """What a run of a shape must keep.

    Attributes:
        label: of every sample, or of the last of each update; empty when several would be right.
        steps: samples asked for.
        micro: backwards until an update, as samples of their own: the run ends with a whole update.
        without_graph: the step itself calls modules under no_grad (a target, a frozen reference).
        within: module whose forward off the graph every sample holds, as its loss needs it.
        elsewhere: the script trains in other loops, too.
        updates_seen: the optimizer is one of torch's, whose steps can be seen.
    """

    label: str = "fwd+bwd"
    steps: int = 5
    micro: int = 1
    without_graph: bool = False
    within: str = ""
    elsewhere: bool = False
    updates_seen: bool = True


def violations(
    promise: Promise, samples: Sequence[Mapping[str, Any]], seen: Observed, alone: Observed
) -> list[str]:
    """Every broken promise; empty when the samples are the step.

    Args:
        samples: the sample events of timings.jsonl.
        seen: what was observed in the run that was measured.
        alone: what was observed in the script without the tool.
    """
    return [
        *_numbers(promise, samples),
        *misplaced(promise, samples, seen),
        *_stopped(promise, samples, seen),
        *same_training(seen, alone),
    ]


def misplaced(promise: Promise, samples: Sequence[Mapping[str, Any]], seen: Observed) -> list[str]:
    """What lies on the wrong side of the clock's readings."""
    broken = [sentence for sample in samples for sentence in _sample(promise, sample, seen)]
    if not samples:
        return broken
    spans = [_span(sample) for sample in samples]
    end = spans[-1].end
    if samples[-1]["label"] == "fwd+bwd":  # all backwards up to the update are the step's
        end = min([u["start"] for u in seen["updates"] if u["start"] > end], default=end)
    backwards = [Span("backward", each["start"], each["end"]) for each in seen["backwards"]]
    measured = [b for b in backwards if b.start < end]
    outside = [b for b in measured if not any(s.holds(b) for s in spans)]
    if outside and not promise.elsewhere:
        broken.append(f"{len(outside)} of {len(measured)} backwards lie outside of all samples")
    return broken


def _stopped(promise: Promise, samples: Sequence[Mapping[str, Any]], seen: Observed) -> list[str]:
    """Nothing is trained once the samples are there."""
    end = max((_span(sample).end for sample in samples), default=0.0)
    late = sum(each["start"] > end for each in seen["backwards"])
    if late and not promise.elsewhere:
        return [f"{late} backwards follow the last sample"]
    return []


def _numbers(promise: Promise, samples: Sequence[Mapping[str, Any]]) -> list[str]:
    broken = []
    if not promise.steps <= len(samples) < promise.steps + promise.micro:
        broken.append(f"{len(samples)} samples in place of {promise.steps}")
    labels = sorted({str(sample["label"]) for sample in samples})
    if samples and promise.label not in (*labels, ""):
        broken.append(f"labels are {labels}")
    if promise.micro == 1 and len(labels) > 1:
        broken.append(f"labels differ: {labels}")
    return broken


def _span(sample: Mapping[str, Any]) -> Span:
    start = float(sample["start_s"])
    return Span(str(sample["name"]), start, start + float(sample["ms"]) / 1000)


def _sample(promise: Promise, sample: Mapping[str, Any], seen: Observed) -> list[str]:
    span, broken = _span(sample), []
    first = [number for seconds, number in seen["readings"] if seconds == span.start]
    if not first:
        return [f"{span.name}: its start is no reading of the clock"]
    inside = []
    for each in seen["backwards"]:
        backward = Span("backward", each["start"], each["end"])
        if span.holds(backward):
            inside.append(each)
        elif span.meets(backward):
            broken.append(f"{span.name}: a backward lies partly outside")
    if not inside:
        broken.append(f"{span.name}: no backward inside")
    early = [first[0] - each["oldest"] for each in inside if each["oldest"] < first[0]]
    if early:
        broken.append(f"{span.name}: forward outside, up to {max(early)} nodes before its start")
    broken += _updates(promise, sample, span, seen)
    graphless = [name for seconds, name in seen["without_graph"] if span.start < seconds < span.end]
    if graphless and not promise.without_graph:
        broken.append(f"{span.name}: an evaluation inside ({graphless[0]})")
    if promise.within and promise.within not in graphless:
        broken.append(f"{span.name}: the forward of {promise.within} lies outside")
    return broken


def _updates(promise: Promise, sample: Mapping[str, Any], span: Span, seen: Observed) -> list[str]:
    updates = [Span("update", each["start"], each["end"]) for each in seen["updates"]]
    held = sum(span.holds(update) for update in updates)
    touched = sum(span.meets(update) for update in updates)
    if touched != held:
        return [f"{span.name}: an update lies partly outside"]
    if sample["label"] == "fwd+bwd" and held:
        return [f"{span.name}: an update inside a sample of forward and backward"]
    if sample["label"] != "fwd+bwd" and not held and promise.updates_seen:
        return [f"{span.name}: no update inside a sample of the {sample['label']}"]
    return []


#: What must be the same, the event that tells it and its name there.
_COMPUTED = (
    ("inputs of the forwards", "backwards", "inputs"),
    ("losses", "backwards", "value"),
    ("parameters with gradients", "updates", "gradients"),
    ("gradients", "updates", "bits"),
)


def same_training(seen: Observed, alone: Observed) -> list[str]:
    """The run computes what the script alone computes at its beginning, bit for bit."""
    broken = []
    for what, event, key in _COMPUTED:
        first = [each[key] for each in seen[event]]
        second = [each[key] for each in alone[event]]
        if first != second[: len(first)]:
            broken.append(f"{what} differ from those of the script alone: {first} {second}")
    if not alone["backwards"]:
        broken.append("the script alone made no backward")
    return broken
