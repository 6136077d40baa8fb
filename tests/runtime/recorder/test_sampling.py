"""How many samples are taken: until so many are steady, and not for ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.sampling import Sampling


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INSTRUMENT_RECORD", str(tmp_path / "record.jsonl"))
    return tmp_path / "record.jsonl"


def events(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record.read_text().splitlines()]


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
    (warning,) = (event["text"] for event in events(record) if event["event"] == "warning")
    assert warning == "more than 5 later steps compiled: no more than 10 samples are taken"


def test_a_step_far_above_the_others_is_one_once_they_confirm_it(record: Path) -> None:
    sampling = Sampling(4, 1, Records())
    for at, ms in enumerate((90_000.0, 70_000.0, 12.0, 13.0)):
        sampling.add("fwd+bwd", f"step_{at}", ms, False)
    assert not sampling.enough(4, "tt")
    (event,) = (each for each in events(record) if each["event"] == "compiled")
    assert (event["name"], event["why"]) == ("step_1", "far above the others")
    sampling.add("fwd+bwd", "step_4", 12.5, False)
    assert sampling.enough(5, "tt")
