"""What the recorder writes of a step's batches: shape, data type, rows, tokens."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runtime.recorder.tensors import Tensor


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
