"""Calls of real torch modules on a clock that they move."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from instrumentor.runtime.recorder.barrier import Barrier
from instrumentor.runtime.recorder.modules import TIMED_S, TIMED_STEPS, Modules
from instrumentor.runtime.recorder.records import Records
from tests.runtime.recorder.tensors import events

torch = pytest.importorskip("torch")

Row = list[Any]


class Slow(torch.nn.Linear):  # type: ignore[misc,name-defined]
    now_ms = 0.0

    def forward(self, x: Any) -> Any:
        Slow.now_ms += 10
        return super().forward(x)


class Block(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Slow(8, 8), Slow(8, 8)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        Slow.now_ms += 5
        return x


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Modules:
    monkeypatch.setenv("INSTRUMENT_RECORD", str(tmp_path / "record.jsonl"))
    monkeypatch.setattr(time, "perf_counter", lambda: Slow.now_ms / 1000)
    records = Records()
    barrier = Barrier(records)
    barrier.device = "cpu"
    return Modules(records, barrier, None)


def steps(modules: Modules, model: Any, count: int = 2) -> None:
    modules.start()
    for _ in range(count):
        modules.begin(None)
        model(torch.ones(4, 8)).sum().backward()
        modules.end(())


def told(folder: Path, what: str) -> list[Row]:
    (found,) = [e["rows"] for e in events(folder, "modules") if e["what"] == what]
    return [[*row[:4], round(row[4], 6), row[5]] for row in found]


def test_each_module_has_its_caller_its_calls_and_its_time(
    tmp_path: Path, modules: Modules
) -> None:
    steps(modules, Block())
    assert told(tmp_path, "time") == [
        [-1, "Block", "Block", 1, 25.0, 0],
        [0, "layers.0", "Slow", 1, 10.0, 0],
        [0, "layers.1", "Slow", 1, 10.0, 0],
    ]


def test_the_first_step_counts_flops_of_forwards_alone(tmp_path: Path, modules: Modules) -> None:
    steps(modules, Block(), 1)
    # 2 * rows * inputs * outputs, each layer.
    assert [row[5] for row in told(tmp_path, "flops")] == [1024, 512, 512]


def test_a_module_that_is_called_twice_is_one_row(tmp_path: Path, modules: Modules) -> None:
    shared = Slow(8, 8)
    steps(modules, torch.nn.Sequential(shared, shared))
    assert [row[1:5] for row in told(tmp_path, "time")] == [
        ["Sequential", "Sequential", 1, 20.0], ["0", "Slow", 2, 20.0],
    ]  # fmt: skip


def test_what_a_backward_calls_again_is_no_forward(tmp_path: Path, modules: Modules) -> None:
    layer = Slow(8, 8)

    class Checkpointed(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)

    steps(modules, Checkpointed())
    assert [row[1:4] for row in told(tmp_path, "time")] == [
        ["Checkpointed", "Checkpointed", 1], ["Slow", "Slow", 1],
    ]  # fmt: skip


def test_a_module_that_raises_is_closed_and_torch_is_as_before(modules: Modules) -> None:
    class Failing(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            raise KeyError(x)

    real = torch.nn.Module.__call__
    modules.start()
    modules.begin(None)
    assert torch.nn.Module.__call__ is not real
    with pytest.raises(KeyError):
        Failing()(1)
    assert modules.open == []
    modules.stop()
    assert torch.nn.Module.__call__ is real


def test_steps_end_by_number_or_by_time(modules: Modules) -> None:
    model = Block()
    steps(modules, model, TIMED_STEPS)
    assert not modules.enough()  # the first of them counted
    steps(modules, model, 1)
    assert modules.enough()
    modules.begun = 2
    Slow.now_ms += TIMED_S * 2000
    assert modules.enough()


def test_none_where_something_is_compiled_or_traced(
    modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert modules.due("fwd+bwd", True) and not modules.due("fwd+bwd", False)
    modules.barrier.device = "xla"
    assert not modules.due("fwd+bwd", True)
    modules.barrier.device = "cpu"
    monkeypatch.setitem(sys.modules, "torch.nn.attention.flex_attention", object())
    assert not modules.due("fwd+bwd", True)
