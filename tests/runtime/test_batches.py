"""What the recorder writes of a step's batches: shape, data type, rows, tokens."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instrumentor.passes.recorder import recorder_source


@dataclass(frozen=True)
class Tensor:
    """As much of a tensor as the recorder looks at."""

    shape: tuple[int, ...]
    dtype: str = "torch.float32"
    device: object = field(default_factory=lambda: SimpleNamespace(type="cpu"))


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A recorder of one step, writing into record.jsonl."""
    monkeypatch.setenv("INSTRUMENT_RECORD", str(tmp_path / "record.jsonl"))
    monkeypatch.setattr("atexit.register", lambda *_: None)
    space: dict[str, Any] = {}
    exec(recorder_source(), space)  # as it stands in a script
    return space["_instrument_recorder"]("train.py", 1, 0, "wallclock")


def sample(tmp_path: Path) -> dict[str, Any]:
    """What the one sample says of its batch."""
    events = [json.loads(line) for line in (tmp_path / "record.jsonl").read_text().splitlines()]
    (found,) = (event for event in events if event["event"] == "sample")
    return {key.removeprefix("batch_"): found[key] for key in found if key.startswith("batch_")}


IMAGES = Tensor((32, 784))
TOKENS = Tensor((8, 128), "torch.int64")


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ((IMAGES, Tensor((32,), "torch.int64")), ([32, 784], "float32", 32, None)),
        ({"input_ids": TOKENS}, ([8, 128], "int64", 8, 1024)),
        (SimpleNamespace(data={"input_ids": TOKENS}), ([8, 128], "int64", 8, 1024)),
        ({"text": ["a", "b"], "x": [TOKENS]}, ([8, 128], "int64", 8, 1024)),
        ([3, "text"], (None, None, None, None)),
        (Tensor((2, 3, 4), "torch.int64"), ([2, 3, 4], "int64", 2, None)),
        (Tensor((8, 128), "torch.uint8"), ([8, 128], "uint8", 8, None)),
        (Tensor(()), (None, None, None, None)),
    ],
)  # fmt: skip
def test_one_batch(recorder: Any, tmp_path: Path, batch: Any, expected: tuple[Any, ...]) -> None:
    recorder.begin(batch)
    recorder.end(IMAGES)
    assert tuple(sample(tmp_path).values()) == expected


def test_micro_batches_of_one_step_are_added_up(recorder: Any, tmp_path: Path) -> None:
    recorder.begin(TOKENS, resume=True)
    recorder.begin(Tensor((8, 64), "torch.int64"), resume=True)
    recorder.begin(Tensor((4, 64), "torch.int64"), resume=True)
    recorder.end(IMAGES, label="step")
    assert sample(tmp_path) == {"shape": [8, 128], "dtype": "int64", "samples": 20,
                                "tokens": 1024 + 512 + 256}  # fmt: skip


def test_a_micro_batch_of_unknown_size_leaves_the_sum_unknown(
    recorder: Any, tmp_path: Path
) -> None:
    recorder.begin(TOKENS, resume=True)
    recorder.begin("next", resume=True)
    recorder.end(IMAGES, label="step")
    assert sample(tmp_path) == {"shape": [8, 128], "dtype": "int64", "samples": None,
                                "tokens": None}  # fmt: skip


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
    recorder: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    values: tuple[object, ...],
    device: str,
) -> None:
    found = []
    monkeypatch.setattr(recorder, "drain", lambda: found.append(recorder.device))
    monkeypatch.setitem(sys.modules, "torch", None)
    recorder.begin()
    recorder.end(*values, synced=True)
    assert found == [None, device]
    warned = "not waited for" in (tmp_path / "record.jsonl").read_text()
    assert warned == (device == "unknown")


def test_what_the_script_has_opened_counts_where_no_tensor_is(
    recorder: Any, monkeypatch: pytest.MonkeyPatch
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
    assert (recorder.device, waits) == ("unknown", [])
    opened[0] = True
    recorder.begin()
    recorder.end(0.25)
    assert (recorder.device, waits) == ("cuda", ["cuda"])


def test_an_object_that_holds_itself_is_no_endless_search(recorder: Any) -> None:
    around = SimpleNamespace(parts=[])
    around.parts += [around] * 64
    around.parts.append(around.parts)
    assert recorder.device_of(around) is None
    assert recorder.device_of(around.parts) is None
