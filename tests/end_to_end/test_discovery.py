"""Where reading a script is not enough, running it is: two optimizer steps of it as it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from instrumentor import RunOptions, run
from instrumentor.rewrite import prepare
from instrumentor.runtime.recorder.observer import distinct
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
EVALUATED = """\
import torch
from torch import nn

torch.manual_seed(0)


class Engine:
    def __init__(self):
        self.scale = 1.0
        self.net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.Linear(8, 1))
        self.optimizer = torch.optim.AdamW(self.net.parameters())

    def advance(self, hidden):
        loss = self.net[1:](hidden).mean() * self.scale
        print("loss", loss.item())
        getattr(loss, "back" + "ward")()

    def update(self):
        getattr(self.optimizer, "st" + "ep")()
        self.optimizer.zero_grad()


def validate(net):
    net.eval()
    with torch.no_grad():
        score = net(torch.ones(64, 8)).mean().item()
    net.train()
    return score


def main():
    engine = Engine()
    for n in range(200):
        x = torch.randn(4, 8)
        hidden = engine.net[0](x)
        getattr(engine, "ad" + "vance")(hidden)
        getattr(engine, "up" + "date")()
        if n % 2 == 0:
            print("score", validate(engine.net))
        if n % 3 == 0:
            torch.save(engine.net.state_dict(), "last.pt")


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
IN_TURNS = """\
import functools
import torch

net = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
state = {}


def forward():
    state["loss"] = net(torch.randn(4, 8)).mean()


def backward():
    getattr(state["loss"], "back" + "ward")()


def update():
    optimizer.step()
    optimizer.zero_grad()


for n in range(12):
    for handler in (forward, backward, update):
        call = functools.partial(handler)
        call()
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


def test_what_is_beside_a_step_that_a_run_has_shown_is_skipped(
    git_repo: RepoFactory, measure: Measure, torch_python: Path
) -> None:
    """As beside one that was read: the steps are those of the script, and have neither."""
    repo = git_repo({"train.py": EVALUATED})
    ran = measure(repo, "train.py", env={"VIRTUAL_ENV": str(torch_python.parent.parent)})
    assert ran.code == 0, ran.err
    plan = read(ran.folder, "plan.json")
    lines = EVALUATED.splitlines()
    places = {n for n, text in enumerate(lines, 1) if "score" in text and "print" in text}
    saves = [n for n, text in enumerate(lines, 1) if "torch.save" in text]
    assert (set(plan["skipped_validation"]), plan["skipped_checkpoints"]) == (places, saves)
    assert plan["found_by"] == read(ran.folder)["loop"]["found_by"] == "running"
    assert "found by running the script" in ran.err
    log = (ran.folder / "run.log").read_text(encoding="utf-8").splitlines()
    alone = subprocess.run(
        [torch_python, "train.py"], cwd=repo, text=True, capture_output=True, check=True
    ).stdout.splitlines()
    losses = [each for each in log if each.startswith("loss ")]
    assert losses == [each for each in alone if each.startswith("loss ")][: len(losses)] != []
    assert any("score" in each for each in alone) and not any("score" in each for each in log)
    told = texts(read(ran.folder)["warnings"])
    assert any("A host read inside advance() is inside the timed region" in each for each in told)
    assert "found by running the script" in (ran.folder / "report.html").read_text(encoding="utf-8")
    assert "region verified: forward, backward, optimizer" in ran.out


def test_a_validation_that_such_a_step_depends_on_is_timed_on_its_own(
    git_repo: RepoFactory, measure: Measure, torch_python: Path
) -> None:
    told = 'print("score", validate(engine.net))'
    source = EVALUATED.replace(told, "engine.scale = validate(engine.net)")
    repo = git_repo({"train.py": source})
    ran = measure(repo, "train.py", env={"VIRTUAL_ENV": str(torch_python.parent.parent)})
    assert ran.code == 0, ran.err
    summary = read(ran.folder)
    (told,) = [each for each in texts(summary["warnings"]) if "Validation is kept" in each]
    assert "might change scale" in told
    assert summary["wall_clock_ms"]["iteration"]["kept"]["names"] == ["validation"]


def test_beside_a_step_of_code_without_a_file_all_stays(
    git_repo: RepoFactory, measure: Measure, torch_python: Path
) -> None:
    """What a text computes of the forward may depend on anything."""
    made = 'space = {}\nexec("def mean(x):\\n    return x.mean() * 2", space)\n\n\nclass Engine'
    source = EVALUATED.replace("class Engine", made)
    source = source.replace("(hidden).mean()", '(hidden)\n        loss = space["mean"](loss)')
    repo = git_repo({"train.py": source})
    ran = measure(repo, "train.py", env={"VIRTUAL_ENV": str(torch_python.parent.parent)})
    assert ran.code == 0, ran.err
    summary, plan = read(ran.folder), read(ran.folder, "plan.json")
    assert plan["skipped_validation"] == plan["skipped_checkpoints"] == []
    told = texts(summary["warnings"])
    assert any(
        "mean() of <string> is a part of the step, and it cannot be" in each for each in told
    )
    kept = summary["wall_clock_ms"]["iteration"]["kept"]
    assert {*kept["names"]} == {"checkpoint", "validation"}


def test_the_turns_of_a_loop_that_make_up_a_step_are_timed_together(measured: Measure) -> None:
    ran = measured(IN_TURNS, "--profiler", "wallclock", "--steps", "4")
    assert ran.code == 0, ran.err
    assert timed(read(ran.folder, "plan.json")) == {"start_line": 23, "end_line": 25}
    verified = read(ran.folder)["verification"]
    assert verified["verified"] == ["forward", "backward", "optimizer"]


TWO_LOOPS = """\
import torch

net = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.randn(12, 4, 8)


def pretrain():
    for x in data:
        net(x).mean().backward()
        optimizer.step()


def finetune():
    for x in data:
        net(x).sum().backward()
        optimizer.step()


pretrain()
finetune()
"""


def test_loops_that_are_not_measured_are_named_beside_the_figures(measured: Measure) -> None:
    ran = measured(TWO_LOOPS, "--profiler", "wallclock", "--steps", "4")
    assert ran.code == 0, ran.err
    said = " ".join(ran.out.split())
    assert "Only the loop of pretrain() is measured, the first that runs" in said
    assert "the other one: --loop train.py:15" in said


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
    place = {"file": str(repo / "train.py"), "line": 6}
    assert summary["loop"] == {**place, "found_by": "running"}
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


def test_equal_chains_of_micro_batches_are_one() -> None:
    first, second = [("train.py", 3, "train")], [("train.py", 4, "train")]
    assert distinct([second, first, second, list(first)]) == [second, first]


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
