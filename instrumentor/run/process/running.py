"""The run itself: starts the guard, follows it, and tells how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instrumentor.machine.device_nodes import device_root
from instrumentor.run.process.model import Finished, Stop, Watch
from instrumentor.run.process.shutdown import Shutdown
from instrumentor.run.process.stall import StallDetector
from instrumentor.run.process.tail import Tail, record_of
from instrumentor.run.process.tree import RUN_ID, below, processes_of, still_alive
from instrumentor.run.profilers.base import RUNTIME, Launch
from instrumentor.runtime import guard
from instrumentor.shared.errors import NotReady, RunFailed
from instrumentor_analysis.shared.documents import parsed
from instrumentor_analysis.shared.files import LIMIT_LINES, appended

if TYPE_CHECKING:
    import psutil

POLL_S = 0.05  # the longest wait for the guard before log and records are read again
LEAVING_S = 1.0  # for processes that were told to end and are about to
SLACK_S = 30.0  # beyond the guard's own limits for an ending, on a busy machine
# No run records that much; a file that a script blew up is not read.
RECORD_BYTES, RECORD_LINES = 256 << 20, LIMIT_LINES
SHOWN_LINES = 15  # last lines of the log, for a standstill


def run(
    launch: Launch,
    *,
    log: Path,
    record: Path | None = None,
    watch: Watch | None = None,
    stop: Stop | None = None,
    device_folder: Path | None = None,
) -> Finished:
    """Run ``launch`` to its end, or end it.

    Args:
        log: file for the whole output; appended to.
        record: the recorder's file of JSON lines.
        stop: to end the run from another thread.
        device_folder: where the device nodes are; processes that hold one are never killed.

    Raises:
        NotReady: the program cannot be started.
        RunFailed: the guard itself was killed, or the record is too large to be one.
    """
    return _Run(launch, log, record, watch or Watch(), stop or Stop(), device_folder).run()


class _Run:
    def __init__(
        self,
        launch: Launch,
        log: Path,
        record: Path | None,
        watch: Watch,
        stop: Stop,
        device_folder: Path | None,
    ) -> None:
        self.launch, self.watch, self.stop = launch, watch, stop
        self.log, self.record = Tail(log), Tail(record, RECORD_BYTES, RECORD_LINES)
        self.log_path = log
        self.device_folder = device_folder or device_root(launch.env)
        self.run_id = launch.env.get(RUN_ID) or uuid.uuid4().hex
        self.guard_pid = 0  # the one whose children the run's processes are
        self.returncode: int | None = None
        self.finished: dict[str, Any] | None = None  # the guard's last word
        self.pending = b""
        self.last_lines: deque[str] = deque(maxlen=SHOWN_LINES)
        self.shutdown = Shutdown(watch, self.processes, self.device_folder)

    def processes(self) -> list[psutil.Process]:
        return below(self.guard_pid)

    def run(self) -> Finished:
        ours, theirs = socket.socketpair()
        with ours, self.stop.on_signals():
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            with appended(self.log_path) as output, theirs:
                self.log.offset = output.tell()
                # In a session of its own: a terminal's Ctrl-C reaches us alone, and we end the run
                # gently. Without site: no .pth file of an environment may run in the guard.
                self.guard = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(RUNTIME / "guard.py"), str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            self.control = ours
            self.control.settimeout(POLL_S)
            self.start = self.watch.clock()
            self._send(self._order())
            try:
                return self._follow()
            except BaseException:
                ours.close()  # the guard takes this for our death and ends the run
                if not self._guard_ended():
                    self._end_all()
                raise

    def _order(self) -> dict[str, Any]:
        return {
            "argv": list(self.launch.argv),
            "env": {**self.launch.env, RUN_ID: self.run_id},
            "cwd": str(self.launch.cwd),
            "pid_file": str(self.launch.pid_file) if self.launch.pid_file else None,
            "finish_s": self.launch.finish_s,
            "grace_s": self.watch.grace_s,
            "linger_s": self.watch.linger_s,
            "device_root": str(self.device_folder),
            "run_id": self.run_id,
        }

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the guard has ended
            self.control.sendall((json.dumps(message) + "\n").encode())

    def _follow(self) -> Finished:
        """The loop: what the guard says, what the script writes, what the clock says."""
        interrupted, why, limit_s = False, "", float("inf")
        stall_detector = StallDetector(self.watch, self.start, self.processes)
        while self._hear():
            self._wake()
            moved = self._read()
            interrupted |= self.stop.requests > 0 and self.returncode is None
            if self.stop.requests > 1:
                break
            if not why:
                stall_detector.look(self.watch.clock(), moved, self.last_lines)
                why = "interrupted" if interrupted else self._why_end()
                if why:
                    self._send({"event": "end"})
            if why or self.returncode is not None:
                limit_s = min(limit_s, time.monotonic() + self._ending_s())
            if time.monotonic() >= limit_s:
                self._kill_guard()
        self._read(final=True)
        told = self.finished or self._last_word()
        code = self.returncode if self.returncode is not None else -int(signal.SIGINT)
        return Finished(
            returncode=code,
            timed_out=why == "timed out",
            interrupted=interrupted,
            duration_s=self.watch.clock() - self.start,
            left_running=tuple(told["left"]),
            ended=tuple(told["ended"]),
            run_id=self.run_id,
            outlived=why == "outlived" and not interrupted,
            ending=tuple(told.get("ending", ())),
        )

    def _why_end(self) -> str:
        """What the run is to be ended for, gently; empty while it may go on."""
        now, limit_s = self.watch.clock(), self.watch.timeout_s
        late = limit_s is not None and now - self.start >= limit_s
        if self.returncode is not None:
            return ""
        return "outlived" if self.shutdown.outlived(now, late) else "timed out" if late else ""

    def _hear(self) -> bool:
        """Take the guard's messages, waiting a moment for them; False when it is gone."""
        try:
            data = self.control.recv(65536)
        except TimeoutError:
            return True
        except ConnectionResetError:
            return False
        *lines, self.pending = (self.pending + data).split(b"\n")
        for line in lines:
            self._take(parsed(line))
        return bool(data)

    def _take(self, message: dict[str, Any]) -> None:
        event = message["event"]
        if event == "failed":
            raise NotReady(
                f"{self.launch.argv[0]} could not be started: {message['text']}",
                "Check that the interpreter and the working directory exist.",
            )
        if event == "started":
            self.guard_pid = message["guard"]
        elif event == "exited":
            self.returncode = message["code"]
        elif event == "finished":
            self.finished = message
            self._guard_ended()
        self.watch.on_event(message)

    def _read(self, *, final: bool = False) -> bool:
        """Hand on what the script wrote; whether that was anything."""
        moved = False
        for line in self.log.lines(final=final):
            moved = True
            self.last_lines.append(line)
            self.watch.on_line(line)
        for line in self.record.lines(final=final):
            moved = True
            entry = record_of(line)
            if entry is not None:
                self.shutdown.record(entry)
                self.watch.on_record(entry)
        return moved

    def _last_word(self) -> dict[str, Any]:
        """What the guard did not come to say: the user does not wait for it, or it was killed."""
        if self.stop.requests > 1:
            # The guard goes on ending them after we are gone.
            self._send({"event": "end"})
            ending = still_alive(self.processes(), LEAVING_S)
            # It is left running on purpose; Popen would warn about that when it is collected.
            self.guard.returncode = 0
            return {"left": [], "ended": [], "ending": ending}
        self._guard_ended()
        left = self._end_all()
        ended = f"The process that watches over the run was ended (code {self.guard.returncode})."
        still = f" Still running: {' '.join(map(str, left))}." if left else ""
        raise RunFailed(
            f"{ended}{still}",
            f"The run's output so far is in {self.log.path}.",
        )

    def _wake(self) -> None:
        """Let the first guard go on, should the script have stopped it; it wakes the second."""
        if self.guard.poll() is None:
            self.guard.send_signal(signal.SIGCONT)

    def _ending_s(self) -> float:
        """The longest that the guard takes to end a run."""
        watch = self.watch
        report_s = max(self.launch.finish_s, watch.grace_s)
        return 3 * watch.grace_s + report_s + watch.linger_s + guard.KILL_WAIT_S + SLACK_S

    def _guard_ended(self) -> bool:
        """Wait for the guard as long as an ending takes; False when it had to be killed."""
        limit = time.monotonic() + self._ending_s()
        while time.monotonic() < limit:
            self._wake()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.guard.wait(POLL_S)
                return True
        self._kill_guard()
        self.guard.wait()
        return False

    def _kill_guard(self) -> None:
        """Kill both guards, which do not come to an end; the end of the socket tells of it."""
        if guard.state_of(self.guard_pid)[1] == self.guard.pid:
            os.kill(self.guard_pid, signal.SIGKILL)
        self.guard.kill()

    def _end_all(self) -> tuple[int, ...]:
        """End what the run left behind, as its guard would have; what stays."""
        left = processes_of(self.run_id)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if number == signal.SIGKILL:
                left = tuple(p for p in left if not guard.holds_device(p, str(self.device_folder)))
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            left = self._left_after(self.watch.grace_s)
            if not left:
                break
        return left

    def _left_after(self, wait_s: float) -> tuple[int, ...]:
        """Processes of the run once they had a while to end."""
        limit = time.monotonic() + wait_s
        while (left := processes_of(self.run_id)) and time.monotonic() < limit:
            time.sleep(POLL_S)
        return left
