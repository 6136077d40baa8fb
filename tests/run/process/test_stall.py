"""A standstill: no output, no sample, and no CPU time, for as long as it was asked for."""

from __future__ import annotations

from instrumentor.run.process import Stall, Watch
from instrumentor.run.process.stall import StallDetector
from tests.run.process.fakes import FakeProcess, those


def stalls(cpu_a_second: float, moved_at: int = -1) -> list[float]:
    """When, in a minute of looks a second apart, a standstill of 20 s is told."""
    process, told = FakeProcess(), []

    def on_stall(stall: Stall) -> None:
        told.append(now)
        assert stall.pids == (process.pid,) and stall.last_lines == ("waiting",)

    watch = Watch(stall_s=20, on_stall=on_stall)
    still = StallDetector(watch, 0.0, those([process]))
    for now in range(60):
        process.cpu_s = now * cpu_a_second
        still.look(now, now == moved_at, ["waiting"])
    return told


def test_it_is_told_once() -> None:
    assert stalls(0.0) == [20]
    assert stalls(0.01) == [20]  # a process that waits for a lock uses a little


def test_what_works_does_not_stand_still() -> None:
    assert stalls(0.5) == []
    assert stalls(0.03) == []


def test_output_starts_it_again() -> None:
    assert stalls(0.0, moved_at=15) == [35]
    assert stalls(0.0, moved_at=30) == [20, 50]
