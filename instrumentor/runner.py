"""The one-shot run, a list of stages: prepare, look at the machine, copy, run, collect, analyse.

What was measured is kept whatever happens: the run folder is written stage by stage, and a
failure comes out as a typed error that carries the folder and the partial summary.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import platform
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instrumentor import leftovers
from instrumentor.about import version
from instrumentor.batch_size import batch_facts
from instrumentor.bundle import MODULE, module_text
from instrumentor.edits import Kind
from instrumentor.environment import device_root
from instrumentor.errors import (
    InstrumentError,
    Interrupted,
    NotReady,
    NotVerified,
    RestoreNeeded,
    RunFailed,
    UsageError,
)
from instrumentor.machine_load import MachineLoad
from instrumentor.outputs import write_json
from instrumentor.own_lines import OwnLines
from instrumentor.plan import WHOLE_STEP
from instrumentor.prepare import Prepared, config_of, prepare, script_path
from instrumentor.progress import Progress, Silent
from instrumentor.run_options import RunOptions, RunResult
from instrumentor.verification import (
    against,
    failure,
    lacks_gradients,
    of_several_processes,
    shown,
    verification,
)
from instrumentor_analysis.caveats import Caveat, by_weight, recorded

if TYPE_CHECKING:
    from instrumentor.attempt import Attempt
    from instrumentor.discovery import Observed
    from instrumentor.doctor import Situation
    from instrumentor.environment import Machine
    from instrumentor.profilers import Launch, LaunchRequest, Profiler
    from instrumentor.workspace import Linked, Site
    from instrumentor_analysis.model import Summary

SCHEMA = "instrument-run/1"
RECORDER = "recorder"  # folder of scratch for the recorder's module
PROGRAMS_PER_READ = 1000  # what Tracy's buffers hold by themselves, per core
_PLAIN_NAMES = ("train", "main", "run", "__main__")


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


def dry_run(
    script: Path, arguments: Sequence[str] = (), options: RunOptions | None = None
) -> DryRun:
    """Everything up to the run itself; writes nothing.

    Raises:
        InstrumentError: as :func:`run` would before it starts the script.
    """
    from instrumentor.workspace import InPlace, plan_shadow

    options = options or RunOptions()
    cwd = (options.cwd or Path.cwd()).absolute()
    prepared = prepare(script, options.rewrite, arguments)
    machine = options.examine(prepared.project, preview=True)
    profiler, reason = _previewed(options.profiler, machine)
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
    if options.in_place:
        site = InPlace(prepared.project, cwd, prepared.script, tuple(prepared.replacements))
        target, environment = site.script, site.environment(base, machine.import_paths)
    environment["PYTHONPATH"] = f"SCRATCH/{RECORDER}{os.pathsep}{environment['PYTHONPATH']}"
    environment["INSTRUMENT_PROFILER"] = profiler
    command = _shown_command(profiler, machine, target, arguments, options)
    changed = {k: v for k, v in environment.items() if base.get(k) != v}
    return DryRun(
        prepared,
        command,
        changed,
        profiler,
        reason,
        0 if options.in_place else plan.copied_files,
        0 if options.in_place else plan.copied_bytes,
        () if options.in_place else plan.linked,
        tuple((item.path, item.reason) for item in plan.left_out),
    )


def _previewed(requested: str, machine: Machine) -> tuple[str, str]:
    """The profiler of a preview and why: one that is not on this machine is shown all the same."""
    from instrumentor.profilers import choose

    try:
        profiler, reason = choose(requested, machine)
    except NotReady as error:
        return requested, f"{requested}: asked for, but it cannot run here: {error.message}"
    return profiler.name, reason


def _shown_command(
    profiler: str, machine: Machine, script: Path, arguments: Sequence[str], options: RunOptions
) -> tuple[str, ...]:
    head = [str(machine.python)]
    if profiler == "tracy":
        head += ["-m", "tracy", "-p", "-r", "--sync-host-device", "-o", "SCRATCH", "-t", "PORT"]
        folder = options.tracy_tools_folder or (machine.tools.folder if machine.tools else None)
        if folder:
            head += ["--tracy-tools-folder", str(folder)]
    what = ["-m", options.module] if options.module else [str(script)]
    return (*head, *what, *arguments)


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
        self.typed = str(script)
        self.script = script if script.is_absolute() else self.cwd / script
        self.started = time.time()
        self.warnings: list[Caveat] = []
        self.failure: InstrumentError | None = None
        self.last: Attempt | None = None
        self.load: MachineLoad | None = None
        self.load_facts: dict[str, Any] | None = None
        self.untraced: Attempt | None = None
        self.new_files: tuple[Path, ...] = ()
        self.linked: tuple[Path, ...] = ()
        self.linked_changed: tuple[Path, ...] = ()
        self.linked_whole = True
        self.originals_changed = False
        self.verification: dict[str, Any] | None = None
        self.seen: Observed | None = None

    def go(self) -> RunResult:
        """All stages; raises the failure at the very end, with the partial result."""
        from instrumentor.profilers import choose
        from instrumentor.readiness import ready

        leftovers.undo(self.progress.note, self.progress.note)
        self.prepared = self._prepare()
        self.warnings.extend(self.prepared.plan.warnings)
        self.progress.stage("found", _found(self.prepared))
        self.machine = self.options.examine(self.prepared.project)
        if self.machine.python_of_project:
            named = f"{self.machine.python} ({self.machine.python_source} of the project)"
            self.progress.stage("interpreter", named)
        self.profiler, self.reason = choose(self.options.profiler, self.machine)
        self._check_compiles()
        self.progress.stage("profiler", self.reason)
        with ready(
            self._situation(),
            self.progress,
            reset=self.options.reset,
            end_holders=self.options.yes,
        ):
            self._run()
        try:
            return self._conclude()
        except KeyboardInterrupt as stop:
            raise Interrupted(
                "interrupted during the analysis",
                f"Next: instrument report {shlex.quote(str(self.folder))}",
            ) from stop

    def _prepare(self) -> Prepared:
        """The plan by reading, else by running the script for two steps.

        Raises:
            Declined: neither shows the step.
        """
        from instrumentor.discovery import discover, may_help, prepared_by
        from instrumentor.locate.model import Declined

        rewrite = self.options.rewrite
        try:
            return prepare(self.script, rewrite, self.arguments)
        except Declined as declined:
            path = script_path(self.script)
            allowed = self.options.discover and not self.options.in_place
            if not (allowed and may_help(declined, path, rewrite)):
                raise
            try:
                self.seen = discover(path, self.arguments, self.options, self.progress, declined)
            except RunFailed as error:
                declined.message += f"\nrunning it did not show its step either: {error.message}"
                raise declined from error
            return prepared_by(self.seen, path, rewrite, self.arguments, declined)

    def _run(self) -> None:
        """Every pass, then the proof that the user's files are as they were."""
        from instrumentor.workspace import Originals

        self.folder = _run_folder(self.prepared.script, self.options, self.cwd)
        watched = list(dict.fromkeys([*self.prepared.replacements, self.prepared.script]))
        originals = Originals.take(self.prepared.project, watched)
        try:
            self._passes()
            differences = originals.verify()
            if differences:
                self.originals_changed = True
                text = "the original changed during the run: " + "; ".join(differences)
                self.warnings.append(Caveat("original-changed", text, "wrong"))
        except InstrumentError as error:
            if self.last is None:
                raise
            worse = isinstance(error, RestoreNeeded) or self.failure is None
            self.failure = error if worse else self.failure
        finally:
            if self.last is None:
                self._remove_empty_folder()

    def _passes(self) -> None:
        """Without a profiler when that is asked for, then under it; again when buffers were full.

        Each pass has a fresh copy: a checkpoint of one must not shorten the next.
        """
        from instrumentor.profilers import WALLCLOCK

        if self.options.untraced and self.profiler.name != "wallclock":
            self.progress.stage("untraced", "first without a profiler, for the wall clock")
            self.untraced = self._pass(WALLCLOCK, "untraced")
            if self.untraced.failure is not None:
                return
        count = self.options.op_support_count or self._foreseen()
        made = self._pass(self.profiler, programs_per_read=count)
        if made.overflowed and self.profiler.name == "tracy" and not made.finished.interrupted:
            count = max(4 * (count or PROGRAMS_PER_READ), 10 * PROGRAMS_PER_READ)
            self.progress.note(
                "Tracy's buffers on the device were full: running once more with room for "
                f"{count} programs, read during the run as well"
            )
            self._set_aside()
            made = self._pass(self.profiler, programs_per_read=count, mid_run_dump=True)
        if isinstance(self.failure, NotVerified):
            self._once_more_as_seen()
        elif self.failure is None:
            self._compare_gradients()

    def _compare_gradients(self) -> None:
        """Where statements were taken out and gradients lack: see whether they always do."""
        from instrumentor.discovery import look

        found, plan = self.verification, self.prepared.plan
        allowed = self.options.discover and not self.options.in_place and self.seen is None
        if not allowed or found is None or not lacks_gradients(found):
            return
        off = [each for each in plan.edits if each.edit.kind is Kind.DISABLE and each.edit.at]
        if not off:
            return
        self.progress.stage("discover", "not every parameter got a gradient: looking at the script")
        path = self.prepared.script
        try:
            self.seen = look(path, self.arguments, self.options, self.machine, self.progress)
        except InstrumentError as error:
            text = f"not every parameter got a gradient: {error.message}"
            self.warnings.append(Caveat("no-gradient", text, "wrong", hint=error.hint))
            return
        places = [(each.file, each.edit.at.line) for each in off if each.edit.at]
        self.verification = against(found, self.seen.parameters, places)
        self.failure = failure(self.verification)

    def _once_more_as_seen(self) -> None:
        """Plan again from what a run of the script as it is shows, and measure that."""
        from instrumentor.discovery import look, prepared_again

        allowed = self.options.discover and not self.options.in_place and self.seen is None
        if not allowed or self.verification is None or of_several_processes(self.verification):
            return
        wrong = self.failure
        assert wrong is not None
        why = wrong.message.partition("\n")[0]
        self.progress.stage("discover", f"{why}: running the script as it is for two steps")
        path, rewrite = self.prepared.script, self.options.rewrite
        try:
            self.seen = look(path, self.arguments, self.options, self.machine, self.progress)
            self.prepared = prepared_again(self.seen, path, rewrite, self.arguments, why)
        except InstrumentError as error:
            wrong.message += f"\nrunning it as it is did not help: {error.message}"
            return
        self.warnings[:] = self.prepared.plan.warnings
        self.progress.stage("found", _found(self.prepared))
        self._set_aside()
        self._pass(self.profiler)
        if self.failure is None and not shown(self.verification, ("forward", "backward")):
            self.failure = wrong

    def _foreseen(self) -> int | None:
        """Programs that Tracy's buffers must hold, when an earlier run shows that 1000 is few."""
        known = self.programs_per_step
        if self.profiler.name != "tracy" or known is None:
            return None
        # The optimizer's programs are outside of the counted window.
        count = 2 * known * self.prepared.plan.options.steps
        if count <= PROGRAMS_PER_READ:
            return None
        self.progress.note(
            f"an earlier run counted {known} programs a step: room for {count} is made"
        )
        return count

    def _set_aside(self) -> None:
        """Keep the log and the records of an attempt that another one follows."""
        for name in ("run.log", "timings.jsonl"):
            path = self.folder / name
            if path.exists():
                path.replace(path.with_name(f"first_attempt_{name}"))
        for name in ("tracy_profile", "tracy_perf"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def _pass(
        self,
        profiler: Profiler,
        name: str = "",
        *,
        programs_per_read: int | None = None,
        mid_run_dump: bool = False,
    ) -> Attempt:
        """One process in a place of its own; what it left becomes the run's, unless it has a name.

        Raises:
            NotReady: it could not be started.
            RestoreNeeded: a file of a run in place needs the user.
        """
        from instrumentor.attempt import Limits, attempt
        from instrumentor.workspace import Linked

        with self._site() as site:
            self.progress.stage("in place" if self.options.in_place else "copied", site.description)
            (self.folder / "changes.diff").write_bytes(self.prepared.patch)
            write_json(self.folder / "plan.json", self.prepared.plan.to_json())
            linked = Linked.take(self.prepared.project.root, site.linked, [self.folder])
            self._tell_links(linked)
            request = dataclasses.replace(
                self._request(site),
                record=self.folder / f"{name or 'timings'}.jsonl",
                programs_per_read=programs_per_read,
                mid_run_dump=mid_run_dump,
            )

            def on_launch(launch: Launch) -> None:
                self.launch = launch
                self.load = MachineLoad(device_root(self.options.env))
                if not name:
                    self._write_facts()
                self.progress.stage("running", f"{request.steps} steps under {profiler.name}")

            made = attempt(
                profiler,
                request,
                output=self.folder,
                log=self.folder / f"{name or 'run'}.log",
                limits=Limits(self.options.timeout_s, self.options.stall_s),
                progress=self.progress,
                on_launch=on_launch,
            )
            self.last = made
            self.load_facts = None if self.load is None else self.load.facts()
            self.warnings.extend(made.warnings)
            own_lines = OwnLines(site.root, self.prepared.project.root, self.prepared.replacements)
            self.verification = verification(made.records, own_lines)
            self.failure = self._doubt(made, site) or made.failure
            if isinstance(self.failure, RunFailed):
                self.failure.message = own_lines.traceback(self.failure.message)
            self.new_files = tuple(p for p in site.new_files() if not _is_ours(p))
        self._compare_links(linked)
        return dataclasses.replace(made, failure=self.failure)

    def _tell_links(self, linked: Linked) -> None:
        from instrumentor.workspace.linked import listed

        self.linked = linked.names
        if self.linked:
            watched = "watched" if linked.whole else "too large to be watched as a whole"
            names = listed(self.linked, 5)
            self.progress.stage("linked", f"{names} (your own, not copied; {watched})")

    def _compare_links(self, linked: Linked) -> None:
        changed = linked.changed()
        self.linked_whole = self.linked_whole and linked.whole
        self.linked_changed = tuple(dict.fromkeys((*self.linked_changed, *changed)))
        if changed:
            self.warnings.append(Caveat("linked-changed", linked.sentence(changed), "wrong"))

    def _site(self) -> AbstractContextManager[Site]:
        from instrumentor.workspace import copied, original

        prepared = self.prepared
        if self.options.in_place:
            return original(
                prepared.project,
                prepared.script,
                self.cwd,
                prepared.originals,
                prepared.replacements,
            )
        return copied(
            prepared.project,
            prepared.script,
            self.cwd,
            prepared.replacements,
            link=self.options.link,
            no_link=self.options.no_link,
            keep_to=self.folder / "files" if self.options.keep else None,
        )

    def _request(self, site: Site) -> LaunchRequest:
        from instrumentor.profilers import LaunchRequest

        base = dict(os.environ if self.options.env is None else self.options.env)
        tools = self.machine.tools.folder if self.machine.tools else None
        return LaunchRequest(
            python=self.machine.python,
            script=site.script,
            typed=self.typed if (site.cwd / self.typed).resolve() == site.script.resolve() else "",
            arguments=self.arguments,
            module=self.options.module,
            cwd=site.cwd,
            env=site.environment(base, self.machine.import_paths),
            scratch=site.scratch,
            record=self.folder / "timings.jsonl",
            steps=self.prepared.plan.options.steps,
            warmup=self.prepared.plan.options.warmup,
            tools_folder=self.options.tracy_tools_folder or tools,
            port=self.options.port,
            import_paths=(self._recorder_in(site.scratch / RECORDER),),
            observe=WHOLE_STEP if self.prepared.plan.label == WHOLE_STEP else "",
        )

    def _recorder_in(self, folder: Path) -> Path:
        """The folder, with the module in it that the instrumented files import."""
        folder.mkdir()
        whole = self.prepared.plan.label == WHOLE_STEP
        text = module_text(self.prepared.plan.options, observing=whole)
        (folder / f"{MODULE}.py").write_text(text, encoding="utf-8")
        return folder

    def _doubt(self, made: Attempt, site: Site) -> InstrumentError | None:
        """Whether a process that ended well really measured the instrumented script."""
        from instrumentor.workspace import check_loaded

        if made.exit_code != 0 or not isinstance(made.failure, (RunFailed, type(None))):
            return None
        try:
            check_loaded(
                made.records,
                site,
                self.prepared.replacements,
                python=self.machine.python,
                environment=made.launch.env,
            )
        except RunFailed as error:
            return error
        refused = failure(self.verification)
        if refused is not None:
            return refused
        if made.samples or made.failure is not None:
            return None
        steps = [record for record in made.records if record.get("event") == "refused"]
        if steps:
            return RunFailed(
                f"no step could be timed: {steps[-1].get('reason')}",
                "Let the step return its loss as a tensor, or keep its model in sight of the loop.",
            )
        return RunFailed(
            f"the script ended without running the loop at {_loop(self.prepared)}",
            f"See {self.folder / 'run.log'}; give the arguments with which it trains.",
        )

    def _situation(self) -> Situation:
        from instrumentor.doctor import Situation
        from instrumentor.readiness import programs_per_step
        from instrumentor.workspace.places import cache_folder

        output = self.cwd / (
            self.options.output or f"{run_name(self.prepared.script)}_{self.options.label}"
        )
        self.programs_per_step = programs_per_step(output)
        return Situation(
            machine=self.machine,
            profiler=self.profiler.name,
            config=config_of(self.prepared.script, self.arguments, self.cwd),
            steps=self.prepared.plan.options.steps,
            programs_per_step=self.programs_per_step,
            folders=(cache_folder(self.prepared.project.root), output),
            env=dict(os.environ if self.options.env is None else self.options.env),
            cwd=self.cwd,
            port=self.options.port,
        )

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

    def _remove_empty_folder(self) -> None:
        if (self.folder / "timings.jsonl").exists():
            return
        for name in ("changes.diff", "plan.json", "run.json", "run.log"):
            (self.folder / name).unlink(missing_ok=True)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    # -- what is written -----------------------------------------------------------------------

    def _conclude(self) -> RunResult:
        within = self.folder.is_relative_to(self.cwd)
        shown = self.folder.relative_to(self.cwd) if within else self.folder
        self.progress.stage("analysing", str(shown))
        assert self.last is not None
        samples = self.last.samples
        if self.last.artifacts is not None:
            self.warnings.extend(self.last.artifacts.warnings)
        warned = (r for r in self.last.records if r.get("event") == "warning")
        self.warnings.extend(map(recorded, warned))
        if samples and self.failure is None and len(samples) < self.prepared.plan.options.steps:
            text = (
                f"the script ended after {len(samples)} of {self.prepared.plan.options.steps} "
                "samples, before the early stop"
            )
            hint = "give it more data or epochs, or ask for fewer --steps"
            self.warnings.append(Caveat("few-samples", text, hint=hint))
        self._fall_back_on_xla()
        self._write_facts()
        summary = self._summarise() if samples and failure(self.verification) is None else None
        result = RunResult(
            self.folder,
            summary or self._summary_of_nothing(),
            self._exit_code(),
            self.new_files,
            by_weight(self.warnings),
            self.linked_changed,
            self.linked_whole,
            self.originals_changed,
        )
        if self.failure is not None:
            self.failure.result = result
            raise self.failure
        return result

    def _summarise(self) -> Summary | None:
        from instrumentor.reporting import refresh
        from instrumentor_analysis.errors import AnalysisError

        try:
            summary = refresh(self.folder).summary
        except AnalysisError as error:
            if self.failure is None:
                self.failure = RunFailed(str(error), getattr(error, "hint", ""))
            return None
        return summary

    def _summary_of_nothing(self) -> Summary:
        """Profiler, exit code and warnings; every figure null. Written like any other summary."""
        from instrumentor.reporting import with_artifacts
        from instrumentor_analysis.model import Summary
        from instrumentor_analysis.render import write_all

        summary = Summary(
            profiler=self.profiler.name,
            scope=self.prepared.plan.label,
            loop=self.prepared.plan.explanation["loop"],
            interrupted=isinstance(self.failure, Interrupted),
            partial=True,
            script_exit_code=self._exit_code(),
            artifacts=self._artifacts(),
            verification=self.verification,
            warnings=by_weight(self.warnings),
        )
        return with_artifacts(
            summary, self.folder, write_all(summary, self.folder, formats=("json",))
        )

    def _records(self) -> list[Mapping[str, Any]]:
        return list(self.last.records) if self.last else []

    def _configured(self) -> dict[str, str]:
        """What the run's YAML says that a figure depends on."""
        fidelity = config_of(self.prepared.script, self.arguments, self.cwd).get("math_fidelity")
        return {"math_fidelity": fidelity} if isinstance(fidelity, str) else {}

    def _untraced_facts(self) -> dict[str, Any] | None:
        if self.untraced is None:
            return None
        return {
            "record": "untraced.jsonl",
            "log": "untraced.log",
            "duration_s": round(self.untraced.finished.duration_s, 3),
            "script_exit_code": self.untraced.exit_code,
        }

    def _exit_code(self) -> int | None:
        return self.last.exit_code if self.last else None

    def _artifacts(self) -> dict[str, str]:
        named = {
            "log": "run.log",
            "timings": "timings.jsonl",
            "plan": "plan.json",
            "diff": "changes.diff",
            "untraced_log": "untraced.log",
            "untraced_timings": "untraced.jsonl",
            "first_attempt_log": "first_attempt_run.log",
        }
        attempt = self.last if self.last is not self.untraced else None
        made = attempt.artifacts.files if attempt and attempt.artifacts else {}
        here = {name: path for name, path in named.items() if (self.folder / path).is_file()}
        return here | {name: os.path.relpath(path, self.folder) for name, path in made.items()}

    def _fall_back_on_xla(self) -> None:
        """torch.profiler sees nothing of XLA work: what was measured there is the wall clock."""
        devices = {r.get("device") for r in self._records() if r.get("event") == "sample"}
        if self.profiler.name == "torch" and devices == {"xla"}:
            from instrumentor.profilers import WALLCLOCK
            from instrumentor.profilers.torch import NO_OPS

            self.profiler = WALLCLOCK
            why = "torch.profiler sees nothing of XLA work"
            self.reason = f"{self.reason}; wallclock in its place: {why}"
            self.warnings = [each for each in self.warnings if each.kind != NO_OPS]
            self.warnings.append(Caveat(NO_OPS, f"wall clock only: {why}"))

    def _write_facts(self) -> None:
        """Write run.json: before the script starts, in case that we are killed, and afterwards."""
        from instrumentor.workspace import git

        finished = self.last.finished if self.last else None
        loop = self.prepared.plan.explanation["loop"]
        commit, dirty = (
            git.state(self.prepared.project.root) if self.prepared.project.git else (None, None)
        )
        write_json(
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
                    self.options.batch_dim,
                ),
                "machine": self.load_facts,
                "interrupted": finished is None or finished.interrupted,
                "partial": finished is None or self.failure is not None,
                "started": datetime.fromtimestamp(self.started, timezone.utc).isoformat(
                    timespec="seconds"
                ),
                "duration_s": round(finished.duration_s, 3) if finished else None,
                "script_exit_code": self._exit_code(),
                "python": str(self.machine.python),
                "python_version": self.machine.python_version,
                "torch_version": self.machine.version_of("torch"),
                "host": platform.node(),
                "platform": platform.platform(),
                "git_commit": commit,
                "git_dirty": dirty,
                "loop": {"file": loop["file"], "line": loop["line"]},
                "verification": self.verification,
                "source_hashes": _source_hashes(self.prepared),
                "new_files": [str(p) for p in self.new_files],
                "linked": [str(p) for p in self.linked],
                "linked_changed": [str(p) for p in self.linked_changed],
                "linked_whole": self.linked_whole,
                "warnings": [each.to_json() for each in by_weight(self.warnings)],
                "in_place": self.options.in_place,
                "untraced": self._untraced_facts(),
                "artifacts": self._artifacts(),
                "environment": {**_environment(self.machine), **self._configured()},
            },
        )


def _source_hashes(prepared: Prepared) -> dict[str, str]:
    """sha256 of the files as they were before their instrumentation, by the names of the diff."""
    root = prepared.project.root
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(data).hexdigest()
        for path, data in prepared.originals.items()
        if path.is_relative_to(root)
    }


def _environment(machine: Machine) -> dict[str, Any]:
    return {
        "packages": {name: package.version for name, package in sorted(machine.packages.items())},
        "devices": [str(d) for d in machine.devices],
        "tt_xla": str(machine.tt_xla) if machine.tt_xla else None,
        "cpu_count": os.cpu_count(),
        "instrumentor": version(),
    }


def _found(prepared: Prepared) -> str:
    e = prepared.plan.explanation
    counter = f", counter {e['counter']['name']} {e['counter']['line']}" if e["counter"] else ""
    backward = f", backward {e['backward']['line']}" if e["backward"] else ""
    if prepared.plan.label == WHOLE_STEP:
        return f"{_loop(prepared)} (whole steps of what is called there)"
    places = f"forward {e['forward']['line']}{backward}{counter}"
    return f"{_loop(prepared)} ({places})"


def _loop(prepared: Prepared) -> str:
    loop = prepared.plan.explanation["loop"]
    path = Path(loop["file"])
    root = prepared.project.root
    return f"{path.relative_to(root) if path.is_relative_to(root) else path}:{loop['line']}"


def _is_ours(path: Path) -> bool:
    return "__pycache__" in path.parts
