"""Whether a run that has measured everything is on its way to its end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from instrumentor.run.process import Watch
from instrumentor.run.process.shutdown import Shutdown
from tests.run.process.fakes import FakeProcess, those

PATIENCE_S = 5.0


class Watched:
    """A run that has measured everything, at times that the test names."""

    def __init__(self, folder: Path, *processes: FakeProcess) -> None:
        self.told: list[dict[str, Any]] = []
        self.processes = list(processes)
        watch = Watch(settle_s=PATIENCE_S, clock=lambda: -PATIENCE_S, on_event=self.told.append)
        self.shutdown = Shutdown(watch, those(self.processes), folder)
        self.shutdown.record({"event": "complete"})

    def goes_on(self, now: float) -> str:
        """Why it is waited for; empty when it is to be ended."""
        self.told.clear()
        self.shutdown._told = False
        ended = self.shutdown.outlived(now, late=False)
        (event,) = self.told
        assert ended == (event["event"] == "outlived")
        return str(event.get("why", ""))


@pytest.mark.parametrize(
    ("more", "gives_back"),
    [
        ({"threads": 3}, True),
        ({"resident": 990}, False),
        ({"resident": 989}, True),
        ({"threads": 5, "resident": 2000}, False),
    ],
)
def test_what_was_given_back_counts_for_as_long_as_one_is_patient(
    tmp_path: Path, more: dict[str, int], gives_back: bool
) -> None:
    run = Watched(tmp_path, FakeProcess(threads=4))
    assert run.goes_on(0.0) == ""
    vars(run.processes[0]).update(more)
    assert run.goes_on(0.5) == ""  # too early to look again
    assert bool(run.goes_on(1.0)) == gives_back
    assert bool(run.goes_on(5.5)) == gives_back
    assert run.goes_on(6.0) == ""


def test_a_process_that_ended_was_given_back(tmp_path: Path) -> None:
    run = Watched(tmp_path, FakeProcess(), FakeProcess())
    assert run.goes_on(0.0) == ""
    run.processes.pop()
    assert "released" in run.goes_on(1.0)


def test_a_device_that_is_open_and_python_that_leaves(tmp_path: Path) -> None:
    (tmp_path / "0").touch()
    run = Watched(tmp_path, FakeProcess(pid=os.getpid()))
    with (tmp_path / "0").open():
        assert run.goes_on(100.0) == "it has the device open"
    assert run.goes_on(100.0) == ""
    run.shutdown.record({"event": "leaving"})
    assert run.goes_on(100.0) == "Python is exiting"
