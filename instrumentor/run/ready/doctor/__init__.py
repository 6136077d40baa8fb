"""Is this machine ready for a run? Each check answers ok, warning or failed, with a remedy.

In: a machine and a planned run; out: one line for each check.

``run`` does the same checks quietly first and stops at a failed one. Nothing is changed here, no
device is opened, and no environment is activated (blacksmith's activation upgrades packages).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from instrumentor.run.ready.doctor import host, tracy
from instrumentor.run.ready.doctor.host import describe
from instrumentor.run.ready.doctor.model import Check, PlannedRun, Status, planned_run

__all__ = ["CHECKS", "Check", "PlannedRun", "Status", "describe", "doctor", "failed", "planned_run"]

CHECKS: tuple[Callable[[PlannedRun], Iterator[Check]], ...] = (
    host.interpreter,
    host.torch,
    tracy.plugin,
    tracy.tracy,
    tracy.build,
    tracy.report_modules,
    tracy.tools,
    tracy.captures,
    host.devices,
    host.chips,
    host.kernel_simulator,
    host.holders,
    host.smi,
    tracy.port,
    host.space,
    host.load,
    tracy.runtime_trace,
)


def doctor(planned: PlannedRun) -> tuple[Check, ...]:
    """All checks that apply, in the order in which to fix what is not ok."""
    return tuple(check for one in CHECKS for check in one(planned))


def failed(checks: Sequence[Check]) -> tuple[Check, ...]:
    """The checks that stop a run."""
    return tuple(check for check in checks if check.status is Status.FAILED)
