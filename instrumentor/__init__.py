"""Measure one training step of a PyTorch script, without touching it.

    from instrumentor import explain, rewrite, run

    explain("train.py").to_json()              # where the loop is, or why it is declined
    plan("train.py").edits                     # what would be changed, and why
    rewrite(source).diff                       # one module's text, instrumented
    run("train.py", ["--config", "x.yaml"])    # the one-shot; returns folder and summary
    report("mnist_baseline").frame()           # an earlier run, or ops CSVs of Tracy: its ops
    doctor(planned_run("train.py"))           # is this machine ready?
    profile("pytest -svv tests/test_x.py")     # any command under Tracy, as one CSV
    compare(load_side("mnist_baseline"), load_side("mnist_bf16"))
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
    from instrumentor.diagnose import Diagnosis, diagnose
    from instrumentor.doctor import doctor, planned_run
    from instrumentor.errors import (
        InstrumentError,
        Interrupted,
        NotReady,
        ProofFailed,
        Restored,
        RestoreNeeded,
        RunFailed,
        UsageError,
    )
    from instrumentor.locate.model import Declined, Reason
    from instrumentor.options import Options
    from instrumentor.plan import Plan
    from instrumentor.prepare import Explanation, explain, plan
    from instrumentor.profile import Profiled, profile
    from instrumentor.reporting import Reported, ReportFiles, report
    from instrumentor.rewrite import Rewritten, rewrite
    from instrumentor.run_options import ProfileOptions, RunOptions, RunResult
    from instrumentor.runner import run
    from instrumentor.workspace import restore
    from instrumentor_analysis.caveats import Caveat
    from instrumentor_analysis.compare import compare
    from instrumentor_analysis.comparison.model import Comparison
    from instrumentor_analysis.comparison.side import Side, load_side
    from instrumentor_analysis.errors import AnalysisError
    from instrumentor_analysis.model import Summary
    from instrumentor_analysis.report_options import ReportOptions

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
    "instrumentor.diagnose": ("Diagnosis", "diagnose"),
    "instrumentor.doctor": ("doctor", "planned_run"),
    "instrumentor.errors": (
        "InstrumentError", "Interrupted", "NotReady", "ProofFailed", "Restored", "RestoreNeeded",
        "RunFailed", "UsageError",
    ),
    "instrumentor.locate.model": ("Declined", "Reason"),
    "instrumentor.options": ("Options",),
    "instrumentor.plan": ("Plan",),
    "instrumentor.prepare": ("Explanation", "explain", "plan"),
    "instrumentor.profile": ("Profiled", "profile"),
    "instrumentor.reporting": ("ReportFiles", "Reported", "report"),
    "instrumentor.rewrite": ("Rewritten", "rewrite"),
    "instrumentor.run_options": ("ProfileOptions", "RunOptions", "RunResult"),
    "instrumentor.runner": ("run",),
    "instrumentor.workspace": ("restore",),
    "instrumentor_analysis.caveats": ("Caveat",),
    "instrumentor_analysis.compare": ("compare",),
    "instrumentor_analysis.comparison.model": ("Comparison",),
    "instrumentor_analysis.comparison.side": ("Side", "load_side"),
    "instrumentor_analysis.errors": ("AnalysisError",),
    "instrumentor_analysis.model": ("Summary",),
    "instrumentor_analysis.report_options": ("ReportOptions",),
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
