"""One invocation, measured: prepare, copy, run, count, collect, validate, report.

The same copy, guard, watch and proofs as for training scripts. What was measured is kept whatever
happens: a failure comes out as a typed error with the run folder in it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instrumentor.errors import InstrumentError, Interrupted, NotReady, RunFailed, UsageError
from instrumentor.kernels.environment import Environment, by_hand, environment
from instrumentor.kernels.launching import Start, find_run_test, start
from instrumentor.kernels.model import Kernel, invocation_json, kernel_json
from instrumentor.kernels.options import KernelOptions
from instrumentor.kernels.plan import chained
from instrumentor.kernels.prepare import PreparedKernel, prepare_kernel
from instrumentor.kernels.validate import Verdict, validate
from instrumentor.outputs import write_json
from instrumentor.own_lines import in_own_lines
from instrumentor.progress import Progress, Silent

if TYPE_CHECKING:
    from instrumentor.environment import Machine
    from instrumentor.process import Finished, Stall
    from instrumentor.workspace import Workspace
    from instrumentor_analysis.kernels.report import KernelReport

SCHEMA = "instrument-kernel-run/1"
RECORD = "kernel.jsonl"
DEVICE_LOG = "profile_log_device.csv"
_TTL = re.compile(rb"^\s*(?:import|from) ttl\b", re.MULTILINE)
_PRINTED = "[instrument] "


@dataclass(frozen=True)
class KernelRun:
    """A measured invocation.

    Attributes:
        report: what it says.
        script_exit_code: the script's own code.
        verdict: of the validation; None when none was asked for.
        linked_changed: what changed of the user's own behind links, relative to the project.
        linked_whole: all that is behind links was compared.
    """

    folder: Path
    report: KernelReport
    script_exit_code: int
    verdict: Verdict | None
    linked_changed: tuple[Path, ...] = ()
    linked_whole: bool = True

    @property
    def valid(self) -> bool:
        """Whether nothing says that the kernel computes the wrong thing."""
        return self.verdict is None or self.verdict.ok


def run_kernel(
    script: Path | str,
    arguments: Sequence[str] = (),
    options: KernelOptions | None = None,
    progress: Progress | None = None,
) -> KernelRun:
    """Measure one invocation of one kernel; the user's files stay as they are.

    Args:
        script: the script that invokes the kernel.
        arguments: its own arguments.

    Raises:
        Declined, UsageError, NotReady, ProofFailed: before anything is started.
        RunFailed, Interrupted: the script failed, or not exactly one invocation ran.
    """
    options = options or KernelOptions()
    return _KernelRun(Path(script), tuple(arguments), options, progress or Silent()).go()


class _KernelRun:
    def __init__(
        self, script: Path, arguments: tuple[str, ...], options: KernelOptions, progress: Progress
    ) -> None:
        self.options, self.progress, self.arguments = options, progress, arguments
        self.cwd = (options.cwd or Path.cwd()).absolute()
        self.script = script if script.is_absolute() else self.cwd / script
        self.base = dict(os.environ if options.env is None else options.env)
        self.started = time.time()
        self.warnings: list[str] = []
        self.code = 0
        self.linked_changed: tuple[Path, ...] = ()
        self.linked_whole = True

    def go(self) -> KernelRun:
        """All stages, in order."""
        self.prepared = prepare_kernel(self.script, self.options.choice)
        self.plan = self.prepared.plan
        self.warnings += [*self.plan.found.warnings, *self.plan.warnings]
        self.progress.stage("Kernel", _described(self.prepared))
        self.machine = self._examine()
        run_test = find_run_test(self.plan.project.root, self.options.run_test, self.base)
        if run_test is None:  # which runs it on another machine
            self._check_tt_lang()
        self.folder = new_folder(self.options.output, f"{self.script.stem}_kernel", self.cwd)
        (self.folder / "changes.diff").write_bytes(self.prepared.patch)
        write_json(self.folder / "plan.json", self.plan.to_json())
        failure = self._in_copy(run_test)
        self._collect_device_log()
        verdict = None
        if failure is None:
            verdict = self._validate()
        self._write_facts(verdict)
        if failure is not None:
            failure.result = self._partial()
            raise failure
        report, links = self._report(), (self.linked_changed, self.linked_whole)
        return KernelRun(self.folder, report, self.code, verdict, *links)

    def _examine(self) -> Machine:
        from instrumentor.environment import examine

        project = self.plan.project
        return examine(
            project.root,
            python=self.options.python,
            env=self.base,
            cwd=self.cwd,
        )

    def _check_tt_lang(self) -> None:
        """See that tt-lang and tt-metal are there, before anything is copied or run.

        Raises:
            NotReady: ttl cannot be imported, or TT_METAL_HOME is missing where the mode needs it.
        """
        folders = (self.prepared.script.parent, self.plan.project.root, self.cwd)
        own = any((folder / name).exists() for folder in folders for name in ("ttl", "ttl.py"))
        sources = self.plan.found.sources
        imported = any(_TTL.search(source.data) for source in sources)
        elsewhere = any(b"sys.path" in source.data for source in sources)
        if imported and not (self.machine.has("ttl") or own or elsewhere):
            raise NotReady(
                f"ttl (tt-lang) is not installed in {self.machine.python}",
                "Activate tt-lang's environment (source build/env/activate), or name its "
                "interpreter with --python.",
            )
        if self.options.mode != "signposts" and not self.base.get("TT_METAL_HOME"):
            raise NotReady(
                f"TT_METAL_HOME is not set, and --mode {self.options.mode} reads its profile there",
                "export TT_METAL_HOME=/path/to/tt-metal, or source tt-lang's environment.",
            )

    def _in_copy(self, run_test: Path | None) -> InstrumentError | None:
        from instrumentor.workspace import Linked, Originals, shadow

        project, replacements = self.plan.project, self.prepared.replacements
        watched = dict.fromkeys([*replacements, self.prepared.script])
        originals = Originals.take(project, watched)
        try:
            with shadow(project, self.prepared.script, self.cwd, replacements) as workspace:
                linked = Linked.take(project.root, workspace.linked, [self.folder])
                failure = self._execute(workspace, run_test)
                failure = failure or self._count(workspace)
        except InstrumentError:
            self._remove_empty_folder()
            raise
        differences = originals.verify()
        if differences:
            self.warnings.append("the original changed meanwhile: " + "; ".join(differences))
        self.linked_changed = linked.changed()
        self.linked_whole = linked.whole
        if self.linked_changed:
            self.warnings.append(linked.sentence(self.linked_changed, optional=False))
        return failure

    def _execute(self, workspace: Workspace, run_test: Path | None) -> InstrumentError | None:
        from instrumentor import process
        from instrumentor.profilers import Launch

        self.site_root = workspace.root
        record = self.folder / RECORD
        inside = workspace.environment(self.base, self.machine.import_paths)
        self.environment: Environment = environment(inside, self.options.mode)
        variables = {**self.environment.variables, "PYTHONUNBUFFERED": "1"}
        self.start: Start = start(
            self.machine.python,
            workspace.script,
            self.arguments,
            self.options.mode,
            run_test,
            files=len(self.prepared.replacements),
        )
        if self.start.via == "direct":
            variables["INSTRUMENT_RECORD"] = str(record)
        else:
            variables.pop("INSTRUMENT_RECORD", None)  # it would name a file of another machine
        if self.start.note:
            self.warnings.append(self.start.note)
        for name, why in self.environment.removed.items():
            self.warnings.append(f"{name} was taken out of the environment: {why}")
        self.progress.stage("running", f"--mode {self.options.mode}, {self._via()}")
        watch = process.Watch(
            on_line=self.progress.line,
            on_stall=self._on_stall,
            timeout_s=self.options.timeout_s,
            stall_s=self.options.stall_s,
        )
        launch = Launch(self.start.argv, variables, workspace.cwd, "the kernel script")
        self.finished: Finished = process.run(
            launch, log=self.folder / "run.log", record=record, watch=watch
        )
        self.code = self.finished.returncode
        if self.finished.interrupted:
            return Interrupted("interrupted", f"The output so far is in {self.folder}/run.log.")
        if self.finished.timed_out:
            return RunFailed(
                f"the run did not end within --timeout {self.options.timeout_s:g} s",
                f"See {self.folder}/run.log for what it waits for.",
            )
        return None

    def _via(self) -> str:
        return "directly" if self.start.via == "direct" else f"by {self.start.via}"

    def _on_stall(self, stall: Stall) -> bool:
        last = f"; last output: {stall.last_lines[-1]}" if stall.last_lines else ""
        self.progress.note(f"nothing has happened for {stall.idle_s:.0f} s{last}")
        return False

    # -- exactly one ---------------------------------------------------------------------------

    def _count(self, workspace: Workspace) -> InstrumentError | None:
        """Whether exactly one invocation ran, of the chosen kernel, from the copy."""
        from instrumentor.workspace import check_loaded

        records = self.records()
        started = [r for r in records if r.get("event") == "kernel-start"]
        done = [r for r in records if r.get("event") == "kernel" and r.get("ok")]
        if len(started) > 1:
            processes = len({r.get("pid") for r in started})
            return RunFailed(
                f"{len(started)} invocations ran, in {processes} processes; the profile mixes them",
                "Profile a script that runs the kernel in one process.",
            )
        if not done:
            return self._never_ran(records, bool(started))
        if self.start.via == "direct":
            try:
                check_loaded(
                    records,
                    workspace,
                    self.prepared.replacements,
                    python=self.machine.python,
                    environment=self.environment.variables,
                )
            except RunFailed as error:
                return error
        if self.code:
            self._judge_exit([r for r in records if r.get("event") == "skipped"])
        return None

    def _never_ran(self, records: Sequence[Mapping[str, Any]], began: bool) -> RunFailed:
        if self.code or began:
            return self._explain()
        skipped = [r for r in records if r.get("event") == "skipped"]
        name = self.plan.kernel.qualified
        reached = ", ".join(dict.fromkeys(str(r.get("kernel")) for r in skipped))
        where = self.plan.invocation.leaf.line if self.plan.invocation else self.plan.kernel.line
        return RunFailed(
            f"the chosen invocation of {name} (line {where}) never ran"
            + (f"; what ran and was skipped: {reached}" if reached else ""),
            "Give the arguments with which the script comes to it, or choose another: --call N.",
        )

    def _explain(self) -> RunFailed:
        from instrumentor.diagnose import diagnose, last_traceback, relevant_tail
        from instrumentor.process import excerpt

        log = self.folder / "run.log"
        text = excerpt(log)
        text = in_own_lines(
            text, self.site_root, self.plan.project.root, self.prepared.replacements
        )
        what = f"the script ended with code {self.code}"
        if self.finished.signal:
            what = f"the script was ended by signal {self.finished.signal}"
        for found in diagnose(text, self.code):
            return RunFailed(
                f"{what}: {found.title}\n  {found.line.strip()}\nwhy: {found.cause}", found.remedy
            )
        shown = last_traceback(text) or relevant_tail(text)
        return RunFailed(
            f"{what}; its last lines:\n{shown.rstrip()}", f"The whole output is in {log}."
        )

    def _judge_exit(self, skipped: Sequence[Mapping[str, Any]]) -> None:
        """The kernel was measured, but the script did not end well."""
        from instrumentor.diagnose import last_traceback
        from instrumentor.process import excerpt

        log = self.folder / "run.log"
        text = excerpt(log)
        last = (last_traceback(text) or "").splitlines()[-1:] or ["no traceback"]
        if skipped:
            self.warnings.append(
                f"the script ended with code {self.code} ({last[0]}) after the measured call: the "
                "skipped calls computed nothing, so its own checks say nothing"
            )
        else:
            self.own_check = Verdict(False, "the script's own checks", last[0])

    own_check: Verdict | None = None

    def records(self) -> list[dict[str, Any]]:
        """The gate's events: from the record file, else those printed into the log."""
        from instrumentor_analysis.kernels.report import read_records

        record, log = self.folder / RECORD, self.folder / "run.log"
        if self.start.via != "direct" and not record.exists() and log.is_file():
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            printed = [line.partition(_PRINTED)[2] for line in lines if _PRINTED + "{" in line]
            record.write_text("".join(line + "\n" for line in printed), encoding="utf-8")
        return read_records(record)

    # -- what is left --------------------------------------------------------------------------

    def _collect_device_log(self) -> None:
        """The structured log, when this run wrote it: an older one belongs to another kernel."""
        home = self.base.get("TT_METAL_HOME", "")
        candidates = [Path(home) / "generated" / "profiler" / ".logs" / DEVICE_LOG] if home else []
        moved = self.base.get("TTLANG_PROFILE_CSV", "")
        if moved and self.options.mode == "auto-profile":
            candidates.insert(0, Path(moved))
        for path in candidates:
            if path.is_file() and path.stat().st_mtime >= self.started - 1:
                shutil.copyfile(path, self.folder / DEVICE_LOG)
                return

    def _validate(self) -> Verdict | None:
        if self.own_check is not None:
            return self.own_check
        if not self.options.criteria.given:
            return None
        self.progress.stage("Validating", "your own file, without profilers")
        return validate(
            self.options.criteria,
            project=self.plan.project,
            script=self.prepared.script,
            arguments=self.arguments,
            python=self.machine.python,
            cwd=self.cwd,
            env=self.base,
        )

    def _partial(self) -> KernelRun | None:
        """What a failed run still printed."""
        try:
            return KernelRun(self.folder, self._report(), self.code, None)
        except RunFailed:
            return None

    def _report(self) -> KernelReport:
        from instrumentor.kernels.rendering import write_reports
        from instrumentor_analysis.errors import AnalysisError
        from instrumentor_analysis.kernels.report import report

        self.progress.stage("analysing", str(self.folder))
        try:
            found = report(self.folder)
        except AnalysisError as error:
            raise RunFailed(error.message, error.hint) from error
        write_reports(found, self.folder)
        return found

    def _write_facts(self, verdict: Verdict | None) -> None:
        plan, kernel = self.plan, self.plan.kernel
        chosen = plan.invocation
        write_json(
            self.folder / "run.json",
            {
                "schema": SCHEMA,
                "name": self.script.stem,
                "script": str(self.prepared.script),
                "arguments": list(self.arguments),
                "kernel": kernel.qualified,
                "mode": self.options.mode,
                "invocation": invocation_json(chosen) if chosen else None,
                "held_back": len(plan.held_back),
                "chained": [
                    {"from": a.kernel.qualified, "to": b.kernel.qualified, "tensor": tensor}
                    for a, b, tensor in chained(plan.found)
                ],
                "grid": kernel_json(kernel)["grid"],
                "buffers": kernel_json(kernel)["buffers"],
                "command_line": shlex.join(self.start.argv),
                "via": self.start.via,
                "environment": dict(self.environment.added),
                "removed": dict(self.environment.removed),
                "started": datetime.fromtimestamp(self.started, timezone.utc).isoformat(
                    timespec="seconds"
                ),
                "duration_s": round(self.finished.duration_s, 3),
                "script_exit_code": self.code,
                "python": str(self.machine.python),
                "validated": None if verdict is None else verdict.ok,
                "validation": None if verdict is None else vars(verdict),
                "production": {
                    "shapes": [list(shape) for shape in self.options.production],
                    "chips": self.options.chips,
                },
                "line_map": {str(new): old for new, old in self.prepared.line_map.items()},
                "source_file": str(kernel.source.path),
                "source_text": _text_of(kernel),
                "rerun": self._rerun(),
                "warnings": list(dict.fromkeys(self.warnings)),
            },
        )

    def _rerun(self) -> str:
        """The command by hand: of the script itself when only one invocation is in it."""
        words = [shlex.quote(str(self.prepared.script)), *map(shlex.quote, self.arguments)]
        alone = not self.plan.held_back and not (
            self.plan.invocation is None or self.plan.invocation.loops
        )
        if alone or len(self.prepared.replacements) > 1:
            return by_hand(" ".join(["python", *words]))
        copy = self.folder / f"one_call_{self.script.name}"
        copy.write_bytes(self.prepared.replacements[self.prepared.script])
        words[0] = shlex.quote(str(copy))
        beside = shlex.quote(str(self.prepared.script.parent))
        return by_hand(" ".join([f"PYTHONPATH={beside}", "python", *words]))

    def _remove_empty_folder(self) -> None:
        for name in ("changes.diff", "plan.json"):
            (self.folder / name).unlink(missing_ok=True)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()


def _text_of(kernel: Kernel) -> str:
    return kernel.source.data.decode("utf-8", "replace")


def _described(prepared: PreparedKernel) -> str:
    plan = prepared.plan
    kernel = plan.kernel
    if plan.invocation is None:
        return f"{kernel.qualified} (line {kernel.line}), its first call at run time"
    others = len(plan.held_back)
    return (
        f"{kernel.qualified} (line {kernel.line}), invoked at line {plan.invocation.leaf.line}"
        + (f"; {others} other invocations skipped" if others else "")
    )


def new_folder(asked: Path | None, name: str, cwd: Path) -> Path:
    """A folder that does not exist yet, or is empty: the one asked for, or with -2, -3 ...

    Raises:
        UsageError: it cannot be made.
    """
    wanted = cwd / (asked or Path(name))
    number, folder = 1, wanted
    while True:
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            if folder.is_dir() and not any(folder.iterdir()):
                return folder
            number += 1
            folder = wanted.with_name(f"{wanted.name}-{number}")
        except OSError as error:
            raise UsageError(
                f"{folder}: cannot be made: {error.strerror}", "Give --output DIR."
            ) from error
