"""A kernel script on disk -> the copy of which one invocation runs, proven; nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from instrumentor.kernels.find import find_kernels
from instrumentor.kernels.options import Choice
from instrumentor.kernels.plan import KernelPlan, found_json, make_plan, plan_for
from instrumentor.locate.located import Declined
from instrumentor.plan import explain_declined
from instrumentor.rewrite import Instrumented, refuse_instrumented
from instrumentor.rewrite.engine import apply_edits
from instrumentor.rewrite.prepare import script_path
from instrumentor.rewrite.proofs import prove
from instrumentor.rewrite.source_map import original_lines
from instrumentor.shared.project import find_project
from instrumentor_analysis.shared.files import read_bytes


class PreparedKernel(Instrumented, frozen=True):
    """An instrumented kernel script, not yet run."""

    plan: KernelPlan

    @property
    def line_map(self) -> dict[int, int]:
        """Lines of the instrumented kernel file -> lines of the user's file."""
        return original_lines(self.replacements[self.plan.kernel.source.path])


def prepare_kernel(script: Path, choice: Choice, *, others_run: bool = False) -> PreparedKernel:
    """Find, choose, rewrite and prove.

    Args:
        others_run: the other calls will not be held back.

    Raises:
        Declined, UsageError, ProofFailed: see the parts.
    """
    path = script_path(script)
    refuse_instrumented(path, read_bytes(path))
    plan = make_plan(path, choice, others_run=others_run)
    originals = {s.path: s.data for s in plan.found.sources if s.path in plan.edits}
    replacements: dict[Path, bytes] = {}
    for file, edits in plan.edits.items():
        refuse_instrumented(file, originals[file])
        code = apply_edits(originals[file], edits)
        # The edits bind the kernels' names again on purpose.
        prove(originals[file], code, edits, allowed_names=plan.bound_names(file))
        replacements[file] = code
    return PreparedKernel(path, plan.project, originals, replacements, plan)


def explain_kernel(script: Path, choice: Choice) -> dict[str, Any]:
    """The document of `kernel explain`: the plan, or what was found and why it is ``declined``.

    Raises:
        UsageError: the script cannot be read, or the choice names nothing.
    """
    path = script_path(script)
    project = find_project(path)
    found = find_kernels(path, project.import_roots)
    try:
        return plan_for(project, found, choice).to_json()
    except Declined as declined:
        reasons = explain_declined(declined)["reasons"]
        return {**found_json(found), "chosen": None, "declined": reasons}
