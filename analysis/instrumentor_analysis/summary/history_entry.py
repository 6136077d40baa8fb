"""A run as a history keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from instrumentor_analysis.clock.neighbours import is_busy
from instrumentor_analysis.model import Update
from instrumentor_analysis.shared.documents import parsed

#: What has to be equal in `run` and in `environment` for two runs to be repeats of each other.
_OF_RUN = ("arguments", "steps", "warmup", "time_budget_s", "batch_size")
#: Where the arguments stand in :func:`conditions`, behind profiler and scope.
_ARGUMENTS_AT = 2 + _OF_RUN.index("arguments")
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
    world = (summary.get("ranks") or {}).get("world")
    # Of one process nothing is added: the text is that of runs of older versions.
    found += [world] if world else []
    return json.dumps(found, sort_keys=True, separators=(",", ":"))


def was_busy(summary: Mapping[str, Any]) -> bool:
    """Whether the machine was busy with something else."""
    return is_busy((summary.get("run") or {}).get("machine"))


class Headline(Struct, frozen=True):
    """The figure that a run is quoted by: the iteration, of micro-steps the update.

    Attributes:
        figure: ``iteration``, ``update of 4 micro-steps``, ``micro-step`` where no update was
            measured whole; else the label of the timed region.
        low_ms, high_ms: interval of the median; None where there is none.
    """

    figure: str
    ms: float | None
    low_ms: float | None = None
    high_ms: float | None = None


def headline(summary: Mapping[str, Any]) -> Headline:
    """What the run's report has at its top.

    Args:
        summary: document of a summary.json.
    """
    wall = summary.get("wall_clock_ms") or {}
    whole = wall.get("iteration") or {}
    update = whole.get("update")
    if update and update.get("ms"):
        return _headline(
            Update(update["micro_steps"]).label, update["ms"], update.get("interval_ms")
        )
    if whole.get("median_ms"):
        name = "iteration" if update is None else "micro-step"
        return _headline(name, whole["median_ms"], whole.get("median_interval_ms"))
    label = wall.get("label") or summary.get("scope") or ""
    return _headline(label, wall.get("median"), wall.get("median_interval"))


def _headline(figure: str, ms: float | None, interval: Mapping[str, float] | None) -> Headline:
    ends = interval or {}
    return Headline(figure, ms, ends.get("low"), ends.get("high"))


class Entry(Struct, frozen=True):
    """One run; its fields are those of ``instrument-history/1``.

    Attributes:
        id: its number in the store, rising with time.
        project: absolute path of the repository (or the script's folder without one).
        script: path of the script in it.
        commit, dirty: of the repository; None without git.
        started: ISO 8601, UTC.
        samples: steady steps of the main label.
        median_ms, low_ms, high_ms: of the timed region, with the interval of its median.
        figure, figure_ms, figure_low_ms, figure_high_ms: what the run is quoted by
            (:class:`Headline`); None of a run of an older version, which has the region alone.
        folder: absolute path of the run folder, which may be gone.
        other_cpus: CPUs that other processes kept busy meanwhile; None where it was not recorded.
        conditions: arguments, steps, profiler, scope, environment and ranks, in one text; None of a
            run of an older version.
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
    figure: str | None = None
    figure_ms: float | None = None
    figure_low_ms: float | None = None
    figure_high_ms: float | None = None

    @property
    def headline(self) -> Headline:
        """What the run is quoted by."""
        if self.figure is None:
            return Headline(self.scope or "", self.median_ms, self.low_ms, self.high_ms)
        return Headline(self.figure, self.figure_ms, self.figure_low_ms, self.figure_high_ms)

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
    def arguments(self) -> tuple[str, ...]:
        """The script's own arguments; empty where an older version did not keep them."""
        try:
            found = parsed(self.conditions or "[]")
            own = found[_ARGUMENTS_AT]
        except (ValueError, LookupError, TypeError):  # a store may hold anything
            return ()
        return tuple(map(str, own)) if isinstance(own, list) else ()

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
        """Profiler and scope."""
        return " ".join(part for part in (self.profiler, self.scope) if part)

    @property
    def way(self) -> str:
        """What is told, and how it was measured; only runs alike in it are drawn in one line."""
        of = self.headline.figure
        return self.how if of in ("", self.scope) else f"{of} ({self.how})"


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
