"""Runs on a device that works behind the host's back: what is recorded is what it really took."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import STANDINS
from tests.end_to_end.conftest import Measure, Ran
from tests.end_to_end.small import read, records

pytest.importorskip("torch", reason="needs torch: make test installs it")

SCRIPTS = "blacksmith/experiments/torch"
#: Long enough that what the host does, also on a busy machine, is a small part of it.
MS = {"forward": 500, "backward": 900}
TINY = {
    "hidden_size": 16,
    "num_layers": 1,
    "max_length": 8,
    "train_samples": 256,
    "val_samples": 16,
}


def shortened(repo: Path, experiment: str) -> str:
    """Path of a YAML like the experiment's own, for a very small model."""
    (default,) = (repo / SCRIPTS / experiment / "single_chip").glob("*.yaml")
    settings = yaml.safe_load(default.read_text(encoding="utf-8"))
    settings.update(TINY)
    if experiment == "tiny_llama_crank":
        settings["perf_metrics_enabled"] = True
    (repo / "tiny.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return "tiny.yaml"


def environment(repo: Path, folder: Path, **settings: str) -> dict[str, str]:
    """Where the stand-in is, how long it takes, where it logs."""
    ms = ",".join(f"{kind}={value}" for kind, value in MS.items())
    found = {"PYTHONPATH": f"{repo}:{STANDINS / 'crank'}", "TT_STANDIN_MS": ms}
    return {**found, "TT_STANDIN_LOG": str(folder / "commands.jsonl"), **settings}


def timed(ran: Ran, folder: Path) -> list[tuple[float, float, float]]:
    """(recorded, true, without waiting) of each sample, ms; the first is the one that compiles.

    The device's own log tells when it had done the step's backward, and when that was submitted,
    which is where a clock that waits for nothing stops.
    """
    lines = (folder / "commands.jsonl").read_text(encoding="utf-8").splitlines()
    commands: list[dict[str, Any]] = [json.loads(line) for line in lines]
    found: list[tuple[float, float, float]] = []
    for sample in records(ran.folder, "sample"):
        start, end = sample["start_s"], sample["start_s"] + sample["ms"] / 1000
        last = [
            c for c in commands if c["kind"] == "backward" and start <= c["submitted_s"] <= end
        ][-1]
        recorded, true, unwaited = (
            1000 * (each - start) for each in (end, last["ended_s"], last["submitted_s"])
        )
        found.append((recorded, true, unwaited))
    return found


LAST = "reading the loss, the first and the last gradient and parameter"


@pytest.mark.parametrize(
    ("script", "folder", "reads", "method"),
    [
        pytest.param("tiny_llama/train_crank.py", "train_crank", "queue", "reading the loss",
                     marks=pytest.mark.slow),
        pytest.param("tiny_llama/train_crank.py", "train_crank", "tensor", LAST,
                     marks=pytest.mark.slow),
        pytest.param("tiny_llama_lora/train_crank.py", "train_crank", "tensor", LAST,
                     marks=pytest.mark.slow),
        ("tiny_llama_crank/train.py", "tiny_llama_crank", "tensor", LAST),
    ],
)  # fmt: skip
def test_the_true_time_of_a_step_on_a_device_without_synchronize(
    own_experiments_repo: Path,
    measure: Measure,
    torch_python: Path,
    tmp_path: Path,
    script: str,
    folder: str,
    reads: str,
    method: str,
) -> None:
    repo = own_experiments_repo
    config = shortened(repo, script.partition("/")[0])
    env = environment(repo, tmp_path, TT_STANDIN_READ=reads)
    arguments = ("--python", torch_python, f"{SCRIPTS}/{script}", "--config", config)
    ran = measure(repo, *arguments, env=env, folder=f"instrument-runs/{folder}-1")
    assert ran.code == 0, ran.err

    samples = timed(ran, tmp_path)
    assert len(samples) >= 5
    recorded, true, unwaited = map(statistics.median, zip(*samples[1:], strict=True))
    assert sum(MS.values()) <= true <= recorded
    # The barrier adds little: to the sample that other work on the machine held up least.
    assert min(one / truth for one, truth, _ in samples[1:]) < 1.2
    assert unwaited < true / 2
    # Not one of them was recorded before the device was done.
    assert all(one >= truth for one, truth, _ in samples)

    summary = read(ran.folder)
    barrier = summary["barrier"]
    assert (barrier["device"], barrier["method"]) == ("tt", method)
    assert barrier["left_ms"] < MS["backward"] / 2
    assert all(left > MS["backward"] / 2 for left in barrier["given_up"].values())
    for page in ("summary.md", "report.html"):
        assert method in (ran.folder / page).read_text(encoding="utf-8")
    # The model's FLOPs and the chip's peak come without an argument.
    mfu = summary["wall_clock_ms"]["mfu"]
    assert "(attention), a token" in mfu["formula"] and mfu["peak_source"].startswith("blackhole")
    if folder != "tiny_llama_crank":
        assert mfu["hfu_percent"] is None
        return
    # Reports of the forward's and the backward's graph, which the script reads and removes.
    (told,) = re.findall(r"(\d+) FLOPs per step, by the compiler", ran.log)
    median_s = summary["wall_clock_ms"]["median"] / 1000
    assert mfu["hfu_percent"] == pytest.approx(int(told) / median_s / 152.064e12 * 100)


def test_where_nothing_can_be_read_nothing_is_recorded(
    measured: Measure, torch_python: Path
) -> None:
    """A helper that keeps its tensors to itself, on a device that only a read waits for."""
    script = """\
import torch
import tt_crank.torch


def step(held, number):
    held["x"] = held["x"] @ held["x"]
    return number


def main():
    held = {"x": torch.eye(8).to("tt")}
    for number in range(50):
        result = step(held, number)


main()
"""
    env = {"PYTHONPATH": str(STANDINS / "crank")}
    asked = ("--python", torch_python, "--region", "train.py:13-13")
    ran = measured(script, *asked, env=env)
    assert ran.code == 1
    assert records(ran.folder, "sample") == []
    assert "nothing proves that the device tt is idle" in ran.err
    assert "Return the loss" in ran.err
