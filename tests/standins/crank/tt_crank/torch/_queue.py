"""The pretended device: commands in order, each taking its known time, on a thread of its own.

Host code only submits; values appear when the device has come to them. A command computes on the
CPU and lasts as long as its kind says, or as the CPU took when that is longer: times are meant to
dominate, so that no test depends on the machine's speed. Settings are environment variables:

* ``TT_STANDIN_MS``: milliseconds by kind of command, as ``forward=60,backward=120``;
* ``TT_STANDIN_TIMES``: what options of a compilation make of its graphs' time, as
  ``math_fidelity=LoFi:0.5,enable_trace=True:0.8``;
* ``TT_STANDIN_READ``: ``tensor``, where a read waits only for the commands that wrote that tensor,
  or ``queue``, where it waits for all that was submitted before it;
* ``TT_STANDIN_LOG``: file that gets a JSON object per command at the end of the process: its kind,
  and when it was submitted, began and ended, in seconds of `time.perf_counter`; and one for each
  graph that is compiled, with its options.
"""

from __future__ import annotations

import atexit
import collections
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: forward, backward, inference: one command per compiled graph; op: all that runs eagerly.
LATENCY_MS = {"forward": 60.0, "backward": 120.0, "inference": 40.0, "op": 0.2, "copy": 0.1}


class Queue:
    """What is submitted runs in order, on one thread, and takes its time."""

    def __init__(self) -> None:
        given = os.environ.get("TT_STANDIN_MS", "")
        parts = [part.partition("=") for part in given.split(",") if part]
        self.latency_ms = {**LATENCY_MS, **{kind: float(ms) for kind, _, ms in parts}}
        self.reads_wait_for = os.environ.get("TT_STANDIN_READ", "tensor")
        self.changed = threading.Condition()
        self.waiting: collections.deque[tuple[str, Callable[[], Any], float, float]] = (
            collections.deque()
        )
        self.submitted = 0
        self.finished = 0
        self.failure: Exception | None = None
        self.log: list[dict[str, Any]] = []
        threading.Thread(target=self._work, name="tt-standin", daemon=True).start()
        atexit.register(self._close)

    def submit(self, kind: str, run: Callable[[], Any], times: float = 1.0) -> int:
        """Enqueue a command that takes so many times as long as its kind says; its number."""
        with self.changed:
            self.waiting.append((kind, run, self.latency_ms[kind] * times, time.perf_counter()))
            self.submitted += 1
            self.changed.notify_all()
            return self.submitted

    def wait(self, number: int) -> None:
        """Wait until that command has ended; a command that failed raises here."""
        if self.reads_wait_for == "queue":
            number = self.submitted
        with self.changed:
            while self.finished < number and self.failure is None:
                self.changed.wait()
        if self.failure is not None:
            raise RuntimeError(f"a command on the device failed: {self.failure!r}")

    def _work(self) -> None:
        while True:
            with self.changed:
                while not self.waiting:
                    self.changed.wait()
                kind, run, latency_ms, submitted = self.waiting.popleft()
            began = time.perf_counter()
            try:
                run()
            except Exception as error:  # noqa: BLE001 -- told by the next read
                self.failure = self.failure or error
            del run  # and with it the tensors it holds
            time.sleep(max(0.0, began + latency_ms / 1000 - time.perf_counter()))
            times = {"submitted_s": submitted, "began_s": began, "ended_s": time.perf_counter()}
            self.log.append({"kind": kind, **times})
            with self.changed:
                self.finished += 1
                self.changed.notify_all()

    def _close(self) -> None:
        with self.changed:
            while self.finished < self.submitted and self.failure is None:
                self.changed.wait()
        path = os.environ.get("TT_STANDIN_LOG", "")
        if path:
            lines = [json.dumps(entry) + "\n" for entry in self.log]
            with Path(path).open("a", encoding="utf-8") as stream:
                stream.writelines(lines)


QUEUE = Queue()
