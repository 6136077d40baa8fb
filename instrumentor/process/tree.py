"""The processes of a run: those below the guard, and those that carry the run's mark."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

RUN_ID = "INSTRUMENT_RUN_ID"


def below(pid: int) -> list[psutil.Process]:
    """All descendants of a process."""
    import psutil

    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def still_alive(processes: list[psutil.Process], wait_s: float) -> list[int]:
    """The pids of those that have not gone after a moment; a zombie has."""
    import psutil

    _, alive = psutil.wait_procs(processes, timeout=wait_s)
    found = []
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def cpu_s(processes: list[psutil.Process]) -> float:
    """CPU time that these processes have used so far, in seconds."""
    import psutil

    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def described(processes: list[psutil.Process]) -> list[str]:
    """Number, name and threads of each process that is alive."""
    import psutil

    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.status() != psutil.STATUS_ZOMBIE:
                threads = process.num_threads()
                counted = f"{threads} threads" if threads > 1 else "1 thread"
                found.append(f"pid {process.pid}: {process.name()}, {counted}")
    return found


def processes_of(run_id: str) -> tuple[int, ...]:
    """Processes that carry a run's mark in their environment, wherever they have gone."""
    needle = f"{RUN_ID}={run_id}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if needle in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return tuple(sorted(found))
