"""Whole runs: what interrupts a compiler is named, with the user's own line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RepoFactory, RunCli
from tests.warned import texts

BROKEN = """\
import torch

torch.set_num_threads(1)
layer = torch.nn.Linear(8, 2)


def net(x):
    y = layer(x)
    print("sizes", y.shape)
    return y * 2


model = torch.compile(net, backend="eager")
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(40):
    x = torch.ones(4 if step < 3 else 6, 8)
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
ON_XLA = """\
import torch
import torch_xla

device = torch_xla.device()
model = torch.nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    x = torch.ones(4, 8).to(device)
    optimizer.zero_grad()
    y = model(x)
    kept = torch.nonzero(y * 0 + 1)
    loss = y.pow(2).mean() * (kept.shape[0] > 0)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
"""

AGAIN = """\
import torch
import torch_xla

device = torch_xla.device()
model = torch.nn.Linear(8, 2).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
data = torch.ones(64, 8, device=device)


def batch(step):
    return data[FIRST : FIRST + 4]


for step in range(60):
    x = torch.ones(SIZE, 8).to(device)
    loss = (model(x).mean() + model(batch(step)).mean()) * (step + 2.5)
    loss = loss.pow(POWER)
    loss.backward()
    UPDATE
    torch_xla.sync()
"""
EACH = "optimizer.step()\n    optimizer.zero_grad()"
SOME = "if step % 2:\n        optimizer.step()\n        optimizer.zero_grad()"
SAME = {"SIZE": "4", "FIRST": "3", "POWER": "2", "UPDATE": EACH}


@pytest.fixture
def measured(run_cli: RunCli, git_repo: RepoFactory) -> Any:
    def measure(code: str, python: Path) -> Any:
        repo = git_repo({"train.py": code})
        made = run_cli(
            *("run", "--json", "--no-history", "--profiler", "wallclock", "--python", python),
            *("--steps", "8", "-o", "out", "train.py"),
            cwd=repo,
        )
        assert made.returncode == 0, made.stderr
        return json.loads(made.stdout)

    return measure


def line_of(code: str, text: str) -> int:
    return 1 + code[: code.index(text)].count("\n")


def test_a_graph_break_and_a_recompilation_have_their_lines(
    measured: Any, torch_python: Path
) -> None:
    document = measured(BROKEN, torch_python)
    found = {(each["kind"], each["line"]) for each in document["causes"]}
    assert ("graph break", line_of(BROKEN, "print(")) in found
    assert ("recompiled", line_of(BROKEN, "def net")) in found
    assert {each["file"] for each in document["causes"]} == {"train.py"}
    again = [each for each in document["causes"] if each["kind"] == "recompiled"]
    assert any("size mismatch" in each["what"] for each in again)
    assert all(each["ms"] > 0 for each in again)
    said = texts(document["warnings"])
    assert any("one graph of the step" in text and "train.py:" in text for text in said)


@pytest.mark.xla
def test_an_op_that_torch_xla_lacks_has_its_line_and_each_layer_its_time(
    measured: Any, xla_python: Path
) -> None:
    document = measured(ON_XLA, xla_python)
    found = {(each["what"], each["file"], each["line"]) for each in document["causes"]}
    assert ("aten::nonzero", "train.py", line_of(ON_XLA, "kept =")) in found
    layers = {each["name"]: each for each in document["host_layers"]}
    assert {"tracing", "execute", "from device"} <= set(layers)
    assert all(each["of"] == "torch_xla" and each["time_ms"] > 0 for each in layers.values())
    # steady steps compile nothing; the times are torch_xla's own, whose timers hold each other
    assert "compile" not in layers


@pytest.mark.xla
@pytest.mark.parametrize(
    ("change", "kind", "line", "what"),
    [
        ({"SIZE": "4 + step"}, "new graph", "x = torch", "aten::_to_copy: shape"),
        ({"FIRST": "step"}, "new graph", "return data", "aten::slice: "),
        # The optimizer's and the loss's own numbers change as well, and are inputs of the graph.
        ({"POWER": "step % 50 + 2"}, "new graph", "loss = loss.pow", "aten::pow: "),
        ({"UPDATE": SOME}, "gradients dropped", "optimizer.zero_grad", "zero_grad"),
        ({}, None, None, None),
    ],
)
def test_what_keeps_a_step_from_being_replayed_has_its_line(
    measured: Any, xla_python: Path, change: Any, kind: Any, line: Any, what: Any
) -> None:
    code = AGAIN
    for word, text in {**SAME, **change}.items():
        code = code.replace(word, text)
    causes = measured(code, xla_python)["causes"]
    if kind is None:
        assert not causes
        return
    (cause,) = causes
    assert (cause["kind"], cause["file"]) == (kind, "train.py")
    assert cause["what"].startswith(what) and cause["line"] == line_of(code, line)
