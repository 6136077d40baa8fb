"""Measure one training step of a PyTorch script, without touching it.

    from instrumentor import explain, rewrite, run

    explain("train.py").to_json()              # where the loop is, or why it is declined
    plan("train.py").edits                     # what would be changed, and why
    rewrite(source).diff                       # one module's text, instrumented
    run("train.py", ["--config", "x.yaml"])    # the one-shot; returns folder and summary
    report("instrument-runs/latest").frame()   # an earlier run, or ops CSVs of Tracy: its ops
    doctor(planned_run("train.py"))           # is this machine ready?
    profile("pytest -svv tests/test_x.py")     # any command under Tracy, as one CSV
    compare(load_side("instrument-runs/mnist-1"), load_side("instrument-runs/mnist-2"))
    diagnose(log)                              # known failures in a text: cause and fix
    restore()                                  # put back what a killed run in place left

Results are frozen dataclasses; nothing is printed and the process is never ended. Errors are
subclasses of :class:`InstrumentError`, or of :class:`AnalysisError` where a recorded run cannot be
read; both carry a message and a hint.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from instrumentor.locate.located import Declined, Reason
    from instrumentor.plan import Plan
    from instrumentor.results.reporting import Reported, ReportFiles, report
    from instrumentor.rewrite import Rewritten, rewrite
    from instrumentor.rewrite.prepare import Explanation, explain, plan
    from instrumentor.run.command import Profiled, profile
    from instrumentor.run.known_failures import Diagnosis, diagnose
    from instrumentor.run.options import ProfileOptions, RunOptions, RunResult
    from instrumentor.run.ready.doctor import doctor, planned_run
    from instrumentor.run.training import run
    from instrumentor.shared.errors import (
        InstrumentError,
        Interrupted,
        NotReady,
        ProofFailed,
        Restored,
        RestoreNeeded,
        RunFailed,
        UsageError,
    )
    from instrumentor.shared.options import Options
    from instrumentor.workspace.in_place.restoring import restore
    from instrumentor_analysis.compare.comparing import compare
    from instrumentor_analysis.compare.model import Comparison
    from instrumentor_analysis.compare.side import Side, load_side
    from instrumentor_analysis.model import Summary
    from instrumentor_analysis.ops.report_options import ReportOptions
    from instrumentor_analysis.shared.caveats import Caveat
    from instrumentor_analysis.shared.errors import AnalysisError

__all__ = [
    "AnalysisError", "Caveat", "Comparison", "Declined", "Diagnosis", "Explanation",
    "InstrumentError", "Interrupted", "NotReady", "Options", "Plan", "ProfileOptions", "Profiled",
    "ProofFailed", "Reason", "ReportFiles", "ReportOptions", "Reported", "RestoreNeeded",
    "Restored", "Rewritten", "RunFailed", "RunOptions", "RunResult", "Side", "Summary",
    "UsageError", "compare", "diagnose", "doctor", "explain", "load_side", "plan", "planned_run",
    "profile", "report", "restore", "rewrite", "run",
]  # fmt: skip

#: Where the public names are.
_MODULES = {
    "instrumentor.run.known_failures": ("Diagnosis", "diagnose"),
    "instrumentor.run.ready.doctor": ("doctor", "planned_run"),
    "instrumentor.shared.errors": (
        "InstrumentError", "Interrupted", "NotReady", "ProofFailed", "Restored", "RestoreNeeded",
        "RunFailed", "UsageError",
    ),
    "instrumentor.locate.located": ("Declined", "Reason"),
    "instrumentor.shared.options": ("Options",),
    "instrumentor.plan": ("Plan",),
    "instrumentor.rewrite.prepare": ("Explanation", "explain", "plan"),
    "instrumentor.run.command": ("Profiled", "profile"),
    "instrumentor.results.reporting": ("ReportFiles", "Reported", "report"),
    "instrumentor.rewrite": ("Rewritten", "rewrite"),
    "instrumentor.run.options": ("ProfileOptions", "RunOptions", "RunResult"),
    "instrumentor.run.training": ("run",),
    "instrumentor.workspace.in_place.restoring": ("restore",),
    "instrumentor_analysis.shared.caveats": ("Caveat",),
    "instrumentor_analysis.compare.comparing": ("compare",),
    "instrumentor_analysis.compare.model": ("Comparison",),
    "instrumentor_analysis.compare.side": ("Side", "load_side"),
    "instrumentor_analysis.shared.errors": ("AnalysisError",),
    "instrumentor_analysis.model": ("Summary",),
    "instrumentor_analysis.ops.report_options": ("ReportOptions",),
}  # fmt: skip
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


class _Package(ModuleType):
    """Loads a public name when it is first used: `import instrumentor` costs nothing.

    Some names are also those of the modules that hold them (`rewrite`); importing such a module
    sets it as an attribute of the package, so the public meaning has to be looked up first.
    """

    def __getattribute__(self, name: str) -> Any:
        homes: dict[str, str] = super().__getattribute__("_HOMES")
        if name in homes:
            return getattr(import_module(homes[name]), name)
        return super().__getattribute__(name)


sys.modules[__name__].__class__ = _Package
