"""The one place that decides the batch size, and refusals where there are several."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.tune import batch_size
from instrumentor.tune.target import NotApplicable
from tests.tune.scripts import TRAIN, accepted, set_by, target_of

OWN = "    batch_size = 4  # what fits\n"
ARGUMENT = '    parser.add_argument("-b", "--batch-size", type=int, default=64)\n'


def test_a_number_in_the_source_with_its_comment(tmp_path: Path) -> None:
    target = target_of(tmp_path, TRAIN)
    way = batch_size.way(target)
    assert way.own == (tmp_path / "train.py", 14, 4)
    changes = set_by(way, 32, target)
    assert changes.arguments == []
    assert accepted(target, changes) == TRAIN.replace("batch_size = 4 ", "batch_size = 32 ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--batch-size", "16"), ("--batch-size", "8")),
        (("-x", "--batch_size=16"), ("-x", "--batch_size=8")),
        (("--train-batch-size", "16"), ("--train-batch-size", "8")),
    ],
)
def test_the_scripts_own_argument_goes_first(
    tmp_path: Path, arguments: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    target = target_of(tmp_path, TRAIN, *arguments)
    way = batch_size.way(target)
    changes = set_by(way, 8, target)
    assert way.own is not None and way.own[2] == 16
    assert tuple(changes.arguments) == expected
    assert changes.variant().edits == ()


def test_the_yaml_goes_before_the_source(tmp_path: Path) -> None:
    files = {"x.yaml": "batch_size: 16  # a\n"}
    target = target_of(tmp_path, TRAIN, "--config", "x.yaml", files=files)
    changes = set_by(batch_size.way(target), 8, target)
    assert changes.variant().files == ((tmp_path / "x.yaml", b"batch_size: 8  # a\n"),)
    assert changes.variant().edits == ()


@pytest.mark.parametrize(
    ("own", "line"),
    [
        (ARGUMENT, 14),
        ("    BATCH_SIZE: int = 64\n", 14),
        ("    train_loader = DataLoader(data, batch_size=64)\n"
         "    val_loader = DataLoader(data, batch_size=128)\n", 14),
        ("    loader = DataLoader(data, '''of\n  two lines''', batch_size=64)\n", 15),
    ],
)  # fmt: skip
def test_other_places(tmp_path: Path, own: str, line: int) -> None:
    target = target_of(tmp_path, TRAIN.replace(OWN, own))
    way = batch_size.way(target)
    assert way.own == (tmp_path / "train.py", line, 64)
    assert accepted(target, set_by(way, 8, target)) == TRAIN.replace(OWN, own.replace("64", "8"))


def test_the_field_of_a_configuration_class_elsewhere(tmp_path: Path) -> None:
    config = "class Config:\n    batch_size: int = 16\n"
    script = TRAIN.replace(OWN, "").replace("import torch\n", "import torch\nimport configs\n", 1)
    target = target_of(tmp_path, script, files={"configs.py": config})
    assert batch_size.way(target).own == (tmp_path / "configs.py", 2, 16)


def test_several_are_refused_with_their_lines(tmp_path: Path) -> None:
    target = target_of(tmp_path, TRAIN.replace(OWN, OWN + "    bs = 8\n"))
    with pytest.raises(NotApplicable, match="several batch sizes, at lines 14, 15"):
        batch_size.way(target)


@pytest.mark.parametrize("own", ["", "    batch_size = sizes[0]\n", "    batch_size = True\n"])
def test_none_is_refused(tmp_path: Path, own: str) -> None:
    with pytest.raises(NotApplicable, match="neither the script nor its YAML"):
        batch_size.way(target_of(tmp_path, TRAIN.replace(OWN, own)))
