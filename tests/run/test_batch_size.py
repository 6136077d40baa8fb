"""The batch size of a run: its YAML's first, then that of its batches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instrumentor.run.batch_size import batch_facts

DEFAULT = 'from pathlib import Path\nCONFIG = Path(__file__).parent / "default.yaml"\n'


def facts(folder: Path, *arguments: str, script: str = "", record: str = "") -> tuple[object, ...]:
    (folder / "train.py").write_text(script)
    (folder / "timings.jsonl").write_text(record)
    found = batch_facts(folder / "train.py", arguments, folder, folder / "timings.jsonl")
    keys = {"batch_size", "batch_size_source", "batch_dim", "batch_dim_guessed"}
    assert set(found) == keys
    return found["batch_size"], found["batch_size_source"]


def sample(*shape: int) -> str:
    told = {"event": "sample", "label": "step", "kind": "steady", "ms": 1.0}
    return json.dumps({**told, "batch_shape": list(shape) or None}) + "\n"


def test_the_yaml_of_the_arguments(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("batch_size: 64\n")
    assert facts(tmp_path, "--config", "x.yaml", record=sample(64, 8)) == (
        64,
        "batch_size in x.yaml",
    )


def test_a_yaml_that_the_script_did_not_follow(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("batch_size: 64\n")
    assert facts(tmp_path, "--config", "x.yaml", record=sample(128, 8)) == (
        128,
        "first axis of the recorded batch",
    )


def test_the_batch_may_be_the_second_axis(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("batch_size: 64\n")
    assert facts(tmp_path, "--config", "x.yaml", record=sample(512, 64, 8))[0] == 64


def test_the_default_yaml_of_the_script(tmp_path: Path) -> None:
    (tmp_path / "default.yaml").write_text("batch_size: 16\n")
    assert facts(tmp_path, script=DEFAULT) == (16, "batch_size in default.yaml")


@pytest.mark.parametrize("text", ["", "batch_size: many", "batch_size: true", "batch_size: 0", "["])
def test_a_yaml_that_does_not_say(tmp_path: Path, text: str) -> None:
    (tmp_path / "default.yaml").write_text(text)
    assert facts(tmp_path, script=DEFAULT, record=sample(32, 8) * 2 + sample(7, 8)) == (
        32,
        "first axis of the recorded batch",
    )


def test_nothing_says(tmp_path: Path) -> None:
    assert facts(tmp_path) == (None, None)
    assert facts(tmp_path, record=sample() + '{"event": "sample", "bat') == (None, None)


def test_a_run_without_a_record(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    found = batch_facts(tmp_path / "train.py", (), tmp_path, tmp_path / "timings.jsonl")
    assert found == {
        **dict.fromkeys(("batch_size", "batch_size_source", "batch_dim")),
        "batch_dim_guessed": False,
    }


@pytest.mark.parametrize(
    ("script", "arguments", "size", "axis"),
    [
        # Sequence-first: 35 tokens of 20 sequences.
        ("p.add_argument('--batch_size', type=int, default=20)", (), 20, 1),
        ("p.add_argument('--batch-size', default=8)", ("--batch-size", "20"), 20, 1),
        ("", ("--bsz=20",), 20, 1),
        ("bsz = 20", (), 20, 1),
        ("BPTT, BATCH_SIZE, HID = 35, 20, 200", (), 20, 1),
        ("[bptt, bs] = [35, 20]", (), 20, 1),
        ("*bptt, bs = 35, 20", (), 35, 0),
        ("bptt, bs = settings()", (), 35, 0),
        ("loader = DataLoader(data, batch_size=35)", (), 35, 0),
        ("class C:\n    train_batch_size: int = 20", (), 20, 1),
        # Nothing that fits: the first axis, by convention.
        ("batch_size = 64", (), 35, 0),
        ("hidden = 20", ("--epochs", "20"), 35, 0),
    ],
)
def test_the_axis_is_as_long_as_the_script_says_its_batches_are(
    tmp_path: Path, script: str, arguments: tuple[str, ...], size: int, axis: int
) -> None:
    (tmp_path / "train.py").write_text(script)
    (tmp_path / "timings.jsonl").write_text(sample(35, 20))
    found = batch_facts(tmp_path / "train.py", arguments, tmp_path, tmp_path / "timings.jsonl")
    assert (found["batch_size"], found["batch_dim"]) == (size, axis)


def test_the_axis_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("batch_size = 35")
    (tmp_path / "timings.jsonl").write_text(sample(35, 20))
    record = tmp_path / "timings.jsonl"
    found = batch_facts(tmp_path / "train.py", (), tmp_path, record, batch_dim=1)
    assert tuple(found.values()) == (20, "axis 1 of the recorded batch, as asked for", 1, False)
    none = batch_facts(tmp_path / "train.py", (), tmp_path, record, batch_dim=2)
    assert none["batch_size"] is None


@pytest.mark.parametrize(
    ("script", "shape", "model", "guessed"),
    [
        ("", (35, 20), {"sequence_first": True}, True),
        ("", (35, 20, 8), {"sequence_first": True}, True),
        # Known, the same either way, images, a model that takes its batch first.
        ("bs = 20", (35, 20), {"sequence_first": True}, False),
        ("", (20, 20), {"sequence_first": True}, False),
        ("", (64, 3, 32, 32), {"sequence_first": True}, False),
        ("", (35, 20), {}, False),
    ],
)
def test_the_axis_is_a_guess_where_the_model_takes_sequences_first(
    tmp_path: Path, script: str, shape: tuple[int, ...], model: dict[str, bool], guessed: bool
) -> None:
    (tmp_path / "train.py").write_text(script)
    told = json.dumps({"event": "model", **model}) + "\n"
    (tmp_path / "timings.jsonl").write_text(told + sample(*shape))
    found = batch_facts(tmp_path / "train.py", (), tmp_path, tmp_path / "timings.jsonl")
    assert found["batch_dim_guessed"] is guessed
