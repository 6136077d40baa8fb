"""On real torch_xla (its CPU backend): whole runs, and whether a sample holds all of its step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import RunCli
from tests.waiting import HANG_S

pytestmark = pytest.mark.xla

SCRIPTS = "blacksmith/experiments/torch"
EXPERIMENTS = ["mnist", "tiny_llama", "tiny_llama_lora"]


@pytest.mark.parametrize("script", EXPERIMENTS)
def test_a_run_ends_in_a_summary(
    own_experiments_repo: Path, script: str, xla_python: Path, run_cli: RunCli, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    done = run_cli(
        *("run", "--steps", "5", "--python", xla_python, "--output", output),
        f"{SCRIPTS}/{script}/train.py",
        cwd=own_experiments_repo,
        timeout=HANG_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr

    (path,) = output.rglob("summary.json")
    summary = json.loads(path.read_text(encoding="utf-8"))
    assert summary["script_exit_code"] == 0
    # Four where each step is one micro-step; with four of them the second optimizer step ends it.
    # A micro-step in which torch_xla compiled again is none of the steady ones.
    assert summary["wall_clock_ms"]["samples"] in ((4,) if script == "mnist" else (6, 7))
    assert summary["wall_clock_ms"]["median"] > 1
    # torch.profiler sees nothing of XLA's work: no figure is made up from it.
    assert summary["profiler"] == "wallclock"
    assert summary["device_time_ms"] is None
    assert summary["overhead_percent"] is None
