"""A trial's folder, on a disk that every machine sees: what is asked, who does it, its result."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from instrumentor.options import Options
from instrumentor.tune.outcome import Outcome
from instrumentor.tune.settings import Configuration
from instrumentor.tune.slurm import in_queue

RESULT = "result.json"
PROCESS = "process.json"


class Spec(Struct, frozen=True):
    """All that a trial needs.

    Attributes:
        folder: of the trial.
        rewrite: the options for locating and rewriting, without a variant.
        run: further choices of :class:`instrumentor.run_options.RunOptions`, as a journal has them.
        environment: variables to set (None: to take away) for the script.
        digest: of the files that the configuration is applied to.
    """

    script: Path
    arguments: tuple[str, ...]
    cwd: Path
    folder: Path
    configuration: Configuration
    rewrite: Options
    run: Mapping[str, Any]
    environment: Mapping[str, str | None]
    digest: str
    timeout_s: float | None = None


def digest(files: Mapping[Path, bytes]) -> str:
    """A mark of the files' content."""
    total = hashlib.sha256()
    for path, data in sorted(files.items()):
        total.update(f"{path}\0{len(data)}\0".encode() + data)
    return total.hexdigest()


def options_to_json(options: Options) -> dict[str, Any]:
    """The options without a variant, for a journal."""
    names = (f.name for f in dataclasses.fields(options) if f.name != "variant")
    return {name: getattr(options, name) for name in names}


def options_from_json(values: Mapping[str, Any]) -> Options:
    """The options of :func:`options_to_json` after JSON made lists of the tuples."""
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    return Options(**given)


def write_process(folder: Path) -> None:
    """Who does the trial: this process."""
    import psutil

    own_job = os.environ.get("SUBMITIT_EXECUTOR") == "slurm"  # else all of the tuning runs in one
    facts = {
        "pid": os.getpid(),
        "started": psutil.Process().create_time(),
        "host": platform.node(),
        "slurm": os.environ.get("SLURM_JOB_ID") if own_job else None,
    }
    (folder / PROCESS).write_text(json.dumps(facts) + "\n", encoding="utf-8")


def runs(folder: Path) -> bool:
    """Whether a trial's process is alive: here by its number and start, or in Slurm's queue."""
    import psutil

    try:
        facts = json.loads((folder / PROCESS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if facts["slurm"]:
        return in_queue(facts["slurm"])
    try:
        started = psutil.Process(facts["pid"]).create_time()
    except psutil.Error:
        return False
    return bool(facts["host"] == platform.node() and abs(started - facts["started"]) < 1)


def read_result(folder: Path) -> Outcome | None:
    """The outcome of a trial that came to its end, else None."""
    try:
        return Outcome.from_json(json.loads((folder / RESULT).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
