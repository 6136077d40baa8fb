"""On real torch_xla (its CPU backend): whole runs, and whether a sample holds all of its step."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from pathlib import Path

import pytest

from tests.conftest import RunCli

pytestmark = pytest.mark.xla

SCRIPTS = "blacksmith/experiments/torch"
SECOND_WAIT = Path(__file__).with_name("second_wait.py")
EXPERIMENTS = ["mnist", "tiny_llama", "tiny_llama_lora"]


def _samples_ms(record: Path) -> list[float]:
    """The steady samples of a record file, in ms."""
    events = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    return [e["ms"] for e in events if e["event"] == "sample" and e["kind"] == "steady"]


@pytest.mark.parametrize("script", EXPERIMENTS)
def test_a_run_ends_in_a_summary(
    own_experiments_repo: Path, script: str, xla_python: Path, run_cli: RunCli, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    done = run_cli(
        *("run", "--python", xla_python, "--output", output),
        f"{SCRIPTS}/{script}/train.py",
        cwd=own_experiments_repo,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr

    (path,) = output.rglob("summary.json")
    summary = json.loads(path.read_text(encoding="utf-8"))
    assert summary["script_exit_code"] == 0
    # Four where each step is one micro-step; with four of them the second optimizer step ends it.
    assert summary["wall_clock_ms"]["samples"] == (4 if script == "mnist" else 7)
    assert summary["wall_clock_ms"]["median"] > 1
    # torch.profiler sees nothing of XLA's work: no figure is made up from it.
    assert summary["profiler"] == "wallclock"
    assert summary["device_time_ms"] is None
    assert summary["overhead_percent"] is None


@pytest.mark.parametrize("script", ["mnist", "tiny_llama"])
def test_nothing_is_left_to_wait_for_after_the_clock(
    own_experiments_repo: Path, script: str, xla_python: Path, run_cli: RunCli, tmp_path: Path
) -> None:
    repo = own_experiments_repo
    folder = f"{SCRIPTS}/{script}"
    target = f"{folder}/train.bench.py"
    applied = run_cli("apply", f"{folder}/train.py", "-o", target, cwd=repo)
    assert applied.returncode == 0, applied.stderr

    shown = {}
    for mode in ("sync-only", "full"):
        record = tmp_path / f"{mode}.jsonl"
        rests_file = tmp_path / f"{mode}.txt"
        done = subprocess.run(
            [str(xla_python), str(SECOND_WAIT), str(rests_file), mode, str(repo / target)],
            cwd=repo,
            env={
                **os.environ,
                "PYTHONPATH": str(repo),
                "INSTRUMENT_RECORD": str(record),
                "INSTRUMENT_PROFILER": "wallclock",
                "INSTRUMENT_STEPS": "9",
            },
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        samples = _samples_ms(record)
        rests = [float(line) for line in rests_file.read_text().split()][-len(samples) :]
        assert len(samples) == len(rests) >= 8
        shown[mode] = (statistics.median(samples), statistics.median(rests))
        print(f"{script}, {mode}: {shown[mode][0]:.2f} ms, then {shown[mode][1]:.2f} ms of waiting")

    sample_ms, rest_ms = shown["full"]
    assert rest_ms < 0.5 * sample_ms
