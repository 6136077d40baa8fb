"""Batches that a script makes in the call itself: seen where the model takes them, or unknown."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from instrumentor.runtime.recorder import facts, forward_inputs
from instrumentor.runtime.recorder.facts import Batches
from instrumentor.runtime.recorder.forward_inputs import batch_shape
from instrumentor.runtime.recorder.recorder import Recorder
from instrumentor.runtime.recorder.records import Records
from tests.runtime.recorder.tensors import events

torch = pytest.importorskip("torch", reason="needs torch: make test installs it")
nn = torch.nn


CALL = nn.Module.__call__


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
    assert rows_of(lambda at: model(torch.ones(16 - at, 8)).mean()) == [16, 15, 14]
    assert not model._forward_hooks
    assert nn.Module.__call__ is CALL


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model(torch.ones(8, 3)),
        lambda model: model(*(torch.ones(8, 3),)),
        lambda model: model(x=torch.ones(8, 3)),
    ],
    ids=["in place", "unpacked", "by keyword"],
)
def test_the_first_sample_counts_flops_of_a_batch_without_a_name(
    recorder: Recorder, tmp_path: Path, call: Callable[[Any], Any]
) -> None:
    class Net(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(3, 8)

        def forward(self, x: Any) -> Any:
            return self.head(x)

    model = Net()
    recorder.begin()
    loss = call(model).sum()
    loss.backward()
    recorder.end(loss)
    assert nn.Module.__call__ is CALL and not model._forward_hooks
    (sample,) = events(tmp_path, "sample")
    assert (sample["batch_samples"], sample["batch_shape"]) == (8, [8, 3])
    (facts_of_model,) = events(tmp_path, "model")
    # Forward, and the gradient of the weight.
    assert facts_of_model["counted_flops"] == 2 * (2 * 8 * 3 * 8)
    assert facts_of_model["counted_samples"] == 8


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
    monkeypatch.setattr(forward_inputs, "compiles", lambda: True)
    model = nn.Linear(8, 2)

    def step(at: int) -> Any:
        assert not model._forward_hooks and nn.Module.__call__ is CALL
        return model(torch.ones(16, 8)).mean()

    assert rows_of(step) == [None, None, None]


def test_a_batch_that_has_a_name_needs_no_hook() -> None:
    model, batches = nn.Linear(8, 2), Batches(Records())
    x = torch.ones(16, 8)
    for _ in range(2):
        batches.begin((x,), False)
        assert not model._forward_hooks and nn.Module.__call__ is CALL
        loss = model(x).mean()
        loss.backward()
        assert batches.end((loss,), ())["batch_samples"] == 16


@dataclasses.dataclass
class Pair:
    """A batch, or a sample, of a class of the script's."""

    x: Any
    y: Any


def image(wider: int = 0) -> Any:
    return torch.zeros(3, 8, 8 + wider)


def boxes(count: int) -> dict[str, Any]:
    return {"boxes": torch.zeros(count, 4), "labels": torch.zeros(count)}


X, Y, IDS = torch.zeros(32, 3, 8, 8), torch.zeros(32), torch.zeros(32, 128)
FEW = torch.zeros(4, 8, 8)
COLLATED = {
    "pair": (X, Y),
    "list": [X, Y],
    "ids, mask, types": (IDS, IDS, IDS),
    "dict": {"x": X, "y": Y},
    "dict with names": {"x": X, "names": ["a"] * 32},
    "dataclass": Pair(X, Y),
    "nested": ((X, IDS), (Y, Y)),
    "two loaders": ((X, Y), (torch.zeros(96, 3, 8, 8), torch.zeros(96))),
    "two loaders of dicts": ({"x": X}, {"x": torch.zeros(96, 3, 8, 8)}),
}
ONE_BY_ONE = {
    "records": [{"name": "a", "image": image(at % 3), "of": {"label": at}} for at in range(5)],
    "dataclasses": [Pair(image(), at) for at in range(5)],
    "tuples": [(image(), at) for at in range(5)],
    "pairs of tensors": [(image(), torch.zeros(1, 8, 8)) for _ in range(5)],
    "sounds": [torch.zeros(9 + at) for at in range(5)],
    "images": [image() for _ in range(5)],
    "columns": ([image(at % 2) for at in range(5)], [boxes(at) for at in range(5)]),
    "columns of a zip": ((image(),) * 5, tuple(map(boxes, range(5)))),
    "columns by name": {"image": [image()] * 5, "caption": ["a"] * 5},
}


@pytest.mark.parametrize("batch", COLLATED.values(), ids=COLLATED)
def test_a_collated_batch_has_its_samples_along_the_first_axis(batch: Any) -> None:
    assert batch_shape(batch)[0][0] == 32
    assert batch_shape((batch,)) == batch_shape(batch)  # as the recorder is given one name


@pytest.mark.parametrize("batch", ONE_BY_ONE.values(), ids=ONE_BY_ONE)
def test_samples_that_are_held_one_by_one_are_counted(batch: Any) -> None:
    assert batch_shape(batch)[0] == batch_shape((batch,))[0] == [5]


def test_a_batch_of_one_sample_and_one_that_is_smaller_than_its_number_of_axes() -> None:
    assert batch_shape(([image()], [boxes(2)]))[0] == [1]
    assert batch_shape([FEW, FEW])[0] == [4, 8, 8]
    assert batch_shape(["a", "b"]) == (None, None)


def test_the_loop_s_item_is_the_batch_of_a_region_in_a_function() -> None:
    model, batches = nn.Linear(8, 2), Batches(Records())
    for rows in (16, 12):
        batches.enter(({"x": torch.ones(rows, 8)},))
        batches.begin((), False)
        loss = model(torch.ones(3, 8)).mean()
        loss.backward()
        assert batches.end((loss,), (torch.ones(5, 5),))["batch_samples"] == rows


def test_the_items_of_micro_steps_are_added_up_and_one_counts_once() -> None:
    batches = Batches(Records())
    for rows, resumed in ((16, False), (12, True)):
        batches.enter((torch.ones(rows, 8),))
        batches.begin((), resumed)
    assert batches.end((), ())["batch_samples"] == 28
    batches.enter((torch.ones(16, 8),))
    batches.begin((), False)
    batches.begin((), True)  # a part of the same item, as it seems
    assert batches.end((), ())["batch_samples"] is None
    batches.begin((), False)  # a second region of that iteration
    assert batches.end((), ())["batch_samples"] is None
