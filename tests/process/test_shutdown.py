"""Whether a run that has measured everything is on its way to its end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from instrumentor.process.shutdown import Shutdown
from tests.process.fakes import FakeProcess, those


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
    process = FakeProcess(threads=4)
    closing = Shutdown(those([process]), tmp_path)
    closing.look(0.0)
    assert closing.why(0.0, 5.0) == ""
    vars(process).update(more)
    closing.look(0.5)  # too early to look again
    assert closing.why(0.5, 5.0) == ""
    closing.look(1.0)
    assert bool(closing.why(5.5, 5.0)) == gives_back
    assert closing.why(6.0, 5.0) == ""


def test_a_process_that_ended_was_given_back(tmp_path: Path) -> None:
    processes = [FakeProcess(), FakeProcess()]
    closing = Shutdown(those(processes), tmp_path)
    closing.look(0.0)
    processes.pop()
    closing.look(1.0)
    assert "released" in closing.why(1.0, 5.0)


def test_a_device_that_is_open_and_python_that_leaves(tmp_path: Path) -> None:
    (tmp_path / "0").touch()
    process = FakeProcess(pid=os.getpid())
    closing = Shutdown(those([process]), tmp_path)
    with (tmp_path / "0").open():
        assert closing.why(100.0, 5.0) == "it has the device open"
    assert closing.why(100.0, 5.0) == ""
    closing.leaving = True
    assert closing.why(100.0, 5.0) == "Python is exiting"
