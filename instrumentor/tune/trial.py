"""One trial: `instrument run` of a script in a configuration, in a process of its own.

``result.json`` is written at the very end and at once, so that a trial either has its result or
none. An error of the script is a result; only an interruption leaves none.
"""

from __future__ import annotations

import dataclasses
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct, ValidationError
from msgspec.structs import replace

from instrumentor.run.options import RunOptions
from instrumentor.run.process import excerpt, record_of
from instrumentor.run.training import run
from instrumentor.shared.errors import InstrumentError, Interrupted
from instrumentor.shared.outputs import write_json
from instrumentor.tune import outcome
from instrumentor.tune.edits import applied
from instrumentor.tune.executors import take_over
from instrumentor.tune.outcome import Outcome
from instrumentor.tune.settings import Configuration
from instrumentor.tune.target import read_target
from instrumentor_analysis.model import Summary
from instrumentor_analysis.shared.documents import read
from instrumentor_analysis.shared.files import Unfit, read_text

RESULT = "result.json"
ITERATION = "iteration"
#: Pause between two looks at the memory.
_EVERY_S = 0.1
#: What a log says of a failure that is not the script's own mistake; the first that fits counts.
_FAILURES = {
    outcome.OUT_OF_MEMORY: re.compile(
        r"out of memory|OutOfMemory|RESOURCE_EXHAUSTED|MemoryError|bad_alloc|can't allocate memory"
        r"|Not enough space to allocate",
        re.I,
    ),
    outcome.COMPILE_FAILURE: re.compile(
        r"BackendCompilerFailed|torch\._dynamo\.exc|compil\w{0,9} fail|fail\w{0,9} to compile"
        r"|failed to legalize|error code: 13|MLIR.{0,400}error",
        re.I,
    ),
}


class Spec(Struct, frozen=True):
    """All that a trial needs.

    Attributes:
        folder: of the trial, on a disk that every machine sees.
        options: of the run, without a variant and an output.
        environment: variables to set (None: to take away) for the script.
        digest: of the files that the configuration is applied to.
    """

    script: Path
    arguments: tuple[str, ...]
    folder: Path
    configuration: Configuration
    options: RunOptions
    environment: Mapping[str, str | None]
    digest: str


def read_result(folder: Path) -> Outcome | None:
    """The outcome of a trial that came to its end and left a whole one, else None."""
    try:
        return Outcome.from_json(read(folder / RESULT))
    except (FileNotFoundError, IsADirectoryError, Unfit, ValueError, ValidationError):
        return None


def run_trial(spec: Spec) -> None:
    """Run a trial and write its result.

    Raises:
        KeyboardInterrupt: interrupted; there is no result then.
    """
    take_over(spec.folder)
    started = time.monotonic()
    with _Memory() as memory:
        made = _run(spec)
    duration_s = round(time.monotonic() - started, 3)
    made = replace(made, peak_rss_bytes=memory.peak or None, duration_s=duration_s)
    write_json(spec.folder / RESULT, made.to_json())


def _run(spec: Spec) -> Outcome:
    folder, options = spec.folder / "run", spec.options
    variables = {**os.environ, "INSTRUMENT_LOSS": "1", **spec.environment}
    try:
        # Read again here: the syntax trees of a target cannot go to another process.
        target = read_target(spec.script, spec.arguments, options.folder, options.rewrite)
        if target.digest() != spec.digest:
            return Outcome(outcome.FAILED, "the script changed since the tuning began")
        variant = applied(target, spec.configuration)
        options = dataclasses.replace(
            options,
            rewrite=dataclasses.replace(options.rewrite, variant=variant),
            output=folder,
            env={name: value for name, value in variables.items() if value is not None},
        )
        result = run(spec.script, variant.arguments, options)
    except Interrupted as error:
        raise KeyboardInterrupt from error
    except InstrumentError as error:
        return _failed(error, folder, options.timeout_s)
    return _measured(folder, result.summary)


def _measured(folder: Path, summary: Summary) -> Outcome:
    """What a run that ended well showed."""
    records = list(filter(None, map(record_of, read_text(folder / "timings.jsonl").splitlines())))
    memory = [int(r["bytes"]) for r in records if r.get("event") == "memory"]
    found = Outcome(
        outcome.MEASURED,
        folder=str(folder),
        cuda_max_memory_allocated_bytes=memory[-1] if memory else None,
        warnings=tuple(map(str, summary.warnings)),
        busy=any(each.kind == "busy-machine" for each in summary.warnings),
    )
    wall = summary.wall_clock
    if wall is None:
        return found
    steady = [
        r
        for r in records
        if (r.get("event"), r.get("label"), r.get("kind")) == ("sample", wall.label, "steady")
    ]
    # What the user waits for, data and optimizer included; the region alone where none was seen.
    whole = wall.iteration.median_of_ms if wall.iteration is not None else ()
    return replace(
        found,
        label=ITERATION if whole else wall.label,
        samples_ms=whole or wall.samples_ms,
        compile_ms=wall.compile_ms,
        batch_shape=_usual(tuple(s.get("batch_shape") or ()) for s in steady),
        losses=tuple(float(s["loss"]) for s in steady if s.get("loss") is not None),
        device=str(steady[-1].get("device") or "") if steady else "",
    )


def _usual(shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of most steps: the last batch of an epoch may be smaller."""
    counted = Counter(shapes).most_common(1)
    return counted[0][0] if counted else ()


def _failed(error: InstrumentError, folder: Path, timeout_s: float | None) -> Outcome:
    kept = str(folder) if folder.is_dir() else ""
    # These are the words of the run's own error message, in execution.py.
    if timeout_s is not None and f"within --timeout {timeout_s:g} s" in error.message:
        return Outcome(outcome.TIMEOUT, f"no end within {timeout_s:.0f} s", kept)
    log = [line.strip() for line in excerpt(folder / "run.log").splitlines()]
    for status, pattern in _FAILURES.items():
        for line in filter(pattern.search, log):
            return Outcome(status, line[:300], kept)
    lines = [line.strip() for line in error.message.splitlines() if line.strip()]
    reason = " ".join(dict.fromkeys((lines[:1] + lines[-1:]) if lines else ["failed"]))
    if "signal 9" in error.message:
        reason += " (the kernel does that when memory runs out)"
    return Outcome(outcome.FAILED, reason[:300], kept)


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
        """Sample the memory until the block ends."""
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
