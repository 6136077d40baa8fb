"""Runs a script twice with torch_xla's CPU backend: as it is, and by ``instrument run``."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.conftest import RunCli
from tests.waiting import HANG_S

WAITS = Path(__file__).with_name("waits")


@dataclass(frozen=True)
class Wait:
    """One sample, ms: until its first sync returned, until the clock, and the wait after it."""

    kind: str
    sync_only: float
    barrier: float
    second: float


@dataclass(frozen=True)
class Measured:
    """A finished ``instrument run``; ``log`` is the script's output."""

    folder: Path
    log: str
    console: str

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        lines = (self.folder / "timings.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    @cached_property
    def samples(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == "sample"]

    @cached_property
    def warnings(self) -> list[str]:
        return [event["text"] for event in self.events if event["event"] == "warning"]

    @cached_property
    def summary(self) -> dict[str, Any]:
        loaded = json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))
        assert isinstance(loaded, dict)
        return loaded

    @cached_property
    def waits(self) -> list[Wait]:
        """What the barrier was made of, one per sample; empty where nothing was on XLA."""
        path = self.folder.with_suffix(".waits")
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        assert len(lines) in (0, len(self.samples))
        return [
            Wait(sample["kind"], _sync_only(sample, wait), sample["ms"], wait["second_ms"])
            for sample, wait in zip(self.samples, map(json.loads, lines), strict=False)
        ]

    @cached_property
    def steady(self) -> list[Wait]:
        return [wait for wait in self.waits if wait.kind == "steady"]


def _sync_only(sample: Mapping[str, Any], wait: Mapping[str, Any]) -> float:
    """Milliseconds from the sample's start to the return of its first sync; nan without one."""
    start: float = sample["start_s"]
    return (min((s for s in wait["synced_s"] if s > start), default=math.nan) - start) * 1e3


def measure(
    run_cli: RunCli,
    python: Path,
    repo: Path,
    script: str,
    *options: str,
    arguments: tuple[str, ...] = (),
    output: Path,
) -> Measured:
    """``instrument run`` on the XLA device, watched by waits/sitecustomize.py."""
    done = run_cli(
        *("run", "--steps", "5", "--python", python, "--output", output),
        *(*options, script, *arguments),
        cwd=repo,
        env={
            "PJRT_DEVICE": "CPU",
            "PYTHONPATH": str(WAITS),
            "TEST_XLA_WAITS": str(output.with_suffix(".waits")),
        },
        timeout=HANG_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    log = (output / "run.log").read_text(encoding="utf-8")
    return Measured(output, log, done.stdout + done.stderr)


def run_plainly(
    python: Path, repo: Path, script: str, *arguments: str, env: Mapping[str, str] | None = None
) -> str:
    """The script as it is; its output."""
    done = subprocess.run(
        [str(python), script, *arguments],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": str(repo), "PJRT_DEVICE": "CPU", **(env or {})},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def losses(output: str) -> list[float]:
    """The losses that a script printed, in order."""
    return [float(value) for value in re.findall(r"loss: (\d+\.\d+)", output)]
