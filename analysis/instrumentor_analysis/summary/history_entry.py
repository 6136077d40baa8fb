"""A run as a history keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from instrumentor_analysis.clock.neighbours import is_busy

#: What has to be equal in `run` and in `environment` for two runs to be repeats of each other.
_OF_RUN = ("arguments", "steps", "warmup", "time_budget_s", "batch_size")
_OF_ENVIRONMENT = ("python_version", "torch_version", "host", "packages", "devices")


def conditions(summary: Mapping[str, Any]) -> str:
    """Under what a run was measured, as a text that is equal for runs that are repeats.

    Args:
        summary: document of a summary.json.
    """
    run, environment = summary.get("run") or {}, summary.get("environment") or {}
    found = [summary.get("profiler"), summary.get("scope")]
    found += [run.get(key) for key in _OF_RUN]
    found += [environment.get(key) for key in _OF_ENVIRONMENT]
    return json.dumps(found, sort_keys=True, separators=(",", ":"))


def was_busy(summary: Mapping[str, Any]) -> bool:
    """Whether the machine was busy with something else."""
    return is_busy((summary.get("run") or {}).get("machine"))


class Entry(Struct, frozen=True):
    """One run; its fields are those of ``instrument-history/1``.

    Attributes:
        id: its number in the store, rising with time.
        project: absolute path of the repository (or the script's folder without one).
        script: path of the script in it.
        commit, dirty: of the repository; None without git.
        started: ISO 8601, UTC.
        samples: steady steps of the main label; the times are theirs, milliseconds.
        low_ms, high_ms: interval of the median.
        folder: absolute path of the run folder, which may be gone.
        other_cpus: CPUs that other processes kept busy meanwhile; None where it was not recorded.
        conditions: arguments, steps, profiler, scope and environment, in one text; None of a run of
            an older version.
        busy: the machine was busy with something else; None of a run of an older version.
        baselines: names under which it is pinned.
    """

    id: int
    project: str
    script: str
    label: str
    commit: str | None
    dirty: bool | None
    started: str | None
    profiler: str
    scope: str | None
    samples: int
    median_ms: float | None
    low_ms: float | None
    high_ms: float | None
    device_time_ms: float | None
    batch_size: int | None
    folder: str
    other_cpus: float | None = None
    conditions: str | None = None
    busy: bool | None = None
    baselines: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Project and script, which tell the histories of scripts apart."""
        return self.project, self.script

    @property
    def name(self) -> str:
        """The run's label, else its folder, with the names under which it is a baseline."""
        own = self.label or Path(self.folder).name
        return " ".join([own, *(f"@{name}" for name in self.baselines)])

    @property
    def revision(self) -> str:
        """The commit, short, ``+`` behind it for uncommitted changes; empty without git."""
        return (self.commit or "")[:9] + ("+" if self.dirty else "")

    @property
    def when(self) -> str:
        """When the run started, UTC, to the minute."""
        return (self.started or "")[:16].replace("T", " ")

    @property
    def how(self) -> str:
        """Profiler and scope; only runs alike in it are drawn in one line."""
        return " ".join(part for part in (self.profiler, self.scope) if part)


class Failed(Struct, frozen=True):
    """A run that left no figure to compare with.

    Attributes:
        project, script: as of an :class:`Entry`.
        started: ISO 8601, UTC.
        folder: absolute path of the run folder, which may be gone.
        why: in a few words, such as ``interrupted``.
    """

    project: str
    script: str
    started: str | None
    folder: str
    why: str
