"""The stall detector."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from instrumentor.process.model import Stall, Watch
from instrumentor.process.tree import cpu_s

if TYPE_CHECKING:
    import psutil

# A process that waits for a lock still uses a little time; below this share it counts as still.
STILL_CPU_SHARE = 0.02


class StallDetector:
    """Notices that nothing happens any more: no output, no sample, no CPU time.

    CPU time is looked at twice, half-way and at the end: walking over all processes more often
    would disturb what is being measured.
    """

    def __init__(
        self, watch: Watch, start: float, processes: Callable[[], list[psutil.Process]]
    ) -> None:
        self.watch = watch
        self.processes = processes
        self.since = start
        self.half_way: tuple[float, float] | None = None  # time, CPU time
        self.told = False

    def look(self, now: float, moved: bool, last_lines: list[str]) -> None:
        """Tell a standstill, once."""
        watch = self.watch
        if watch.stall_s is None or watch.on_stall is None:
            return
        if moved:
            self._restart(now)
        idle = now - self.since
        if self.told or idle < watch.stall_s / 2:
            return
        if self.half_way is None:
            self.half_way = now, cpu_s(self.processes())
        elif idle >= watch.stall_s:
            then, cpu = self.half_way
            if cpu_s(self.processes()) - cpu > STILL_CPU_SHARE * (now - then):
                self._restart(now)
                return
            self.told = True
            pids = tuple(process.pid for process in self.processes())
            watch.on_stall(Stall(idle, pids, tuple(last_lines)))

    def _restart(self, now: float) -> None:
        self.since, self.half_way, self.told = now, None, False
