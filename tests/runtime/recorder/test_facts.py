"""What is written of a sample beside its time: its batches, and what compiled within it."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instrumentor.runtime.recorder.facts import Memory, counted, shorter
from instrumentor.runtime.recorder.recorder import Recorder
from instrumentor.runtime.recorder.runtimes import TTNN_DEVICES, look_for_ttnn
from tests.runtime.recorder.tensors import Tensor, events


def sample(tmp_path: Path) -> dict[str, Any]:
    """What the one sample says of its batch."""
    (found,) = events(tmp_path, "sample")
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


@pytest.mark.parametrize(
    ("looked_up", "less"),
    [
        ({(8, 127), (127,)}, (0, 1)),  # beside the positions
        ({(7, 128)}, (1, 0)),  # sequences first
        ({(8, 128), (8, 127)}, (0, 0)),  # a decoder's
        ({(8, 3)}, (0, 0)),  # columns of a table
        ({(8, 127), (7, 128)}, (0, 0)),
        (set(), (0, 0)),
    ],
)
def test_tokens_are_those_that_enter_the_forward(
    looked_up: set[tuple[int, ...]], less: tuple[int, int]
) -> None:
    assert shorter([8, 128], looked_up) == less
    assert shorter(None, looked_up) == shorter([8, 128, 3], looked_up) == (0, 0)


def test_the_target_alone_is_no_token(recorder: Any, tmp_path: Path) -> None:
    recorder.batches.begin((TOKENS,), False)
    recorder.batches.end((), ())
    recorder.batches.entered({(8, 127)})
    for shape, tokens in (((8, 128), 8 * 127), ((8, 65), 8 * 64)):
        recorder.batches.begin((Tensor(shape, "torch.int64"),), False)
        assert recorder.batches.end((), ())["batch_tokens"] == tokens


def test_what_the_forward_returned_counts_its_samples_and_is_no_input(
    recorder: Any, tmp_path: Path
) -> None:
    logits = SimpleNamespace(shape=(32, 10), dtype="torch.float32", grad_fn=object())
    recorder.begin()
    recorder.end(IMAGES, batch=[logits])
    found = sample(tmp_path)
    assert (found["shape"], found["samples"], found["returned"]) == ([32, 10], 32, True)


def test_micro_batches_of_one_step_are_added_up(recorder: Any, tmp_path: Path) -> None:
    recorder.begin(TOKENS, resume=True)
    recorder.begin(Tensor((8, 64), "torch.int64"), resume=True)
    recorder.begin(Tensor((4, 64), "torch.int64"), resume=True)
    recorder.end(IMAGES, label="step")
    assert sample(tmp_path) == {"shape": [8, 128], "dtype": "int64", "samples": 20,
                                "tokens": 1024 + 512 + 256,
                                "shapes": [[8, 128], [8, 64], [4, 64]]}  # fmt: skip


def test_what_entered_the_forward_counts_where_the_begin_saw_none(
    recorder: Any, tmp_path: Path
) -> None:
    recorder.begin()
    recorder.end(IMAGES, batch=(SimpleNamespace(), TOKENS, IMAGES))
    assert sample(tmp_path) == {"shape": [8, 128], "dtype": "int64", "samples": 8,
                                "tokens": 1024}  # fmt: skip


def test_a_batch_that_the_begin_has_seen_stays(recorder: Any, tmp_path: Path) -> None:
    recorder.begin(TOKENS)
    recorder.end(IMAGES, batch=(IMAGES,))
    assert sample(tmp_path)["samples"] == 8


def test_micro_batches_that_are_seen_at_the_end_only_are_taken_to_be_alike(
    recorder: Any, tmp_path: Path
) -> None:
    for _ in range(3):
        recorder.begin(resume=True)
    recorder.end(IMAGES, batch=(IMAGES,))
    assert sample(tmp_path)["samples"] == 96


def test_a_micro_batch_of_unknown_size_leaves_the_sum_unknown(
    recorder: Any, tmp_path: Path
) -> None:
    recorder.begin(TOKENS, resume=True)
    recorder.begin("next", resume=True)
    recorder.end(IMAGES, label="step")
    assert sample(tmp_path) == {"shape": [8, 128], "dtype": "int64", "samples": None,
                                "tokens": None}  # fmt: skip


class Xla:
    """As much of torch_xla's metrics as is read."""

    def __init__(self) -> None:
        self.compiled = 0

    def _xla_metric_data(self, name: str) -> tuple[int, float, list[Any]] | None:
        return (self.compiled, 1e9, []) if self.compiled and name == "CompileTime" else None


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


def test_a_step_in_which_torch_xla_compiled(recorder: Recorder, tmp_path: Path, xla: Xla) -> None:
    for compiled in (1, 2, 0, 0):
        recorder.begin()
        xla.compiled += compiled
        recorder.end(1.0)
        xla.compiled += 1  # between two steps: the optimizer's graph is not theirs
    assert [each["kind"] for each in events(tmp_path, "sample")] == [
        "compile",
        "compile",
        "steady",
        "steady",
    ]
    assert [each.get("compiled") for each in events(tmp_path, "sample")] == [
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
    assert [each["kind"] for each in events(tmp_path, "sample")] == ["compile", "steady", "compile"]


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
    assert [each["kind"] for each in events(tmp_path, "sample")] == ["compile", "steady"]


class Mesh:
    """As much of a mesh of ttnn as tells of its memory."""

    def __init__(self, *chips: int, per_bank: int) -> None:
        self.chips, self.per_bank = list(chips), per_bank

    def get_num_devices(self) -> int:
        return len(self.chips)

    def get_device_ids(self) -> list[int]:
        return self.chips


def view(mesh: Mesh, kind: str) -> SimpleNamespace:
    """Of a chip with twelve banks of a GB, as ttnn 0.81.1 tells of it."""
    if mesh.per_bank < 0:
        raise RuntimeError("TT_THROW: not initialized")
    if kind == "L1":
        return SimpleNamespace(
            num_banks=72, total_bytes_per_bank=10**6, total_bytes_allocated_per_bank=mesh.per_bank
        )
    return SimpleNamespace(
        num_banks=12, total_bytes_per_bank=10**9, total_bytes_allocated_per_bank=mesh.per_bank
    )


def test_memory_of_ttnn_s_devices_is_that_of_all_chips(
    monkeypatch: pytest.MonkeyPatch, recorder: Any, tmp_path: Path
) -> None:
    ttnn = SimpleNamespace(
        MeshDevice=Mesh, BufferType=SimpleNamespace(DRAM="DRAM", L1="L1"), get_memory_view=view,
        synchronize_device=lambda device: None,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "ttnn", ttnn)
    # A submesh has an allocator of its own on chips that are its parent's.
    mesh, part = Mesh(0, 1, per_bank=100), Mesh(1, per_bank=10)
    look_for_ttnn()
    memory, told = Memory(recorder.records), list[dict[str, int]]()
    for _ in range(3):
        told.append(memory.end((), ())["memory"])
        mesh.per_bank = -1  # it is closed, which is told once
    first, *others = told
    assert (first["held"], first["room"]) == (12 * (2 * 100 + 10), 2 * 12 * 10**9)
    assert (first["held_l1"], first["room_l1"]) == (72 * (2 * 100 + 10), 2 * 72 * 10**6)
    assert first["resident"] > 0 and all(set(each) == {"resident"} for each in others)
    warned = [str(each) for each in events(tmp_path, "warning")]
    assert sum("memory cannot be read" in text for text in warned) == 1
    TTNN_DEVICES.clear()
    del part
