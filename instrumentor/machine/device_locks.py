"""What is done to a device around a run: held by one run at a time, freed gently, reset on demand.

A process that is killed while it has the device open leaves it in a bad state, so nothing here
sends SIGKILL; and nothing here happens unless the user asked for it, the lock apart.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from instrumentor.runtime.guard import alive
from instrumentor.shared.errors import NotReady
from instrumentor_analysis.shared.documents import parsed
from instrumentor_analysis.shared.files import read_text

#: Where every user can make a file, and nobody can remove another one's.
LOCKS = Path("/tmp")
RESET_TIMEOUT_S = 180.0  # for one answer of tt-smi
BACK_TIMEOUT_S = 60.0  # for the boards to answer again after a reset
POLL_S = 0.5  # between two questions whether they do


@contextlib.contextmanager
def held(devices: Sequence[Path], folder: Path = LOCKS) -> Iterator[None]:
    """Keep other runs of this tool, of any user, off these devices while the block runs.

    The kernel gives the locks back when the process ends, however it ends, and tells who has one:
    nothing is ever written into a file that every user can name.

    Args:
        folder: where the lock files are; the same for all users.

    Raises:
        NotReady: another run holds one of them, which is named; or what stands at a lock's path is
            no lock file.
    """
    with contextlib.ExitStack() as stack:
        # Always in the same order: otherwise two runs could each take one device, and both give up.
        for device in sorted(devices):
            name = "-".join(device.absolute().parts[1:])
            stack.enter_context(_locked(folder / f"instrument-{name}.lock", device))
        yield


@contextlib.contextmanager
def _locked(path: Path, device: Path) -> Iterator[None]:
    descriptor = _open(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NotReady(
                f"Another run uses {device}: {_holder(descriptor, path)}.",
                "Wait for it, or end it with Ctrl-C: a killed run leaves the device in a bad "
                "state.",
            ) from None
        yield
    finally:
        # The file stays: if it were removed, one run could hold the old one and another a new one.
        os.close(descriptor)


def _open(path: Path) -> int:
    """Open a lock file for reading, which is all that a lock needs; make it where it is missing."""
    # In /tmp anybody may have planted a link, or a pipe whose opening would wait for a writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o444)
            os.fchmod(descriptor, 0o444)  # whatever the umask says: other users wait for it, too
        except FileExistsError:
            descriptor = os.open(path, flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is not a regular file")
    except OSError as error:
        reason = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise NotReady(
            f"the lock file {path} cannot be used: {reason}",
            f"It keeps two runs off one device. See who made it: ls -l {path}; then remove it.",
        ) from error
    return descriptor


def _holder(descriptor: int, path: Path) -> str:
    """The process that holds a lock, as the kernel tells it."""
    import psutil

    inode = os.fstat(descriptor).st_ino
    with contextlib.suppress(OSError, ValueError, psutil.Error):
        for line in read_text("/proc/locks").splitlines():
            _, kind, _, _, pid, file, *_ = line.replace("->", "").split()
            if kind == "FLOCK" and int(file.rpartition(":")[2]) == inode and int(pid) > 0:
                process = psutil.Process(int(pid))
                command = " ".join(process.cmdline())[:120]
                return f"process {pid} of {process.username()} ({command})"
    return f"see `fuser {path}`"


def end_gently(pids: Sequence[int], grace_s: float = 10.0) -> tuple[int, ...]:
    """End processes by SIGINT, then SIGTERM; never by SIGKILL.

    Args:
        grace_s: how long each of the two may take.

    Returns:
        those that still run, or that belong to somebody else.
    """
    left = list(pids)
    for number in (signal.SIGINT, signal.SIGTERM):
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        limit = time.monotonic() + grace_s
        while (left := [pid for pid in left if alive(pid)]) and time.monotonic() < limit:
            time.sleep(0.05)
        if not left:
            break
    return tuple(left)


def find_smi(python: Path | None, env: Mapping[str, str]) -> Path | None:
    """tt-smi, beside the script's interpreter or on PATH."""
    beside = [str(python.parent)] if python is not None else []
    path = os.pathsep.join([*beside, env.get("PATH", os.defpath)])
    found = shutil.which("tt-smi", path=path)
    return Path(found) if found else None


def reset(
    smi: Path, env: Mapping[str, str], expected: int = 1, timeout_s: float = BACK_TIMEOUT_S
) -> float:
    """Reset all boards and wait until they answer.

    Args:
        smi: the tt-smi program.
        expected: how many boards must be there afterwards.
        timeout_s: how long the boards may take to come back.

    Returns:
        seconds from the end of the reset until the boards were back.

    Raises:
        NotReady: the reset failed, or the boards did not come back; tt-smi may exit 0 after a
            failed reset, so its word is not taken for it.
    """
    done = _ask(smi, "-r", env)
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise NotReady(
            f"`{smi} -r` failed with code {done.returncode}: {' '.join(last)}",
            "End the processes that hold the device, then try again; a board that stays away "
            "needs a reboot of the machine.",
        )
    start = time.monotonic()
    while True:
        found = boards(smi, env)
        waited = time.monotonic() - start
        if found >= expected:
            return waited
        if waited >= timeout_s:
            raise NotReady(
                f"After the reset {found} of {expected} boards answer, {waited:.0f} s later.",
                f"See `{smi} -ls`; a board that stays away needs a reboot of the machine.",
            )
        time.sleep(min(POLL_S, timeout_s))


def boards(smi: Path, env: Mapping[str, str]) -> int:
    """How many boards tt-smi's snapshot lists; 0 when it gives none."""
    done = _ask(smi, "-s", env)
    try:
        # Some versions of tt-smi print a line before the JSON.
        return len(parsed(done.stdout[done.stdout.index("{") :])["device_info"])
    except (ValueError, KeyError, TypeError):
        return 0


def _ask(smi: Path, option: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [str(smi), option],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=RESET_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotReady(
            f"`{smi} {option}` could not be run: {error}", "Run it by hand and see what it says."
        ) from error
