"""Whole runs: what an iteration is made of, how many steps are taken, steps of several kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RepoFactory, RunCli
from tests.end_to_end.small import records
from tests.warned import texts

SLOW_DATA = """\
import time
import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 4 * ITERATIONS

    def __getitem__(self, at):
        time.sleep(0.005)
        return torch.ones(8), at % 2


torch.set_num_threads(1)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.Adam(model.parameters())
for x, y in DataLoader(Slow(), batch_size=4):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    time.sleep(0.004)
"""
LSTM = """\
import torch

torch.set_num_threads(1)
model = torch.nn.LSTM(8, 8, batch_first=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def batches(count):
    for _ in range(count):
        yield torch.ones(4, 5, 8)


for x in batches(7):
    x = x * 1.0
    optimizer.zero_grad()
    out, _ = model(x)
    loss = out.pow(2).mean()
    loss.backward()
    optimizer.step()
"""
BY_TURNS = """\
import torch

torch.set_num_threads(1)
small = torch.nn.Linear(8, 2)
large = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(60)])
models = [small, large]
weights = [*small.parameters(), *large.parameters()]
optimizer = torch.optim.SGD(weights, lr=0.01)
for step in range(40):
    x = torch.ones(4, 8)
    optimizer.zero_grad()
    loss = models[step % 2](x).pow(2).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def measured(run_cli: RunCli, git_repo: RepoFactory, torch_python: Path) -> Any:
    """The summary of a run of a script, its folder, and what the console said."""

    def measure(code: str, *options: str) -> tuple[dict[str, Any], Path, str]:
        repo = git_repo({"train.py": code})
        made = run_cli(
            *("run", "--json", "--verbose", "--no-history", "--python", torch_python, *options),
            *("-o", "out", "train.py"),
            cwd=repo,
        )
        assert made.returncode == 0, made.stderr
        return json.loads(made.stdout), repo / "out", made.stderr

    return measure


def test_a_script_that_waits_for_its_data(measured: Any) -> None:
    document, folder, _ = measured(SLOW_DATA.replace("ITERATIONS", "40"), "--steps", "12")
    wall = document["wall_clock_ms"]
    whole = wall["iteration"]
    assert (wall["samples"], whole["count"]) == (11, 11)  # profiled steps follow
    parts = {part["name"]: part["ms"] for part in whole["parts"]}
    assert sum(parts.values()) == pytest.approx(whole["median_ms"])
    # Four items of 5 ms, and what the script does behind its update.
    assert parts["data"] >= 20 and parts["other"] >= 4
    assert whole["median_ms"] >= wall["median"] + 24
    # What is trained a second is that of the iteration, not of fwd+bwd.
    assert whole["samples_per_s"] == pytest.approx(4 / whole["median_ms"] * 1000)
    assert whole["samples_per_s"] < wall["samples_per_s"]
    every = [record["ms"] for record in records(folder, "iteration")]
    starts = [record["start_s"] for record in records(folder, "sample")]
    # Of all that lies between two starts only the recorder's own time is left out.
    for at in range(4, 10):
        assert every[at] <= (starts[at + 1] - starts[at]) * 1000 + 0.001
    if document["verdict"] is not None:  # the machine was quiet
        assert document["verdict"] == "input-bound"


def test_a_loader_of_few_batches_has_a_profiled_step_too(measured: Any) -> None:
    document, folder, said = measured(SLOW_DATA.replace("ITERATIONS", "8"))
    assert len(records(folder, "profiled")) == 1 and document["op_count"]
    assert document["wall_clock_ms"]["samples"] >= 2
    (early,) = (text for text in texts(document["warnings"]) if "before the median" in text)
    assert early.startswith("The script ended after 7 samples")
    assert "one step under the profiler" in said
    assert not any("no ops" in text for text in texts(document["warnings"]))


def test_a_generator_s_batches_are_not_called_data(measured: Any) -> None:
    document, _, _ = measured(LSTM, "--steps", "6")
    names = [part["name"] for part in document["wall_clock_ms"]["iteration"]["parts"]]
    assert "data" not in names and {"next batch", "before forward", "fwd+bwd"} <= set(names)
    assert document["memory"]["resident_bytes"] > 1e6


def test_two_models_by_turns_are_told_apart(measured: Any) -> None:
    document, folder, _ = measured(BY_TURNS, "--steps", "25", "--profiler", "wallclock")
    assert len({record["nodes"] for record in records(folder, "sample")}) == 2
    wall = document["wall_clock_ms"]
    assert [each["samples"] for each in wall["populations"]] == [12, 12]
    assert wall["median_interval"] is None
    assert wall["iteration"]["populations"]


def test_without_a_number_the_script_s_own_clock_decides(measured: Any) -> None:
    document, folder, said = measured(
        BY_TURNS.replace("range(40)", "range(100000)").replace("step % 2", "0"),
        *("--profiler", "wallclock", "--time-budget", "6"),
    )
    (complete,) = records(folder, "complete")
    assert complete["why"] in ("precise", "budget", "most", "busy")
    assert 20 <= document["wall_clock_ms"]["samples"] <= 200
    told = {
        "precise": "the median is known to 1 % after",
        "budget": "the time is up after",
        "most": "200 samples are taken",
        "busy": "the machine is too busy for a figure",
    }
    assert told[complete["why"]] in said


ACCUMULATES = """\
import torch

torch.set_num_threads(1)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(14):
    loss = model(torch.ones(4, 8)).pow(2).mean() / 4
    loss.backward()
    if (step + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


def test_a_step_under_the_profiler_makes_no_update_shorter(measured: Any) -> None:
    """It is the second of the four micro-steps behind the first update."""
    document, folder, _ = measured(ACCUMULATES, "--steps", "11")
    assert document["wall_clock_ms"]["iteration"]["update"]["micro_steps"] == 4
    regions = [each["region"] for each in records(folder, "iteration")]
    missing = set(range(regions[0], regions[-1])) - set(regions)
    assert len(missing) == 1
    (early,) = (w["message"] for w in document["warnings"] if w["kind"] == "few-samples")
    assert early.startswith("The script ended after 11 samples, before what follows them was over")


def test_a_busy_machine_is_said_above_the_figures(
    measured: Any, run_cli: RunCli, git_repo: RepoFactory
) -> None:
    long = LSTM.replace("batches(7)", "batches(40)")
    _, folder, _ = measured(long, "--steps", "6", "--profiler", "wallclock")
    facts = json.loads((folder / "run.json").read_text())
    facts["machine"] = {"cpus": 2, "other_cpus": 1.1}
    (folder / "run.json").write_text(json.dumps(facts))
    told = run_cli("report", folder, cwd=folder).stdout
    assert told.count("Machine busy") == 1 and told.count("Verdict:") == 1
    assert "Verdict: no conclusion: Machine busy: other processes used 1.1 of 2 CPUs" in told
    assert told.index("Machine busy") < told.index("Wall clock")
