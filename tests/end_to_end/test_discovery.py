"""Where reading a script is not enough, running it is: two optimizer steps of it as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor import RunOptions, run
from instrumentor.rewrite import prepare
from tests.conftest import RepoFactory, RunCli
from tests.end_to_end.conftest import Measure
from tests.end_to_end.small import read
from tests.end_to_end.test_witness import TRAIN, begins_late
from tests.locate.cases import timed
from tests.warned import texts

pytest.importorskip("torch", reason="needs torch: make test installs it")

CHOSEN_BY_NAME = """\
import torch
from torch import nn


class Engine:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
        self.optimizer = torch.optim.AdamW(self.net.parameters())

    def advance(self, hidden):
        loss = self.net[2](hidden.relu()).mean()
        getattr(loss, "back" + "ward")()
        getattr(self.optimizer, "st" + "ep")()
        self.optimizer.zero_grad()


def main():
    engine = Engine()
    handlers = {"go": engine.advance}
    with open("seen.txt", "a") as seen:
        for n in range(30):
            x = torch.randn(4, 8)
            hidden = engine.net[0](x)
            handlers["go"](hidden)
            seen.write("step\\n")


main()
"""
LIBRARY = """\
class Trainer:
    def __init__(self, model, optimizer, data):
        self.model, self.optimizer, self.data = model, optimizer, data

    def fit(self):
        for x in self.data:
            self.model.forward(x).mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
"""
TRAINER = """\
import torch
from trainlib import Trainer

model = torch.nn.Linear(8, 1)
data = torch.utils.data.DataLoader(torch.randn(200, 8), batch_size=4)
Trainer(model, torch.optim.AdamW(model.parameters()), data).fit()
"""


def test_a_step_behind_names_that_are_put_together(
    git_repo: RepoFactory, measure: Measure, run_cli: RunCli, torch_python: Path
) -> None:
    repo = git_repo({"train.py": CHOSEN_BY_NAME})
    assert run_cli("explain", "train.py", cwd=repo).returncode == 3
    env = {"VIRTUAL_ENV": str(torch_python.parent.parent)}
    shown = run_cli("explain", "--discover", "train.py", cwd=repo, env=env)
    assert shown.returncode == 0, shown.stderr
    assert "timed region   lines 23-24 (step)" in shown.stdout
    stacks = shown.stderr.splitlines()
    assert "  backward  train.py:12 in advance" in stacks
    # Outwards to the script and no further: what leads to it is no part of it.
    at = stacks.index("  forward   train.py:23 in main")
    assert stacks[at + 1] == "  forward   train.py:28 in <module>"
    assert stacks[at + 2].startswith("  backward  ")
    assert stacks[-1] == "  step      train.py:28 in <module>"

    ran = measure(repo, "train.py", env=env)
    assert ran.code == 0, ran.err
    assert "running your unmodified script for two optimizer steps" in ran.err
    assert ran.err.count("] Copied 1 file to ") == 1  # of both runs
    assert "region verified: forward, backward, optimizer" in ran.out
    summary = read(ran.folder)
    assert (summary["scope"], summary["wall_clock_ms"]["samples"] >= 4) == ("step", True)
    assert any("running the script for two steps" in each for each in texts(summary["warnings"]))
    assert not (repo / "seen.txt").exists()


def test_never_when_it_is_not_wanted(measured: Measure) -> None:
    ran = measured(CHOSEN_BY_NAME, "--no-discover")
    assert ran.code == 3
    assert "two optimizer steps" not in ran.err


@pytest.mark.slow
def test_whole_steps_of_a_trainer_of_an_installed_package(
    git_repo: RepoFactory, measure: Measure, tmp_path: Path
) -> None:
    package = tmp_path / "site-packages" / "trainlib"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(LIBRARY, encoding="utf-8")
    repo = git_repo({"train.py": TRAINER})
    ran = measure(repo, "train.py", env={"PYTHONPATH": str(package.parent)})
    assert ran.code == 0, ran.err
    summary = read(ran.folder)
    assert summary["scope"] == "whole step"
    assert summary["wall_clock_ms"]["samples"] >= 4
    assert summary["wall_clock_ms"]["batch_shape"] == [4, 8]
    assert summary["wall_clock_ms"]["samples_per_s"] > 0
    assert summary["loop"] == {"file": str(repo / "train.py"), "line": 6}
    assert any("Data loading, logging and callbacks" in each for each in texts(summary["warnings"]))
    assert summary["verification"]["verified"] == ["forward", "backward", "optimizer"]
    assert (ran.folder / "changes.diff").read_bytes() == b""


def test_a_script_that_never_updates_stays_declined(measured: Measure, torch_python: Path) -> None:
    source = (
        "import torch\nfor n in range(3):\n    torch.ones(2, requires_grad=True).sum().item()\n"
    )
    ran = measured(source, "--python", torch_python, "--mode", "train")
    assert ran.code == 3
    assert "before any torch.optim optimizer" in ran.err


def test_a_script_that_fails_unmodified_names_no_file_that_is_gone(
    git_repo: RepoFactory, run_cli: RunCli, torch_python: Path
) -> None:
    repo = git_repo({"train.py": CHOSEN_BY_NAME.replace("x = torch", "x = n / 0 * torch")})
    env = {"VIRTUAL_ENV": str(torch_python.parent.parent)}
    for words in (("explain", "--discover"), ("run",)):
        shown = run_cli(*words, "train.py", cwd=repo, env=env)
        assert shown.returncode == 1, shown.stderr
        own = shown.stderr.partition("error: ")[2]
        assert own.splitlines()[:2] == [
            "the script ended with code 1; its last lines:",
            "Traceback (most recent call last):",
        ]
        assert "ZeroDivisionError: division by zero\nhint: Run the script by itself" in own
        assert own.rstrip().endswith(
            "The error is the script's own, raised at train.py:22: it ran without any edit."
        )
        assert "launch.py" not in own and "declined" not in own
    assert not (repo / "instrument-runs").exists()


@pytest.mark.slow
def test_a_region_that_the_run_proved_wrong_is_planned_again(
    git_repo: RepoFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "make_plan", begins_late)
    repo = git_repo({"train.py": TRAIN})
    result = run(repo / "train.py", options=RunOptions(profiler="wallclock", cwd=repo))
    assert result.summary.scope == "fwd+bwd"
    assert result.summary.verification is not None
    assert result.summary.verification["status"] == "verified"
    plan = read(result.folder, "plan.json")
    assert timed(plan) == {"start_line": 11, "end_line": 13}
    assert any("the timed region is not the step" in each for each in texts(result.warnings))
