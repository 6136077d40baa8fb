"""Keeps Ctrl-C, SIGTERM and a closed terminal out of the moments in which files are swapped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Not by pthread_sigmask: it blocks a signal for one thread, and another (the progress has one)
# would take it for the process while a file is being swapped.
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While taken, each of these signals is a KeyboardInterrupt, put off in a critical part."""

    def __init__(self) -> None:
        self._critical = 0
        self._pending = False

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take the signals during the body; only a main thread can, elsewhere nothing is done."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        wanted = [n for n in NUMBERS if signal.getsignal(n) != signal.SIG_IGN]  # nohup
        before = {number: signal.signal(number, self._got) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Let nothing interrupt the body; what came meanwhile is raised at its end."""
        self._critical += 1
        try:
            yield
        finally:
            self._critical -= 1
        if self._pending and not self._critical:
            self._pending = False
            raise KeyboardInterrupt

    def _got(self, number: int, frame: FrameType | None) -> None:
        if self._critical:
            self._pending = True
        else:
            raise KeyboardInterrupt
