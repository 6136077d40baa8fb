"""Stands between the tool and the script's processes, and ends them when the tool is gone.

The guard is the sub-reaper of everything the run starts: a process whose parent dies becomes the
guard's child, so nothing of the run can get lost. It talks with the tool over one socket, a JSON
object a line; the end of that socket means that the tool is gone, however it went.

There are two of them, each in a session of its own. The second one does the work. The first is its
parent and only waits: should the second be killed, the run's processes become the first one's
children, and it ends them; should it be stopped, the first lets it go on. So the run ends with any
two of the three killed; and with all of them the script still gets SIGINT from the kernel.

Ending is gentle, because a killed process leaves a Tenstorrent device in a bad state: SIGINT to
the process that runs the script, SIGINT to the rest, SIGTERM, and SIGKILL only for processes that
have no device open. What is left is named and left alone.

Run by the tool's own interpreter: ``guard.py SOCKET_FD``. Linux only, standard library only.
"""

# os.path throughout: this start-up is part of the user's run.
# ruff: noqa: PTH115, PTH118, PTH123, PTH208
from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

# Of linux/prctl.h; Python has no names for them.
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLL_S = 0.02
KILL_WAIT_S = 2.0  # the kernel may need a moment to take down a killed process


class Guard:
    """One run: its order (see process.py), its main process, its end."""

    def __init__(self, control: socket.socket, tool: int) -> None:
        self.control = control
        self.apart = {os.getpid(), tool}  # no processes of the run, though they may bear its mark
        self.order: dict[str, Any] = {}
        self.asked = self.silent = False
        self.main = 0
        self.status: int | None = None

    def tell(self, **message: object) -> None:
        """Say something to the tool; it may be gone."""
        if self.silent:
            return
        with contextlib.suppress(OSError):
            self.control.sendall((json.dumps(message) + "\n").encode())

    def read_order(self) -> bool:
        """Take the tool's order; False when it is gone already."""
        data = b""
        while b"\n" not in data:
            part = self.control.recv(65536)
            if not part:
                return False
            data += part
        line, _, more = data.partition(b"\n")
        self.order = json.loads(line)
        self.asked = bool(more)
        return True

    def start(self) -> bool:
        """Start the script; False when its program cannot be executed."""
        failure_read, failure_write = os.pipe()  # closed by a successful exec
        guard = os.getpid()
        self.main = os.fork()
        if self.main == 0:
            become(self.order, guard, failure_write)
        os.close(failure_write)
        with os.fdopen(failure_read, "r", encoding="utf-8") as stream:
            failure = stream.read()
        if failure:
            self.reap()
            self.tell(event="failed", text=failure)
            return False
        self.tell(event="started", pid=self.main, guard=guard)
        return True

    def reap(self) -> None:
        """Collect the processes that have ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.main:
                self.status = status
                self.tell(event="exited", code=code_of(status))

    def watch(self, wake: int) -> None:
        """Return when the main process has ended, or when the tool asks for the end or is gone."""
        while self.status is None and not self.asked:
            ready, _, _ = select.select([self.control, wake], [], [])
            if wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 512)
            self.reap()
            self.asked = self.control in ready

    def end(self) -> None:
        """End what still runs, gently, and report what was ended and what is left."""
        grace = self.order["grace_s"]
        touched: set[int] = set()
        if self.status is None:
            script = self.script_pid()
            running = alive(script)
            touched |= self.signal([script] if running else [], signal.SIGINT)
            self.wait(grace, [script])
            if script != self.main and not alive(script):
                # The profiler is at its report; when it was so before us, it gets less time.
                self.wait(self.order["finish_s"] if running else grace, [self.main])
            if self.status is None:
                others = [pid for pid in self.processes() if pid != script]
                touched |= self.signal(others, signal.SIGINT)
                self.wait(grace)
        else:
            self.wait(self.order["linger_s"])
        touched |= self.signal(self.processes(), signal.SIGTERM)
        self.wait(grace)
        rest = self.processes()
        killable = [pid for pid in rest if not holds_device(pid, self.order["device_root"])]
        touched |= self.signal(killable, signal.SIGKILL)
        self.wait(KILL_WAIT_S, killable)
        left = self.processes()
        self.tell(event="finished", left=left, ended=sorted(touched - set(left)))

    def script_pid(self) -> int:
        """The process that runs or ran the script, as its launcher noted, else the main one."""
        path = self.order.get("pid_file")
        try:
            with open(path or "", encoding="utf-8") as stream:
                pid = int(stream.read())
        except (OSError, ValueError):
            return self.main
        # A live pid outside of the run has been reused by another process.
        return pid if pid in self.processes() or not alive(pid) else self.main

    def signal(self, pids: list[int], number: int) -> set[int]:
        """Send a signal, tell the tool, and return who got it."""
        reached = set()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
                reached.add(pid)
        if reached:
            self.tell(event="signalled", signal=signal.Signals(number).name, pids=sorted(reached))
        return reached

    def wait(self, seconds: float, pids: list[int] | None = None) -> None:
        """Wait until these processes, or all of the run, are gone; at most ``seconds``."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            self.reap()
            if not any(map(alive, self.processes() if pids is None else pids)):
                return
            time.sleep(POLL_S)

    def processes(self) -> list[int]:
        """All processes of this run that have not ended, newest first."""
        return members(os.getpid(), self.order["run_id"], self.apart)

    def work(self) -> int:
        """The second guard: run the script to its end."""
        os.setsid()
        self.apart.add(os.getpid())
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        # select() is called again after a handler in Python (PEP 475), so that a child's end has to
        # wake it through this pipe.
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        if not self.start():
            return 1
        self.watch(wake_read)
        self.end()
        return 0

    def stand_by(self, second: int) -> int:
        """The first guard: wait for the second, and end the run when that one was killed."""
        _, status = os.waitpid(second, os.WUNTRACED)
        while os.WIFSTOPPED(status):  # by the script: nobody else knows of it
            os.kill(second, signal.SIGCONT)
            _, status = os.waitpid(second, os.WUNTRACED)
        if os.WIFEXITED(status):
            return os.WEXITSTATUS(status)
        self.apart.add(second)
        self.silent = True  # the tool takes the end of the socket for what it is
        self.end()
        return 1


def become(order: dict[str, Any], guard: int, failure: int) -> None:
    """In the forked child: turn into the script's process; never returns."""
    try:
        os.setpgid(0, 0)
        prctl(PR_SET_PDEATHSIG, signal.SIGINT)
        # The death signal is not sent for a parent that died before it was asked for.
        if os.getppid() != guard:
            os._exit(1)
        signal.set_wakeup_fd(-1)  # the pipe is the guard's
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        # Python ignores these two, and what is ignored stays so across exec.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        os.chdir(order["cwd"])
        os.execvpe(order["argv"][0], order["argv"], order["env"])
    except OSError as error:
        os.write(failure, f"{error.filename or order['cwd']}: {error.strerror}".encode())
    finally:
        os._exit(127)  # as a shell does for a program that cannot be run


def prctl(option: int, value: int) -> None:
    """Linux's prctl(2) with one argument; OSError when the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def code_of(status: int) -> int:
    """The exit code, or minus the signal's number."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def state_of(pid: int) -> tuple[str, int]:
    """(state letter, parent's pid) from /proc; ("", 0) when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            # The second field is the program's name, in which spaces and brackets may stand.
            fields = stream.read().rpartition(")")[2].split()
    except OSError:
        return "", 0
    return (fields[0], int(fields[1])) if len(fields) > 1 else ("", 0)


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for (a zombie) does not."""
    return state_of(pid)[0] not in ("", "Z", "X")


def members(guard: int, run_id: str, apart: set[int]) -> list[int]:
    """Descendants of ``guard``, and of processes that carry the run's id, less those ``apart``."""
    parents = {}
    marked = set()
    needle = f"INSTRUMENT_RUN_ID={run_id}".encode()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        pid = int(name)
        state, parent = state_of(pid)
        if state in ("", "Z", "X"):
            continue
        parents[pid] = parent
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as stream:
            if needle in stream.read().split(b"\0"):
                marked.add(pid)
    found = set()
    for pid in parents:
        line = [pid]
        while line[-1] in parents and line[-1] not in apart:
            line.append(parents[line[-1]])
        if line[-1] == guard or not marked.isdisjoint(line):
            found.add(pid)
    return sorted(found - apart, reverse=True)


def holds_device(pid: int, root: str) -> bool:
    """Whether the process has a file below the folder of the device nodes open.

    Where that cannot be read, the answer is yes: nothing is killed on a guess.
    """
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    for name in names:
        with contextlib.suppress(OSError):
            if os.readlink(os.path.join(folder, name)).startswith(root.rstrip("/") + "/"):
                return True
    return False


def main(argv: list[str]) -> int:
    """Be both guards of a run; the exit code is 0 when it was followed to its end."""
    control = socket.socket(fileno=int(argv[1]))
    control.set_inheritable(False)  # or the script would keep it open after our death
    guard = Guard(control, os.getppid())
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # Only the socket decides: a signal that was meant for the whole terminal must not end us.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: None)
    if not guard.read_order():
        return 0
    second = os.fork()
    return guard.stand_by(second) if second else guard.work()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
