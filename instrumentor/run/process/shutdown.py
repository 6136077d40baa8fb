"""Whether a run that has measured everything is on its way to its end, slowly as that may be.

A runtime that lets go of a device takes its time, and must not be disturbed at it. Something that
the script forgot to stop gives nothing back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instrumentor.machine.device_nodes import opened_below
from instrumentor.run.process.model import Watch
from instrumentor.run.process.tree import Usage, described, usage

if TYPE_CHECKING:
    import psutil

#: The recorder's event behind the last sample.
COMPLETE = "complete"
#: The recorder's event when the interpreter begins to leave: every thread of the script has ended.
LEAVING = "leaving"
#: Between two looks at what the processes use.
LOOK_S = 1.0
#: Share of the memory in use at the last look; a smaller drop is noise.
RELEASED_SHARE = 0.01


class Shutdown:
    """Follows a run from when its measurement is complete."""

    def __init__(
        self, watch: Watch, processes: Callable[[], list[psutil.Process]], device_folder: Path
    ) -> None:
        self.watch = watch
        self.processes = processes
        self.device_folder = device_folder
        self._complete_s: float | None = None  # or when something was recorded after that
        self._leaving = self._told = False
        self._used: Usage | None = None
        self._looked_s = self._released_s = float("-inf")

    def record(self, entry: Mapping[str, Any]) -> None:
        """Take an event of the recorder."""
        self._leaving |= entry.get("event") == LEAVING
        if self._complete_s is not None or entry.get("event") == COMPLETE:
            self._complete_s = self.watch.clock()

    def outlived(self, now: float, late: bool) -> bool:
        """Whether to end the run for going on although its measurement is complete; says so.

        Args:
            late: the time limit of the whole run is over, so nothing is waited for.
        """
        limit_s = self.watch.settle_s
        if limit_s is None or self._complete_s is None:
            return False
        self._look(now)
        if not late:
            if now - self._complete_s < limit_s:
                return False
            why = self.why(now, limit_s)
            if why:
                self._tell_once({"event": "closing", "why": why})
                return False
        self.watch.on_event({"event": "outlived", "processes": described(self.processes())})
        return True

    def _tell_once(self, event: dict[str, Any]) -> None:
        if not self._told:
            self._told = True
            self.watch.on_event(event)

    def _look(self, now: float) -> None:
        """Note what the processes have given back since the last look."""
        if now - self._looked_s < LOOK_S:
            return
        self._looked_s = now
        before, self._used = self._used, usage(self.processes())
        if before is not None and (
            self._used.processes < before.processes
            or self._used.threads < before.threads
            or self._used.resident_bytes < before.resident_bytes * (1 - RELEASED_SHARE)
        ):
            self._released_s = now

    def why(self, now: float, patience_s: float) -> str:
        """What the run still does that leads to its end, in a few words; empty for nothing."""
        if self._leaving:
            return "Python is exiting"
        if now - self._released_s < patience_s:
            return "threads or memory are being released"
        if any(opened_below(each.pid, f"{self.device_folder}/") for each in self.processes()):
            return "it has the device open"
        return ""
