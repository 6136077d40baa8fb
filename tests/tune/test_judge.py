"""A trial against the best so far: beyond the interval, beyond the noise, with the same loss."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from instrumentor.tune import judge as j
from instrumentor.tune.judge import Judge, Noise
from instrumentor.tune.outcome import OUT_OF_MEMORY, Outcome


def measured(
    ms: float, *, spread: float = 0.01, batch: int | None = None, loss: float | None = None,
    count: int = 10, label: str = "fwd+bwd",
) -> Outcome:  # fmt: skip
    """Samples around a median, neighbours on either side of it."""
    order = [at for pair in zip(range(count), reversed(range(count)), strict=True) for at in pair]
    samples = tuple(ms * (1 + spread * (i - count / 2) / count) for i in order[:count])
    losses = () if loss is None else (loss,) * count
    return Outcome("measured", label=label, samples_ms=samples, losses=losses, batch_size=batch)


BASE = measured(10, batch=4, loss=2.0)


@pytest.mark.parametrize(
    ("new", "verdict"),
    [
        (measured(5, batch=4, loss=2.0), j.KEPT),
        (measured(20, batch=4, loss=2.0), j.WORSE),
        (measured(9.999, batch=4, loss=2.0, spread=0.5), j.NO_GAIN),
        (measured(5, batch=4, loss=2.1), j.CHANGES_LOSS),
        (measured(5, batch=4, loss=math.nan), j.CHANGES_LOSS),
        (measured(5, batch=4, loss=2.01), j.KEPT),
        (measured(5, batch=4, count=2), j.NO_GAIN),
        (measured(5, batch=4, label="step"), j.NOT_COMPARABLE),
        (Outcome(OUT_OF_MEMORY, "16 GB"), OUT_OF_MEMORY),
    ],
)
def test_verdicts(new: Outcome, verdict: str) -> None:
    made = Judge().judge(BASE, new, BASE)
    assert made.verdict == verdict
    assert made.text


@pytest.mark.parametrize(("count", "told"), [(5, False), (8, True)])
def test_no_interval_of_few_independent_steps_is_shown(count: int, told: bool) -> None:
    made = Judge().judge(BASE, measured(5, batch=4, loss=2.0, count=count), BASE)
    assert made.verdict == j.KEPT and made.ratio is not None and made.ratio.interval is not None
    assert ("too few independent steps for an interval" in made.text) is not told
    assert (made.to_json()["time_ratio_interval"] is not None) is told


def test_on_a_busy_machine_nothing_is_shown_to_be_no_gain() -> None:
    scattered, slower = (
        measured(9.999, batch=4, loss=2.0, spread=0.5),
        measured(20, batch=4, loss=2.0),
    )
    for new in (scattered, slower):
        for base, other in ((BASE, replace(new, busy=True)), (replace(BASE, busy=True), new)):
            made = Judge().judge(base, other, base)
            assert made.verdict == j.NOT_PROVEN and made.text.endswith("on a busy machine")


def test_batch_sizes_are_judged_by_the_sample() -> None:
    larger = measured(15, batch=8)
    assert Judge().judge(BASE, larger, None, by_rate=True).verdict == j.KEPT
    made = Judge().judge(BASE, larger, None, by_rate=True)
    assert made.ratio is not None and made.ratio.value == pytest.approx(0.75, rel=0.01)
    unknown = measured(15)
    assert Judge().judge(BASE, unknown, None, by_rate=True).verdict == j.NOT_COMPARABLE


def test_a_gain_within_what_two_equal_runs_differ_by_is_none() -> None:
    slightly = measured(9.5, batch=4, loss=2.0, spread=0.001)
    assert Judge().judge(BASE, slightly, BASE).verdict == j.KEPT
    made = Judge(Noise(time=0.08)).judge(BASE, slightly, BASE)
    assert made.verdict == j.NO_GAIN
    assert "within what two equal runs differ by" in made.text


def test_a_loss_that_is_never_the_same_says_nothing_and_that_is_said() -> None:
    made = Judge(Noise(loss=0.2)).judge(BASE, measured(5, batch=4, loss=2.4), BASE)
    assert made.verdict == j.KEPT
    assert "says nothing" in made.text
    broken = Judge(Noise(loss=0.2)).judge(BASE, measured(5, batch=4, loss=math.nan), BASE)
    assert broken.verdict == j.CHANGES_LOSS


def test_the_tolerance_is_the_users() -> None:
    new = measured(5, batch=4, loss=2.1)
    assert Judge(loss_tolerance=0.1).judge(BASE, new, BASE).verdict == j.KEPT


def test_without_a_reference_the_loss_is_not_judged() -> None:
    made = Judge().judge(BASE, measured(5, batch=4, loss=9.0), None)
    assert (made.verdict, made.loss_change) == (j.KEPT, None)


def test_noise_is_the_same_either_way() -> None:
    one, two = measured(10, loss=2.0), measured(11, loss=2.1)
    assert j.noise_of(one, two).time == pytest.approx(0.1)
    assert j.noise_of(two, one).time == pytest.approx(0.1)
    assert j.noise_of(one, two).loss == pytest.approx(0.05)


def test_figures_are_json() -> None:
    import json

    made = Judge().judge(BASE, measured(5, batch=4, loss=math.nan), BASE)
    assert json.loads(json.dumps(made.to_json(), allow_nan=False))["loss_change"] == "inf"
