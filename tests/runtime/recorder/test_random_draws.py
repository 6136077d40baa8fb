"""Data sets that draw random numbers in the main process are told of."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: make test installs it")
numpy = pytest.importorskip("numpy")

from instrumentor.runtime.recorder.recorder import Recorder  # noqa: E402
from tests.runtime.recorder.tensors import events  # noqa: E402

DataLoader = torch.utils.data.DataLoader


class Rows:
    """A data set of four samples, which does something for each."""

    def __init__(self, does: Callable[[], object]) -> None:
        self.does = does

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        assert 0 <= index < 4
        self.does()
        return torch.ones(2)


# torch is a variable here, as it may not be there
class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc,name-defined]
    def __iter__(self) -> Any:
        yield torch.rand(1)


def draw_and_fail() -> None:
    random.random()
    raise ValueError


def collate(samples: Any) -> Any:
    numpy.random.rand()
    return samples


class Order:
    """A sampler that draws each of its indices when it is asked for it."""

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Any:
        return (random.randrange(4) for _ in range(4))


def states() -> list[Any]:
    parts = numpy.random.get_state()
    return [torch.get_rng_state().tolist(), random.getstate(), parts[1].tolist(), parts[2:]]


@pytest.mark.parametrize(
    ("data", "options", "told"),
    [
        (Rows(lambda: torch.rand(1)), {}, True),
        (Rows(random.random), {"batch_size": 2}, True),
        (Rows(numpy.random.rand), {"batch_size": None}, True),
        (Rows(draw_and_fail), {"batch_size": 2}, True),
        (Rows(int), {"batch_size": 2, "collate_fn": collate}, True),
        (Rows(int), {"batch_size": 2}, False),
        (Rows(lambda: 1 / 0), {}, False),
        (Rows(lambda: torch.rand(1)), {"num_workers": 1}, False),
        (Stream(), {}, False),
        (Rows(int), {"shuffle": True, "num_workers": 1}, False),
        (torch.utils.data.TensorDataset(torch.ones(0, 1)), {"batch_size": 2}, False),
    ],
)
def test_what_a_data_set_draws_is_told_once_and_drawn_by_nobody(
    recorder: Recorder, tmp_path: Path, data: Any, options: dict[str, Any], told: bool
) -> None:
    loader = DataLoader(data, **options)
    before = states()
    recorder.drawn(loader)
    torch.set_rng_state(torch.tensor(before[0], dtype=torch.uint8))  # the seeds of the walk
    assert states() == before
    recorder.drawn(loader)
    found = [e for e in events(tmp_path) if e["event"] == "warning"]
    assert [e["kind"] for e in found] == ["random-numbers"] * told
    if told:
        assert "a loader of Rows, which draws random numbers" in found[0]["text"]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_order_that_is_drawn_as_it_goes_is_told(
    recorder: Recorder, tmp_path: Path, workers: int
) -> None:
    recorder.drawn(DataLoader(Rows(int), sampler=Order(), num_workers=workers))
    assert [e["kind"] for e in events(tmp_path) if e["event"] == "warning"] == ["random-numbers"]


class Wrapped:
    def __init__(self, *loaders: Any) -> None:
        self.loader, *self.others = loaders


@pytest.mark.parametrize(
    ("walked", "seeds"),
    [
        (lambda loader: loader, 2),
        (Wrapped, 2),
        (lambda _: [1], 0),
        (lambda _: Wrapped(None), 0),
        (lambda _: iter([1]), 0),
    ],
)
def test_seeds_are_those_of_the_loader_that_is_wrapped(
    recorder: Recorder, walked: Callable[[Any], Any], seeds: int
) -> None:
    torch.manual_seed(0)
    for _ in range(seeds):
        torch.empty((), dtype=torch.int64).random_()
    expected = torch.get_rng_state().tolist()
    torch.manual_seed(0)
    recorder.drawn(walked(DataLoader(Rows(int), shuffle=True)))
    assert torch.get_rng_state().tolist() == expected


@pytest.mark.parametrize(("stay", "seeds"), [(True, 3), (False, 4)])
def test_workers_that_stay_are_seeded_once(recorder: Recorder, *, stay: bool, seeds: int) -> None:
    loader = DataLoader(Rows(int), shuffle=True, num_workers=1, persistent_workers=stay)
    torch.manual_seed(0)
    for _ in range(seeds):
        torch.empty((), dtype=torch.int64).random_()
    expected = torch.get_rng_state().tolist()
    torch.manual_seed(0)
    recorder.drawn(loader)
    recorder.drawn(loader)
    assert torch.get_rng_state().tolist() == expected


def test_what_was_said_before_the_run_is_not_said_again(recorder: Recorder, tmp_path: Path) -> None:
    before = states()
    recorder.drawn(DataLoader(Rows(random.random)), told=True)
    assert states()[1:] == before[1:]
    assert not [e for e in events(tmp_path) if e["event"] == "warning"]
