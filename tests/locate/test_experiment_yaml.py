"""Multi-chip runs are declined unless asked for: by folder, by the YAML that a run would read."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor import Explanation, explain
from instrumentor.locate.experiment_yaml import chips_of
from instrumentor.shared.errors import UsageError
from instrumentor.shared.options import Options
from tests.warned import texts

SCRIPT = """\
import torch
from pathlib import Path

config_file = {default}

def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()

train(make_model(), make_loader(config_file))
"""
OWN_FOLDER = 'Path(__file__).parent / "single_chip" / "llama.yaml"'


def explained(
    folder: Path,
    yaml: str,
    *arguments: str,
    default: str = OWN_FOLDER,
    name: str = "single_chip/llama.yaml",
    script: str = "train.py",
    options: Options | None = None,
) -> Explanation:
    path = folder / script
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SCRIPT.format(default=default))
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(yaml)
    (folder / "pyproject.toml").write_text("")
    return explain(path, options or Options(), arguments=arguments)


@pytest.mark.parametrize(
    "default",
    [
        OWN_FOLDER,
        "Path(__file__).resolve().parent / 'single_chip' / 'llama.yaml'",
        "Path(__file__).parent / 'single_chip/llama.yaml'",
        "os.path.join(os.path.dirname(__file__), 'single_chip', 'llama.yaml')",
    ],
)
def test_mesh_of_the_default_configuration(tmp_path: Path, default: str) -> None:
    answer = explained(tmp_path, "lr: 0.1\nmesh_shape: [1, 8]\n", default=default)
    (reason,) = answer.reasons
    assert (reason.kind, reason.line) == ("multi-chip", 2)
    assert reason.file == tmp_path / "single_chip" / "llama.yaml"
    assert "[1, 8]" in reason.message and "single-chip" in reason.remedy


@pytest.mark.parametrize(
    ("yaml", "line"),
    [
        ("lr: 0.1\nmesh:\n  shape: [2, 4]\n  axis_names: [data, model]\n", 2),
        ("lr: 0.1\n\nmesh: [2, 4]\n", 3),
        ("mesh: {shape: '2x4'}\n", 1),
        ("device:\n  mesh_shape: 1,8\n", 2),
        ("parallelism: {tensor: {mesh: {shape: [8]}}}\n", 1),
        ("mesh_shape: all\n", 1),
        (f"mesh_shape: [{'9' * 4000}]\n", 1),
        ("mesh_shape: [.inf, .nan]\n", 1),
    ],
)
def test_a_mesh_of_several_chips_in_any_form(tmp_path: Path, yaml: str, line: int) -> None:
    (reason,) = explained(tmp_path, yaml).reasons
    assert (reason.kind, reason.line) == ("multi-chip", line)


@pytest.mark.parametrize(
    "yaml",
    [
        *("lr: 0.1", "mesh_shape: null", "mesh_shape:", "mesh_shape: ''", "", "- a"),
        *("mesh: null\nmesh_axis_names: null", "mesh: {axis_names: [data]}"),
        "mesh:\n  shape: null\n  axis_names: [data, model]",
        *("mesh_shape: [1, 1]", "mesh: {shape: '(1, 1)'}"),
        "mesh_shape: [unclosed\n  - x: :",  # cannot be read, and is no crash
    ],
)
def test_single_chip(tmp_path: Path, yaml: str) -> None:
    assert explained(tmp_path, yaml).eligible


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mesh: &a [*a ]\n", "holds itself"),
        ("mesh: [" + "1," * 60_000 + "]\n", "more than 50,000 values"),
        ("mesh: 8\n#" + "x" * (1 << 20), "larger than 1 MiB"),
    ],
    ids=["itself", "values", "size"],
)
def test_a_configuration_without_an_end_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"llama.yaml: the configuration .*{said}"):
        explained(tmp_path, text)


def test_the_configuration_may_be_missing(tmp_path: Path) -> None:
    assert explained(tmp_path, "mesh_shape: [8, 1]", name="single_chip/other.yaml").eligible


@pytest.mark.parametrize("form", ["--config {}", "--config={}", "-c {}"])
def test_the_named_configuration_goes_before_the_default(tmp_path: Path, form: str) -> None:
    named = tmp_path / "mine.yaml"
    named.write_text("mesh_shape: [2, 4]\n")
    answer = explained(tmp_path, "lr: 0.1\n", *form.format(named).split(" "))
    (reason,) = answer.reasons
    assert (reason.kind, reason.file, reason.line) == ("multi-chip", named, 1)


def test_a_named_single_chip_configuration_saves_a_multi_chip_default(tmp_path: Path) -> None:
    named = tmp_path / "mine.yaml"
    named.write_text("mesh_shape: null\n")
    assert explained(tmp_path, "mesh_shape: [8, 1]\n", "--config", str(named)).eligible


@pytest.mark.parametrize("folder", ["quietbox", "loudbox", "galaxy", "Galaxy"])
def test_folder_of_the_script(tmp_path: Path, folder: str) -> None:
    answer = explained(tmp_path, "lr: 0.1\n", script=f"{folder}/train.py")
    (reason,) = answer.reasons
    assert reason.kind == "multi-chip" and folder in reason.message


@pytest.mark.parametrize("folder", ["quietbox", "loudbox", "galaxy"])
def test_folder_of_the_configuration(tmp_path: Path, folder: str) -> None:
    default = f'Path(__file__).parent / "{folder}" / "llama.yaml"'
    answer = explained(tmp_path, "lr: 0.1\n", default=default, name=f"{folder}/llama.yaml")
    assert [r.kind for r in answer.reasons] == ["multi-chip"]


def test_a_folder_called_distributed_says_nothing(tmp_path: Path) -> None:
    assert explained(tmp_path, "lr: 0.1\n", script="distributed/train.py").eligible


def test_a_default_of_the_class_is_only_warned_about(tmp_path: Path) -> None:
    (tmp_path / "configs.py").write_text(
        "from dataclasses import dataclass\n\n\n@dataclass\nclass TrainingConfig:\n"
        '    lr: float = 0.1\n    mesh_shape: str = "8,1"\n'
    )
    path = tmp_path / "train.py"
    path.write_text("from configs import TrainingConfig\n" + SCRIPT.format(default="None"))
    (tmp_path / "pyproject.toml").write_text("")
    answer = explain(path)
    assert answer.eligible
    warnings = texts(answer.to_json()["warnings"])
    assert any("configs.py:7" in w and "TrainingConfig.mesh_shape" in w for w in warnings)


@pytest.mark.parametrize("script", ["train.py", "galaxy/train.py"])
def test_measured_when_it_is_asked_for(tmp_path: Path, script: str) -> None:
    one = explained(tmp_path / "one", "mesh_shape: null\n")
    asked = Options(multi_chip=True)
    several = explained(tmp_path / "all", "mesh_shape: [1, 8]\n", script=script, options=asked)
    assert several.eligible and one.eligible
    declined = explained(tmp_path / "no", "mesh_shape: [1, 8]\n", script=script)
    assert "--multi-chip" in declined.reasons[0].remedy


@pytest.mark.parametrize(
    ("config", "chips"),
    [
        ({}, 1),
        ({"mesh_shape": None}, 1),
        ({"mesh_shape": [1, 8]}, 8),
        ({"train": {"mesh": {"shape": "2x4"}}, "mesh_shape": [1, 2]}, 8),
        ({"mesh_shape": "all"}, 2),  # of unknown number, and more than one
    ],
)
def test_how_many_chips_a_configuration_asks_for(config: dict[str, object], chips: int) -> None:
    assert chips_of(config) == chips
