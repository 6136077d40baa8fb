"""The recorder's loss: asked for only, read behind the clock, never an end of the run."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instrumentor.runtime.recorder.recorder import Recorder
from tests.runtime.recorder.tensors import events


class Loss:
    """What the barrier is given."""

    def __init__(self, value: float, order: list[str]) -> None:
        self.value = value
        self.order = order
        self.device = SimpleNamespace(type="cpu")

    def numel(self) -> int:
        return 1

    def item(self) -> float:
        self.order.append("read")
        return self.value


def recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *values: Any, on: bool = True
) -> list[dict[str, Any]]:
    """The records of one sample that ends with these values."""
    monkeypatch.setenv("INSTRUMENT_RECORD", str(tmp_path / "record.jsonl"))
    monkeypatch.setenv("INSTRUMENT_PROFILER", "wallclock")
    if on:
        monkeypatch.setenv("INSTRUMENT_LOSS", "1")
    recorder = Recorder(steps=2, warmup=1, profiler="auto")
    recorder.begin()
    recorder.end(*values)
    return events(tmp_path)


def sample(records: list[dict[str, Any]]) -> dict[str, Any]:
    return next(r for r in records if r["event"] == "sample")


def test_never_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    assert "loss" not in sample(recorded(tmp_path, monkeypatch, Loss(0.5, order), on=False))
    assert order == []


def test_read_behind_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    import time

    def clock() -> float:
        order.append("clock")
        return 1.0

    monkeypatch.setattr(time, "perf_counter", clock)
    assert sample(recorded(tmp_path, monkeypatch, Loss(0.5, order)))["loss"] == 0.5
    # Called, ready, begun, ended; and again when the recorder leaves the script alone.
    assert order == ["clock", "clock", "clock", "clock", "read", "clock"]


@pytest.mark.parametrize(
    ("wrap", "expected"),
    [
        (lambda loss: SimpleNamespace(loss=loss, device=loss.device), 0.5),
        (lambda loss: {"loss": loss}, 0.5),
        (lambda loss: SimpleNamespace(device=loss.device, numel=lambda: 8), None),
        (lambda loss: None, None),
    ],
)
def test_where_a_loss_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrap: Any, expected: float | None
) -> None:
    assert sample(recorded(tmp_path, monkeypatch, wrap(Loss(0.5, []))))["loss"] == expected


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_json_cannot_say_is_a_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    told = sample(recorded(tmp_path, monkeypatch, Loss(value, [])))["loss"]
    assert isinstance(told, str) and not math.isfinite(float(told))


def test_a_loss_that_cannot_be_read_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Loss):
        def item(self) -> float:
            raise RuntimeError("no")

    records = recorded(tmp_path, monkeypatch, Broken(0.5, []))
    assert sample(records)["loss"] is None
    assert any("the loss cannot be read" in r.get("text", "") for r in records)
