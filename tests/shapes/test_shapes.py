"""Scripts of many shapes run under `instrument run`; every sample is held against what happened.

What happened is told by :mod:`tests.shapes.observer`, which knows nothing of the tool.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import STANDINS, RepoFactory, RunCli, git
from tests.end_to_end.small import records, snapshot
from tests.shapes.catalogue import DECLINED, NAMES, PROMISES, SHAPES, Shape
from tests.shapes.verdict import Observed, violations
from tests.waiting import HANG_S

PACKAGES = f"{STANDINS / 'shapes'}:{STANDINS / 'accelerate'}"


def run_of(
    shape: Shape, repo: Path, run_cli: RunCli, python: Path, out: Path, **more: Any
) -> tuple[subprocess.CompletedProcess[str], Observed]:
    """`instrument run` of a shape, and what was observed in it."""
    options = ("--output", out, "--timeout", str(HANG_S), "--no-history", *shape.options)
    if shape.promise is None:  # what reading alone says of it
        options += ("--no-discover",)
    elif "--steps" not in shape.options:
        options += ("--steps", str(shape.promise.steps))
    seen = out.with_name("seen.json")
    done = run_cli(
        *("run", "--python", python, "--profiler", "wallclock", *options, "train.py"),
        cwd=repo,
        env={"PYTHONPATH": PACKAGES, "OBSERVED": str(seen)},
        **more,
    )
    return done, json.loads(seen.read_text()) if seen.exists() else {}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "".join((s.name, *s.options)))
def test_every_sample_is_the_step(
    shape: Shape, run_cli: RunCli, torch_python: Path, git_repo: RepoFactory, tmp_path: Path
) -> None:
    repo = git_repo(shape.files())
    before = snapshot(repo)
    done, observed = run_of(shape, repo, run_cli, torch_python, tmp_path / "out")
    assert snapshot(repo) == before
    assert git(repo, "status", "--porcelain") == ""
    if shape.promise is None:
        assert done.returncode == 3, done.stderr
        told = run_cli("explain", "--json", *shape.options, "train.py", cwd=repo)
        assert json.loads(told.stdout)["reasons"][0]["kind"] == shape.declined, told.stdout
        return
    assert done.returncode == 0, done.stderr
    seen = tmp_path / "alone.json"
    alone = subprocess.run(
        [torch_python, "train.py"],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": PACKAGES, "OBSERVED": str(seen)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert alone.returncode == 0, alone.stderr
    samples = records(tmp_path / "out", "sample")
    assert violations(shape.promise, samples, observed, json.loads(seen.read_text())) == []


def test_every_listed_name_is_a_file() -> None:
    assert {*DECLINED, *PROMISES} <= set(NAMES) and len(NAMES) >= 60
