"""Devices: one run at a time, gentle endings, resets that are verified."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from instrumentor.machine.device_locks import boards, end_gently, find_smi, held, reset
from instrumentor.shared.errors import NotReady
from tests.attackers import TWO_USERS, as_another_user, shared_tmp
from tests.conftest import ROOT

__all__ = ["shared_tmp"]
pytestmark = pytest.mark.usefixtures("no_hang")

BIN = ROOT / "tests" / "standins" / "bin"
SMI = BIN / "tt-smi"
DEVICE = Path("/dev/tenstorrent/0")
HOLD = """\
import sys, time
from pathlib import Path
from instrumentor.machine.device_locks import held
with held([Path("/dev/tenstorrent/0")], Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_run_is_told_who_holds_the_device(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        try:
            with pytest.raises(NotReady) as caught, held([DEVICE], tmp_path):
                pass
            user = pwd.getpwuid(os.getuid()).pw_name
            command = f"{sys.executable} -c {HOLD} {tmp_path}"[:120]
            assert caught.value.message == (
                f"Another run uses {DEVICE}: process {other.pid} of {user} ({command})."
            )
            with held([Path("/dev/tenstorrent/1")], tmp_path):
                pass
        finally:
            other.kill()
    with held([DEVICE], tmp_path):  # the kernel gave it back
        pass


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder"])
def test_what_stands_in_a_locks_place_is_neither_followed_nor_written(
    tmp_path: Path, kind: str
) -> None:
    """In a folder of all users anybody can put a link to a file of ours there."""
    precious, lock = tmp_path / "thesis.tex", tmp_path / "instrument-dev-tenstorrent-0.lock"
    if kind == "link":
        precious.write_text("all of it")
    if "link" in kind:
        lock.symlink_to(precious)
    else:
        os.mkfifo(lock) if kind == "pipe" else lock.mkdir()
    with pytest.raises(NotReady, match="cannot be used: it is") as caught, held([DEVICE], tmp_path):
        pass
    assert f"ls -l {lock}" in caught.value.hint
    assert precious.read_text() == "all of it" if kind == "link" else not precious.exists()


def test_a_lock_file_is_never_written(tmp_path: Path) -> None:
    lock = tmp_path / "instrument-dev-tenstorrent-0.lock"
    before = os.umask(0o077)
    try:
        with held([DEVICE], tmp_path):
            pass
    finally:
        os.umask(before)
    assert lock.stat().st_mode & 0o777 == 0o444  # others must be able to wait for it
    lock.chmod(0o644)
    lock.write_text("of another")
    with held([DEVICE], tmp_path):
        assert lock.read_text() == "of another"


@TWO_USERS
def test_one_user_waits_for_the_run_of_another(shared_tmp: Path) -> None:
    with held([DEVICE], shared_tmp):

        def wait() -> None:
            with pytest.raises(NotReady, match=f"process {me} of root"), held([DEVICE], shared_tmp):
                pass

        me = os.getpid()
        as_another_user(wait)

    def take() -> None:
        with held([DEVICE], shared_tmp):
            pass

    as_another_user(take)


def test_a_blocked_write_inside_the_block_is_not_taken_for_a_lock(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), held([DEVICE], tmp_path):
        raise BlockingIOError


def test_processes_end_gently_or_not_at_all(tmp_path: Path) -> None:
    node = tmp_path / "0"
    node.touch()
    processes = [
        subprocess.Popen([BIN / "hold-device", node, *more], stdout=subprocess.PIPE, text=True)
        for more in ([], ["--stubborn"])
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        gentle, stubborn = (process.pid for process in processes)
        assert end_gently([gentle, stubborn], grace_s=0.3) == (stubborn,)
        assert processes[1].poll() is None
    finally:
        for process in processes:
            process.kill()
            process.communicate()


TRAPS = """\
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: print("SIGINT", flush=True))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print("SIGTERM", flush=True)))
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""


def test_the_gentler_signal_comes_first_and_once() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TRAPS], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert end_gently([process.pid], grace_s=1.0) == ()
        assert process.stdout.read().split() == ["SIGINT", "SIGTERM"]


@TWO_USERS
def test_a_process_of_another_user_is_left_and_named() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:

        def end() -> None:
            assert end_gently([process.pid], grace_s=0.1) == (process.pid,)

        as_another_user(end)
        assert process.poll() is None
        process.communicate(b"\n")


def test_devices_are_held_all_or_none_and_one_lock_a_device(tmp_path: Path) -> None:
    devices = [Path("/dev/tenstorrent/1"), DEVICE]
    with held(devices, tmp_path):
        locks = sorted(path.name for path in tmp_path.iterdir())
        assert locks == [f"instrument-dev-tenstorrent-{number}.lock" for number in (0, 1)]
        for device in devices:
            with pytest.raises(NotReady, match=f"Another run uses {device}:") as caught:
                held([device], tmp_path).__enter__()
            assert "Ctrl-C" in caught.value.hint
    with held(devices[:1], tmp_path), pytest.raises(NotReady), held(devices, tmp_path):
        pass
    with held([DEVICE], tmp_path):
        pass
    with held([], tmp_path):
        pass


def test_smi_is_found_beside_the_interpreter_first(tmp_path: Path) -> None:
    assert find_smi(tmp_path / "python", {"PATH": str(BIN)}) == SMI
    own = tmp_path / "tt-smi"
    own.touch(mode=0o755)
    assert find_smi(tmp_path / "python", {"PATH": str(BIN)}) == own
    assert find_smi(None, {"PATH": str(BIN)}) == SMI
    assert find_smi(Path("/nowhere/python"), {"PATH": "/nowhere"}) is None


def test_a_reset_is_verified(tmp_path: Path) -> None:
    state = tmp_path / "state"
    env = {**os.environ, "STANDIN_TT_SMI_STATE": str(state)}
    assert boards(SMI, env) == 1
    assert reset(SMI, env) < 30
    assert state.read_text() == "reset\n"


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_failed_reset_is_quoted_from_where_it_spoke(tmp_path: Path, stream: str) -> None:
    smi = tmp_path / "tt-smi"
    smi.write_text(f"#!/bin/sh\necho first >&{stream}\necho the reason >&{stream}\nexit 3\n")
    smi.chmod(0o755)
    with pytest.raises(NotReady, match="failed with code 3: the reason"):
        reset(smi, dict(os.environ))


def test_a_reset_that_only_says_so_is_not_believed(tmp_path: Path) -> None:
    env = {
        **os.environ,
        "STANDIN_TT_SMI_FAIL": "silent",
        "STANDIN_TT_SMI_STATE": str(tmp_path / "state"),
    }
    with pytest.raises(NotReady, match="0 of 1 boards"):
        reset(SMI, env, timeout_s=2.0)


def made_smi(folder: Path, answers: str) -> Path:
    smi = folder / "tt-smi"
    smi.write_text(f"#!/bin/sh\n[ $1 = -r ] && exit 0\n{answers}\n")
    smi.chmod(0o755)
    return smi


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ('{"device_info": [{}, {}]}', 2),
        ('Detected chips: 2\\n{"device_info": [{}]}', 1),
        ('{"device_info": 3}', 0),
        ('{"other": []}', 0),
        ("{", 0),
        ("none", 0),
    ],
)
def test_boards_are_counted_from_the_snapshot(tmp_path: Path, answer: str, number: int) -> None:
    assert boards(made_smi(tmp_path, f"printf '{answer}'"), dict(os.environ)) == number


def test_all_boards_are_waited_for(tmp_path: Path) -> None:
    """The second board answers at the third question."""
    smi = made_smi(
        tmp_path,
        f"""cd {tmp_path}; echo x >> asked
if [ $(wc -l < asked) -lt 3 ]; then echo '{{"device_info": [{{}}]}}'
else echo '{{"device_info": [{{}}, {{}}]}}'; fi""",
    )
    assert reset(smi, dict(os.environ), expected=2) >= 1.0  # two pauses between three questions
    assert (tmp_path / "asked").read_text().split() == ["x"] * 3
    (tmp_path / "asked").unlink()
    with pytest.raises(NotReady, match=r"1 of 2 boards answer, \d+ s later") as caught:
        reset(smi, dict(os.environ), expected=2, timeout_s=0.0)
    assert f"{smi} -ls" in caught.value.hint
