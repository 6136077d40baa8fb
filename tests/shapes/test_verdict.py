"""A verdict that cannot fail would prove nothing: each broken promise, seeded and named."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.shapes.verdict import Promise, violations

TWO = Promise(steps=2)


def sample(index: int, label: str = "fwd+bwd") -> dict[str, Any]:
    """A sample that begins at 10, 20 ... and takes five seconds."""
    return {"name": f"step_{index}", "label": label, "start_s": 10.0 + 10 * index, "ms": 5000.0}


def clean() -> dict[str, list[Any]]:
    """Two steps of three nodes; each updates after its sample."""
    return {
        "readings": [(10.0, 0), (15.0, 3), (20.0, 3), (25.0, 6)],
        "backwards": [
            {"start": 12.0, "end": 14.0, "oldest": 0, "value": "a", "inputs": "0"},
            {"start": 22.0, "end": 24.0, "oldest": 3, "value": "b", "inputs": "1"},
        ],
        "updates": [
            {"start": 16.0, "end": 17.0, "gradients": 2, "bits": "0"},
            {"start": 26.0, "end": 27.0, "gradients": 2, "bits": "1"},
        ],
        "without_graph": [(18.0, "Net")],
    }


def test_nothing_is_broken() -> None:
    assert violations(TWO, [sample(0), sample(1)], clean(), clean()) == []


CHANGES: list[tuple[str, tuple[str, int, str, Any], str]] = [
    ("forward", ("backwards", 1, "oldest", 1), "step_1: forward outside, up to 2 nodes"),
    ("backward ends late", ("backwards", 1, "end", 25.5), "step_1: a backward lies partly outside"),
    ("backward outside", ("backwards", 1, "start", 18.0), "1 of 2 backwards lie outside"),
    ("update inside", ("updates", 0, "start", 14.5), "step_0: an update lies partly outside"),
    ("losses", ("backwards", 1, "value", "c"), "losses differ"),
    ("gradients", ("updates", 1, "gradients", 1), "parameters with gradients differ"),
    ("bits", ("updates", 1, "bits", "2"), "gradients differ"),
    ("inputs", ("backwards", 1, "inputs", "2"), "inputs of the forwards differ"),
]


@pytest.mark.parametrize(
    ("change", "sentence"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES]
)
def test_names_what_is_broken(change: tuple[str, int, str, Any], sentence: str) -> None:
    event, index, key, value = change
    seen = clean()
    seen[event][index][key] = value
    found = violations(TWO, [sample(0), sample(1)], seen, clean())
    assert any(sentence in each for each in found), found


def test_names_an_evaluation_inside() -> None:
    seen = clean()
    seen["without_graph"] = [(21.0, "Net")]
    samples = [sample(0), sample(1)]
    assert violations(TWO, samples, seen, clean()) == ["step_1: an evaluation inside (Net)"]
    frozen = Promise(steps=2, without_graph=True)
    assert violations(frozen, samples, seen, clean()) == []


def test_names_an_update_that_a_sample_should_or_should_not_hold() -> None:
    seen = copy.deepcopy(clean())
    seen["updates"][0].update(start=14.2, end=14.4)
    found = violations(TWO, [sample(0), sample(1)], seen, clean())
    assert found == ["step_0: an update inside a sample of forward and backward"]
    whole = Promise("step", steps=2)
    found = violations(whole, [sample(0, "step"), sample(1, "step")], seen, clean())
    assert found == ["step_1: no update inside a sample of the step"]


def test_counts_samples_and_labels() -> None:
    assert "1 samples in place of 2" in violations(TWO, [sample(0)], clean(), clean())
    found = violations(TWO, [sample(0), sample(1, "step")], clean(), clean())
    assert "labels differ: ['fwd+bwd', 'step']" in found
    found = violations(Promise("step", steps=2), [sample(0), sample(1)], clean(), clean())
    assert found == ["labels are ['fwd+bwd']"]


def test_a_start_that_nobody_read_is_no_start() -> None:
    late = {**sample(1), "start_s": 20.5}
    found = violations(TWO, [sample(0), late], clean(), clean())
    assert found == ["step_1: its start is no reading of the clock"]
