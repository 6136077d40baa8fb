"""What a check looks at and what it answers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from instrumentor.environment import Machine


class Status(str, Enum):
    """The answer of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Check:
    """One line of the doctor's report.

    Attributes:
        name: stable, for programs: ``tracy-tools``.
        text: what was found, one sentence.
        remedy: what to do; empty when it is ok.
    """

    name: str
    status: Status
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Situation:
    """What the checks look at.

    Attributes:
        profiler: the one the run will use; what only another one needs is at most a warning.
        config: the script's configuration, as read from its YAML.
        steps: steps that will be measured.
        programs_per_step: as counted in an earlier report, if known.
        folders: where the run will write: its scratch folder, its output.
        env: environment of the run.
        cwd: its working directory.
        device_folder: where the device nodes are.
        port: Tracy's port where one was asked for.
        ask_tracy: the tracy package may be run, to be asked for its options.
    """

    machine: Machine
    profiler: str = "tracy"
    config: Mapping[str, object] = field(default_factory=dict)
    steps: int = 5
    programs_per_step: int | None = None
    folders: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    cwd: Path = field(default_factory=Path.cwd)
    device_folder: Path | None = None
    port: int | None = None
    ask_tracy: bool = True

    @property
    def for_tracy(self) -> bool:
        """Whether Tracy is what will run."""
        return self.profiler == "tracy"

    def lacking(self, name: str, text: str, remedy: str) -> Check:
        """Something that Tracy needs is not there."""
        status = Status.FAILED if self.for_tracy else Status.WARNING
        return Check(name, status, text, remedy)
