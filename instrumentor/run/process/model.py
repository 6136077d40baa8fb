"""What goes into a run of a process tree, and what comes out of it."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any


@dataclass(frozen=True)
class Finished:
    """How a run ended.

    Attributes:
        returncode: of the started process; minus the signal's number when one ended it, and
            minus SIGINT while it still runs.
        timed_out: the time limit was reached.
        interrupted: the user (or SIGTERM) asked for the end.
        duration_s: from start to the end of the last process.
        left_running: processes that were not ended because they hold a device.
        ended: processes that had to be ended.
        run_id: the mark in the environment of every process of the run.
        outlived: it was ended for still running when the measurement was complete.
        ending: processes that are still being ended, gently: the user asked not to wait for it.
    """

    returncode: int
    timed_out: bool
    interrupted: bool
    duration_s: float
    left_running: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()
    run_id: str = ""
    outlived: bool = False
    ending: tuple[int, ...] = ()

    @property
    def signal(self) -> int | None:
        """The number of the signal that ended the started process, if one did."""
        return -self.returncode if self.returncode < 0 else None


@dataclass(frozen=True)
class Stall:
    """Nothing has happened for ``idle_s`` seconds: no output, no sample, no CPU time.

    Attributes:
        pids: the processes of the run.
        last_lines: the last lines of the log, which often say what is waited for.
    """

    idle_s: float
    pids: tuple[int, ...]
    last_lines: tuple[str, ...]


def _nothing(_: object) -> None:
    """The listener where none was given."""


@dataclass(frozen=True)
class Watch:
    """Limits and listeners of a run.

    Attributes:
        on_line: gets each line of output.
        on_record: gets each object of the record file.
        on_stall: gets a :class:`Stall` once per standstill.
        on_event: gets what the guard does, as ``{"event": "signalled", "signal": ..., "pids"}``,
            and ``{"event": "outlived", "processes": [...]}`` ahead of an ending for that, or
            ``{"event": "closing", "why": ...}`` when the run is only slow to end.
        timeout_s: limit for the whole run.
        stall_s: how long nothing may happen.
        grace_s: how long each gentle step of an ending may take.
        linger_s: how long other processes may outlive the main one by themselves.
        settle_s: how long the run may go on after the record says that it is complete, without
            a sign that it is ending (see :class:`.shutdown.Shutdown`); None for any time.
            A further record, such as another rank's sample, starts it again.
        clock: seconds, monotonic.
    """

    on_line: Callable[[str], None] = _nothing
    on_record: Callable[[dict[str, Any]], None] = _nothing
    on_stall: Callable[[Stall], None] = _nothing
    on_event: Callable[[dict[str, Any]], None] = _nothing
    timeout_s: float | None = None
    stall_s: float | None = None
    grace_s: float = 10.0
    linger_s: float = 1.0
    settle_s: float | None = None
    clock: Callable[[], float] = time.monotonic


class Stop:
    """Counts requests to end: Ctrl-C, SIGTERM, or :meth:`request` from another thread."""

    def __init__(self) -> None:
        self.requests = 0

    def request(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Ask for a gentle end; the second time, stop waiting for it. Also a signal handler."""
        self.requests += 1

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM during the block; Python allows that in the main thread alone."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        taken = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.request) for number in taken}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
