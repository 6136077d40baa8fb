"""Batches of a trainer that no line of the script names: how many each of its steps uses."""

from __future__ import annotations

from typing import Any

import pytest

from instrumentor.runtime.recorder.torch_marks import Marks
from instrumentor.runtime.recorder.trainer_batches import Handed

torch = pytest.importorskip("torch", reason="needs torch: make test installs it")
data = torch.utils.data


class Training:
    """A loader whose batches are noted, and the steps made of them."""

    def __init__(self, rows: int, batch_size: int | None = 4) -> None:
        self.handed, self.marks = Handed(), Marks()
        self.loader = self.of(rows, batch_size)
        self.marks.after_batch = self.handed.note
        self.marks.on()

    def of(self, rows: int, batch_size: int | None = 4) -> Any:
        return data.DataLoader(data.TensorDataset(torch.zeros(rows, 3)), batch_size=batch_size)

    def step(self) -> list[int]:
        """Rows of the batches of the step that ends here."""
        return [shape[0] for shape, _ in self.handed.stepped() if shape]


@pytest.fixture
def training() -> Any:
    made: list[Training] = []

    def make(*args: Any) -> Training:
        made.append(Training(*args))
        return made[-1]

    yield make
    for each in made:
        each.marks.off()


def test_each_step_has_its_batch_and_the_first_is_not_known(training: Any) -> None:
    t = training(14)
    assert [t.step() for _ in t.loader] == [[], [4], [4], [2]]


def test_an_update_of_several_batches_has_them_all(training: Any) -> None:
    t, found = training(40), []
    batches = iter(t.loader)
    for count in (4, 4, 2):
        for _ in range(count):
            next(batches)
        found.append(t.step())
    assert found == [[], [4, 4, 4, 4], [4, 4]]


def test_a_batch_that_is_fetched_ahead_belongs_to_the_step_behind(training: Any) -> None:
    t, found = training(10), []
    for _ in range(2):
        batches = iter(t.loader)
        next(batches)
        for _ in batches:  # the next one, ahead of the step
            found.append(t.step())
        found.append(t.step())
    assert found == [[], [4], [2], [4], [4], [2]]


def test_validation_between_steps_is_no_batch_of_theirs(training: Any) -> None:
    t, others, found = training(16), training(8).of(8), []
    assert len(list(others)) == 2  # ahead of training, as a sanity check
    for _ in t.loader:
        found.append(t.step())
        if len(found) > 1:
            list(others)
    assert found == [[], [4], [4], [4]]


def test_two_loaders_of_one_step_leave_its_batch_unknown(training: Any) -> None:
    t = training(16)
    assert [t.step() for _ in zip(t.loader, t.of(16), strict=True)] == [[], [], [], []]


def test_samples_that_are_not_collated_have_no_axis_of_rows(training: Any) -> None:
    t = training(4, None)
    assert [t.step() for _ in t.loader] == [[], [], [], []]
