"""FLOPs of a model from its own numbers, as the recorder found them.

A language model's are those of the scaling-law literature, as tt-blacksmith counts them: 6 for each
parameter that trains (forward, gradient of the input, gradient of the weight), 4 for each frozen
one, 12 * layers * heads * head dimension * sequence length for attention's two products and their
gradients; forward alone 2, 2 and 4. The table of an embedding counts where it is also the output's
weight (tied), and not where rows of it are only looked up. Other models are counted op by op in
the first sample, recomputed activations included; an op that computes and has no formula leaves
nothing to quote: what the others do may be a thousandth of it.
"""

from __future__ import annotations

from msgspec import Struct


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
    """FLOPs of one sample, and the formula in words."""

    per_sample: float
    formula: str


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


def sample_flops(facts: ModelFacts, label: str, tokens_per_sample: float | None) -> Flops | None:
    """FLOPs of one sample of what a label times; None where nothing tells them.

    Args:
        tokens_per_sample: None or 0 for a model without tokens, which is counted op by op.
    """
    forward_only = label == "inference"
    # The formulas say nothing about a part of the step without its backward, such as the forward
    # alone.
    if not forward_only and label != "step" and "bwd" not in label:
        return None
    if tokens_per_sample and facts.attention and facts.trainable is not None:
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
        return Flops(facts.counted_flops / facts.counted_samples, words)
    return None
