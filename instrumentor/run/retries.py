"""What follows a measurement that does not count as it is: one function for each case.

Each is given an attempt, and gives another one, or None where the case is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.rewrite.prepare import Prepared
from instrumentor.run.discovery import UNMODIFIED, prepared_by
from instrumentor.run.execution import Execution
from instrumentor.run.options import RunOptions
from instrumentor.run.profilers import WALLCLOCK, Profiler
from instrumentor.run.profilers.torch import NO_OPS
from instrumentor.run.profilers.tracy import PROGRAMS_PER_READ
from instrumentor.run.verification import (
    against,
    failure,
    lacks_gradients,
    of_several_processes,
    shown,
)
from instrumentor.runtime.recorder.runtimes import runtime_of
from instrumentor.shared.edits import Kind
from instrumentor.shared.errors import InstrumentError, Interrupted, NotVerified
from instrumentor.shared.observed import Observed
from instrumentor.shared.progress import Progress
from instrumentor_analysis.shared.caveats import Caveat


class Attempt(Struct, frozen=True):
    """One measurement: what ran, under what, and how it went.

    Attributes:
        reason: why this profiler.
        programs_per_read: programs that Tracy's buffers hold; None for the usual number.
        mid_run_dump: they are read during the run as well.
        verification: what the witness saw.
        failure: why it does not count.
        warnings: of the run so far.
    """

    prepared: Prepared
    profiler: Profiler
    reason: str
    execution: Execution
    programs_per_read: int | None = None
    mid_run_dump: bool = False
    verification: dict[str, Any] | None = None
    failure: InstrumentError | None = None
    warnings: tuple[Caveat, ...] = ()


class Run(Protocol):
    """What a retry may do."""

    options: RunOptions
    arguments: tuple[str, ...]
    progress: Progress

    @property
    def may_discover(self) -> bool:
        """Whether the script may be run as it is, in a copy; once in a run."""

    def observe(self, attempt: Attempt, doing: str) -> tuple[Observed, Attempt]:
        """Run the script as it is, and add its warnings; raises as :class:`Discovery`."""

    def again(self, attempt: Attempt) -> Attempt:
        """Measure what an attempt says once more; the one before is set aside."""


def room_in_the_buffers(attempt: Attempt, run: Run) -> Attempt | None:
    """Tracy's buffers on the device were full: with larger ones, read during the run."""
    made = attempt.execution
    if not made.overflowed or attempt.profiler.name != "tracy" or made.finished.interrupted:
        return None
    # How many it takes is not known: what did not fit was dropped without being counted.
    known = attempt.programs_per_read or PROGRAMS_PER_READ
    count = max(4 * known, 10 * PROGRAMS_PER_READ)
    run.progress.note(
        "Tracy's buffers on the device were full: running once more with room for "
        f"{count} programs, read during the run as well"
    )
    return run.again(replace(attempt, programs_per_read=count, mid_run_dump=True))


def as_it_was_seen(attempt: Attempt, run: Run) -> Attempt | None:
    """The region was refuted: plan again from what a run of the unmodified script shows."""
    found, wrong = attempt.verification, attempt.failure
    if not isinstance(wrong, NotVerified) or not run.may_discover:
        return None
    if found is None or of_several_processes(found):
        return None
    why = wrong.message.partition("\n")[0]
    rewrite, refuted = run.options.rewrite, attempt.prepared
    try:
        doing = f"{UNMODIFIED} ({why})"
        seen, attempt = run.observe(attempt, doing)
        prepared = prepared_by(seen, refuted.script, rewrite, run.arguments, why, refuted=True)
    except Interrupted:  # is an InstrumentError, too
        raise
    except InstrumentError as error:
        wrong.message += f"\nrunning it unmodified did not help: {error.message}"
        return attempt
    of_the_run = [each for each in attempt.warnings if each not in refuted.plan.warnings]
    warnings = (*prepared.plan.warnings, *of_the_run)
    told = replace(attempt, prepared=prepared, warnings=warnings, programs_per_read=None)
    made = run.again(replace(told, mid_run_dump=False))
    # Nothing was refuted, but nothing vouches for the new lines either: no figures.
    if made.failure is None and not shown(made.verification, ("forward", "backward")):
        return replace(made, failure=wrong)
    return made


def gradients_of_the_script(attempt: Attempt, run: Run) -> Attempt | None:
    """Gradients are missing: see whether the unmodified script lacks them as well."""
    found = attempt.verification
    if attempt.failure is not None or not run.may_discover:
        return None
    if found is None or not lacks_gradients(found):
        return None
    edits = attempt.prepared.plan.edits
    off = [(each.file, each.at.line) for each in edits if each.kind is Kind.DISABLE and each.at]
    if not off:
        return None
    try:
        doing = "not every parameter got a gradient: checking the script"
        seen, attempt = run.observe(attempt, doing)
    except Interrupted:
        raise
    except InstrumentError as error:
        text = f"not every parameter got a gradient: {error.message}"
        caveat = Caveat("no-gradient", text, hint=error.hint)
        return replace(attempt, warnings=(*attempt.warnings, caveat))
    judged = against(found, seen.parameters, off)
    return replace(attempt, verification=judged, failure=failure(judged))


def wall_clock_alone(attempt: Attempt, run: Run) -> Attempt | None:
    """torch.profiler saw nothing of a device's work: the wall clock was measured all the same."""
    samples = attempt.execution.samples
    devices = {each.get("device") for each in samples}
    unseen = [str(each) for each in devices if each and not runtime_of(str(each)).profiled]
    if attempt.profiler.name != "torch" or not len(unseen) == len(devices) == 1:
        return None
    why = f"torch.profiler sees nothing of {unseen[0]} work"
    artifacts = attempt.execution.artifacts
    others = tuple(each for each in artifacts.warnings if each.kind != NO_OPS)
    caveat = Caveat(NO_OPS, f"There is the wall clock alone: {why}.")
    return replace(
        attempt,
        profiler=WALLCLOCK,
        reason=f"{attempt.reason}; wallclock in its place: {why}",
        execution=replace(attempt.execution, artifacts=replace(artifacts, warnings=others)),
        warnings=(*attempt.warnings, caveat),
    )


Retry: TypeAlias = Callable[[Attempt, Run], Attempt | None]
#: In this order, each on what the one before has left.
RETRIES: tuple[Retry, ...] = (
    room_in_the_buffers,
    as_it_was_seen,
    gradients_of_the_script,
    wall_clock_alone,
)
