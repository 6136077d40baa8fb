"""What the guard knows of the processes it watches over, asked piece by piece."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from instrumentor.runtime import guard

os_listdir = os.listdir
SLEEP = [sys.executable, "-c", "print(flush=True); input()"]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that bears the mark of a run, in a session of its own."""
    process = subprocess.Popen(
        SLEEP,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "INSTRUMENT_RUN_ID": "run-1"},
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def pair() -> Iterator[tuple[guard.Guard, socket.socket]]:
    """A guard and the tool's end of its socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield guard.Guard(theirs, 1), ours


def test_a_program_may_be_called_anything(tmp_path: Path) -> None:
    """The name stands in parentheses before the state, as it is."""
    odd = tmp_path / "a) Z 1 (b"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([odd, "60"]) as process:
        try:
            assert guard.state_of(process.pid)[1] == os.getpid() and guard.alive(process.pid)
        finally:
            process.kill()


def test_members_are_descendants_and_those_that_bear_the_mark(
    child: subprocess.Popen[bytes],
) -> None:
    me = os.getpid()
    assert child.pid in guard.members(me, "no run", {me})
    assert guard.members(2**22 + 1, "run-1", {1}) == [child.pid]
    assert guard.members(2**22 + 1, "run", {1}) == []  # the mark is the whole of it
    assert child.pid not in guard.members(me, "run-1", {me, child.pid})
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert guard.members(2**22 + 1, "run-1", {1}) == []


def test_a_device_is_held_by_who_has_a_file_below_its_folder_open(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev2").mkdir()
    with (tmp_path / "dev" / "0").open("w"):
        assert guard.holds_device(os.getpid(), str(tmp_path / "dev"))
        assert guard.holds_device(os.getpid(), f"{tmp_path}/dev/")
    with (tmp_path / "dev2" / "0").open("w"):
        assert not guard.holds_device(os.getpid(), str(tmp_path / "dev"))
    assert not guard.holds_device(2**22 + 1, str(tmp_path))


def test_a_file_that_was_closed_meanwhile_hides_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "0").open("w"):
        monkeypatch.setattr(os, "listdir", lambda folder: ["99999", *sorted(os_listdir(folder))])
        assert guard.holds_device(os.getpid(), str(tmp_path))


def test_what_cannot_be_looked_at_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> list[str]:
        raise PermissionError

    monkeypatch.setattr(os, "listdir", refuse)
    assert guard.holds_device(1, "/dev/tenstorrent")


def test_the_order_may_come_in_parts_and_the_end_right_behind_it(pair) -> None:
    watcher, ours = pair
    ours.sendall(b'{"run_id": "x"')
    ours.sendall(b'}\n{"event": "end"}\n')
    assert watcher.read_order() and watcher.order == {"run_id": "x"}


def test_the_scripts_process_is_the_one_that_was_noted(
    pair, child: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    watcher, _ = pair
    watcher.main = 7
    noted = tmp_path / "launch.pid"
    watcher.order = {"pid_file": None, "run_id": "run-1"}
    assert watcher.script_pid() == 7
    watcher.order["pid_file"] = str(noted)
    assert watcher.script_pid() == 7
    noted.write_text(str(child.pid))
    assert watcher.script_pid() == child.pid
    noted.write_text(str(os.getppid()))  # alive, and not of this run
    assert watcher.script_pid() == 7
    noted.write_text(str(2**22 + 1))  # it has ended
    assert watcher.script_pid() == 2**22 + 1
    noted.write_text("")
    assert watcher.script_pid() == 7
