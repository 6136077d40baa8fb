"""Batches that a script makes in the call itself: seen where the model takes them, or unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from instrumentor.runtime.recorder import facts
from instrumentor.runtime.recorder.facts import Batches
from instrumentor.runtime.recorder.records import Records

torch = pytest.importorskip("torch", reason="needs torch: make test installs it")
nn = torch.nn


def rows_of(step: Callable[[int], Any], samples: int = 3) -> list[int | None]:
    """What is known of each sample's batch."""
    batches, found = Batches(Records()), []
    for at in range(samples):
        batches.begin((), False)
        loss = step(at)
        loss.backward()
        found.append(batches.end((loss,), ())["batch_samples"])
    return found


def test_each_batch_is_that_of_its_own_sample() -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    assert rows_of(lambda at: model(torch.ones(16 - at, 8)).mean()) == [None, 15, 14]
    assert not model._forward_hooks


def test_micro_batches_are_added_up() -> None:
    model, batches = nn.Linear(8, 2), Batches(Records())
    for _ in range(2):
        for resumed, rows in ((False, 16), (True, 8)):
            batches.begin((), resumed)
            loss = model(torch.ones(rows, 8)).mean()
            loss.backward()
        found = batches.end((loss,), ())
    assert (found["batch_samples"], found["batch_shapes"]) == (24, [[16, 8], [8, 8]])


ONE, TWO = nn.Linear(8, 8), nn.Linear(8, 8)


@pytest.mark.parametrize(
    "step",
    [
        lambda at: (ONE(torch.ones(16, 8)) - ONE(torch.ones(16, 8))).mean(),  # which one?
        lambda at: (ONE(torch.ones(16, 8)) - TWO(torch.ones(4, 8)).sum()).mean(),  # whose?
        lambda at: ONE(torch.ones(8)).mean(),  # one sample, or eight
        lambda at: ONE.forward(torch.ones(16, 8)).mean(),  # not seen
    ],
    ids=["twice", "two models", "no axis of samples", "not called"],
)
def test_what_may_be_another_number_is_unknown(step: Callable[[int], Any]) -> None:
    assert rows_of(step) == [None, None, None]


def test_rows_that_the_model_does_not_return_are_no_samples() -> None:
    class Pooled(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(8, 2)

        def forward(self, points: Any) -> Any:
            return self.head(points.mean(0, keepdim=True))

    model = Pooled()
    assert rows_of(lambda at: model(torch.ones(16, 8)).mean()) == [None, None, None]


def test_where_a_graph_was_compiled_there_is_no_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "counted", lambda: {"torch._dynamo": 1})
    model = nn.Linear(8, 2)

    def step(at: int) -> Any:
        assert not model._forward_hooks
        return model(torch.ones(16, 8)).mean()

    assert rows_of(step) == [None, None, None]


def test_a_batch_that_has_a_name_needs_no_hook() -> None:
    model, batches = nn.Linear(8, 2), Batches(Records())
    x = torch.ones(16, 8)
    for _ in range(2):
        batches.begin((x,), False)
        assert not model._forward_hooks
        loss = model(x).mean()
        loss.backward()
        assert batches.end((loss,), ())["batch_samples"] == 16
