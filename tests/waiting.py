"""Waiting for what happens, and a clock that tests move: a busy machine fails no test."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Only ends what hangs: no machine is so busy that what is waited for takes this long.
HANG_S = 600.0


def wait_for(condition: Callable[[], object], what: str = "") -> None:
    """Wait until something holds; AssertionError where it never does."""
    limit = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < limit, f"waited in vain {what}"
        time.sleep(0.02)


class Clock:
    """Stands until :meth:`go`; from then on each look at it takes a second."""

    def __init__(self) -> None:
        self.now = self.rate = 0.0

    def __call__(self) -> float:
        self.now += self.rate
        return self.now

    def go(self, *_: object) -> None:
        """Start; fit to be a listener."""
        self.rate = 1.0

    def stop_at(self, now: float) -> None:
        """Stand still at a time."""
        self.now, self.rate = now, 0.0
