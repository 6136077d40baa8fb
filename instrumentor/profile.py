"""Any command under Tracy, as it is: no rewriting, one CSV of device operations.

Tracy follows one process. So a Python command is run inside the process that Tracy starts (its
script, module or code, by runtime/launch.py), and any other program takes that process's place.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instrumentor.errors import InstrumentError, UsageError
from instrumentor.progress import Progress, Silent
from instrumentor.run_options import ProfileOptions

if TYPE_CHECKING:
    from instrumentor.environment import Machine
    from instrumentor.profilers import Launch, LaunchRequest

DEFAULT_OUTPUT = Path("results/perf/device_ops_perf_trace.csv")
TRACE = "tracy_profile_log_host.tracy"
MESSAGES = "tracy_ops_data.csv"
GUI = "https://docs.tenstorrent.com/tt-metal/latest/tt-metalium/tools/tracy_profiler.html#gui"
ONE_PROCESS = "Tracy follows one process: what other processes do on the device is not in the CSV"
NO_LOCATIONS = (
    "no LOC: the runtime was built without perf tracing; build it with "
    "`cmake -DTT_RUNTIME_ENABLE_PERF_TRACE=ON` to have LOC, CONST_EVAL_OP and PROGRAM_METADATA"
)
NO_SHELL = "no shell reads the command: {} stays as written; give the words that it stands for"
# A quoted piece, an escaped character, or what only a shell would act on.
_SHELL = re.compile(
    r"""'[^']*'|\\.|"(?:\\.|[^"\\])*"|(\$\w+|\${\w+}|\$\(|`|&&|\|\||\d?>+|[|&;<*?])""", re.DOTALL
)
_EXPANDED = re.compile(r"\\.|(\$\w+|\${\w+}|\$\(|`)", re.DOTALL)  # within double quotes
_PYTHON = re.compile(r"python(\d+(\.\d+)*)?\Z")
_SEVERAL = (
    (re.compile(r"op_by_op"), "op_by_op tests compile and run each op in a process of its own"),
    (re.compile(r"\A(torchrun|mpirun|mpiexec|deepspeed)\Z"), "it starts several processes"),
    (re.compile(r"\A(-n|--numprocesses)(=?\d+|=?auto|=?logical)?\Z"), "pytest-xdist runs workers"),
)
# Options of the interpreter that can be given to a running one by its environment.
_FLAGS = {"-u": ("PYTHONUNBUFFERED", "1"), "-B": ("PYTHONDONTWRITEBYTECODE", "1"),
          "-O": ("PYTHONOPTIMIZE", "1"), "-OO": ("PYTHONOPTIMIZE", "2"),
          "-v": ("PYTHONVERBOSE", "1"), "-s": ("PYTHONNOUSERSITE", "1"),
          "-P": ("PYTHONSAFEPATH", "1")}  # fmt: skip


@dataclass(frozen=True)
class Command:
    """What is to be profiled.

    Attributes:
        order: for runtime/launch.py: script, module, code or program, and the arguments.
        python: the interpreter that the command itself names.
        variables: for its environment.
        warnings: what the user should know before it runs.
    """

    order: Mapping[str, Any]
    python: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Profiled:
    """A finished profile.

    Attributes:
        csv: device operations, with LOC, CONST_EVAL_OP and PROGRAM_METADATA.
        trace: the host trace for Tracy's GUI, beside the CSV; None when there is none.
        log: the whole output of the command.
        rows: device operations in the CSV.
        located: of these, operations with a LOC.
        exit_code: the command's own, as far as it is known.
    """

    csv: Path
    trace: Path | None
    log: Path
    rows: int
    located: int
    exit_code: int | None
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The document ``instrument-profile/1``."""
        return {
            "schema": "instrument-profile/1",
            "csv": str(self.csv),
            "trace": str(self.trace) if self.trace else None,
            "log": str(self.log),
            "rows": self.rows,
            "located": self.located,
            "exit_code": self.exit_code,
            "warnings": list(self.warnings),
        }


def split(command: Sequence[str] | str, cwd: Path) -> list[str]:
    """The words of a command; a single quoted string is read as a shell would read it.

    Raises:
        UsageError: nothing to run, or a quotation mark is missing.
    """
    words = [command] if isinstance(command, str) else list(command)
    if len(words) == 1 and not (cwd / words[0]).exists():
        try:
            words = shlex.split(words[0])
        except ValueError as error:
            raise UsageError(f"{words[0]!r}: {error}", "Close the quotation mark.") from error
    if not words:
        raise UsageError("no command", "instrument profile pytest -svv tests/test_mnist.py")
    return words


def meant_for_a_shell(text: str) -> tuple[str, ...]:
    """Operators, variables and patterns in a command line that only a shell would act on."""
    found: list[str] = []
    for match in _SHELL.finditer(text):
        if match[1]:
            found.append(match[1])
        elif match[0].startswith('"'):
            found += filter(None, _EXPANDED.findall(match[0]))
    return tuple(dict.fromkeys(found))


def understand(words: Sequence[str], search: str, cwd: Path) -> Command:
    """How to run a command inside the process that Tracy follows.

    Args:
        search: PATH on which its program is looked for.

    Raises:
        UsageError: there is no such program.
    """
    warnings = tuple(
        f"{ONE_PROCESS} ({why})"
        for pattern, why in _SEVERAL
        if any(pattern.search(Path(word).name if not n else word) for n, word in enumerate(words))
    )
    first, *rest = words
    if first.endswith(".py") and (cwd / first).is_file():
        return Command({"script": str(cwd / first), "arguments": rest}, warnings=warnings)
    found = shutil.which(str(cwd / first) if "/" in first else first, path=search)
    if found is None:
        raise UsageError(f"{first}: there is no such program", "Give a program, or a script.py.")
    if _PYTHON.match(Path(first).name):
        python = Path(found) if "/" in first else None
        return replace(_python_command(rest, cwd), python=python, warnings=warnings)
    interpreter = _shebang(Path(found))
    if interpreter is not None:
        order = {"script": found, "arguments": rest}
        return Command(order, python=interpreter, warnings=warnings)
    return Command({"program": found, "arguments": rest}, warnings=warnings)


def _python_command(words: Sequence[str], cwd: Path) -> Command:
    """``python [options] SCRIPT | -m MODULE | -c CODE ARGS``.

    Raises:
        UsageError: an option that only a starting interpreter can take, or nothing to run.
    """
    variables: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in ("-m", "-c") and rest:
            key = "module" if word == "-m" else "code"
            return Command({key: rest[0], "arguments": rest[1:]}, variables=variables)
        if word in _FLAGS:
            variables.update([_FLAGS[word]])
        elif word == "-W" and rest:
            variables["PYTHONWARNINGS"] = rest.pop(0)
        elif word.startswith("-"):
            raise UsageError(
                f"python {word}: cannot be given to a program under Tracy",
                "Leave it out, or put what it does into the environment (PYTHON... variables).",
            )
        else:
            order = {"script": _script(cwd / word), "arguments": rest}
            return Command(order, variables=variables)
    raise UsageError("python: no script to run", "instrument profile python SCRIPT ARGS")


def _script(path: Path) -> str:
    """The path of a Python script, seen to be one before Tracy is started.

    Raises:
        UsageError: it is not there, or is a folder.
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "there is no such script"
        raise UsageError(f"{path}: {what}", "Give a script, or python -m MODULE.")
    return str(path)


def _shebang(program: Path) -> Path | None:
    """The Python interpreter that a script names in its first line; None for other programs."""
    try:
        with program.open("rb") as stream:
            line = stream.readline(512)
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    words = os.fsdecode(line[2:]).split()
    if words and Path(words[0]).name == "env" and len(words) > 1:
        return Path(found) if (found := _env_python(words[1])) else None
    return Path(words[0]) if words and _PYTHON.match(Path(words[0]).name) else None


def _env_python(name: str) -> str | None:
    return shutil.which(name) if _PYTHON.match(name) else None


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
    options = options or ProfileOptions()
    return _Profile(command, options, progress or Silent()).go()


class _Profile:
    def __init__(
        self, command: Sequence[str] | str, options: ProfileOptions, progress: Progress
    ) -> None:
        self.options = options
        self.progress = progress
        self.cwd = (options.cwd or Path.cwd()).absolute()
        self.env = dict(os.environ if options.env is None else options.env)
        self.words = split(command, self.cwd)
        self.output = self.cwd / (options.output or DEFAULT_OUTPUT)
        self.warnings: list[str] = []
        given = [command] if isinstance(command, str) else list(command)
        one_string = len(given) == 1 and not (self.cwd / given[0]).exists()
        self.for_a_shell = meant_for_a_shell(given[0]) if one_string else ()

    def go(self) -> Profiled:
        from instrumentor import leftovers
        from instrumentor.doctor import Situation
        from instrumentor.profilers import choose
        from instrumentor.readiness import ready
        from instrumentor.workspace import places

        leftovers.undo(self.progress.note, self.progress.note)
        if self.for_a_shell:
            self._warn(NO_SHELL.format(", ".join(self.for_a_shell)))
        machine = self._machine(None)
        search = os.pathsep.join([str(machine.python.parent), self.env.get("PATH", os.defpath)])
        self.command = understand(self.words, search, self.cwd)
        if self.command.python is not None and self.options.python is None:
            machine = self._machine(self.command.python)
        choose("tracy", machine, "measure a training script with `instrument run`")
        for warning in self.command.warnings:
            self._warn(warning)
        try:
            self.output.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.output.parent}: {error.strerror}", "Give -o FILE.") from error
        situation = Situation(
            machine,
            folders=(self.output.parent,),
            env=self.env,
            cwd=self.cwd,
            port=self.options.port,
        )
        with (
            ready(situation, self.progress, reset=self.options.reset, end_holders=self.options.yes),
            places.acquired(self.output.parent.resolve()) as place,
        ):
            return self._run(machine, places.scratch(place))

    def _machine(self, python: Path | None) -> Machine:
        from instrumentor.environment import examine

        return examine(
            self.cwd,
            python=self.options.python or python,
            tt_xla=self.options.tt_xla,
            tools_folder=self.options.tracy_tools_folder,
            env=self.env,
            cwd=self.cwd,
        )

    def _warn(self, text: str) -> None:
        self.warnings.append(text)
        self.progress.note(text)

    def _run(self, machine: Machine, scratch: Path) -> Profiled:
        from instrumentor.attempt import Limits, attempt
        from instrumentor.profilers import LaunchRequest

        request = LaunchRequest(
            python=machine.python,
            script=Path(str(self.command.order.get("script", "command"))),
            arguments=tuple(self.command.order["arguments"]),
            cwd=self.cwd,
            env={**self.env, **self.command.variables},
            scratch=scratch,
            record=scratch / "record.jsonl",
            tools_folder=self.options.tracy_tools_folder
            or (machine.tools.folder if machine.tools else None),
            port=self.options.port,
            import_paths=machine.import_paths,
            programs_per_read=self.options.op_support_count,
        )
        collected = scratch / "collected"
        log = self.output.with_suffix(".log")
        with self._earlier_named():
            log.unlink(missing_ok=True)
            self.progress.stage("running", f"{shlex.join(self.words)} under tracy")
            made = attempt(
                AnyCommand(self.command, self.env),
                request,
                output=collected,
                log=log,
                limits=Limits(self.options.timeout_s, self.options.stall_s),
                progress=self.progress,
            )
            result = self._write(collected, scratch, log, made.exit_code)
            if made.failure is not None:
                made.failure.result = result
                raise made.failure
        assert result is not None
        return result

    @contextmanager
    def _earlier_named(self) -> Iterator[None]:
        """A failure can leave an earlier profile's files beside its own log: its error says so."""
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
        from instrumentor.profilers.tracy import FOLDER, OPS_CSV, PERF_FOLDER
        from instrumentor_analysis.perf_trace import join

        ops = collected / PERF_FOLDER / OPS_CSV
        if not ops.is_file():
            return None
        messages = collected / FOLDER / ".logs" / MESSAGES
        part = self.output.with_name(f".{self.output.name}.{os.getpid()}.part")
        try:
            joined = join(ops, messages if messages.is_file() else None, part)
            part.replace(self.output)
        finally:
            part.unlink(missing_ok=True)
        trace = self._keep_trace(collected / FOLDER)
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
        )

    def _keep_trace(self, folder: Path) -> Path | None:
        found = sorted(folder.rglob(TRACE), key=lambda path: path.stat().st_mtime_ns)
        target = self.output.with_suffix(".tracy")
        if not found:
            target.unlink(missing_ok=True)  # of an earlier CSV
            return None
        shutil.move(found[-1], target)
        return target


@dataclass(frozen=True)
class AnyCommand:
    """Tracy for a command that is not instrumented: its environment stays the user's."""

    command: Command
    env: Mapping[str, str]
    name: str = "tracy"

    def launch(self, request: LaunchRequest) -> Launch:
        """Tracy's own launch, with the command in the place of the script.

        Raises:
            NotReady: see :class:`instrumentor.profilers.tracy.Tracy`.
        """
        from instrumentor.profilers import TRACY

        launch = TRACY.launch(request, self.command.order)
        env = {k: v for k, v in launch.env.items() if not k.startswith("INSTRUMENT_")}
        env |= {k: v for k, v in self.env.items() if k.startswith("INSTRUMENT_")}
        env.pop("WANDB_MODE", None)
        if "WANDB_MODE" in self.env:
            env["WANDB_MODE"] = self.env["WANDB_MODE"]
        # A failed test is no reason to have no report.
        argv = tuple(word for word in launch.argv if word != "--check-exit-code")
        return replace(launch, argv=argv, env=env)

    def collect(self, scratch: Path, output: Path, log: str, returncode: int) -> Any:
        """As of Tracy.

        Raises:
            NoDeviceOperations: the report is empty.
        """
        from instrumentor.profilers import TRACY

        return TRACY.collect(scratch, output, log, returncode)


def _mtime_ns(path: Path) -> int | None:
    return path.stat().st_mtime_ns if path.exists() else None


def _workers(scratch: Path) -> int:
    try:
        outcome = json.loads((scratch / "outcome.json").read_text(encoding="utf-8"))
        return int(outcome.get("workers") or 0)
    except (OSError, ValueError):
        return 0


__all__ = ["InstrumentError", "Profiled", "profile"]
