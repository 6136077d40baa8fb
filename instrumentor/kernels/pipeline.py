"""The recipe of a kernel: one invocation of it, counted, measured, validated, reported.

What was measured is kept whatever happens: a failure comes out as a typed error with the run
folder in it.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from instrumentor.kernels.model import invocation_json, kernel_json
from instrumentor.kernels.options import Criteria, KernelOptions
from instrumentor.kernels.plan import KernelPlan, chained
from instrumentor.kernels.prepare import PreparedKernel
from instrumentor.kernels.validate import Validation, Verdict
from instrumentor.run.pipeline import InstrumentedRun
from instrumentor.run.profilers import Launch
from instrumentor.shared.errors import InstrumentError, Interrupted, RunFailed
from instrumentor.shared.outputs import write_json
from instrumentor.shared.progress import Progress
from instrumentor.workspace.linked_data import UsersFiles
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.documents import plain
from instrumentor_analysis.shared.files import write_whole

if TYPE_CHECKING:
    from instrumentor_analysis.kernels.report import AnyReport

RECORD = "kernel.jsonl"


class KernelRun(Struct, frozen=True):
    """A measured invocation.

    Attributes:
        report: what it says.
        script_exit_code: the script's own code.
        verdict: of the validation; None when none was asked for.
        users_files: what became of the user's own.
    """

    folder: Path
    report: AnyReport
    script_exit_code: int
    verdict: Verdict | None
    users_files: UsersFiles

    @property
    def valid(self) -> bool:
        """Whether nothing says that the kernel computes the wrong thing."""
        return self.verdict is None or self.verdict.ok


class KernelPipeline(InstrumentedRun[KernelRun]):
    """State of one run; the stages are those of :class:`instrumentor.run.pipeline.Pipeline`.

    The recipes: :mod:`instrumentor.kernels.device` and :mod:`instrumentor.kernels.simulate`.
    """

    prepared: PreparedKernel
    launch: Launch
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

    def tell_plan(self, warnings: Sequence[str], others: str) -> None:
        """Say what was planned, and what becomes of the other invocations."""
        self.plan = self.prepared.plan
        for text in warnings:
            self.warn(text)
        self.progress.stage("Kernel", _described(self.plan, others))

    def warn(self, text: str) -> None:
        """Have a warning in the report."""
        self.warnings.append(Caveat("kernel", text))

    def name(self) -> str:
        return f"{self.script.stem}_kernel"

    def output(self) -> Path | None:
        return self.options.output

    def plan_json(self) -> Mapping[str, Any]:
        return self.plan.to_json()

    def execute(self) -> None:
        super().execute()
        try:
            if self.failure is None:
                self.validate()
        except KeyboardInterrupt:
            kept = f"What was measured is kept in {self.folder}."
            self.failure = Interrupted("interrupted during the validation", kept)
        except InstrumentError as error:  # the measurement is none the worse for it
            self.failure = error

    def unchecked(self) -> Criteria:
        """The criteria that the run itself has not answered yet."""
        return self.options.criteria

    def validate(self) -> None:
        """Whether the kernel is right, by the user's criteria; once wrong it stays so."""
        criteria = self.unchecked()
        if criteria.given and (self.verdict is None or self.verdict.ok):
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
            ).by(criteria)

    def never_ran(self, skipped: Sequence[str], *, began: bool) -> RunFailed:
        name = self.plan.kernel.qualified
        if began:
            return RunFailed(
                f"the invocation of {name} failed, and the script went on",
                f"The whole output is in {self.folder}/run.log.",
            )
        reached = ", ".join(dict.fromkeys(skipped))
        where = self.plan.invocation.leaf.line if self.plan.invocation else self.plan.kernel.line
        around = self.plan.invocation.uncalled if self.plan.invocation else ""
        call = f'Call {around}() under `if __name__ == "__main__":`' if around else ""
        return RunFailed(
            f"the chosen invocation of {name} (line {where}) never ran"
            + (f"; what ran and was skipped: {reached}" if reached else ""),
            f"{call or 'Give the arguments with which the script comes to it'}, or choose "
            "another: --call N.",
        )

    def conclude(self) -> KernelRun:
        """Report; the failure is raised with what was printed before it."""
        write_json(self.folder / "run.json", self._facts())
        if self.failure is None:
            return self._result()
        with contextlib.suppress(RunFailed):  # it printed nothing that can be reported
            self.failure.result = self._result()
        raise self.failure

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
        self.has_figures()
        text, page = kernel.console(found, width=140), kernel.html(found)
        write_whole(self.folder / "summary.txt", text.encode())
        write_whole(self.folder / "report.html", page.encode())
        return KernelRun(self.folder, found, self.exit_code or 0, self.verdict, self.users_files)

    @abstractmethod
    def own_facts(self) -> dict[str, Any]:
        """What run.json says of this kind of run alone."""

    def _facts(self) -> dict[str, Any]:
        plan, verdict, kernel = self.plan, self.verdict, kernel_json(self.plan.kernel)
        return {
            **self.facts(self.launch.argv),
            "warnings": [str(each) for each in dict.fromkeys(self.warnings)],
            "name": self.script.stem,
            "kernel": kernel["qualified"],
            "invocation": invocation_json(plan.invocation) if plan.invocation else None,
            "held_back": len(plan.held_back),
            "chained": [
                {"from": a.kernel.qualified, "to": b.kernel.qualified, "tensor": tensor}
                for a, b, tensor in chained(plan.found)
            ],
            **{name: kernel[name] for name in _OF_THE_KERNEL},
            "validated": None if verdict is None else verdict.ok,
            "validation": plain(verdict),
            "line_map": {str(new): old for new, old in self.prepared.line_map.items()},
            "source_file": kernel["file"],
            "source_text": plan.kernel.source.data.decode("utf-8", "replace"),
            **self.own_facts(),
        }


#: What run.json says of the kernel beside its name.
_OF_THE_KERNEL = ("grid", "buffers", "threads", "parameters", "parameter_lines")


def _described(plan: KernelPlan, rest: str) -> str:
    kernel = f"{plan.kernel.qualified} (line {plan.kernel.line})"
    if plan.invocation is None:
        return f"{kernel}, its first call at run time"
    others = len(plan.held_back)
    held = f"; {others} other invocation{'s' * (others > 1)} {rest}" if others else ""
    return f"{kernel}, invoked at line {plan.invocation.leaf.line}{held}"
