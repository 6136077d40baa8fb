"""Collectives of steps under torch.profiler, whose events the test makes."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instrumentor.runtime.recorder.collectives import (
    PROFILED_STEPS,
    STEP_MARK,
    Collectives,
    collectives_by_step,
    event_times_ms,
)
from instrumentor.runtime.recorder.recorder import Recorder
from instrumentor.runtime.recorder.records import Records, launched_as
from instrumentor.runtime.recorder.sampling import Sampling
from tests.runtime.recorder.tensors import events


class Torch:
    """The parts of torch that are asked, with a clock of one millisecond a call."""

    def __init__(self, ranks: int = 2) -> None:
        self.made: list[tuple[str, float, float]] = []
        self.now_ms = 0.0
        self.opened = self.closed = 0
        self.distributed = SimpleNamespace(
            is_available=lambda: True,
            is_initialized=lambda: True,
            get_backend=lambda: "gloo",
            get_world_size=lambda: ranks,
        )
        self.autograd = SimpleNamespace(
            profiler=SimpleNamespace(profile=self.profile, record_function=self.mark)
        )

    def profile(self, use_kineto: bool) -> Any:
        torch = self

        class Profile:
            def __enter__(self) -> None:
                torch.opened += 1

            def __exit__(self, *_: object) -> None:
                torch.closed += 1
                self.kineto_results = SimpleNamespace(events=lambda: list(map(event, torch.made)))

        return Profile()

    def mark(self, name: str) -> Any:
        torch = self

        class Mark:
            def __enter__(self) -> None:
                torch.made.append((name, torch.now_ms, 0.0))

            def __exit__(self, *_: object) -> None:
                pass

        return Mark()


def event(span: tuple[str, float, float]) -> Any:
    name, start, ms = span
    return SimpleNamespace(
        name=lambda: name, start_ns=lambda: start * 1e6, duration_ns=lambda: ms * 1e6
    )


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("INSTRUMENT_RECORD", str(tmp_path / "record.jsonl"))
    for name, value in (("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    return tmp_path


def take(torch: Torch, steps: int) -> Collectives:
    made = Collectives(Records())
    assert made.due(None, False)
    made.start()
    for _ in range(steps):
        made.begin(None)
        torch.made += [("gloo:all_reduce", torch.now_ms + 4, 3.0), ("aten::mm", torch.now_ms, 2.0)]
        torch.now_ms += 10
    return made


def test_each_whole_step_but_the_first(rank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = Torch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    made = take(torch, PROFILED_STEPS)
    assert not made.enough() and (torch.opened, torch.closed) == (1, 0)
    made.begin(None)
    assert made.enough() and torch.closed == 1
    # Further regions are no samples, and no step of these.
    assert made.on
    made.begin(None)
    made.stop()
    found = events(rank, "collectives")
    assert [each["step"] for each in found] == list(range(PROFILED_STEPS - 1))
    assert all(each["calls"] == [["gloo:all_reduce", 4, 3]] for each in found)
    assert {(each["rank"], each["world"], each["ms"]) for each in found} == {(1, 2, 10)}


def test_a_script_that_ends_first_keeps_its_whole_steps(
    rank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = Torch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    take(torch, 3).stop()
    assert torch.closed == 1 and len(events(rank, "collectives")) == 1


def test_a_profiler_that_fails_takes_no_step_less(
    rank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = Torch()

    def fails(use_kineto: bool) -> None:
        raise RuntimeError("the script profiles itself")

    torch.autograd.profiler.profile = fails
    monkeypatch.setitem(sys.modules, "torch", torch)
    made = take(torch, PROFILED_STEPS)
    assert not made.enough()
    made.begin(None)
    assert made.enough() and not events(rank, "collectives")
    (warning,) = events(rank, "warning")
    assert "the script profiles itself" in warning["text"]


@pytest.mark.parametrize(("ranks", "environment"), [(1, "2"), (2, "1")])
def test_nothing_of_a_process_alone(
    rank: Path, monkeypatch: pytest.MonkeyPatch, ranks: int, environment: str
) -> None:
    monkeypatch.setitem(sys.modules, "torch", Torch(ranks))
    monkeypatch.setenv("WORLD_SIZE", environment)
    assert not Collectives(Records()).due(None, False)


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ("0 2 2", (0, 2)),
        ("1 2 2", (1, 2)),
        ("0 1 1", (None, 1)),
        ("1 4 2", (None, 1)),  # the others are on another machine
        ("x 2 2", (None, 1)),
        ("2 2 2", (None, 1)),
    ],
)
def test_who_was_launched(
    monkeypatch: pytest.MonkeyPatch, environment: str, told: tuple[int | None, int]
) -> None:
    names = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    for name, value in zip(names, environment.split(), strict=True):
        monkeypatch.setenv(name, value)
    assert launched_as() == told
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    assert launched_as() == (None, 1)


def test_collectives_of_a_device_s_queue_have_no_time() -> None:
    spans = [(STEP_MARK, at, 0.0) for at in (0.0, 10.0, 20.0)]
    assert collectives_by_step([*spans, ("nccl:all_reduce", 12.0, 0.1)]) == [(10.0, [])]


def test_times_of_an_older_torch() -> None:
    old = SimpleNamespace(start_us=lambda: 2000, duration_us=lambda: 500)
    assert event_times_ms(old) == (2.0, 0.5)


def test_ranks_take_equally_many_samples_whichever_of_theirs_compiled(rank: Path) -> None:
    sampling = Sampling(steps=6, warmup=2, records=Records())
    for at in range(6):
        sampling.add("fwd+bwd", f"step_{at}", 1.0, compiled=at == 4)
    assert sampling.enough(6, "cpu") and sampling.wanted == 6


@pytest.mark.parametrize(
    ("steps", "budget_s", "taken"), [(5, 30.0, (25, 2)), (5, None, (5, 2)), (2, None, (3, 2))]
)
def test_their_number_is_fixed_ahead(
    rank: Path, steps: int, budget_s: float | None, taken: tuple[int, int]
) -> None:
    sampling = Recorder(steps, 1, "wallclock", budget_s).sampling
    assert (sampling.steps, sampling.warmup, sampling.budget_s) == (*taken, None)
