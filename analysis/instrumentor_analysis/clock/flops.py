"""FLOPs of a model from its own numbers, as the recorder found them.

A language model's are those of the scaling-law literature, as tt-blacksmith counts them: 6 for each
parameter that trains (forward, gradient of the input, gradient of the weight), 4 for each frozen
one, 12 * layers * heads * head dimension * sequence length for attention's two products and their
gradients; forward alone 2, 2 and 4. The table of an embedding counts where it is also the output's
weight (tied), and not where rows of it are only looked up. Other models are counted op by op in
the first sample, recomputed activations included; an op that computes and has no formula leaves
nothing to quote: what the others do may be a thousandth of it. What was counted is true of steps
that are like the first one: of others there are no FLOPs, and a rate would be made of two steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from instrumentor_analysis.model import Sample

#: Why counted FLOPs are those of the first sample alone.
KINDS, SHAPES = "steps are of several kinds", "batch shapes vary"
LATER = "later steps are of another kind"


class ModelFacts(Struct, frozen=True):
    """What the recorder told of the model and its device; None where it could not.

    Attributes:
        trainable, frozen: parameters that count, tied ones once.
        attention: heads * head dimension, summed over layers.
        counted_flops, counted_samples: of the first sample.
        uncounted: ops of that sample that compute and have no formula.
        reported_flops, reported_peak: of tt-mlir's graphs in the first sample: FLOPs of the
            matrix engine, and their peak a second on one chip.
        arch, chips: of the device.
        threads: that an op of torch may use.
    """

    trainable: int | None = None
    frozen: int | None = None
    attention: int | None = None
    counted_flops: int | None = None
    counted_samples: int | None = None
    uncounted: tuple[str, ...] = ()
    reported_flops: int | None = None
    reported_peak: int | None = None
    arch: str | None = None
    chips: int | None = None
    threads: int | None = None


class Flops(Struct, frozen=True):
    """FLOPs of one sample, and the formula in words.

    Attributes:
        of_first: they are those of the first sample, and steady steps do other work.
    """

    per_sample: float
    formula: str
    of_first: bool = False


class Work(Struct, frozen=True):
    """How the steps that are timed differ in what they do.

    Attributes:
        shape: of the first sample's batch.
        other: why a steady step does other work than the first sample; empty where none does.
        kinds: these steps are of several kinds, of which no formula of the model tells.
    """

    shape: tuple[int, ...] | None = None
    other: str = ""
    kinds: bool = False


def work(taken: Sequence[Sample], label: str, batch_dim: int = 0) -> Work:
    """How the steady samples of a label differ from the first sample of the run.

    Args:
        taken: all samples, in order.
        batch_dim: axis along which the samples of a batch lie, whose number changes no sample.
    """
    steady = [each for each in taken if each.label == label and each.kind == "steady"]
    if not steady:
        return Work()
    first, shape = taken[0], taken[0].batch_shape

    def of_one(sample: Sample) -> tuple[int, ...]:
        axes = sample.batch_shape or ()
        return axes[:batch_dim] + axes[batch_dim + 1 :]

    shapes = {of_one(each) for each in steady}
    # Of longer sequences a script's own loop makes more nodes: that is no other kind.
    kinds = len({(of_one(each), each.nodes) for each in steady}) > len(shapes)
    if kinds:
        return Work(shape, KINDS, kinds=True)
    if first.label != label:
        return Work(shape, LATER)
    if shapes != {of_one(first)}:
        return Work(shape, SHAPES)
    return Work(shape, LATER if first.nodes != steady[0].nodes else "")


def flops_per_token(
    *, trainable: int, frozen: int, attention: int, sequence_length: int, forward_only: bool = False
) -> int:
    """FLOPs of one token; see the module for the formula.

    Args:
        trainable, frozen: numbers of parameters.
        attention: heads * head dimension, summed over layers.
        sequence_length: tokens.
        forward_only: inference, without a backward.
    """
    per_trained, per_frozen, per_attention = (2, 2, 4) if forward_only else (6, 4, 12)
    weights = per_trained * trainable + per_frozen * frozen
    return weights + per_attention * attention * sequence_length


def sample_flops(
    facts: ModelFacts, label: str, tokens_per_sample: float | None, done: Work | None = None
) -> Flops | None:
    """FLOPs of one sample of what a label times; None where nothing tells them.

    Args:
        tokens_per_sample: None or 0 for a model without tokens, which is counted op by op.
        done: how the steps differ; None where all are alike.
    """
    done = done or Work()
    forward_only = label == "inference"
    # The formulas say nothing about a part of the step without its backward, such as the forward
    # alone.
    if not forward_only and label != "step" and "bwd" not in label:
        return None
    # A kind of step may pass over a part of the model.
    if tokens_per_sample and facts.attention and facts.trainable is not None and not done.kinds:
        length = round(tokens_per_sample)
        frozen = facts.frozen or 0
        token = flops_per_token(
            trainable=facts.trainable,
            frozen=frozen,
            attention=facts.attention,
            sequence_length=length,
            forward_only=forward_only,
        )
        if forward_only:
            parameters, width = facts.trainable + frozen, facts.attention
            words = f"2 x {parameters:,} parameters + 4 x {width:,} x {length:,} (attention)"
        else:
            held = f"6 x {facts.trainable:,} parameters"
            if frozen:
                held = f"6 x {facts.trainable:,} trained + 4 x {frozen:,} frozen"
            words = f"{held} + 12 x {facts.attention:,} x {length:,} (attention)"
        return Flops(token * tokens_per_sample, f"{words}, a token")
    if facts.counted_flops and facts.counted_samples and not facts.uncounted:
        words = "counted op by op in the first sample"
        if done.other:
            shape = f" ({'x'.join(map(str, done.shape))})" if done.shape else ""
            words += f" alone{shape}: {done.other}, so that there is no rate"
        return Flops(facts.counted_flops / facts.counted_samples, words, of_first=bool(done.other))
    return None
