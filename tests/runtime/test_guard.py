"""What the guard knows of the processes it watches over, asked piece by piece."""

from __future__ import annotations

import json
import os
import signal
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


def test_codes_of_ended_processes() -> None:
    assert guard.code_of(3 << 8) == 3
    assert guard.code_of(signal.SIGKILL) == -signal.SIGKILL


def test_states(child: subprocess.Popen[bytes]) -> None:
    assert guard.alive(child.pid) and guard.state_of(child.pid)[1] == os.getpid()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert guard.state_of(child.pid)[0] == "Z" and not guard.alive(child.pid)
    assert guard.state_of(2**22 + 1) == ("", 0) and not guard.alive(2**22 + 1)


def test_a_program_may_be_called_anything(tmp_path: Path) -> None:
    """The name stands in parentheses before the state, as it is."""
    odd = tmp_path / "a) Z 1 (b"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([odd, "60"]) as process:
        try:
            assert guard.state_of(process.pid)[1] == os.getpid() and guard.alive(process.pid)
        finally:
            process.kill()


def test_members_come_newest_first_and_through_any_number_of_parents(
    child: subprocess.Popen[bytes],
) -> None:
    code = f"import subprocess; subprocess.run({SLEEP!r})"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        found = guard.members(os.getpid(), "no run", {os.getpid()})
        grandchild = [pid for pid in found if guard.state_of(pid)[1] == parent.pid]
        assert len(grandchild) == 1 and {child.pid, parent.pid} <= set(found)
        assert found == sorted(found, reverse=True)
        assert guard.members(os.getpid(), "no run", {os.getpid(), parent.pid}) == [child.pid]
        parent.communicate(b"\n")


def test_members_are_descendants_and_those_that_bear_the_mark(
    child: subprocess.Popen[bytes],
) -> None:
    me = os.getpid()
    assert child.pid in guard.members(me, "no run", {me})
    assert guard.members(2**22 + 1, "run-1", {1}) == [child.pid]
    assert guard.members(2**22 + 1, "run", {1}) == []  # the mark is the whole of it
    assert guard.members(me, "run-1", {me, child.pid}) == []
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


def test_a_tool_that_is_gone_gives_no_order(pair) -> None:
    watcher, ours = pair
    ours.close()
    assert not watcher.read_order()
    watcher.tell(event="nobody listens")


def told(ours: socket.socket) -> list[dict[str, object]]:
    ours.setblocking(False)
    try:
        return [json.loads(line) for line in ours.recv(65536).splitlines()]
    except BlockingIOError:
        return []


def test_one_that_is_silent_tells_nothing(pair) -> None:
    watcher, ours = pair
    watcher.silent = True
    watcher.tell(event="x")
    assert told(ours) == []
    watcher.silent = False
    watcher.tell(event="x", n=1)
    assert told(ours) == [{"event": "x", "n": 1}]


def test_only_the_end_of_the_main_process_is_the_end_of_the_run(pair) -> None:
    watcher, ours = pair
    watcher.reap()  # without any child
    pids = [os.fork() or os._exit(code) for code in (3, 4)]
    watcher.main = pids[1]
    for pid in pids:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    watcher.reap()
    assert watcher.status == 4 << 8
    assert told(ours) == [{"event": "exited", "code": 4}]


def test_the_tool_s_word_or_its_end_ends_the_watch(pair) -> None:
    watcher, ours = pair
    wake, waker = os.pipe()
    os.set_blocking(wake, False)
    ours.sendall(b"{}\n")
    watcher.watch(wake)
    assert watcher.asked and watcher.status is None
    watcher.watch(wake)  # at once
    os.close(wake)
    os.close(waker)


def test_signals_are_told_with_who_got_them(pair, child: subprocess.Popen[bytes]) -> None:
    watcher, ours = pair
    assert watcher.signal([child.pid, 2**22 + 1], signal.SIGTERM) == {child.pid}
    told = json.loads(ours.recv(4096))
    assert told == {"event": "signalled", "signal": "SIGTERM", "pids": [child.pid]}
    assert child.wait() == -signal.SIGTERM
    assert watcher.signal([], signal.SIGINT) == set()
    ours.setblocking(False)
    with pytest.raises(BlockingIOError):
        ours.recv(1)


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


def test_waiting_ends_when_they_are_gone(pair, child: subprocess.Popen[bytes]) -> None:
    watcher, _ = pair
    watcher.order = {"run_id": "run-1"}
    start = os.times().elapsed
    watcher.wait(0.3, [child.pid])
    assert os.times().elapsed - start >= 0.29
    watcher.wait(60, [2**22 + 1])
    child.kill()
    child.wait()
    watcher.wait(60, [child.pid])
