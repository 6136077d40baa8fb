"""The experiments under fixtures/ really run: alone, on a CPU, twice with the same losses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.waiting import HANG_S

pytest.importorskip("torch", reason="needs torch: make test installs it")

SCRIPTS = "blacksmith/experiments/torch"
SHORT = {
    "mnist": {"train_samples": 2560, "val_samples": 2560, "num_epochs": 1, "val_steps_freq": 5},
    "tiny_llama": {"train_samples": 160, "val_samples": 32, "num_epochs": 1, "val_steps_freq": 2},
}
SHORT["tiny_llama_lora"] = SHORT["tiny_llama"]
TINY = {"hidden_size": 32, "num_layers": 2, "max_length": 16, "train_samples": 64}
CRANK = Path(__file__).parent / "standins" / "crank"


def _run(
    repo: Path, script: str, *arguments: str, name: str = "train.py", path: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", f"{SCRIPTS}/{script}/{name}", *arguments],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": f"{repo}{path}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


def _short_config(repo: Path, script: str, **other: int) -> str:
    """Writes a shortened variant of the script's single-chip YAML; returns its path."""
    (default,) = (repo / SCRIPTS / script / "single_chip").glob("*.yaml")
    settings = yaml.safe_load(default.read_text(encoding="utf-8"))
    settings.update(SHORT.get(script, SHORT["tiny_llama"]), steps_freq=1, checkpoint_freq=4)
    settings.update(other)
    path = repo / "short.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return str(path)


def _losses(output: str) -> list[str]:
    return re.findall(r"Step \d+ \| .*loss: [\d.]+", output)


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(SHORT))
def test_experiment_runs(own_experiments_repo: Path, script: str) -> None:
    repo = own_experiments_repo
    config = _short_config(repo, script)

    first = _run(repo, script, "--config", config)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "Logger finished." in first.stdout
    assert (repo / SCRIPTS / script / "checkpoints" / "final_model.pth").is_file()
    losses = _losses(first.stdout)
    assert losses[0].startswith("Step 0 | val/loss")
    assert any("train/loss" in line for line in losses)

    if script == "mnist":
        assert _losses(_run(repo, script, "--config", config).stdout) == losses
    if script == "tiny_llama":
        everything, trainable = map(int, re.findall(r"parameters: (\d+)", first.stdout))
        assert 0 < trainable < everything / 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("tiny_llama_crank", "train.py"),
        ("tiny_llama", "train_crank.py"),
        ("tiny_llama_lora", "train_crank.py"),
    ],
)
def test_crank_experiment_computes_the_same_on_the_asynchronous_device(
    own_experiments_repo: Path, script: str, name: str
) -> None:
    repo = own_experiments_repo
    config = _short_config(repo, script, **TINY)
    on_cpu = _run(repo, script, "--config", config, name=name)
    assert on_cpu.returncode == 0, on_cpu.stdout + on_cpu.stderr
    on_tt = _run(repo, script, "--config", config, name=name, path=f":{CRANK}")
    assert on_tt.returncode == 0, on_tt.stdout + on_tt.stderr

    losses = [float(line.rpartition(" ")[2]) for line in _losses(on_cpu.stdout)]
    assert len(set(losses)) >= 2
    assert [float(line.rpartition(" ")[2]) for line in _losses(on_tt.stdout)] == pytest.approx(
        losses, abs=1e-4
    )


def test_default_config_must_lie_below_the_working_directory(
    experiments_repo: Path, tmp_path: Path
) -> None:
    inside = _run(experiments_repo, "mnist", "--help")
    assert f"{SCRIPTS}/mnist/single_chip/mnist.yaml" in "".join(inside.stdout.split())

    script = str(experiments_repo / SCRIPTS / "mnist" / "train.py")
    outside = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(experiments_repo)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outside.returncode == 1
    assert "is not in the subpath of" in outside.stderr


@pytest.mark.parametrize("name", ["mnist/quietbox/mnist_tp", "tiny_llama/quietbox/tiny_llama_dp"])
def test_multi_chip_configuration_names_a_mesh(experiments_repo: Path, name: str) -> None:
    path = experiments_repo / SCRIPTS / f"{name}.yaml"
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert len(settings["mesh_shape"]) == len(settings["mesh_axis_names"]) == 2
    assert 8 in settings["mesh_shape"]


def test_multi_chip_configuration_of_crank_names_its_mesh_in_a_block(
    experiments_repo: Path,
) -> None:
    path = experiments_repo / SCRIPTS / "tiny_llama_crank/quietbox/tiny_llama_mesh.yaml"
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert "mesh_shape" not in settings and settings["mesh"]["shape"] == [2, 4]


@pytest.mark.xla
def test_experiment_runs_on_torch_xla(own_experiments_repo: Path, xla_python: Path) -> None:
    script = "tiny_llama_lora"  # all of them are run and summarised in end_to_end/test_xla.py
    config = _short_config(own_experiments_repo, script)
    done = subprocess.run(
        [str(xla_python), f"{SCRIPTS}/{script}/train.py", "--config", config],
        cwd=own_experiments_repo,
        env={**os.environ, "PYTHONPATH": str(own_experiments_repo)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "xla:0" in done.stdout
    assert (own_experiments_repo / SCRIPTS / script / "checkpoints/final_model.pth").is_file()
