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
from instrumentor.rewrite.prepare import prepare
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
    prepared = prepare(repos[0] / script, Options(steps=5, self_contained=True))
    assert prepared.plan.explanation["skipped_validation"]
    for path, code in prepared.replacements.items():
        (repos[1] / path.relative_to(prepared.project.root)).write_bytes(code)
    return [(str(repo), str(repo / script)) for repo in repos]


def losses_of(folder: Path, jobs: list[tuple[str, str]]) -> list[list[str]]:
    """What each script differentiates, all run by one process."""
    written = folder / "losses.json"
    done = subprocess.run(
        [sys.executable, "-c", RECORD, json.dumps(jobs)],
        cwd=folder,
        env={**os.environ, "LOSSES": str(written), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[list[str]] = json.loads(written.read_text())
    return found


@pytest.mark.slow
def test_same_losses(experiments_repo: Path, tmp_path: Path) -> None:
    jobs = [j for name in SHORT for j in instrumented_copy(experiments_repo, tmp_path, name)]
    found = losses_of(tmp_path, jobs)
    for name, original, instrumented in zip(SHORT, found[::2], found[1::2], strict=True):
        assert 5 <= len(instrumented) < len(original), name
        assert instrumented == original[: len(instrumented)], name
        assert len(set(instrumented)) > 1


# The data's order, dropout and the evaluation's loader share the generator of the process.
SHARED = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(24, 8), torch.randn(24, 1))
loader, val_loader = DataLoader(data, 4, shuffle=True), DataLoader(data, 8, shuffle={shuffled})
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(), torch.nn.Linear(8, 1))
criterion = torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def validate(loader):
    model.eval()
    with torch.no_grad():
        total = sum(criterion(model(x), y) for x, y in {walked})
    model.train()
    return total

print("at first", validate(val_loader))
for epoch in range(4):
    for step, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if epoch >= 0:
            print(step, validate(val_loader))
"""


@pytest.mark.slow
def test_what_a_skipped_evaluation_draws_is_drawn_in_its_place(tmp_path: Path) -> None:
    jobs = []
    for number, walked in enumerate(("loader", "(b for _, b in enumerate(loader))")):
        for shuffled in (False, True):
            folder = tmp_path / f"{number}{shuffled}"
            folder.mkdir()
            script, copy = folder / "train.py", folder / "copy.py"
            script.write_text(SHARED.format(shuffled=shuffled, walked=walked))
            prepared = prepare(script, Options(steps=9, self_contained=True))
            assert len(prepared.plan.explanation["skipped_validation"]) == 2
            copy.write_bytes(prepared.replacements[script])
            jobs += [(str(folder), str(script)), (str(folder), str(copy))]
    found = losses_of(tmp_path, jobs)
    for original, instrumented in zip(found[::2], found[1::2], strict=True):
        assert len(instrumented) == 9
        assert instrumented == original[:9]
