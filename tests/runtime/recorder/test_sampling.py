"""How many samples are taken: until so many are steady, and not for ever."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.sampling import Sampling, far_above
from tests.runtime.recorder.tensors import events


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the record."""
    monkeypatch.setenv("INSTRUMENT_RECORD", str(tmp_path / "record.jsonl"))
    return tmp_path


def taken(
    sampling: Sampling, compiling: set[int], device: str = "xla", most: int = 99
) -> list[str]:
    """The kinds of all samples until there are enough."""
    kinds: list[str] = []
    for at in range(99):
        kinds.append(sampling.add("fwd+bwd", f"step_{at}", 10.0 + at / 10, at in compiling))
        if sampling.enough(len(kinds), "xla"):
            break
    return kinds


def test_without_compilations_there_are_as_many_as_were_asked_for(record: Path) -> None:
    kinds = taken(Sampling(5, 2, Records()), {0})
    assert kinds == ["compile", "warmup", "steady", "steady", "steady"]


def test_a_later_compilation_is_made_up_for(record: Path) -> None:
    kinds = taken(Sampling(5, 1, Records()), {0, 1, 4})
    assert kinds == ["compile", "compile", "steady", "steady", "compile", "steady", "steady"]


def test_one_within_the_warm_up_costs_no_steady_sample(record: Path) -> None:
    kinds = taken(Sampling(5, 3, Records()), {0, 1})
    assert kinds == ["compile", "compile", "warmup", "steady", "steady"]


def test_a_script_that_always_compiles_comes_to_an_end(record: Path) -> None:
    kinds = taken(Sampling(5, 1, Records()), set(range(99)))
    assert kinds == ["compile"] * 10
    (warning,) = (event["text"] for event in events(record, "warning"))
    assert warning == "more than 5 later steps compiled: no more than 10 samples are taken"


def test_a_step_far_above_the_others_is_one_once_they_confirm_it(record: Path) -> None:
    sampling = Sampling(4, 1, Records())
    for at, ms in enumerate((90_000.0, 70_000.0, 12.0, 13.0)):
        sampling.add("fwd+bwd", f"step_{at}", ms, False)
    assert not sampling.enough(4, "tt")
    (event,) = events(record, "compiled")
    assert (event["name"], event["why"]) == ("step_1", "far above the others")
    sampling.add("fwd+bwd", "step_4", 12.5, False)
    assert sampling.enough(5, "tt")


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([10.0, 88_000.0, 11.0, 12.0], ["1"]),
        ([88_000.0, 10.0, 70_000.0, 11.0], ["0", "2"]),
        # Nobody confirms: the others do not agree, or are too few.
        ([10.0, 88_000.0, 900.0, 30.0], []),
        ([10.0, 88_000.0], []),
        # A pause: too short to be a compilation, or not far above.
        ([10.0, 300.0, 11.0, 12.0], []),
        ([10_000.0, 30_000.0, 10_000.0, 10_000.0], []),
    ],
)
def test_without_counters_by_a_time_far_above_the_others(
    monkeypatch: pytest.MonkeyPatch, times: list[float], found: list[str]
) -> None:
    monkeypatch.delitem(sys.modules, "torch_xla", raising=False)
    named = [(str(at), ms) for at, ms in enumerate(times)]
    assert far_above(named, "tt") == found
    assert far_above(named, "cpu") == far_above(named, None) == []


def test_where_torch_xla_counts_a_slow_step_is_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = SimpleNamespace(_xla_metric_data=lambda name: None)
    monkeypatch.setitem(sys.modules, "torch_xla", SimpleNamespace(_XLAC=counts))
    assert far_above([("a", 10.0), ("b", 88_000.0), ("c", 11.0), ("d", 12.0)], "xla") == []
