"""The one-shot run, a list of stages: prepare, look at the machine, copy, run, collect, analyse.

What was measured is kept whatever happens: the run folder is written stage by stage, and a
failure comes out as a typed error that carries the folder and the partial summary.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from instrumentor.batch_size import batch_facts
from instrumentor.errors import InstrumentError, Interrupted, RunFailed, UsageError
from instrumentor.options import Options
from instrumentor.prepare import Prepared, prepare

if TYPE_CHECKING:
    from analysis.model import Summary
    from instrumentor.environment import Machine
    from instrumentor.process import Finished
    from instrumentor.profilers import Artifacts, Launch
    from instrumentor.workspace import Workspace

SCHEMA = "instrument-run/1"
_PLAIN_NAMES = ("train", "main", "run", "__main__")


@dataclass(frozen=True)
class RunOptions:
    """Choices of a run; the rewriting's own are in `rewrite`.

    Attributes:
        output: the run folder; None makes `<name>_<label>` in the working directory.
        timeout_s: limit for the whole run, seconds.
        stall_s: how long nothing may happen before it is said.
        keep: keep the files that the script wrote into the copy, under `<output>/files`.
        link, no_link: folders of the project to link into the copy, or not to.
        env: environment of the script; None means this process's own.

    Raises:
        UsageError: a value out of range.
    """

    rewrite: Options = field(default_factory=Options)
    profiler: str = "auto"
    output: Path | None = None
    label: str = "baseline"
    python: str | None = None
    tt_xla: Path | None = None
    tracy_tools_folder: Path | None = None
    timeout_s: float | None = None
    stall_s: float | None = 120.0
    keep: bool = False
    link: tuple[Path, ...] = ()
    no_link: tuple[Path, ...] = ()
    cwd: Path | None = None
    env: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if not self.label or "/" in self.label or self.label in (".", ".."):
            raise UsageError(f"--label {self.label!r}: must be a plain name")
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise UsageError(f"--timeout {self.timeout_s:g}: must be above 0 seconds")


class Progress(Protocol):
    """Listener of a run; every method may be called at any time from the running thread."""

    def stage(self, name: str, detail: str) -> None:
        """A stage begins."""

    def record(self, record: Mapping[str, Any]) -> None:
        """A record of the script: a sample, a warning."""

    def line(self, text: str) -> None:
        """A line of the script's output."""

    def note(self, text: str) -> None:
        """Something worth a line: a stall, an ending."""


class Silent:
    """A listener that says nothing; the library's default."""

    def stage(self, name: str, detail: str) -> None:
        """Nothing."""

    def record(self, record: Mapping[str, Any]) -> None:
        """Nothing."""

    def line(self, text: str) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Attributes:
        folder: the run folder.
        summary: what it says; without figures when nothing was measured.
        script_exit_code: the script's own code, None when it never ran to an end.
        new_files: what the script wrote into the copy, relative to the project.
    """

    folder: Path
    summary: Summary
    script_exit_code: int | None
    new_files: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class DryRun:
    """What a run would do: diff, command, changed environment, what is copied and linked."""

    prepared: Prepared
    command: tuple[str, ...]
    environment: Mapping[str, str]
    profiler: str
    reason: str
    copied_files: int
    copied_bytes: int
    linked: tuple[Path, ...]
    left_out: tuple[tuple[Path, str], ...]


def run_name(script: Path) -> str:
    """Name of the script, or of its folder when the script is called train / main / run."""
    if script.stem in _PLAIN_NAMES and script.parent.name:
        return script.parent.name
    return script.stem


def _run_folder(script: Path, options: RunOptions, cwd: Path) -> Path:
    """A folder that does not exist yet: the one asked for, or with -2, -3 ... behind it."""
    wanted = cwd / (options.output or Path(f"{run_name(script)}_{options.label}"))
    number, folder = 1, wanted
    while True:
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            if folder == wanted and folder.is_dir() and not any(folder.iterdir()):
                return folder
            number += 1
            folder = wanted.with_name(f"{wanted.name}-{number}")
        except OSError as error:
            raise UsageError(
                f"{folder}: cannot be made: {error.strerror}", "Give --output DIR."
            ) from error


def _machine(prepared: Prepared, options: RunOptions, cwd: Path) -> Machine:
    from instrumentor.environment import examine

    return examine(
        prepared.project.root,
        python=options.python,
        tt_xla=options.tt_xla,
        tools_folder=options.tracy_tools_folder,
        env=options.env,
        cwd=cwd,
        import_paths=prepared.project.import_roots,
    )


def dry_run(
    script: Path, arguments: Sequence[str] = (), options: RunOptions | None = None
) -> DryRun:
    """Everything up to the run itself; writes nothing.

    Raises:
        InstrumentError: as :func:`run` would before it starts the script.
    """
    from instrumentor.profilers import choose
    from instrumentor.workspace import plan_shadow

    options = options or RunOptions()
    cwd = (options.cwd or Path.cwd()).absolute()
    prepared = prepare(script, options.rewrite, arguments)
    machine = _machine(prepared, options, cwd)
    profiler, reason = choose(options.profiler, machine)
    plan = plan_shadow(
        prepared.project,
        prepared.script,
        cwd,
        list(prepared.replacements),
        link=options.link,
        no_link=options.no_link,
    )
    target = plan.root / prepared.script.resolve().relative_to(prepared.project.root)
    base = dict(os.environ if options.env is None else options.env)
    environment = dict(plan.environment(base, cwd, machine.import_paths))
    environment["INSTRUMENT_PROFILER"] = profiler.name
    command = _shown_command(profiler.name, machine, target, arguments, options)
    changed = {k: v for k, v in environment.items() if base.get(k) != v}
    return DryRun(
        prepared,
        command,
        changed,
        profiler.name,
        reason,
        plan.copied_files,
        plan.copied_bytes,
        plan.linked,
        tuple((item.path, item.reason) for item in plan.left_out),
    )


def _shown_command(
    profiler: str, machine: Machine, script: Path, arguments: Sequence[str], options: RunOptions
) -> tuple[str, ...]:
    head = [str(machine.python)]
    if profiler == "tracy":
        head += ["-m", "tracy", "-p", "-r", "--sync-host-device", "-o", "SCRATCH", "-t", "PORT"]
        folder = options.tracy_tools_folder or (machine.tools.folder if machine.tools else None)
        if folder:
            head += ["--tracy-tools-folder", str(folder)]
    return (*head, str(script), *arguments)


def run(
    script: Path | str,
    arguments: Sequence[str] = (),
    options: RunOptions | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Instrument, run, analyse; the user's files stay as they are.

    Args:
        script: the training script.
        arguments: its own arguments, handed over exactly.
        options: see :class:`RunOptions`.
        progress: gets stages, samples and lines as they come.

    Returns:
        The run folder and its summary.

    Raises:
        Declined, UsageError, NotReady, ProofFailed: before anything is started.
        RunFailed, Interrupted: the script or the profiler failed; `error.result` is the partial
            :class:`RunResult`.
    """
    options = options or RunOptions()
    listener: Progress = progress or Silent()
    return _Run(Path(script), tuple(arguments), options, listener).go()


class _Run:
    """State of one run; each stage is a method, in order in :meth:`go`."""

    def __init__(
        self, script: Path, arguments: tuple[str, ...], options: RunOptions, progress: Progress
    ) -> None:
        self.arguments = arguments
        self.options = options
        self.progress = progress
        self.cwd = (options.cwd or Path.cwd()).absolute()
        self.script = script if script.is_absolute() else self.cwd / script
        self.started = time.time()
        self.records: list[Mapping[str, Any]] = []
        self.warnings: list[str] = []
        self.failure: InstrumentError | None = None
        self.finished: Finished | None = None
        self.artifacts: Artifacts | None = None
        self.exit_code: int | None = None
        self.new_files: tuple[Path, ...] = ()

    def go(self) -> RunResult:
        """All stages; raises the failure at the very end, with the partial result."""
        from instrumentor.profilers import choose
        from instrumentor.workspace import Originals, shadow

        self.prepared = prepare(self.script, self.options.rewrite, self.arguments)
        self.warnings.extend(self.prepared.plan.warnings)
        self.progress.stage("found", _found(self.prepared))
        self.machine = _machine(self.prepared, self.options, self.cwd)
        self.profiler, self.reason = choose(self.options.profiler, self.machine)
        self._check_compiles()
        self.progress.stage("profiler", self.reason)
        self.folder = _run_folder(self.prepared.script, self.options, self.cwd)
        watched = list(dict.fromkeys([*self.prepared.replacements, self.prepared.script]))
        originals = Originals.take(self.prepared.project, watched)
        try:
            with shadow(
                self.prepared.project,
                self.prepared.script,
                self.cwd,
                self.prepared.replacements,
                link=self.options.link,
                no_link=self.options.no_link,
                keep_to=self.folder / "files" if self.options.keep else None,
            ) as workspace:
                self.progress.stage(
                    "copied",
                    f"{workspace.copied_files} files to {workspace.root}"
                    + (f", {len(workspace.linked)} linked" if workspace.linked else ""),
                )
                (self.folder / "changes.diff").write_bytes(self.prepared.patch)
                _write_json(self.folder / "plan.json", self.prepared.plan.to_json())
                linked = Originals.take(self.prepared.project, (), watched=workspace.linked)
                # In the copy's place, beside its tree: a killed run's is swept with it.
                scratch = workspace.root.parent / ".scratch"
                scratch.mkdir()
                self._execute(workspace, scratch)
                self._check_loaded(workspace)
                self.new_files = tuple(p for p in workspace.new_files() if not _is_ours(p))
            for path in linked.touched():
                self.warnings.append(f"the script wrote through the linked {path} (see --no-link)")
            differences = originals.verify()
            if differences:
                self.warnings.append(
                    "the original changed during the run: " + "; ".join(differences)
                )
        except InstrumentError as error:
            if self.finished is None:
                raise
            self.failure = self.failure or error
        finally:
            if self.finished is None:
                self._remove_empty_folder()
        try:
            return self._conclude()
        except KeyboardInterrupt as stop:
            raise Interrupted(
                "interrupted during the analysis", f"Next: instrument report {self.folder}"
            ) from stop

    def _check_compiles(self) -> None:
        version = ".".join(self.machine.python_version.split(".")[:2])
        if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
            return
        from instrumentor.errors import ProofFailed
        from instrumentor.proofs import compiles_under

        for path, code in self.prepared.replacements.items():
            error = compiles_under(self.machine.python, code, str(path))
            if error and not compiles_under(
                self.machine.python, self.prepared.originals[path], str(path)
            ):
                raise ProofFailed(f"proof 'compiles' failed under Python {version}: {error}")

    def _execute(self, workspace: Workspace, scratch: Path) -> None:
        from instrumentor import process
        from instrumentor.profilers import LaunchRequest

        record = self.folder / "timings.jsonl"
        base = dict(os.environ if self.options.env is None else self.options.env)
        tools = self.options.tracy_tools_folder or (
            self.machine.tools.folder if self.machine.tools else None
        )
        request = LaunchRequest(
            python=self.machine.python,
            script=workspace.script,
            arguments=self.arguments,
            cwd=workspace.cwd,
            env=workspace.environment(base, self.machine.import_paths),
            scratch=scratch,
            record=record,
            steps=self.prepared.plan.options.steps,
            warmup=self.prepared.plan.options.warmup,
            tools_folder=tools,
        )
        self.launch: Launch = self.profiler.launch(request)
        self._write_facts()
        self.progress.stage(
            "running", f"{self.prepared.plan.options.steps} steps under {self.profiler.name}"
        )
        watch = process.Watch(
            on_line=self.progress.line,
            on_record=self._on_record,
            on_stall=self._on_stall,
            timeout_s=self.options.timeout_s,
            stall_s=self.options.stall_s,
        )
        log = self.folder / "run.log"
        self.finished = process.run(self.launch, log=log, record=record, watch=watch)
        self._collect(scratch, log)

    def _on_record(self, record: Mapping[str, Any]) -> None:
        self.records.append(record)
        self.progress.record(record)

    def _on_stall(self, stall: Any) -> bool:
        last = f"; last output: {stall.last_lines[-1]}" if stall.last_lines else ""
        self.progress.note(
            f"nothing has happened for {stall.idle_s:.0f} s (pids "
            f"{', '.join(map(str, stall.pids))}){last}"
        )
        return False

    def _collect(self, scratch: Path, log: Path) -> None:
        from instrumentor.profilers import NoDeviceOperations

        assert self.finished is not None
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        code = self.finished.returncode
        try:
            self.artifacts = self.profiler.collect(scratch, self.folder, text, code)
        except NoDeviceOperations as error:
            self.artifacts = error.artifacts
            self.failure = error
        except InstrumentError as error:
            self.failure = error
        if self.artifacts is not None:
            self.warnings.extend(self.artifacts.warnings)
        hidden = self.artifacts.script_exit_code if self.artifacts else None
        self.exit_code = hidden if hidden is not None else code
        samples = [r for r in self.records if r.get("event") == "sample"]
        if self.finished.interrupted:
            self.failure = Interrupted("interrupted", "What was measured so far is kept.")
        elif self.finished.timed_out:
            self.failure = RunFailed(
                f"the run did not end within --timeout {self.options.timeout_s:g} s"
                + (
                    "; still running, because they hold a device: "
                    f"{list(self.finished.left_running)}"
                    if self.finished.left_running
                    else ""
                ),
                f"Give it more time, or see {log} for what it waits for.",
            )
        elif code != 0 or self.exit_code not in (0, None):
            self.failure = self._explain_failure(text, log)
        elif not samples and self.failure is None:
            self.failure = RunFailed(
                f"the script ended without running the loop at {_loop(self.prepared)}",
                f"See {log}; give the arguments with which it trains.",
            )

    def _explain_failure(self, text: str, log: Path) -> RunFailed:
        from instrumentor.diagnose import diagnose, last_traceback, relevant_tail

        assert self.finished is not None
        what = f"the script ended with code {self.exit_code}"
        if self.finished.signal:
            what = f"the script was ended by signal {self.finished.signal}"
        elif self.exit_code == 0:
            what = f"the profiler ended with code {self.finished.returncode}"
        found = diagnose(text, self.finished.returncode)
        if found:
            first = found[0]
            return RunFailed(
                f"{what}: {first.title}\n  {first.line.strip()}\nwhy: {first.cause}", first.remedy
            )
        shown = last_traceback(text) or relevant_tail(text)
        return RunFailed(
            f"{what}; its last lines:\n{shown.rstrip()}", f"The whole output is in {log}."
        )

    def _check_loaded(self, workspace: Workspace) -> None:
        from instrumentor.workspace import check_loaded

        if self.failure is not None and not isinstance(self.failure, RunFailed):
            return
        if self.exit_code != 0:
            return
        try:
            check_loaded(
                self.records,
                workspace,
                self.prepared.replacements,
                python=self.machine.python,
                environment=self.launch.env,
            )
        except RunFailed as error:
            self.failure = error

    def _remove_empty_folder(self) -> None:
        if (self.folder / "timings.jsonl").exists():
            return
        for name in ("changes.diff", "plan.json", "run.json", "run.log"):
            (self.folder / name).unlink(missing_ok=True)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    # -- what is written -----------------------------------------------------------------------

    def _conclude(self) -> RunResult:
        self.progress.stage("analysing", str(self.folder))
        samples = [r for r in self.records if r.get("event") == "sample"]
        self.warnings.extend(str(r["text"]) for r in self.records if r.get("event") == "warning")
        if samples and self.failure is None and len(samples) < self.prepared.plan.options.steps:
            self.warnings.append(
                f"the script ended after {len(samples)} of {self.prepared.plan.options.steps} "
                "samples: its data "
                "ran out before the early stop"
            )
        self._write_facts()
        summary = self._summarise() if samples else None
        result = RunResult(
            self.folder,
            summary or self._summary_of_nothing(),
            self.exit_code,
            self.new_files,
            tuple(dict.fromkeys(self.warnings)),
        )
        if self.failure is not None:
            self.failure.result = result  # type: ignore[attr-defined]
            raise self.failure
        return result

    def _summarise(self) -> Summary | None:
        from analysis.errors import AnalysisError

        try:
            summary = analyse(self.folder)
        except AnalysisError as error:
            if self.failure is None:
                self.failure = RunFailed(str(error), getattr(error, "hint", ""))
            return None
        return summary

    def _summary_of_nothing(self) -> Summary:
        """Profiler, exit code and warnings; every figure null. Written like any other summary."""
        from analysis.model import Summary
        from analysis.render import write_all

        summary = Summary(
            profiler=self.profiler.name,
            scope=self.prepared.plan.label,
            loop=self.prepared.plan.explanation["loop"],
            interrupted=isinstance(self.failure, Interrupted),
            partial=True,
            script_exit_code=self.exit_code,
            artifacts=self._artifacts(),
            warnings=tuple(dict.fromkeys(self.warnings)),
        )
        return _with_artifacts(
            summary, self.folder, write_all(summary, self.folder, formats=("json",))
        )

    def _artifacts(self) -> dict[str, str]:
        named = {
            "log": "run.log",
            "timings": "timings.jsonl",
            "plan": "plan.json",
            "diff": "changes.diff",
        }
        made = self.artifacts.files if self.artifacts else {}
        here = {name: path for name, path in named.items() if (self.folder / path).is_file()}
        return here | {name: os.path.relpath(path, self.folder) for name, path in made.items()}

    def _write_facts(self) -> None:
        """Write run.json: before the script starts, in case that we are killed, and afterwards."""
        finished = self.finished
        loop = self.prepared.plan.explanation["loop"]
        commit, dirty = (
            git_state(self.prepared.project.root) if self.prepared.project.git else (None, None)
        )
        _write_json(
            self.folder / "run.json",
            {
                "schema": SCHEMA,
                "label": self.options.label,
                "name": run_name(self.prepared.script),
                "script": str(self.prepared.script),
                "arguments": list(self.arguments),
                "command": list(self.launch.argv),
                "command_line": shlex.join(self.launch.argv),
                "profiler": self.profiler.name,
                "profiler_reason": self.reason,
                "scope": self.prepared.plan.label,
                "steps": self.prepared.plan.options.steps,
                "warmup": self.prepared.plan.options.warmup,
                **batch_facts(
                    self.prepared.script,
                    self.arguments,
                    self.cwd,
                    self.folder / "timings.jsonl",
                ),
                "interrupted": finished is None or finished.interrupted,
                "partial": finished is None or self.failure is not None,
                "started": datetime.fromtimestamp(self.started, timezone.utc).isoformat(
                    timespec="seconds"
                ),
                "duration_s": round(finished.duration_s, 3) if finished else None,
                "script_exit_code": self.exit_code,
                "python": str(self.machine.python),
                "python_version": self.machine.python_version,
                "torch_version": self.machine.version_of("torch"),
                "host": platform.node(),
                "platform": platform.platform(),
                "git_commit": commit,
                "git_dirty": dirty,
                "loop": {"file": loop["file"], "line": loop["line"]},
                "new_files": [str(p) for p in self.new_files],
                "warnings": list(dict.fromkeys(self.warnings)),
                "artifacts": self._artifacts(),
                "environment": _environment(self.machine),
            },
        )


def analyse(folder: Path) -> Summary:
    """Analyse a run folder and write summary.json, summary.md and tt-perf-report's tables.

    Raises:
        analysis.errors.AnalysisError: nothing in it can be analysed.
    """
    from analysis.render import write_all
    from analysis.summary import summarise

    summary = summarise(folder)
    ops = folder / "tracy_perf" / "ops_perf_results.csv"
    if ops.is_file() and summary.window is not None:
        files, warning = tt_perf_report(ops, summary.window.start, summary.window.end)
        summary = _with_artifacts(summary, folder, files)
        if warning:
            summary = dataclasses.replace(summary, warnings=(*summary.warnings, warning))
    return _with_artifacts(summary, folder, write_all(summary, folder))


def _with_artifacts(summary: Summary, folder: Path, files: Mapping[str, Path]) -> Summary:
    named = {name: os.path.relpath(path, folder) for name, path in files.items()}
    return dataclasses.replace(summary, artifacts={**summary.artifacts, **named})


def tt_perf_report(
    ops_csv: Path, start: str | None, end: str | None
) -> tuple[dict[str, Path], str]:
    """Call tt-perf-report for one window; its files, and a sentence when it failed."""
    target = ops_csv.parent / "tt_perf_report.csv"
    for old in ops_csv.parent.glob("tt_perf_report*"):
        old.unlink()
    command = [
        sys.executable,
        "-c",
        "from tt_perf_report.perf_report import main; main()",
        str(ops_csv),
    ]
    if start and end:
        command += ["--start-signpost", start, "--end-signpost", end]
    command += ["--no-advice", "--csv", str(target)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env={**os.environ, "MPLBACKEND": "Agg"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {}, f"tt-perf-report did not run: {error}"
    made = {
        "tt_perf_report": target,
        "tt_perf_report_stacked": target.with_name("tt_perf_report_stacked.csv"),
        "tt_perf_report_chart": target.with_name("tt_perf_report_stacked.png"),
    }
    files = {name: path for name, path in made.items() if path.is_file()}
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return files, f"tt-perf-report failed on this CSV ({last}); the figures here are our own"
    return files, ""


def git_state(root: Path) -> tuple[str | None, bool | None]:
    """Commit and whether the tree has changes; None without a commit or git."""
    try:
        from git import Repo
        from git.exc import GitError
    except ImportError:  # GitPython refuses to load without a git program
        return None, None
    try:
        repo = Repo(root)
        return repo.head.commit.hexsha, repo.is_dirty(untracked_files=False)
    except (GitError, ValueError, OSError):
        return None, None


def _environment(machine: Machine) -> dict[str, Any]:
    return {
        "packages": {name: package.version for name, package in sorted(machine.packages.items())},
        "devices": [str(d) for d in machine.devices],
        "tt_xla": str(machine.tt_xla) if machine.tt_xla else None,
        "cpu_count": os.cpu_count(),
        "instrumentor": _version(),
    }


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("instrumentor")
    except PackageNotFoundError:
        return "unknown"


def _found(prepared: Prepared) -> str:
    e = prepared.plan.explanation
    counter = f", counter {e['counter']['name']} {e['counter']['line']}" if e["counter"] else ""
    backward = f", backward {e['backward']['line']}" if e["backward"] else ""
    places = f"forward {e['forward']['line']}{backward}{counter}"
    return f"{_loop(prepared)} ({places})"


def _loop(prepared: Prepared) -> str:
    loop = prepared.plan.explanation["loop"]
    path = Path(loop["file"])
    root = prepared.project.root
    return f"{path.relative_to(root) if path.is_relative_to(root) else path}:{loop['line']}"


def _is_ours(path: Path) -> bool:
    return "__pycache__" in path.parts


def _write_json(path: Path, value: object) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)
