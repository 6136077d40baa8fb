"""One process of a run under one profiler: started, watched, collected, its failure explained."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.run import process
from instrumentor.run.known_failures import (
    Diagnosis,
    diagnose,
    last_traceback,
    plain,
    reasons,
    relevant_tail,
)
from instrumentor.run.profilers import Artifacts, Launch, LaunchRequest, Profiler
from instrumentor.shared.errors import InstrumentError, Interrupted, RunFailed, ScriptFailed
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.files import appended, read_bytes

if TYPE_CHECKING:
    from instrumentor.shared.progress import Progress

OVERFLOW = "buffer-overflow"  # the row of failures.yaml
# What tt-metal prints while another process has the chip; it waits forever.
LOCKED = "Waiting for lock"
SETTLE_S = 15.0  # for a script to end after its last sample
SUMMARY = "[TIMER] Summary"  # what the recorder prints when the interpreter closes
WIDEST = 1000  # of a line of output that is shown


class Execution(Struct, frozen=True):
    """How one process went.

    Attributes:
        records: what the recorder in the script wrote; of several ranks the first one.
        exit_code: the script's own, where the profiler hides it; None when it is not known.
        failure: why it does not count as done; None when it does.
        overflowed: Tracy's buffers on the device were full.
    """

    launch: Launch
    finished: process.Finished
    artifacts: Artifacts
    records: tuple[Mapping[str, Any], ...]
    exit_code: int | None
    failure: InstrumentError | None
    overflowed: bool = False

    @property
    def samples(self) -> tuple[Mapping[str, Any], ...]:
        """The timed steps."""
        return tuple(r for r in self.records if r.get("event") == "sample")

    @property
    def complete(self) -> bool:
        """Whether the recorder had enough, and not the script."""
        return any(r.get("event") == "complete" for r in self.records)

    @property
    def clock_failure(self) -> RunFailed | None:
        """That the clock of the samples is none: each begins later than the one before."""
        last_s: dict[object, float] = {}  # of each process
        for sample in self.samples:
            pid, start_s = sample.get("pid"), sample.get("start_s")
            if not isinstance(start_s, float):
                continue
            if start_s <= last_s.get(pid, float("-inf")):
                return RunFailed(
                    f"the clock stood still or went back at {sample.get('name')}: the script, or "
                    "what it imports, replaces time.perf_counter",
                    "Run it without that, such as freezegun; no figures are kept.",
                )
            last_s[pid] = start_s
        return None

    @property
    def warnings(self) -> tuple[Caveat, ...]:
        """How it began and ended, where that is worth a word although it counts as done."""
        if not self.finished.outlived:
            return self.launch.warnings
        return (
            *self.launch.warnings,
            Caveat(
                "outlived-stop",
                "The measurement is complete, but a thread or process of the script was still "
                f"running and was ended{_left(self.finished)}. A daemon thread, or one that is "
                "stopped in a `finally`, ends by itself.",
            ),
        )


def execute(
    profiler: Profiler,
    request: LaunchRequest,
    *,
    output: Path,
    log: Path,
    timeout_s: float | None,
    stall_s: float | None,
    progress: Progress,
    on_launch: Callable[[Launch], None] = lambda launch: None,
) -> Execution:
    """Start the script once and follow it to its end.

    Args:
        output: where the profiler's files go.
        log: gets the whole output.
        timeout_s, stall_s: how long it may take, and how long nothing may happen.
        on_launch: called when everything is ready to start.

    Raises:
        NotReady: the profiler cannot be used, or the program cannot be started.
        RunFailed: the watching process was killed.
    """
    launch = profiler.launch(request)
    on_launch(launch)
    told = _Listener(progress)
    watch = process.Watch(
        on_line=told.line,
        on_record=told.record,
        on_stall=told.stall,
        on_event=told.event,
        timeout_s=timeout_s,
        stall_s=stall_s,
        # Tracy is at work for minutes in the script's own process when the script is through.
        settle_s=None if profiler.name == "tracy" else SETTLE_S,
    )
    finished = process.run(launch, log=log, record=request.record, watch=watch)
    # Only of a run that failed: of a good one it would be noise behind the script's last words.
    if finished.returncode != 0 and launch.side_log is not None:
        _append(launch.side_log, log)
    text = process.excerpt(log)
    code = 0 if finished.outlived else finished.returncode  # our ending is no failure of its own
    collected = profiler.collect(request.scratch, output, code)
    made = Execution(
        launch=launch,
        finished=finished,
        artifacts=collected,
        records=tuple(told.records),
        exit_code=_script_code(launch, collected.script_exit_code, code),
        failure=collected.failure,
        overflowed=any(each.name == OVERFLOW for each in diagnose(text)),
    )
    return replace(made, failure=_failure(made, text, log, timeout_s))


def _append(part: Path, log: Path) -> None:
    """Add what another program said to the end of the log."""
    if part.is_file() and part.stat().st_size:
        with appended(log) as whole:
            whole.write(b"\n" + read_bytes(part).strip() + b"\n")


def _script_code(launch: Launch, hidden: int | None, returncode: int) -> int | None:
    """The script's own code: behind a profiler that failed, only what the launcher noted."""
    # Tracy's own codes, such as 4 for a failed script, are not the script's.
    if hidden is None and launch.pid_file is not None and returncode != 0:
        return None
    return returncode if hidden is None else hidden


class _Listener:
    """Hands on what a process does, and says what it means; never ends the run for it."""

    def __init__(self, progress: Progress) -> None:
        self.records: list[Mapping[str, Any]] = []
        self._progress, self._note = progress, progress.note
        self._locked = self._ending = False

    def line(self, line: str) -> None:
        """Hand on a line; say at once that the device's lock is waited for, which has no end."""
        self._progress.line(line)
        if LOCKED in line and not self._locked:
            self._locked = True
            for each in diagnose(line)[:1]:
                self._note(f"{each.title}: {each.cause} {each.remedy}")

    def record(self, record: Mapping[str, Any]) -> None:
        if record.get("rank"):  # of several, all of which the analysis reads
            return
        self.records.append(record)
        self._progress.record(record)

    def stall(self, stall: process.Stall) -> None:
        """Say for how long nothing has happened, and what the last lines tell about it."""
        known = reasons(diagnose("\n".join(stall.last_lines)))
        last = f"; last output: {stall.last_lines[-1]}" if stall.last_lines else ""
        pids = ", ".join(map(str, stall.pids))
        self._note(f"nothing has happened for {stall.idle_s:.0f} s (pids {pids}){last}")
        for each in known[:1]:
            self._note(f"{each.title}: {each.cause} {each.remedy}")
        if any(record.get("event") == "complete" for record in self.records):
            self._note(
                "all samples are taken: the profiler is writing its report, or the script is "
                "waiting for a thread or process that it did not stop; Ctrl-C ends it and keeps "
                "the samples"
            )

    def event(self, event: Mapping[str, Any]) -> None:
        """Once, when the run is being ended, that this may take a moment."""
        if event.get("event") == "closing":
            self._note(
                f"all samples are taken, and the script is still shutting down ({event['why']}): "
                "waiting "
                "for it; Ctrl-C ends it and keeps the samples"
            )
        if event.get("event") == "outlived":
            self._ending = True
            alive = "; ".join(event["processes"])
            self._note(
                "the script was asked to stop and still has a thread or process running "
                f"({alive}): ending it gently; the measurement is complete"
            )
        if (
            event.get("event") == "signalled"
            and event.get("signal") == "SIGINT"
            and not self._ending
        ):
            self._ending = True
            pids = ", ".join(map(str, event["pids"]))
            self._progress.record({"event": "ending"})
            self._note(
                f"ending the script gently (pids {pids}), so that it lets go of what it holds; "
                "Ctrl-C again stops waiting for it"
            )


def _failure(
    made: Execution, text: str, log: Path, timeout_s: float | None
) -> InstrumentError | None:
    finished = made.finished
    if finished.interrupted:
        return Interrupted("interrupted" + _left(finished))
    if finished.timed_out:
        what = f"the run did not end within --timeout {timeout_s:g} s{_left(finished)}"
        # What it was waiting for, such as a lock, says more than that it timed out.
        known = reasons(diagnose(text))
        if known:
            return RunFailed(*_known(what, known))
        return RunFailed(what, f"Give it more time, or see {log} for what it waits for.")
    if finished.outlived:
        return made.failure
    if finished.returncode != 0 or made.exit_code not in (0, None):
        return _explained(made, text, log)
    return made.failure


def _left(finished: process.Finished) -> str:
    said = ""
    if finished.ending:
        said = f"; still being ended, gently: {' '.join(map(str, finished.ending))}"
    if finished.left_running:
        pids = " ".join(map(str, finished.left_running))
        said += (
            "; left running, because killing a process that holds a device leaves it in a bad "
            f"state: {pids} "
            f"(kill -INT {pids}, then kill {pids}, never kill -9)"
        )
    return said


def _explained(made: Execution, text: str, log: Path) -> RunFailed:
    started = made.launch.pid_file is None or made.launch.pid_file.is_file()
    what = f"the script ended with code {made.exit_code}"
    raised = last_traceback(text)
    if made.finished.signal:
        killed = f"signal {signal_name(made.finished.signal)}"
        what = f"the script was ended by {killed}"
        if raised is not None and _was_closing(made.records) and _ends_with(text, raised):
            what = f"the script ended with an exception, and {killed} came while it was closing"
    elif made.exit_code in (0, None):
        what = f"the profiler ended with code {made.finished.returncode}"
        if not started:
            what += " before the script started"
        elif made.exit_code is None and made.samples:
            what += "; the script exited abruptly (os._exit, or a crash)"
    found = reasons(diagnose(text, made.finished.returncode, ran=bool(made.samples)))
    if found:
        told = _known(what, found)
    else:
        lines = (raised or relevant_tail(text)).rstrip().splitlines()
        shown = "\n".join(f"{line[:WIDEST]} ..." if len(line) > WIDEST else line for line in lines)
        told = f"{what}; its last lines:\n{shown}", f"The whole output is in {log}."
    if made.exit_code in (0, None):
        return RunFailed(*told)
    failed = ScriptFailed(*told)
    # One that the script caught and printed is not why it ended.
    failed.raised = raised if raised is not None and _ends_with(text, raised) else ""
    return failed


def _was_closing(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the interpreter had begun to close, which it does behind the script's last line."""
    events = {record.get("event") for record in records}
    # With enough samples the peak is read before that; without, when all else is over.
    return "leaving" in events or ("resident" in events and "complete" not in events)


def _ends_with(text: str, raised: str) -> bool:
    """Whether nothing of the script follows a traceback: one that it caught is not its end."""
    exception = raised.rpartition("\n")[2]
    _, _, rest = plain(text).rpartition(exception)
    return not rest.partition(SUMMARY)[0].strip(" =\n")


def _known(what: str, found: Sequence[Diagnosis]) -> tuple[str, str]:
    """Message and hint of a failure that is known."""
    first, *others = found
    also = "".join(f"\nalso: {each.title}\n  {each.line.strip()}" for each in others)
    return (
        f"{what}: {first.title}\n  {first.line.strip()}\nwhy: {first.cause}{also}",
        f"{first.remedy}{f' (seen in {first.page})' if first.page else ''}",
    )


def signal_name(number: int) -> str:
    """Such as ``11 (SIGSEGV)``."""
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)
