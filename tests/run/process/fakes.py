"""Processes whose use of the machine a test sets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import psutil


@dataclass
class FakeProcess:
    """What is asked of a psutil.Process."""

    pid: int = 2**22 + 1
    cpu_s: float = 0.0
    threads: int = 1
    resident: int = 1000

    def cpu_times(self) -> Any:
        return SimpleNamespace(user=self.cpu_s, system=0.0)

    def memory_info(self) -> Any:
        return SimpleNamespace(rss=self.resident)

    def num_threads(self) -> int:
        return self.threads

    def name(self) -> str:
        return "fake"

    def status(self) -> str:
        return "sleeping"

    def oneshot(self) -> Any:
        return contextlib.nullcontext()


def those(processes: list[FakeProcess]) -> Callable[[], list[psutil.Process]]:
    """Who is asked for the processes of a run, as often as it is."""
    return lambda: cast("list[psutil.Process]", processes)
