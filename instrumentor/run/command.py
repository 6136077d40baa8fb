"""The recipe of any command under Tracy: no rewriting, no copy, one CSV of device operations."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from instrumentor.run.any_command import ONE_PROCESS, meant_for_a_shell, split, understand
from instrumentor.run.execution import execute
from instrumentor.run.options import ProfileOptions
from instrumentor.run.pipeline import Pipeline
from instrumentor.run.profilers import TRACY, LaunchRequest, choose
from instrumentor.run.profilers.tracy import FOLDER, OPS_CSV, PERF_FOLDER
from instrumentor.run.ready.doctor import PlannedRun
from instrumentor.run.ready.readiness import ready
from instrumentor.shared.errors import InstrumentError, UsageError
from instrumentor.shared.progress import Progress
from instrumentor.workspace import slots
from instrumentor_analysis.shared.documents import object_in

DEFAULT_OUTPUT = Path("results/perf/device_ops_perf_trace.csv")
TRACE = "tracy_profile_log_host.tracy"
MESSAGES = "tracy_ops_data.csv"
GUI = "https://docs.tenstorrent.com/tt-metal/latest/tt-metalium/tools/tracy_profiler.html#gui"
NO_LOCATIONS = (
    "no LOC: the runtime was built without perf tracing; build it with "
    "`cmake -DTT_RUNTIME_ENABLE_PERF_TRACE=ON` to have LOC, CONST_EVAL_OP and PROGRAM_METADATA"
)
NO_TIMES = (
    "the device is simulated: its cycles are no times, which DEVICE ARCH says of each operation"
)
NO_SHELL = "no shell reads the command: {} stays as written; give the words that it stands for"


class Profiled(Struct, frozen=True):
    """A finished profile.

    Attributes:
        csv: device operations, with LOC, CONST_EVAL_OP and PROGRAM_METADATA.
        trace: the host trace for Tracy's GUI, beside the CSV; None when there is none.
        log: the whole output of the command.
        rows: device operations in the CSV.
        located: of these, operations with a LOC.
        exit_code: the command's own, as far as it is known.
        simulated: the device was, so that the cycles are no times.
    """

    csv: Path
    trace: Path | None
    log: Path
    rows: int
    located: int
    exit_code: int | None
    warnings: tuple[str, ...] = ()
    simulated: bool = False

    def to_json(self) -> dict[str, Any]:
        """The document ``instrument-profile/1``."""
        plain = to_builtins(self, enc_hook=str)
        return {"schema": "instrument-profile/1", **plain, "warnings": list(self.warnings)}


def profile(
    command: Sequence[str] | str,
    options: ProfileOptions | None = None,
    progress: Progress | None = None,
) -> Profiled:
    """Run any command under Tracy and write its device operations as one CSV.

    Args:
        command: its words, or one string that is read as a shell would read it.

    Raises:
        UsageError: there is no such command.
        NotReady: Tracy cannot be used here.
        RunFailed, Interrupted: the command or the profiler failed; ``error.result`` is the
            :class:`Profiled` of what there is, or None.
    """
    return CommandRun(command, options or ProfileOptions(), progress).go()


class CommandRun(Pipeline[Profiled]):
    """State of one profile; the stages are those of :class:`instrumentor.run.pipeline.Pipeline`."""

    def __init__(
        self, command: Sequence[str] | str, options: ProfileOptions, progress: Progress | None
    ) -> None:
        super().__init__(options, progress)
        self.options = options
        self.warnings: list[str] = []
        self.given = [command] if isinstance(command, str) else list(command)
        self.output = self.cwd / (options.output or DEFAULT_OUTPUT)

    def prepare(self) -> None:
        """The words of the command."""
        self.words = split(self.given, self.cwd)
        one_string = len(self.given) == 1 and not (self.cwd / self.given[0]).exists()
        for_a_shell = meant_for_a_shell(self.given[0]) if one_string else ()
        if for_a_shell:
            self._warn(NO_SHELL.format(", ".join(for_a_shell)))

    def examine(self) -> None:
        """The interpreter: the command itself may name one; and whether Tracy works in it."""
        self.machine = self.options.examine(self.cwd)
        folders = [str(self.machine.python.parent), self.env.get("PATH", os.defpath)]
        self.command = understand(self.words, os.pathsep.join(folders), self.cwd)
        if self.command.python is not None and self.options.python is None:
            self.machine = self.options.examine(self.cwd, python=self.command.python)
        choose("tracy", self.machine, "measure a training script with `instrument run`")
        for warning in self.command.warnings:
            self._warn(warning)

    def ready(self) -> AbstractContextManager[None]:
        """The doctor's checks of Tracy, and the devices."""
        folder, options = self.output.parent, self.options
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{folder}: {error.strerror}", "Give -o FILE.") from error
        planned = PlannedRun(
            self.machine, folders=(folder,), env=self.env, cwd=self.cwd, port=options.port
        )
        return ready(planned, self.progress, reset=options.reset, end_holders=options.yes)

    def execute(self) -> None:
        """One process, beside which Tracy works in a folder of ours."""
        log = self.output.with_suffix(".log")
        with (
            slots.acquired(self.output.parent.resolve()) as slot,
            self._earlier_named(),
        ):
            scratch = slot.scratch
            log.unlink(missing_ok=True)  # a run appends to it
            self.progress.stage("running", f"{shlex.join(self.words)} under tracy")
            made = execute(
                TRACY,
                self._request(scratch),
                output=scratch / "collected",
                log=log,
                timeout_s=self.timeout_s,
                stall_s=self.stall_s,
                progress=self.progress,
            )
            for each in made.launch.warnings:
                self._warn(each.message)
            self.result = self._write(scratch / "collected", scratch, log, made.exit_code)
            if made.failure is not None:
                made.failure.result = self.result
                raise made.failure

    def conclude(self) -> Profiled:
        """What was written."""
        assert self.result is not None
        return self.result

    def _request(self, scratch: Path) -> LaunchRequest:
        machine, options = self.machine, self.options
        return LaunchRequest(
            python=machine.python,
            script=Path("command"),
            arguments=(),
            command=self.command.order,
            cwd=self.cwd,
            env={**self.env, **self.command.variables},
            scratch=scratch,
            record=scratch / "record.jsonl",
            tools_folder=machine.tools_folder,
            port=options.port,
            counters=options.counters,
            noc_trace=options.noc_trace,
            import_paths=machine.import_paths,
            programs_per_read=options.op_support_count,
        )

    def _warn(self, text: str) -> None:
        self.warnings.append(text)
        self.progress.note(text)

    @contextmanager
    def _earlier_named(self) -> Iterator[None]:
        """A failure can leave an earlier profile's files beside its own log: its error says so."""
        # The table has a fixed name: nothing in it tells which profile it is of.
        files = (self.output, self.output.with_suffix(".tracy"))
        before = {path: _mtime_ns(path) for path in files if path.exists()}
        try:
            yield
        except InstrumentError as error:
            stale = [str(path) for path, time in before.items() if _mtime_ns(path) == time]
            if stale:
                error.message += f"; of an earlier profile: {', '.join(stale)}"
            raise

    def _write(
        self, collected: Path, scratch: Path, log: Path, exit_code: int | None
    ) -> Profiled | None:
        from instrumentor_analysis.load.perf_trace import join

        ops = collected / PERF_FOLDER / OPS_CSV
        if not ops.is_file():
            return None
        messages = collected / FOLDER / ".logs" / MESSAGES
        # Beside the table: an earlier one is replaced in one step, or not at all.
        part = self.output.with_name(f".{self.output.name}.{os.getpid()}.part")
        try:
            described = messages if messages.is_file() else None
            simulated = self.machine.simulator is not None
            joined = join(ops, described, part, simulated=simulated)
            part.replace(self.output)
        finally:
            part.unlink(missing_ok=True)
        trace = self._keep_trace(collected / FOLDER)
        if simulated:
            self._warn(NO_TIMES)
        if not joined.located:
            self._warn(NO_LOCATIONS)
        if _workers(scratch):
            self._warn(f"{ONE_PROCESS} ({_workers(scratch)} worker processes were started)")
        return Profiled(
            self.output,
            trace,
            log,
            joined.rows,
            joined.located,
            exit_code,
            tuple(self.warnings),
            simulated,
        )

    def _keep_trace(self, folder: Path) -> Path | None:
        found = sorted(folder.rglob(TRACE), key=lambda path: path.stat().st_mtime_ns)
        target = self.output.with_suffix(".tracy")
        if not found:
            target.unlink(missing_ok=True)  # of an earlier CSV
            return None
        shutil.move(found[-1], target)
        return target


def _mtime_ns(path: Path) -> int | None:
    return path.stat().st_mtime_ns if path.exists() else None


def _workers(scratch: Path) -> int:
    found = object_in(scratch / "outcome.json").get("workers")
    return found if isinstance(found, int) else 0
