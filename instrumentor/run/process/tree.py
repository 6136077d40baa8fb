"""The processes of a run: those below the guard, and those that carry the run's mark."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.runtime import guard

if TYPE_CHECKING:
    import psutil

RUN_ID = "INSTRUMENT_RUN_ID"


class Usage(NamedTuple):
    """What processes that have not ended use of the machine; CPU time since they began."""

    processes: int
    threads: int
    resident_bytes: int
    cpu_s: float


def below(pid: int) -> list[psutil.Process]:
    """All descendants of a process."""
    import psutil

    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def usage(processes: list[psutil.Process]) -> Usage:
    """What these use together."""
    import psutil

    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied), process.oneshot():
            if process.status() != psutil.STATUS_ZOMBIE:
                cpu, memory = process.cpu_times(), process.memory_info()
                found.append((1, process.num_threads(), memory.rss, cpu.user + cpu.system))
    return Usage(*map(sum, zip(*found, strict=True))) if found else Usage(0, 0, 0, 0.0)


def still_alive(processes: list[psutil.Process], wait_s: float) -> list[int]:
    """The pids of those that have not gone after a moment; a zombie has."""
    import psutil

    _, alive = psutil.wait_procs(processes, timeout=wait_s)
    return [process.pid for process in alive if guard.alive(process.pid)]


def described(processes: list[psutil.Process]) -> list[str]:
    """Number, name and threads of each process that is alive."""
    import psutil

    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            threads = usage([process]).threads
            if threads:
                counted = f"{threads} threads" if threads > 1 else "1 thread"
                found.append(f"pid {process.pid}: {process.name()}, {counted}")
    return found


def processes_of(run_id: str) -> tuple[int, ...]:
    """Processes that carry a run's mark in their environment, wherever they have gone."""
    # -1 is nobody's parent. Not 0: that is the kernel, of which every process descends.
    return tuple(sorted(guard.members(-1, run_id, {os.getpid()})))
