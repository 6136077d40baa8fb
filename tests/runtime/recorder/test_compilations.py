"""Which steps compiled: by counters of torch_xla and dynamo, else by their times."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instrumentor.runtime.recorder.compilations import counted, far_above
from instrumentor.runtime.recorder.recorder import Recorder


class Xla:
    """As much of torch_xla's metrics as is read."""

    def __init__(self) -> None:
        self.compiled = 0

    def _xla_metric_data(self, name: str) -> tuple[int, float, list[Any]] | None:
        assert name == "CompileTime"
        return (self.compiled, 1e9, []) if self.compiled else None


@pytest.fixture
def xla(monkeypatch: pytest.MonkeyPatch, untrained: None) -> Xla:
    made = Xla()
    monkeypatch.setitem(sys.modules, "torch_xla", SimpleNamespace(_XLAC=made))
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    return made


@pytest.fixture
def dynamo(monkeypatch: pytest.MonkeyPatch, untrained: None) -> dict[str, Counter[str]]:
    counters: dict[str, Counter[str]] = {}
    monkeypatch.delitem(sys.modules, "torch_xla", raising=False)
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", SimpleNamespace(counters=counters))
    return counters


def samples(folder: Path) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (folder / "record.jsonl").read_text().splitlines()]
    return [event for event in events if event["event"] == "sample"]


def test_a_step_in_which_torch_xla_compiled(recorder: Recorder, tmp_path: Path, xla: Xla) -> None:
    for compiled in (1, 2, 0, 0):
        recorder.begin()
        xla.compiled += compiled
        recorder.end(1.0)
        xla.compiled += 1  # between two steps: the optimizer's graph is not theirs
    assert [each["kind"] for each in samples(tmp_path)] == [
        "compile",
        "compile",
        "steady",
        "steady",
    ]
    assert [each.get("compiled") for each in samples(tmp_path)] == [
        {"torch_xla": 1}, {"torch_xla": 2}, None, None,
    ]  # fmt: skip


def test_a_step_in_which_dynamo_compiled(
    recorder: Recorder, tmp_path: Path, dynamo: dict[str, Counter[str]]
) -> None:
    for unique in (1, 1, 2):
        recorder.begin()
        dynamo["stats"] = Counter(unique_graphs=unique)
        recorder.begin(resume=True)
        recorder.end(1.0)
    assert [each["kind"] for each in samples(tmp_path)] == ["compile", "steady", "compile"]


def test_nothing_is_loaded_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch_xla", "torch._dynamo.utils"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert counted() == {}
    assert "torch_xla" not in sys.modules


def test_counters_of_another_version_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_xla", SimpleNamespace(_XLAC=SimpleNamespace()))
    assert counted() == {}


def test_metrics_that_the_script_clears_are_no_compilation(
    recorder: Recorder, tmp_path: Path, xla: Xla
) -> None:
    xla.compiled = 9
    for compiled in (9, 0):
        recorder.begin()
        xla.compiled = compiled
        recorder.end(1.0)
    assert [each["kind"] for each in samples(tmp_path)] == ["compile", "steady"]


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


def test_where_torch_xla_counts_a_slow_step_is_a_pause(xla: Xla) -> None:
    assert far_above([("a", 10.0), ("b", 88_000.0), ("c", 11.0), ("d", 12.0)], "xla") == []
