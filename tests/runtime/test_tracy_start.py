"""Whether there was a client of Tracy's is seen from its port."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import pytest

from instrumentor.runtime import tracy_start
from instrumentor.runtime.tracy_start import give_up_without_client, served
from tests.waiting import HANG_S

NEVER = [sys.executable, "-c", "import time; time.sleep(3600)"]


def unused() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_listener_is_seen_and_what_it_has_said_is_remembered() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        assert not served(port)
        listener.listen()
        assert served(port)
        with socket.create_connection(("127.0.0.1", port)) as client:
            listener.accept()[0].close()
            client.recv(1)
    assert served(port)


def test_a_port_that_was_asked_in_vain_is_not_served() -> None:
    port = unused()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    assert not served(port)


def capture(port: int) -> Any:
    start = give_up_without_client(lambda *_: subprocess.Popen(NEVER))
    return start(False, "out", "tools", str(port))


def test_nobody_waits_for_a_client_that_never_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracy_start, "LAST_S", 0.1)
    program = capture(unused())
    with pytest.raises(SystemExit, match="so there was no Tracy client"):
        program.communicate(timeout=HANG_S)
    assert program.returncode is not None


def test_a_client_that_was_there_has_tracys_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracy_start, "LAST_S", 0.1)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        program = capture(listener.getsockname()[1])
        with pytest.raises(subprocess.TimeoutExpired):
            program.communicate(timeout=0.3)
    program.kill()
    program.wait()
