"""The device that the barrier waits for: found by what it is given, never opened."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instrumentor.runtime.recorder.recorder import Recorder
from tests.runtime.recorder.tensors import Tensor


def on(device: str) -> Tensor:
    return Tensor((4, 4), device=SimpleNamespace(type=device))


class Module:
    """As much of a model as the barrier looks at."""

    def __init__(self, *parameters: Tensor) -> None:
        self.held = parameters

    def parameters(self) -> Any:
        return iter(self.held)


class Odd:
    @property
    def device(self) -> object:
        raise OSError("not now")


OPTIMIZER = SimpleNamespace(param_groups=[{"params": [on("xla")], "lr": 0.1}])


@pytest.mark.parametrize(
    ("values", "device"),
    [
        ((on("cpu"),), "cpu"),
        ((0.25, on("xla")), "xla"),
        ((on("cpu"), on("xla")), "xla"),  # a batch that only a helper moves
        ((0.25, on("cpu"), Module(on("cpu"), on("cuda"))), "cuda"),
        ((Module(on("cpu")),), "cpu"),
        ((SimpleNamespace(device=SimpleNamespace(type="cuda"), net=Module(on("cpu"))),), "cpu"),
        ((SimpleNamespace(name="t", net=Module(on("xla")), seen=[on("cpu")] * 99),), "xla"),
        ((SimpleNamespace(inner=SimpleNamespace(optimizer=OPTIMIZER)),), "xla"),
        (({"loss": [on("cpu"), on("mps")]},), "mps"),
        ((Module(on("meta")), on("cpu")), "cpu"),
        ((Odd(), on("cuda")), "cuda"),
        ((0.25, None, "text"), "unknown"),
    ],
)
def test_the_device_of_the_barrier(
    recorder: Recorder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    values: tuple[object, ...],
    device: str,
) -> None:
    found = []

    def drain() -> str:
        found.append(recorder.barrier.device)
        return ""

    monkeypatch.setattr(recorder.barrier, "drain", drain)
    monkeypatch.setitem(sys.modules, "torch", None)
    recorder.begin()
    recorder.end(*values, synced=True)
    assert found == [None, device]
    warned = "not waited for" in (tmp_path / "record.jsonl").read_text()
    assert warned == (device == "unknown")


def test_what_the_script_has_opened_counts_where_no_tensor_is(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []
    opened = [False]
    cuda = SimpleNamespace(
        is_initialized=lambda: opened[0], synchronize=lambda: waits.append("cuda"),
        max_memory_allocated=lambda: 0,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.delitem(sys.modules, "torch_xla", raising=False)
    recorder.begin()
    recorder.end(0.25)
    assert (recorder.barrier.device, waits) == ("unknown", [])
    opened[0] = True
    recorder.begin()
    recorder.end(0.25)
    assert (recorder.barrier.device, waits) == ("cuda", ["cuda"])


def test_an_object_that_holds_itself_is_no_endless_search(recorder: Recorder) -> None:
    around = SimpleNamespace(parts=[])
    around.parts += [around] * 64
    around.parts.append(around.parts)
    assert recorder.barrier.device_of(around) is None
    assert recorder.barrier.device_of(around.parts) is None
