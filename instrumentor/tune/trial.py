"""One trial: `instrument run` of a script in a configuration, in a process of its own.

``result.json`` is written at the very end and at once, so that a trial either has its result or
none. An error of the script is a result; only an interruption leaves none.
"""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from instrumentor.errors import InstrumentError, Interrupted
from instrumentor.outputs import write_json
from instrumentor.process import excerpt, record_of
from instrumentor.run_options import RunOptions
from instrumentor.runner import run
from instrumentor.tune import outcome
from instrumentor.tune.edits import applied
from instrumentor.tune.outcome import Outcome
from instrumentor.tune.spec import RESULT, Spec, digest, write_process
from instrumentor.tune.target import read_target
from instrumentor_analysis.caveats import read_caveats

_EVERY_S = 0.1
_OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemory|RESOURCE_EXHAUSTED|MemoryError|bad_alloc|can't allocate memory"
    r"|Not enough space to allocate",
    re.I,
)
_COMPILE_FAILURE = re.compile(
    r"BackendCompilerFailed|torch\._dynamo\.exc|compil\w* fail|fail\w* to compile"
    r"|failed to legalize|error code: 13|MLIR.*error",
    re.I,
)


def run_trial(spec: Spec) -> None:
    """Run a trial and write its result.

    Raises:
        KeyboardInterrupt: interrupted; there is no result then.
    """
    _take_interrupts()
    write_process(spec.folder)
    started = time.monotonic()
    with _Memory() as memory:
        made = _run(spec)
    made = replace(
        made, peak_rss_bytes=memory.peak or None, duration_s=round(time.monotonic() - started, 3)
    )
    write_json(spec.folder / RESULT, made.to_json())


def _take_interrupts() -> None:
    """For a trial that submitit started: away from the terminal, open for our own SIGINT."""
    if os.environ.get("SUBMITIT_EXECUTOR") == "local":
        os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _run(spec: Spec) -> Outcome:
    folder = spec.folder / "run"
    try:
        target = read_target(spec.script, spec.arguments, spec.cwd, spec.rewrite)
        if digest(target.files()) != spec.digest:
            return Outcome(outcome.FAILED, "the script changed since the tuning began")
        one = applied(target, spec.configuration)
        options = RunOptions(
            **_run_choices(spec.run),
            rewrite=dataclasses.replace(spec.rewrite, variant=one.variant),
            output=folder,
            timeout_s=spec.timeout_s,
            cwd=spec.cwd,
            env=_environment(spec),
        )
        result = run(spec.script, one.arguments, options)
    except Interrupted as error:
        raise KeyboardInterrupt from error
    except InstrumentError as error:
        return _failed(error, folder, spec.timeout_s)
    return _measured(folder, result.summary.to_json())


def _run_choices(told: Mapping[str, Any]) -> dict[str, Any]:
    """What JSON made texts of, as paths again."""
    folders = {name: tuple(map(Path, told[name])) for name in ("link", "no_link") if name in told}
    tt_xla = {"tt_xla": Path(told["tt_xla"])} if told.get("tt_xla") else {}
    return {**told, **folders, **tt_xla}


def _environment(spec: Spec) -> dict[str, str]:
    values = {**os.environ, "INSTRUMENT_LOSS": "1"}
    for name, value in spec.environment.items():
        values.pop(name, None)
        if value is not None:
            values[name] = value
    return values


def _measured(folder: Path, summary: Mapping[str, Any]) -> Outcome:
    wall = summary.get("wall_clock_ms") or {}
    samples, memory = _records(folder)
    label = str(wall.get("label") or "")
    steady = [s for s in samples if s.get("label") == label and s.get("kind") == "steady"]
    losses = [s["loss"] for s in steady if s.get("loss") is not None]
    return Outcome(
        outcome.MEASURED,
        folder=str(folder),
        label=label,
        samples_ms=tuple(wall.get("values") or ()),
        compile_ms=wall.get("compile"),
        batch_shape=_usual(tuple(s.get("batch_shape") or ()) for s in steady),
        losses=tuple(float(loss) for loss in losses),
        cuda_max_memory_allocated_bytes=memory,
        device=str(steady[-1].get("device") or "") if steady else "",
        warnings=tuple(map(str, read_caveats(summary.get("warnings")))),
    )


def _usual(shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of most steps: the last batch of an epoch may be smaller."""
    counted = Counter(shapes).most_common(1)
    return counted[0][0] if counted else ()


def _records(folder: Path) -> tuple[list[dict[str, Any]], int | None]:
    samples: list[dict[str, Any]] = []
    memory: int | None = None
    for line in (folder / "timings.jsonl").read_text(encoding="utf-8").splitlines():
        record = record_of(line) or {}
        if record.get("event") == "sample":
            samples.append(record)
        elif record.get("event") == "memory":
            memory = int(record["bytes"])
    return samples, memory


def _failed(error: InstrumentError, folder: Path, timeout_s: float | None) -> Outcome:
    log = folder / "run.log"
    text = excerpt(log)
    lines = [line.strip() for line in error.message.splitlines() if line.strip()]
    reason = " ".join(dict.fromkeys((lines[:1] + lines[-1:]) if lines else ["failed"]))
    status = outcome.FAILED
    if timeout_s is not None and f"within --timeout {timeout_s:g} s" in error.message:
        status, reason = outcome.TIMEOUT, f"no end within {timeout_s:.0f} s"
    elif _OUT_OF_MEMORY.search(text):
        status, reason = outcome.OUT_OF_MEMORY, _line_of(_OUT_OF_MEMORY, text)
    elif _COMPILE_FAILURE.search(text):
        status, reason = outcome.COMPILE_FAILURE, _line_of(_COMPILE_FAILURE, text)
    elif "signal 9" in error.message:
        reason += " (the kernel does that when memory runs out)"
    return Outcome(status, reason[:300], folder=str(folder) if folder.is_dir() else "")


def _line_of(pattern: re.Pattern[str], text: str) -> str:
    return next(line.strip() for line in text.splitlines() if pattern.search(line))


class _Memory(threading.Thread):
    """Looks at the resident memory of all processes below this one, ten times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._stop_asked = threading.Event()

    def __enter__(self) -> _Memory:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_asked.set()
        self.join()

    def run(self) -> None:
        """Until the block ends."""
        import psutil

        me = psutil.Process()
        while not self._stop_asked.wait(_EVERY_S):
            total = 0
            for process in me.children(recursive=True):
                try:
                    total += process.memory_info().rss
                except psutil.Error:  # it has just ended
                    continue
            self.peak = max(self.peak, total)
