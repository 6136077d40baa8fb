"""The stand-in of tt-crank is what tests of barriers need: asynchronous, in order, and right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import HANG_S

pytest.importorskip("torch", reason="needs torch: make test installs it")
# What relies on it is pinned in tests/end_to_end/test_crank.py.
pytestmark = pytest.mark.slow

CRANK = Path(__file__).parent / "standins" / "crank"
HEAD = """\
import json, time, torch, tt_crank.torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).to("tt")
x = torch.ones(4, 8).to("tt")
"""
STEP = """
def loss_fn(x):
    return model(x).sum()

compiled = torch.compile(loss_fn, backend="tt", dynamic=False)
compiled(x).backward()
[p.grad.cpu() for p in model.parameters()]
started = time.perf_counter()
loss = compiled(x)
loss.backward()
submitted = time.perf_counter() - started
loss.cpu()
loss_read = time.perf_counter() - started
[p.grad.cpu() for p in model.parameters()]
done = time.perf_counter() - started
print(json.dumps([1000 * seconds for seconds in (submitted, loss_read, done)]))
"""
#: A backward so long that a busy machine does not sleep through it.
MS = {"forward": 400, "backward": 3000}


def _run(code: str, tmp_path: Path, **env: str) -> tuple[Any, list[dict[str, Any]]]:
    """What a program printed as JSON, and the commands of the device."""
    log = tmp_path / "commands.jsonl"
    ms = ",".join(f"{kind}={value}" for kind, value in MS.items())
    settings = {"PYTHONPATH": str(CRANK), "TT_STANDIN_LOG": str(log), "TT_STANDIN_MS": ms}
    done = subprocess.run(
        [sys.executable, "-c", HEAD + code],
        env={**os.environ, **settings, **env},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    commands = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    commands = [command for command in commands if command["kind"] != "compile"]
    return json.loads(done.stdout.splitlines()[-1]), commands


def test_host_runs_ahead_and_a_read_waits_for_its_own_tensor(tmp_path: Path) -> None:
    (submitted, loss_read, done), commands = _run(STEP, tmp_path)
    assert submitted < MS["forward"] + MS["backward"]
    assert MS["forward"] <= loss_read < MS["forward"] + MS["backward"] <= done
    kinds = [c["kind"] for c in commands if c["kind"] in MS]
    assert kinds == ["forward", "backward"] * 2
    assert all(a["ended_s"] <= b["began_s"] for a, b in pairwise(commands))
    for command in commands:
        lasted = command["ended_s"] - command["began_s"]
        assert lasted * 1000 >= MS.get(command["kind"], 0)


def test_a_device_may_also_read_in_order(tmp_path: Path) -> None:
    (_, loss_read, _), _ = _run(STEP, tmp_path, TT_STANDIN_READ="queue")
    assert loss_read >= MS["forward"] + MS["backward"]


def test_module_has_no_synchronize_and_torch_has_none_for_it(tmp_path: Path) -> None:
    code = "print(json.dumps([hasattr(torch.tt, 'synchronize'), torch.tt.is_available()]))"
    assert _run(code, tmp_path)[0] == [False, True]


def test_views_write_into_what_they_are_views_of(tmp_path: Path) -> None:
    code = """
y = torch.arange(6.0).view(2, 3).to("tt")
y[0].fill_(7)
y.t()[0].mul_(2)
print(json.dumps([y.cpu().tolist(), y.t().reshape(-1).cpu().tolist()]))
"""
    values, _ = _run(code, tmp_path)
    assert values == [[[14.0, 7.0, 7.0], [6.0, 4.0, 5.0]], [14.0, 6.0, 7.0, 4.0, 7.0, 5.0]]


def test_a_failure_on_the_device_is_told_by_the_next_read(tmp_path: Path) -> None:
    code = """
bad = torch.ones(2, dtype=torch.long).to("tt").add_(9)
picked = torch.nn.functional.embedding(bad, x)
try:
    picked.cpu()
    print("null")
except RuntimeError as error:
    print(json.dumps(str(error)))
"""
    assert "index out of range" in _run(code, tmp_path)[0]
