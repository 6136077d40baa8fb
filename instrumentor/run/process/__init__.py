"""Runs one process tree to its end: log, samples as they come, time limits, gentle endings.

In: a command and limits; out: how it ended, and each sample as it came.

The script's processes hang on a guard (runtime/guard.py), which ends them when this process
disappears. Output goes straight into the log file, and both log and record file are read as they
grow, so that a slow callback never holds up the script that is being measured.
"""

from __future__ import annotations

from instrumentor.run.process.model import Finished, Stall, Stop, Watch
from instrumentor.run.process.running import run
from instrumentor.run.process.tail import Tail, excerpt, record_of
from instrumentor.run.process.tree import RUN_ID, processes_of

__all__ = [
    "RUN_ID",
    "Finished",
    "Stall",
    "Stop",
    "Tail",
    "Watch",
    "excerpt",
    "processes_of",
    "record_of",
    "run",
]
