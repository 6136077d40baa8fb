"""On real torch the measured steps compute what the script computes alone, bit for bit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from instrumentor import Options
from instrumentor.prepare import prepare
from tests.waiting import HANG_S

pytest.importorskip("torch", reason="needs torch: make test installs it")

SCRIPTS = "blacksmith/experiments/torch"
SHORT = {
    "mnist": {"train_samples": 2560, "val_samples": 256, "num_epochs": 1, "val_steps_freq": 3},
    "tiny_llama": {"train_samples": 160, "val_samples": 16, "num_epochs": 1, "val_steps_freq": 2},
}
SHORT["tiny_llama_lora"] = SHORT["tiny_llama"]

# Runs scripts one after the other, writing the exact value of everything that is differentiated.
RECORD = """\
import json, os, runpy, sys
import torch

backward = torch.Tensor.backward
found = []

def recorded(self, *args, **keywords):
    found[-1].append(float(self.detach().double().sum()).hex())
    return backward(self, *args, **keywords)

torch.Tensor.backward = recorded
known = set(sys.modules)
for repo, script in json.loads(sys.argv[1]):
    os.chdir(repo)
    sys.path.insert(0, repo)
    sys.argv[1:] = ["--config", repo + "/short.yaml"]
    found.append([])
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        assert not stop.code, stop.code
    for name in set(sys.modules) - known:
        if name.partition(".")[0] == "blacksmith":
            del sys.modules[name]
    sys.path.remove(repo)
with open(os.environ["LOSSES"], "w") as stream:
    json.dump(found, stream)
"""


def instrumented_copy(experiments: Path, folder: Path, name: str) -> list[tuple[str, str]]:
    """(repository, script) of an experiment as it is, and of its instrumented copy."""
    script = f"{SCRIPTS}/{name}/train.py"
    ignored = shutil.ignore_patterns("__pycache__", "checkpoints")
    repos = [folder / name / "original", folder / name / "instrumented"]
    for repo in repos:
        shutil.copytree(experiments, repo, ignore=ignored)
        (default,) = (repo / SCRIPTS / name / "single_chip").glob("*.yaml")
        configuration = yaml.safe_load(default.read_text(encoding="utf-8"))
        configuration.update(SHORT[name], steps_freq=1)
        (repo / "short.yaml").write_text(yaml.safe_dump(configuration), encoding="utf-8")
    prepared = prepare(repos[0] / script, Options(keep_validation=True, self_contained=True))
    assert prepared.plan.explanation["skipped_validation"] == []
    for path, code in prepared.replacements.items():
        (repos[1] / path.relative_to(prepared.project.root)).write_bytes(code)
    return [(str(repo), str(repo / script)) for repo in repos]


@pytest.mark.slow
def test_same_losses(experiments_repo: Path, tmp_path: Path) -> None:
    jobs = [j for name in SHORT for j in instrumented_copy(experiments_repo, tmp_path, name)]
    written = tmp_path / "losses.json"
    done = subprocess.run(
        [sys.executable, "-c", RECORD, json.dumps(jobs)],
        cwd=tmp_path,
        env={**os.environ, "LOSSES": str(written), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(written.read_text())
    for name, original, instrumented in zip(SHORT, found[::2], found[1::2], strict=True):
        assert 5 <= len(instrumented) < len(original), name
        assert instrumented == original[: len(instrumented)], name
        assert len(set(instrumented)) > 1
