"""A script that compiles again: its steps are known by dynamo's own counter."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import RepoFactory, RunCli
from tests.warned import texts

SCRIPT = """\
import torch

torch.set_num_threads(1)
model = torch.nn.Linear(8, 4)
compiled = torch.compile(model, backend="eager", dynamic=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
sizes = [4, 4, 6, 4, 6, 4, 4, 4, 4, 4, 4, 4]
for size in sizes:
    x = torch.ones(size, 8)
    optimizer.zero_grad()
    loss = compiled(x).pow(2).mean()
    loss.backward()
    optimizer.step()
"""


def test_a_step_that_compiles_again_is_no_steady_one(
    run_cli: RunCli, git_repo: RepoFactory, torch_python: Path
) -> None:
    repo = git_repo({"train.py": SCRIPT})
    made = run_cli(
        *("run", "--json", "--profiler", "wallclock", "--steps", "5", "--no-history"),
        *("--python", torch_python, "train.py"),
        cwd=repo,
    )
    assert made.returncode == 0, made.stderr
    document = json.loads(made.stdout)
    assert [step["kind"] for step in document["steps"]] == [
        "compile", "steady", "compile", "steady", "steady", "steady",
    ]  # fmt: skip
    (again,) = document["wall_clock_ms"]["compilations"]
    assert again["name"] == "step_steady_2"
    assert document["wall_clock_ms"]["samples"] == 4
    assert again["ms"] not in document["wall_clock_ms"]["values"]
    assert any(text.startswith("1 later step compiled") for text in texts(document["warnings"]))


@pytest.mark.slow
def test_repeats_have_a_folder_each_and_are_compared_as_one(
    run_cli: RunCli, git_repo: RepoFactory, torch_python: Path
) -> None:
    repo = git_repo({"train.py": SCRIPT.replace("[4, 4, 6, 4, 6, ", "[4, 4, 4, 4, ")})
    options = ("run", "--profiler", "wallclock", "--steps", "5", "--no-history")
    options += ("--python", str(torch_python))
    made = run_cli(*options, "--repeat", "2", "-o", "base", "train.py", cwd=repo)
    assert made.returncode == 0, made.stderr
    assert "2 runs; the report above is that of base" in made.stdout
    assert re.search(
        r"^  base-2  fwd\+bwd \S+ [mu]?s, .*4 steps, iteration \S+ [mu]?s", made.stdout, re.M
    )
    assert re.search(r"^Runs differ by \S+ % \(iteration: medians from ", made.stdout, re.M)
    end = made.stderr.splitlines()
    assert any(
        each.startswith("Next: instrument history train.py  # these runs beside") for each in end
    )
    assert [each.partition(" ")[0] for each in end].count("Wrote") == 1
    again = run_cli(*options, "--repeat", "2", "--json", "-o", "new", "train.py", cwd=repo)
    assert again.returncode == 0, again.stderr
    document = json.loads(again.stdout)
    assert [Path(each["folder"]).name for each in document["runs"]] == ["new", "new-2"]
    assert document["noise_percent"] > 0
    found = run_cli("compare", "base", "base-2", "--", "new", "new-2", "--json", cwd=repo)
    assert found.returncode == 0, found.stderr
    timing = json.loads(found.stdout)["timings"][0]
    assert (timing["between"]["base_runs"], timing["between"]["new_runs"]) == (2, 2)
