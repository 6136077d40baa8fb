"""The stall detector."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from instrumentor.run.process.model import Stall, Watch
from instrumentor.run.process.tree import usage

if TYPE_CHECKING:
    import psutil

# A process that waits for a lock still uses a little time; below this share it counts as still.
STILL_CPU_SHARE = 0.02


class StallDetector:
    """Notices when nothing happens any more: no output, no sample, no CPU time.

    CPU time is looked at twice, half-way and at the end: walking over all processes more often
    would disturb what is being measured.
    """

    def __init__(
        self, watch: Watch, start: float, processes: Callable[[], list[psutil.Process]]
    ) -> None:
        self.watch = watch
        self.processes = processes
        self.since, self.told = start, False
        self.half_way: tuple[float, float] | None = None  # time, CPU time

    def look(self, now: float, moved: bool, last_lines: Iterable[str]) -> None:
        """Tell a standstill, once."""
        limit_s = self.watch.stall_s
        if moved:
            self._restart(now)
        idle_s = now - self.since
        if limit_s is None or self.told or idle_s < limit_s / 2:
            return
        if self.half_way is None:
            self.half_way = now, usage(self.processes()).cpu_s
        elif idle_s >= limit_s:
            then, cpu_s = self.half_way
            if usage(self.processes()).cpu_s - cpu_s > STILL_CPU_SHARE * (now - then):
                self._restart(now)
                return
            self.told = True
            pids = tuple(process.pid for process in self.processes())
            self.watch.on_stall(Stall(idle_s, pids, tuple(last_lines)))

    def _restart(self, now: float) -> None:
        self.since, self.told, self.half_way = now, False, None
