"""The recipe of a kernel: one invocation of it, counted, measured, validated, reported.

What was measured is kept whatever happens: a failure comes out as a typed error with the run
folder in it.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from instrumentor.kernels.environment import by_hand, mode_variables, removed
from instrumentor.kernels.model import invocation_json, kernel_json
from instrumentor.kernels.options import KernelOptions
from instrumentor.kernels.plan import KernelPlan, chained
from instrumentor.kernels.prepare import PreparedKernel, prepare_kernel
from instrumentor.kernels.tt_lang import RUN_TEST, TtLang, find_run_test, why_not
from instrumentor.kernels.validate import Validation, Verdict
from instrumentor.machine.device_locks import held
from instrumentor.machine.environment import examine
from instrumentor.run.diagnose import last_traceback
from instrumentor.run.execution import Execution
from instrumentor.run.pipeline import InstrumentedRun
from instrumentor.run.process import excerpt
from instrumentor.run.profilers import Launch, Profiler
from instrumentor.shared.errors import InstrumentError, Interrupted, NotReady, RunFailed
from instrumentor.shared.outputs import write_json
from instrumentor.shared.progress import Progress
from instrumentor.workspace.linked_data import UsersFiles
from instrumentor.workspace.run_location import Workspace
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.documents import plain

if TYPE_CHECKING:
    from instrumentor_analysis.kernels.report import KernelReport

RECORD = "kernel.jsonl"
# The simulator's `from sim import ttl` needs no tt-lang.
_TTL = re.compile(rb"^\s*(?:import|from) ttl\b", re.MULTILINE)
_PRINTED = "[instrument] "


class KernelRun(Struct, frozen=True):
    """A measured invocation.

    Attributes:
        report: what it says.
        script_exit_code: the script's own code.
        verdict: of the validation; None when none was asked for.
        users_files: what became of the user's own.
    """

    folder: Path
    report: KernelReport
    script_exit_code: int
    verdict: Verdict | None
    users_files: UsersFiles

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
    return KernelPipeline(script, arguments, options or KernelOptions(), progress).go()


class KernelPipeline(InstrumentedRun[KernelRun]):
    """State of one run; the stages are those of :class:`instrumentor.run.pipeline.Pipeline`."""

    prepared: PreparedKernel
    schema = "instrument-kernel-run/1"
    # There is no option of a kernel's run to copy what is linked.
    links_are_optional = False
    verdict: Verdict | None = None

    def __init__(
        self,
        script: Path | str,
        arguments: Sequence[str],
        options: KernelOptions,
        progress: Progress | None,
    ) -> None:
        super().__init__(script, arguments, options, progress)
        self.options = options

    def prepare(self) -> None:
        """Find the kernel and its invocation; put all calls behind a gate."""
        self.prepared = prepare_kernel(self.script, self.options.choice)
        self.plan = self.prepared.plan
        for text in self.plan.warnings:
            self._warn(text)
        self.progress.stage("Kernel", _described(self.plan))

    def examine(self) -> None:
        """The interpreter, and how tt-lang's profilers are reached in it."""
        project, mode = self.plan.project, self.options.mode
        self.machine = examine(project.root, python=self.options.python, env=self.env, cwd=self.cwd)
        run_test = find_run_test(project.root, self.options.run_test, self.env)
        refused = why_not(mode, len(self.prepared.replacements)) if run_test else ""
        if refused:
            self._warn(f"{RUN_TEST} {refused}: run directly")
        self.profiler = TtLang(mode, None if refused else run_test, self.started)
        if self.profiler.run_test is None:  # which runs it on another machine
            self._check_tt_lang()
        self.removed = removed(self.env, mode)
        for name, why in self.removed.items():
            self._warn(f"{name} was taken out of the environment: {why}")

    def ready(self) -> AbstractContextManager[None]:
        """The devices of this machine, unless run-test.sh takes the script to another one's."""
        return held(self.machine.devices if self.profiler.via == "direct" else ())

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
        if self.options.mode != "signposts" and not self.env.get("TT_METAL_HOME"):
            raise NotReady(
                f"TT_METAL_HOME is not set, and --mode {self.options.mode} reads its profile there",
                "export TT_METAL_HOME=/path/to/tt-metal, or source tt-lang's environment.",
            )

    def _warn(self, text: str) -> None:
        self.warnings.append(Caveat("kernel", text))

    def wanted_folder(self) -> Path:
        return self.options.output or Path(f"{self.script.stem}_kernel")

    def plan_json(self) -> Mapping[str, Any]:
        return self.plan.to_json()

    def execute(self) -> None:
        super().execute()
        try:
            if self.failure is None:
                self._validate()
        except KeyboardInterrupt:
            kept = f"What was measured is kept in {self.folder}."
            self.failure = Interrupted("interrupted during the validation", kept)
        except InstrumentError as error:  # the measurement is none the worse for it
            self.failure = error

    def measure(self) -> None:
        self.process(self.profiler, record=self.folder / RECORD)
        self.profiler.keep_device_log(self.env, self.folder)

    def launched(self, launch: Launch, profiler: Profiler, name: str) -> None:
        self.launch = launch
        via = "directly" if self.profiler.via == "direct" else f"by {self.profiler.via}"
        self.progress.stage("running", f"--mode {self.options.mode}, {via}")

    # -- exactly one ---------------------------------------------------------------------------

    def judge(self, made: Execution, workspace: Workspace) -> InstrumentError | None:
        """Whether exactly one invocation ran, of the chosen kernel, from the copy."""
        # What ended early says nothing of how many invocations there would have been.
        if made.finished.interrupted or made.finished.timed_out:
            return made.failure
        records = self.records()
        started = [r for r in records if r.get("event") == "kernel-start"]
        skipped = [str(r.get("kernel")) for r in records if r.get("event") == "skipped"]
        if len(started) > 1:
            processes = len({r.get("pid") for r in started})
            return RunFailed(
                f"{len(started)} invocations ran, in {processes} processes; the profile mixes them",
                "Profile a script that runs the kernel in one process.",
            )
        if not any(r.get("event") == "kernel" and r.get("ok") for r in records):
            return made.failure or self._never_ran(skipped, began=bool(started))
        # on another machine only run-test.sh knows what ran
        direct = self.profiler.via == "direct"
        failure = self.loaded_elsewhere(made, workspace, records) if direct else None
        if made.exit_code and failure is None:
            self._judge_exit(made.exit_code, skipped=bool(skipped))
        return failure

    def _never_ran(self, skipped: Sequence[str], *, began: bool) -> RunFailed:
        name = self.plan.kernel.qualified
        if began:
            return RunFailed(
                f"the invocation of {name} failed, and the script went on",
                f"The whole output is in {self.folder}/run.log.",
            )
        reached = ", ".join(dict.fromkeys(skipped))
        where = self.plan.invocation.leaf.line if self.plan.invocation else self.plan.kernel.line
        return RunFailed(
            f"the chosen invocation of {name} (line {where}) never ran"
            + (f"; what ran and was skipped: {reached}" if reached else ""),
            "Give the arguments with which the script comes to it, or choose another: --call N.",
        )

    def _judge_exit(self, code: int, *, skipped: bool) -> None:
        """The kernel was measured, but the script did not end well."""
        text = excerpt(self.folder / "run.log")
        last = (last_traceback(text) or "no traceback").splitlines()[-1]
        if skipped:
            self._warn(
                f"the script ended with code {code} ({last}) after the measured call: the "
                "skipped calls computed nothing, so its own checks say nothing"
            )
        else:
            self.verdict = Verdict(False, "the script's own checks", last)

    def records(self) -> list[dict[str, Any]]:
        """The gate's events: from the record file, else those printed into the log."""
        from instrumentor_analysis.kernels.report import read_records

        record, log = self.folder / RECORD, self.folder / "run.log"
        # run-test.sh runs the copy elsewhere, where the record file cannot be reached: the gate
        # printed it.
        if self.profiler.via != "direct" and not record.exists() and log.is_file():
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            printed = [line.partition(_PRINTED)[2] for line in lines if _PRINTED + "{" in line]
            record.write_text("".join(line + "\n" for line in printed), encoding="utf-8")
        return read_records(record)

    # -- after the measurement -----------------------------------------------------------------

    def conclude(self) -> KernelRun:
        """Report; the failure is raised with what was printed before it."""
        write_json(self.folder / "run.json", self._facts())
        if self.failure is None:
            return self._result()
        with contextlib.suppress(RunFailed):  # it printed nothing that can be reported
            self.failure.result = self._result()
        raise self.failure

    def _validate(self) -> None:
        if self.verdict is None and self.options.criteria.given:
            self.progress.stage("Validating", "your own file, without profilers")
            self.verdict = Validation(
                self.plan.project,
                self.prepared.script,
                self.arguments,
                self.machine.python,
                self.cwd,
                self.env,
                self.folder / "validation.log",
                self.options.timeout_s,
            ).by(self.options.criteria)

    def _result(self) -> KernelRun:
        """The report, on disk in all its forms.

        Raises:
            RunFailed: nothing of tt-lang's was printed.
        """
        from instrumentor_analysis.kernels.report import report
        from instrumentor_analysis.reports import kernel
        from instrumentor_analysis.shared.errors import AnalysisError

        self.progress.stage("analysing", str(self.folder))
        try:
            found = report(self.folder)
        except AnalysisError as error:
            raise RunFailed(error.message, error.hint) from error
        write_json(self.folder / "summary.json", found.to_json())
        text, page = kernel.console(found, width=140), kernel.html(found)
        (self.folder / "summary.txt").write_text(text, encoding="utf-8")
        (self.folder / "report.html").write_text(page, encoding="utf-8")
        return KernelRun(self.folder, found, self.exit_code or 0, self.verdict, self.users_files)

    def _facts(self) -> dict[str, Any]:
        plan, verdict, kernel = self.plan, self.verdict, kernel_json(self.plan.kernel)
        return {
            **self.facts(self.launch.argv),
            "warnings": [str(each) for each in dict.fromkeys(self.warnings)],
            "name": self.script.stem,
            "kernel": kernel["qualified"],
            "mode": self.options.mode,
            "invocation": invocation_json(plan.invocation) if plan.invocation else None,
            "held_back": len(plan.held_back),
            "chained": [
                {"from": a.kernel.qualified, "to": b.kernel.qualified, "tensor": tensor}
                for a, b, tensor in chained(plan.found)
            ],
            "grid": kernel["grid"],
            "buffers": kernel["buffers"],
            "via": self.profiler.via,
            "environment": mode_variables(self.options.mode),
            "removed": self.removed,
            "validated": None if verdict is None else verdict.ok,
            "validation": plain(verdict),
            "production": {
                "shapes": plain(self.options.production_shape),
                "chips": self.options.chips,
            },
            "line_map": {str(new): old for new, old in self.prepared.line_map.items()},
            "source_file": kernel["file"],
            "source_text": plan.kernel.source.data.decode("utf-8", "replace"),
            "rerun": self._rerun(),
        }

    def _rerun(self) -> str:
        """The command by hand: of the script itself when only one invocation is in it."""
        plan, script = self.plan, self.prepared.script
        once = plan.invocation is not None and not plan.invocation.loops
        if (plan.held_back or not once) and self.prepared.replacements.keys() == {script}:
            # A script can be run by hand as a copy; changed modules would have to be found by it.
            copy = self.folder / f"one_call_{self.script.name}"
            copy.write_bytes(self.prepared.replacements[script])
            words = [f"PYTHONPATH={shlex.quote(str(script.parent))}", "python"]
            return by_hand(" ".join([*words, shlex.join([str(copy), *self.arguments])]))
        return by_hand(shlex.join(["python", str(script), *self.arguments]))


def _described(plan: KernelPlan) -> str:
    kernel = f"{plan.kernel.qualified} (line {plan.kernel.line})"
    if plan.invocation is None:
        return f"{kernel}, its first call at run time"
    others = len(plan.held_back)
    skipped = f"; {others} other invocations skipped" if others else ""
    return f"{kernel}, invoked at line {plan.invocation.leaf.line}{skipped}"
