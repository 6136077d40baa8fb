"""Scripts and tests that something else starts: measured by their own launchers."""

from __future__ import annotations

import json

import pytest

from tests.conftest import RepoFactory, RunCli

pytest.importorskip("torch", reason="needs torch: make test installs it")

TESTED = """\
import pytest
import torch
from torch import nn


def train(model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(steps):
        x = torch.randn(16, 8)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.fixture
def model():
    return nn.Linear(8, 8)


class TestOther:
    def test_adam(self, model):
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(25):
            loss = model(torch.randn(4, 8)).mean()
            loss.backward()
            optimizer.step()


@pytest.mark.parametrize("steps", [30, 40])
def test_training(model, steps):
    assert len(train(model, steps)) == steps
"""

LAUNCHED = """\
import argparse
import os

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
options = parser.parse_args()
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
print("rank", os.environ["RANK"], "lr", options.lr)
for step in range(40):
    loss = model(torch.randn(16, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

#: Two ranks, of which the second one is late in every step, in a place that the test names.
TOGETHER = """\
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    optimizer.zero_grad()
    loss = model(torch.randn(16, 8)).square().mean()
    if rank == 1:
        time.sleep(0.3)
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
"""

QUIET = ("--profiler", "wallclock", "--steps", "5", "--no-history", "-o", "out", "-q")


def test_a_test_is_measured_and_left_as_skipped(git_repo: RepoFactory, run_cli: RunCli) -> None:
    repo = git_repo({"tests/test_train.py": TESTED})
    words = ("-m", "pytest", "-rs", "tests/test_train.py::test_training[30]")
    done = run_cli("run", *QUIET, *words, cwd=repo)
    assert done.returncode == 0, done.stderr
    assert len((repo / "out" / "timings.jsonl").read_text().split('"event": "sample"')) == 6
    log = (repo / "out" / "run.log").read_text()
    assert "1 skipped" in log and "enough samples were taken" in log and "failed" not in log
    assert (repo / "tests" / "test_train.py").read_text() == TESTED


@pytest.mark.parametrize(
    ("test", "line"), [("::test_training", 9), ("::TestOther", 27), ("::TestOther::test_adam", 27)]
)
def test_the_loop_is_that_of_the_test(
    test: str, line: int, git_repo: RepoFactory, run_cli: RunCli
) -> None:
    repo = git_repo({"tests/test_train.py": TESTED})
    done = run_cli("explain", "--json", "-m", "pytest", f"tests/test_train.py{test}", cwd=repo)
    document = json.loads(done.stdout)
    assert (document["loop"]["line"], document["stop"]["strategy"]) == (line, "skip")


def test_a_file_of_several_tests_is_asked_about(git_repo: RepoFactory, run_cli: RunCli) -> None:
    repo = git_repo({"tests/test_train.py": TESTED})
    done = run_cli("explain", "-m", "pytest", "tests/test_train.py", cwd=repo)
    assert done.returncode == 3 and done.stdout.count("one of 2 training loops") == 2
    assert "-m pytest tests/test_train.py" in done.stdout.partition("hint:")[2]


def test_a_script_under_torchrun(git_repo: RepoFactory, run_cli: RunCli) -> None:
    repo = git_repo({"train.py": LAUNCHED})
    words = ("torchrun", "--nproc_per_node", "1", "--standalone", "train.py", "--lr", "0.5")
    done = run_cli("run", *QUIET, *words, cwd=repo)
    assert done.returncode == 0, done.stderr
    assert "rank 0 lr 0.5" in (repo / "out" / "run.log").read_text()
    assert (repo / "out" / "timings.jsonl").read_text().count('"event": "sample"') == 5


def test_a_dry_run_takes_what_a_run_takes(git_repo: RepoFactory, run_cli: RunCli) -> None:
    repo = git_repo({"train.py": LAUNCHED, "pkg/__init__.py": "", "pkg/train.py": LAUNCHED})
    plain = run_cli("--dry-run", "train.py", cwd=repo).stdout
    for words in (
        ["train.py", "--lr", "1"],
        ["-m", "pkg.train", "--lr", "1"],
        ["-m", "torch.distributed.run", "train.py"],
    ):
        done = run_cli("--dry-run", *words, cwd=repo)
        assert done.returncode == 0, done.stderr
        assert done.stdout.replace("pkg/", "") == plain
        assert " ".join(words[-2:]) in done.stderr.rpartition("Next: ")[2]


def test_ranks_are_recorded_and_the_late_one_is_named(
    git_repo: RepoFactory, run_cli: RunCli
) -> None:
    repo = git_repo({"train.py": TOGETHER})
    words = ("torchrun", "--nproc_per_node", "2", "--standalone", "train.py")
    done = run_cli("run", *QUIET, *words, cwd=repo)
    assert done.returncode == 0, done.stderr
    summary = json.loads((repo / "out" / "summary.json").read_text())
    ranks = summary["ranks"]
    # Of five samples the first two lead: the other rank's steps are no samples of this one.
    assert [(row["rank"], row["samples"]) for row in ranks["rows"]] == [(0, 3), (1, 3)]
    assert summary["wall_clock_ms"]["samples"] == 3 and ranks["world"] == 2
    # However busy the machine is: it sleeps for far longer than an exchange takes.
    assert (ranks["slowest"], ranks["steps"]) == (1, 4)
    assert ranks["rows"][0]["waited_ms"] > 100 > ranks["rows"][1]["waited_ms"]
    assert summary["verification"]["status"] == "verified"
    kinds = {each["kind"] for each in summary["warnings"]}
    assert "late-rank" in kinds and "several-processes" not in kinds
