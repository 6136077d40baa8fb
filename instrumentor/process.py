"""Runs one process tree to its end: log, samples as they come, time limits, gentle endings.

The script's processes hang on a guard (runtime/guard.py), which ends them when this process
disappears. Output goes straight into the log file, and both log and record file are read as they
grow, so that a slow callback never holds up the script that is being measured.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from instrumentor.environment import device_root
from instrumentor.errors import NotReady, RunFailed
from instrumentor.profilers.base import RUNTIME, Launch

RUN_ID = "INSTRUMENT_RUN_ID"
POLL_S = 0.05
# A process that waits for a lock still uses a little time; below this share it counts as still.
STILL_CPU_SHARE = 0.02


@dataclass(frozen=True)
class Finished:
    """How a run ended.

    Attributes:
        returncode: of the started process; minus the signal's number when one ended it, and
            minus SIGINT while it still runs.
        signal: that number, else None.
        timed_out: the time limit was reached.
        interrupted: the user (or SIGTERM) asked for the end.
        duration_s: from start to the end of the last process.
        left_running: processes that were not ended because they hold a device.
        ended: processes that had to be ended.
        run_id: the mark in the environment of every process of the run.
    """

    returncode: int
    signal: int | None
    timed_out: bool
    interrupted: bool
    duration_s: float
    left_running: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()
    run_id: str = ""


@dataclass(frozen=True)
class Stall:
    """Nothing has happened for ``idle_s`` seconds: no output, no sample, no CPU time.

    Attributes:
        pids: the processes of the run.
        last_lines: the last lines of the log, which often say what is waited for.
    """

    idle_s: float
    pids: tuple[int, ...]
    last_lines: tuple[str, ...]


class Tail:
    """Complete lines of a growing file; a file that is not there yet gives none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.rest = b""

    def lines(self, *, final: bool = False) -> Iterator[str]:
        """Lines that came since the last call; ``final`` also gives an unfinished one."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as stream:
            stream.seek(self.offset)
            data = stream.read()
            self.offset += len(data)
            *whole, self.rest = (self.rest + data).split(b"\n")
            for line in whole:
                yield line.decode("utf-8", "replace").rstrip("\r")
        if final and self.rest:
            line, self.rest = self.rest, b""
            yield line.decode("utf-8", "replace")


class Stop:
    """Counts requests to end: Ctrl-C, SIGTERM, or :meth:`request` from another thread."""

    def __init__(self) -> None:
        self.requests = 0

    def request(self) -> None:
        """Ask for a gentle end; the second time, stop waiting for it."""
        self.requests += 1

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM while the block runs; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def requested(number: int, frame: FrameType | None) -> None:
            self.request()

        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            signal.signal(number, requested)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@dataclass(frozen=True)
class Watch:
    """Limits and listeners of a run.

    Attributes:
        on_line: gets each line of output.
        on_record: gets each object of the record file.
        on_stall: gets a :class:`Stall` once per standstill; a true answer ends the run.
        on_event: gets what the guard does, as ``{"event": "signalled", "signal": ..., "pids"}``.
        timeout_s: limit for the whole run.
        stall_s: how long nothing may happen.
        grace_s: how long each gentle step of an ending may take.
        linger_s: how long other processes may outlive the main one by themselves.
        clock: seconds, monotonic.
    """

    on_line: Callable[[str], None] | None = None
    on_record: Callable[[dict[str, Any]], None] | None = None
    on_stall: Callable[[Stall], bool] | None = None
    on_event: Callable[[dict[str, Any]], None] | None = None
    timeout_s: float | None = None
    stall_s: float | None = None
    grace_s: float = 10.0
    linger_s: float = 1.0
    clock: Callable[[], float] = time.monotonic


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
        RunFailed: the guard itself was killed.
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
        self.launch = launch
        self.watch = watch
        self.stop = stop
        self.log_path = log
        self.log = Tail(log)
        self.record = Tail(record) if record else None
        self.device_folder = device_folder or device_root(launch.env)
        self.run_id = launch.env.get(RUN_ID) or uuid.uuid4().hex
        self.returncode: int | None = None
        self.finished: dict[str, Any] | None = None
        self.last_lines: list[str] = []
        self.pending = b""

    def run(self) -> Finished:
        ours, theirs = socket.socketpair()
        with ours, self.stop.on_signals():
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            with self.log_path.open("ab") as output, theirs:
                self.log.offset = output.tell()
                self.guard = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(RUNTIME / "guard.py"), str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            self.control = ours
            self.start = self.watch.clock()
            self._send(self._order())
            try:
                return self._follow()
            except BaseException:
                ours.close()  # the guard takes this for our death and ends the run
                self.guard.wait()
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
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.control.sendall((json.dumps(message) + "\n").encode())

    def _follow(self) -> Finished:
        """The loop: what the guard says, what the script writes, what the clock says."""
        timed_out = interrupted = asked = False
        stillness = _Stillness(self)
        while self._hear():
            moved = self._read()
            now = self.watch.clock()
            if self.stop.requests and self.returncode is None:
                interrupted = True
            if self.stop.requests > 1:
                break
            if self.watch.timeout_s is not None and now - self.start >= self.watch.timeout_s:
                timed_out = timed_out or (self.returncode is None and not asked)
            stalled = not asked and stillness.ends(now, moved)
            if (interrupted or timed_out or stalled) and not asked:
                asked = True
                self._send({"event": "end"})
        self._read(final=True)
        return self._result(timed_out, interrupted)

    def _hear(self) -> bool:
        """Take the guard's messages, waiting a moment for them; False when it is gone."""
        self.control.settimeout(POLL_S)
        try:
            data = self.control.recv(65536)
        except TimeoutError:
            return True
        except ConnectionResetError:
            return False
        *lines, self.pending = (self.pending + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        return bool(data)

    def _take(self, message: dict[str, Any]) -> None:
        event = message["event"]
        if event == "failed":
            raise NotReady(
                f"{self.launch.argv[0]} could not be started: {message['text']}",
                "See that the interpreter and the working directory exist.",
            )
        if event == "exited":
            self.returncode = message["code"]
        elif event == "finished":
            self.finished = message
        if self.watch.on_event is not None:
            self.watch.on_event(message)

    def _read(self, *, final: bool = False) -> bool:
        moved = False
        for line in self.log.lines(final=final):
            moved = True
            self.last_lines = [*self.last_lines[-14:], line]
            if self.watch.on_line is not None:
                self.watch.on_line(line)
        if self.record is not None:
            for line in self.record.lines(final=final):
                moved = True
                entry = _record_of(line)
                if entry is not None and self.watch.on_record is not None:
                    self.watch.on_record(entry)
        return moved

    def processes(self) -> list[Any]:
        """The processes of the run, as psutil objects."""
        import psutil

        try:
            return psutil.Process(self.guard.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def _result(self, timed_out: bool, interrupted: bool) -> Finished:
        told = self.finished
        if told is None and self.stop.requests > 1:
            # The guard goes on ending them after we are gone.
            left = [process.pid for process in self.processes()]
            told = {"left": left, "ended": []}
            self.guard.returncode = 0  # it is left running on purpose
        elif told is None:
            self.guard.wait()
            for pid in processes_of(self.run_id):  # the kernel ends the first of them only
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            raise RunFailed(
                f"The process that watches over the run was ended (code {self.guard.returncode}).",
                f"The run's output so far stands in {self.log_path}.",
            )
        else:
            self.guard.wait()
        code = self.returncode if self.returncode is not None else -int(signal.SIGINT)
        return Finished(
            returncode=code,
            signal=-code if code < 0 else None,
            timed_out=timed_out,
            interrupted=interrupted,
            duration_s=self.watch.clock() - self.start,
            left_running=tuple(told["left"]),
            ended=tuple(told["ended"]),
            run_id=self.run_id,
        )


class _Stillness:
    """Notices that nothing happens any more: no output, no sample, no CPU time.

    CPU time is looked at twice, half-way and at the end: walking over all processes more often
    would disturb what is being measured.
    """

    def __init__(self, run: _Run) -> None:
        self.run = run
        self.since = run.start
        self.half_way: tuple[float, float] | None = None  # time, CPU time
        self.told = False

    def ends(self, now: float, moved: bool) -> bool:
        """Whether the run is to be ended for standing still."""
        watch = self.run.watch
        if watch.stall_s is None or watch.on_stall is None:
            return False
        if moved:
            self._restart(now)
        idle = now - self.since
        if self.told or idle < watch.stall_s / 2:
            return False
        if self.half_way is None:
            self.half_way = now, self._cpu_s()
            return False
        if idle < watch.stall_s:
            return False
        then, cpu = self.half_way
        if self._cpu_s() - cpu > STILL_CPU_SHARE * (now - then):
            self._restart(now)
            return False
        self.told = True
        pids = tuple(process.pid for process in self.run.processes())
        return watch.on_stall(Stall(idle, pids, tuple(self.run.last_lines)))

    def _restart(self, now: float) -> None:
        self.since, self.half_way, self.told = now, None, False

    def _cpu_s(self) -> float:
        import psutil

        total = 0.0
        for process in self.run.processes():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                times = process.cpu_times()
                total += times.user + times.system
        return total


def _record_of(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:  # a killed writer leaves half a line
        return None
    return entry if isinstance(entry, dict) else None


def processes_of(run_id: str) -> tuple[int, ...]:
    """Processes that carry a run's mark in their environment, wherever they have gone."""
    needle = f"{RUN_ID}={run_id}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if needle in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return tuple(sorted(found))
