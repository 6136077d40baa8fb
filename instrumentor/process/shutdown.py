"""Whether a run that has measured everything is on its way to its end, slowly as that may be.

A runtime that lets go of a device takes its time, and must not be disturbed at it. Something that
the script forgot to stop gives nothing back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from instrumentor.device_nodes import opened_below

if TYPE_CHECKING:
    import psutil

#: The recorder's event when the interpreter begins to leave: every thread of the script has ended.
LEAVING = "leaving"
LOOK_S = 1.0
#: Memory that counts as given back.
RELEASED_SHARE = 0.01

Held = tuple[int, int, float]
"""Processes, threads, resident bytes."""


class Shutdown:
    """Looks at a run's processes from when its measurement is complete."""

    def __init__(self, processes: Callable[[], list[psutil.Process]], device_folder: Path) -> None:
        self.processes = processes
        self.device_folder = device_folder
        self.leaving = False
        self._held: Held | None = None
        self._looked = self._released = float("-inf")

    def look(self, now: float) -> None:
        """Note what the processes have given back since the last look."""
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        before, self._held = self._held, _held(self.processes())
        if before is not None and (
            self._held[0] < before[0]
            or self._held[1] < before[1]
            or self._held[2] < before[2] * (1 - RELEASED_SHARE)
        ):
            self._released = now

    def why(self, now: float, patience_s: float) -> str:
        """What the run still does that leads to its end, in a few words; empty for nothing."""
        if self.leaving:
            return "Python is exiting"
        if now - self._released < patience_s:
            return "threads or memory are being released"
        if any(opened_below(each.pid, f"{self.device_folder}/") for each in self.processes()):
            return "it has the device open"
        return ""


def _held(processes: list[psutil.Process]) -> Held:
    import psutil

    count, threads, resident = 0, 0, 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied), process.oneshot():
            if process.status() != psutil.STATUS_ZOMBIE:
                count += 1
                threads += process.num_threads()
                resident += process.memory_info().rss
    return count, threads, resident
