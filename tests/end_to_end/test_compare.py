"""Two real runs under the torch profiler, compared, in subprocesses throughout."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.conftest import RepoFactory, RunCli
from tests.end_to_end.small import script

SCRIPT = """\
import argparse
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=16)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--pause", type=float, default=0.004)
args = parser.parse_args()
torch.set_num_threads(1)
model = torch.nn.Sequential(
    torch.nn.Linear(64, args.width), torch.nn.ReLU(), torch.nn.Linear(args.width, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = [(torch.randn(args.batch, 64), torch.zeros(args.batch).long()) for _ in range(40)]
for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    time.sleep(args.pause)  # most of the step, however busy the machine is
    loss.backward()
    optimizer.step()
"""


def _as_if_quiet(*folders: Path) -> None:
    """Take out of what runs recorded that other tests kept the machine busy beside them."""
    for path in (folder / name for folder in folders for name in ("run.json", "summary.json")):
        document = json.loads(path.read_text())
        run = document.get("run", document)
        run["machine"]["other_cpus"] = 0.0
        path.write_text(json.dumps(document))


@pytest.mark.slow
def test_a_wider_model_is_slower_for_sure(run_cli: RunCli, git_repo: RepoFactory) -> None:
    repo = git_repo({"train.py": SCRIPT})
    options = ("run", "--quiet", "--profiler", "torch", "--steps", "14", "--warmup", "3")
    made = run_cli(*options, "train.py", cwd=repo)
    assert made.returncode == 0, made.stderr
    arguments = ("train.py", "--width", "2048", "--batch", "64", "--pause", "0.4")
    wide = run_cli(*options, "--label", "wide", *arguments, cwd=repo)
    assert wide.returncode == 0, wide.stderr

    _as_if_quiet(repo / "instrument-runs" / "repo-1", repo / "instrument-runs" / "repo_wide-1")
    found = run_cli(
        *(
            "compare",
            "instrument-runs/repo-1",
            "instrument-runs/repo_wide-1",
            "--json",
            "--markdown",
            "c.md",
            "--html",
            "c.html",
        ),
        *("--fail-on-regression", "20"),
        cwd=repo,
        fresh=True,
    )
    assert found.returncode == 6, found.stderr
    slower = "repo_wide-1: slower than repo-1 by more than 20 % (iteration, significant)"
    assert slower in found.stderr
    document = json.loads(found.stdout)
    assert document["basis"] == "sample"
    assert [document[side]["batch_size"] for side in ("base", "new")] == [32, 64]
    timing = document["timings"][0]
    assert timing["real"] and timing["ratio"] > 1.2
    # Of steps that others slow down for a while few are independent, and then no interval is told.
    assert timing["interval"]["low"] > 1.2 if timing["told"] else timing["interval"] is None
    assert document["ops"]["by"] == "kind" and document["ops"]["counts"]["changed"] > 0
    assert "arguments" in [each["what"] for each in document["differences"]]
    assert (repo / "c.html").is_file()
    assert "**slower**" in (repo / "c.md").read_text()

    last = run_cli("compare", "instrument-runs/repo-1", "@last", cwd=repo, fresh=True)
    assert last.returncode == 0 and "@last (run 2)" in last.stdout, last.stderr
    listed = json.loads(run_cli("history", "train.py", "--json", cwd=repo, fresh=True).stdout)
    assert [each["label"] for each in listed["runs"]] == ["", "wide"]
    assert listed["runs"][0]["commit"] and listed["runs"][0]["batch_size"] == 32


def test_a_history_that_cannot_be_used_costs_no_run(
    run_cli: RunCli, git_repo: RepoFactory, tmp_path: Path
) -> None:
    repo = git_repo({"train.py": script()})
    broken = tmp_path / "broken.sqlite"
    broken.write_text("no database, whatever its name says" * 30)
    options = ("--quiet", "--profiler", "wallclock", "--history", broken)
    made = run_cli("run", *options, "train.py", cwd=repo)
    assert made.returncode == 0, made.stderr
    assert "warning: not added to the history" in made.stderr
    assert "file is not a database" in made.stderr
    assert not (Path(os.environ["XDG_DATA_HOME"]) / "instrumentor").exists()
