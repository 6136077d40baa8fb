"""Whole runs on real torch: a delay in any phase comes back as that phase's.

The scripts move the clock themselves, so what the machine does decides nothing: a delay takes
exactly as long as the script says, and everything else no time at all.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from instrumentor_analysis.clock.timings import read_timings, wall_clock
from instrumentor_analysis.clock.what_if import what_if
from tests.conftest import RepoFactory, RunCli
from tests.end_to_end.small import records

CLOCK = """\
import time

now_s = [100.0]
time.perf_counter = lambda: now_s[0]


def delay(milliseconds):
    now_s[0] += milliseconds / 1000


import torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Slowly(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        delay(30)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        delay(50)
        return gradient


class Optimizer(torch.optim.SGD):
    def step(self, closure=None):
        delay(20)
        return super().step(closure)


def batches(count):
    for at in range(count):
        delay(40)
        yield torch.ones(8, 8)


class Items(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, at):
        delay(5)
        return torch.ones(8)


device = torch.device(DEVICE)
model = torch.nn.Linear(8, 2).to(device)
optimizer = Optimizer(model.parameters(), lr=0.1)
"""
PLAIN = """

def train():
    for x in BATCHES:
        delay(10)
        x = x.to(device)
        optimizer.zero_grad()
        loss = Slowly.apply(model(x)).pow(2).mean()
        loss.backward()
        delay(4)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        for _ in range(3):
            delay(5)


train()
"""
ACCUMULATED = """

step = 0
for x in BATCHES:
    loss = Slowly.apply(model(x)).pow(2).mean() / 2
    loss.backward()
    step += 1
    if step % 2 == 0:
        optimizer.step()
        optimizer.zero_grad()
    delay(2)
"""
TWICE = """

for x in BATCHES:
    optimizer.zero_grad()
    first = Slowly.apply(model(x)).pow(2).mean()
    first.backward()
    delay(7)
    loss = Slowly.apply(model(x)).mean()
    loss.backward()
    optimizer.step()
"""
LAYERS = """

class Layer(torch.nn.Linear):
    def forward(self, x):
        delay(15)
        return super().forward(x)


model = torch.nn.Sequential(Layer(8, 8), torch.nn.ReLU(), Layer(8, 2))
optimizer = Optimizer(model.parameters(), lr=0.1)
for x in BATCHES:
    optimizer.zero_grad()
    loss = Slowly.apply(model(x)).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
DATA = {"loader": "DataLoader(Items(), batch_size=8)", "generator": "batches(40)"}
WHOLE = {
    "data": 40.0, "prepare": 10.0, "forward": 30.0, "backward": 50.0, "optimizer": 20.0,
    "other": 19.0,
}  # fmt: skip


@pytest.fixture
def measured(run_cli: RunCli, git_repo: RepoFactory) -> Any:
    """The phases of a run's iteration, and the summary's whole document with its folder."""

    def measure(code: str, python: Path, *options: str) -> tuple[dict[str, float], Any, Path]:
        repo = git_repo({"train.py": code})
        made = run_cli(
            *("run", "--json", "--no-history", "--profiler", "wallclock", "--python", python),
            *("--steps", "6", *options, "-o", "out", "train.py"),
            cwd=repo,
        )
        assert made.returncode == 0, made.stderr
        document = json.loads(made.stdout)
        found = (document["phases"] or {}).get("phases", ())
        return {each["name"]: each["ms"] for each in found}, document, repo / "out"

    return measure


def script(body: str, data: str = DATA["generator"], device: str = '"cpu"') -> str:
    return CLOCK.replace("DEVICE", device) + body.replace("BATCHES", data)


@pytest.mark.parametrize("data", DATA)
def test_a_delay_in_each_phase_comes_back_as_that_phase_s(
    measured: Any, torch_python: Path, data: str
) -> None:
    found, document, folder = measured(script(PLAIN, DATA[data]), torch_python, "--phases", "4")
    assert found == pytest.approx(WHOLE)
    phases = document["phases"]
    assert (phases["count"], phases["unowned_percent"]) == (4, pytest.approx(0, abs=1e-6))
    assert phases["ms"] == pytest.approx(sum(WHOLE.values()))
    # The samples lie ahead, and none of them has a barrier inside.
    assert document["wall_clock_ms"]["median"] == pytest.approx(80)
    assert phases["longer_percent"] == pytest.approx(0, abs=1e-6)
    kinds = [
        each["event"]
        for each in map(json.loads, (folder / "timings.jsonl").read_text().splitlines())
    ]
    last = max(at for at, kind in enumerate(kinds) if kind == "sample")
    assert kinds.index("phases") > last


@pytest.mark.parametrize("data", DATA)
def test_an_input_that_is_hidden_is_measured(measured: Any, torch_python: Path, data: str) -> None:
    _, document, folder = measured(script(PLAIN, DATA[data]), torch_python, "--phases", "4")
    timings = read_timings(folder / "timings.jsonl")
    # By themselves: of a machine that is busy nothing is predicted.
    without = wall_clock(timings, document["scope"]).iteration
    found = {each.change: each for each in what_if(timings.extra, without, timings.again)}
    hidden = found["no wait for data"]
    rest_ms = sum(WHOLE.values()) - WHOLE["data"]
    assert hidden.basis == "measured" and hidden.ms == pytest.approx(rest_ms)
    # Another run is another one, however exact this clock is.
    assert hidden.interval_ms is not None
    assert hidden.interval_ms.low < 0.8 * rest_ms and hidden.interval_ms.high > 1.2 * rest_ms
    again = records(folder, "same_batch")
    assert [each["ms"] for each in again] == pytest.approx([rest_ms] * len(again))
    assert not any(each["data_ms"] for each in again)


def test_nothing_of_the_extra_steps_is_in_force_while_samples_are_taken(
    measured: Any, torch_python: Path, tmp_path: Path
) -> None:
    watched = """
import atexit
import json
import sys

free, real = [], torch.nn.Module.__call__
atexit.register(lambda: open(FREE, "w").write(json.dumps(free)))


class Model(torch.nn.Linear):
    def forward(self, x):
        free.append(torch.nn.Module.__call__ is real and sys.gettrace() is None)
        return super().forward(x)


model = Model(8, 2)
optimizer = Optimizer(model.parameters(), lr=0.1)
"""
    traced = "        free[-1] = free[-1] and sys.gettrace() is None\n        for _ in"
    code = script(PLAIN).replace("\n\ndef train", watched + "\n\ndef train")
    code = code.replace("FREE", repr(str(tmp_path / "free.json")))
    code = code.replace("        for _ in range(3)", traced + " range(3)")
    _, _, folder = measured(code, torch_python, "--phases", "4")
    found = json.loads((tmp_path / "free.json").read_text("utf-8"))
    samples = len(records(folder, "sample"))
    assert samples == 6 and all(found[:samples]) and not all(found[samples:])


def test_accumulated_gradients_are_of_whole_cycles(measured: Any, torch_python: Path) -> None:
    found, document, folder = measured(script(ACCUMULATED), torch_python, "--phases", "4")
    assert document["phases"]["count"] == 4
    # Which of the two the same batch again would be is not known.
    assert not records(folder, "same_batch")
    # Two micro-steps an update, so half of it is each one's.
    assert found == pytest.approx(
        {"data": 40, "forward": 30, "backward": 50, "optimizer": 10, "other": 2}
    )


def test_each_module_has_its_forward_and_its_flops(measured: Any, torch_python: Path) -> None:
    _, document, folder = measured(script(LAYERS), torch_python, "--phases", "2")
    tree = document["modules"]
    names = ["Sequential", "0", "1", "2"]
    assert [each["name"] for each in tree["modules"]] == names
    assert [each["ms"] for each in tree["modules"]] == pytest.approx([30, 15, 0, 15])
    assert [each["flops"] for each in tree["modules"]] == [1280, 1024, 0, 256]
    assert tree["ms"] == pytest.approx(30) and "Forward by module" in (
        folder / "summary.md"
    ).read_text("utf-8")
    # As exact as without: none of these steps is a sample.
    assert document["wall_clock_ms"]["median"] == pytest.approx(110)


def test_what_feeds_a_second_backward_is_forward(measured: Any, torch_python: Path) -> None:
    found, _, _ = measured(script(TWICE), torch_python, "--phases", "3")
    assert found == pytest.approx({"data": 40, "forward": 67, "backward": 100, "optimizer": 20})


def test_a_number_of_steps_is_exactly_so_many(measured: Any, torch_python: Path) -> None:
    found, document, folder = measured(script(PLAIN), torch_python)
    assert not found and document["phases"] is None
    assert not records(folder, "phases") and len(records(folder, "sample")) == 6


def test_a_script_that_ends_first_keeps_its_samples(measured: Any, torch_python: Path) -> None:
    found, document, _ = measured(script(PLAIN, "batches(8)"), torch_python, "--phases", "20")
    assert document["wall_clock_ms"]["samples"] == 5 and not document["partial"]
    assert document["phases"]["count"] == 1 and found == pytest.approx(WHOLE)
    assert not any("ended" in str(each) for each in document["warnings"])


@pytest.mark.xla
def test_a_delay_in_each_phase_on_torch_xla(measured: Any, xla_python: Path) -> None:
    code = (
        script(PLAIN, device="torch_xla.device()")
        .replace("import torch\n", "import torch\nimport torch_xla\n")
        .replace("        for _ in", "        torch_xla.sync()\n        for _ in")
    )
    found, document, folder = measured(code, xla_python, "--phases", "4")
    assert found == pytest.approx(WHOLE)
    # What compiles for a barrier of its own is no figure.
    compiled = [each["compiled"] for each in records(folder, "phases")]
    assert any(compiled) and compiled.count(False) == document["phases"]["count"] == 4
