"""When reading a script is not enough: run it as it is, in the copy, and see where its step lies.

The script runs untouched up to the second step of its first optimizer (see
runtime/recorder/observer.py). What was seen chooses the loop, or is the step itself
(locate/seen_step.py); where the loop is a library's, whole steps are timed without any edit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from msgspec import structs

from instrumentor.locate.located import Declined
from instrumentor.locate.meaning.libraries import LIBRARIES
from instrumentor.locate.remarks import one_of_several
from instrumentor.locate.rules.declines import DECLINES
from instrumentor.locate.rules.loops import SeveralLoops
from instrumentor.locate.seen_step import loop_seen
from instrumentor.machine.environment import Machine
from instrumentor.plan import WHOLE_STEP, Plan
from instrumentor.plan.explanation import RUNNING, Loop, PlanDocument
from instrumentor.read.syntax import parse
from instrumentor.rewrite import Instrumented
from instrumentor.rewrite.prepare import Prepared, prepare, script_path
from instrumentor.rewrite.source_map import SourceMap
from instrumentor.run.execution import Execution
from instrumentor.run.launchers import launched
from instrumentor.run.options import RunOptions
from instrumentor.run.pipeline import InstrumentedRun
from instrumentor.run.profilers import WALLCLOCK, LaunchRequest
from instrumentor.run.ready.doctor import PlannedRun
from instrumentor.run.ready.readiness import ready
from instrumentor.runtime.bundle import write_module
from instrumentor.shared.errors import InstrumentError, RunFailed
from instrumentor.shared.observed import Chain, Observed
from instrumentor.shared.options import Options
from instrumentor.shared.private import throwaway
from instrumentor.shared.progress import Progress
from instrumentor.shared.project import find_project, seen_from_here
from instrumentor.workspace.run_location import Workspace
from instrumentor.workspace.shadow import shadow
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.documents import plain
from instrumentor_analysis.shared.files import read_bytes

#: Refusals that a run cannot change: another runtime or process trains, or a prompt needs input.
HOPELESS = frozenset(each.kind for each in DECLINES if not each.observable)
#: Kind of the warning that the step was found by running the script.
DISCOVERED = "discovered"
UNMODIFIED = "running your unmodified script for two optimizer steps"
# A script that names none of these trains by something whose optimizer steps cannot be observed.
_ON_TORCH = [name for each in LIBRARIES if each.trainer for name in each.packages]
_TRAINS = (b"torch", b"accelerate", *(name.encode() for name in _ON_TORCH))


def discover(
    script: Path,
    arguments: Sequence[str],
    options: RunOptions,
    progress: Progress,
) -> Observed:
    """Run the script as it is, up to its second optimizer step; where its step was seen.

    Raises:
        NotReady: it could not be started.
        RunFailed, Interrupted: it failed, or ended without a second step of an optimizer.
    """
    progress.stage("discover", UNMODIFIED)
    return Discovery(script, arguments, options, progress).go()


class Discovery(InstrumentedRun[Observed]):
    """The recipe of a script as it is: run in a copy, up to its second optimizer step.

    What the script writes goes with the copy, what it says with a folder of ours.

    Raises:
        NotReady: it could not be started.
        RunFailed, Interrupted: it failed, or ended without a second step of an optimizer.
    """

    blame = "The error is the script's own, raised at {place}: it ran without any edit."
    seen: Observed | None = None
    thrown_away: Path | None = None

    def __init__(
        self,
        script: Path,
        arguments: Sequence[str],
        options: RunOptions,
        progress: Progress,
        machine: Machine | None = None,
    ) -> None:
        """``machine`` is given by a run that holds its devices already."""
        super().__init__(script, arguments, options, progress)
        self.options, self.held = options, machine

    def prepare(self) -> None:
        """Nothing is rewritten."""
        self.prepared = Instrumented(self.script, find_project(self.script), {}, {})

    def examine(self) -> None:
        """The script's interpreter."""
        self.machine = self.held or self.options.examine(self.prepared.project.root)

    def ready(self) -> AbstractContextManager[None]:
        """Take the devices, unless the run that needs the discovery holds them already."""
        if self.held is not None:
            return nullcontext()
        planned = PlannedRun(self.machine, "wallclock", env=self.env, cwd=self.cwd)
        return ready(planned, self.progress, end_holders=self.options.yes)

    def execute(self) -> None:
        """Run it in a run folder that is thrown away."""
        with throwaway() as folder:
            self.thrown_away = folder
            super().execute()

    def name(self) -> str:
        """It has none."""
        return ""

    def output(self) -> Path | None:
        """A folder that exists only while the script runs."""
        return self.thrown_away / "run" if self.thrown_away is not None else None

    def measure(self) -> None:
        """One process, under the observer alone."""
        self.process(WALLCLOCK)

    def workspace(self) -> AbstractContextManager[Workspace]:
        """A copy, with the links that were asked for."""
        made, options = self.prepared, self.options
        return shadow(
            made.project,
            made.script,
            self.cwd,
            {},
            link=options.link,
            no_link=options.no_link,
            kept=options.keep_copy,
        )

    def request(self, workspace: Workspace, name: str, **more: Any) -> LaunchRequest:
        """With the observer beside the copy."""
        folder = write_module(workspace.scratch, self.options.rewrite, observing=True)
        more |= {"import_paths": (folder,), "observe": "step"}
        more |= launched(self.options, workspace, self.script, self.cwd)
        return super().request(workspace, name, **more)

    def judge(self, made: Execution, workspace: Workspace) -> InstrumentError | None:
        """What was seen counts, however the script ended."""
        self.seen = observed(made.records, self.source_map(workspace), workspace.scratch)
        if self.seen is not None:
            return None
        nothing = RunFailed("the script ended before any torch.optim optimizer stepped twice")
        failed = made.failure or nothing
        # The log was in the folder that is thrown away.
        if str(self.thrown_away) in failed.hint:
            failed.hint = "Run the script by itself to see its whole output."
        return failed

    def conclude(self) -> Observed:
        """What was seen; else what went wrong."""
        if self.failure is not None:
            raise self.failure
        assert self.seen is not None
        return self.seen


def observed(
    records: Sequence[Mapping[str, Any]], source_map: SourceMap, scratch: Path
) -> Observed | None:
    """What a run as it is has shown; None when no optimizer stepped twice."""
    found = next((r for r in records if r.get("event") == "observed"), None)
    if found is None or found["loop"] is None:
        return None
    file, line, function = found["loop"]
    place = source_map.place(Path(file), line)
    users = found["users"] or found["loop"]
    call = source_map.place(Path(users[0]), users[1]) or (Path(users[0]), users[1])
    return Observed(
        file=place[0] if place else Path(file),
        function=function,
        library=place is None,
        call=call,
        forward=tuple(found["forward"]),
        backward=tuple(found["backward"]),
        step=tuple(found["step"]),
        chains={
            name: tuple(_own_chain(chain, source_map, scratch) for chain in chains)
            for name, chains in found["chains"].items()
        },
        parameters=found["parameters"],
        in_turns=found["in_turns"],
    )


def _own_chain(chain: Iterable[Sequence[Any]], source_map: SourceMap, scratch: Path) -> Chain:
    """A chain in the user's files, without the frames that lead to the script."""
    kept = []
    outermost = 0  # frames up to the project's own outermost; all of them where it has none
    for file, line, function in chain:
        if not Path(file).is_relative_to(scratch):
            own = source_map.place(Path(file), line)
            kept.append((*(own or (Path(file), line)), str(function)))
            outermost = len(kept) if own else outermost
    return tuple(kept[: outermost or None])


def may_help(declined: Declined, script: Path, options: Options) -> bool:
    """Whether running a declined script could tell more than reading it did."""
    if options.region is not None or options.mode == "inference":
        return False
    if any(reason.kind in HOPELESS for reason in declined.reasons):
        return False
    return any(word in read_bytes(script) for word in _TRAINS)


def prepared_by(
    seen: Observed,
    script: Path,
    options: Options,
    arguments: Sequence[str],
    why: str = "",
    *,
    refuted: bool = False,
) -> Prepared:
    """The plan that follows from what was seen; a warning of it says so.

    Args:
        why: reading alone was not enough.
        refuted: the run has shown that a plan of its loop is wrong: what was seen remains.

    Raises:
        InstrumentError: of a refuted plan: those lines cannot be timed either.
    """
    before = f" {why}." if why else ""
    text = f"The step was found by running the script for two steps ({seen.sentence}).{before}"
    warning = Caveat(DISCOVERED, text)
    failure: Exception = RunFailed("its forward and backward share no block")
    for choice in choices(seen, options):
        if refuted and choice.seen is None:
            continue
        try:
            found = prepare(script, choice, arguments)
        except (InstrumentError, SyntaxError) as error:
            failure = error
            continue
        return structs.replace(found, plan=_found_by_running(found.plan, warning))
    if refuted and not seen.library:
        raise failure
    why = str(failure) if isinstance(failure, Declined) else ""
    return whole_steps(seen, script, options, warning, why)


def other_loops(declined: Declined, plan: Plan) -> Iterator[Caveat]:
    """That of several loops, between which reading could not choose, one was measured."""
    loop = plan.explanation["loop"]
    taken = (Path(loop["file"]), loop["line"])
    loops = [(r.file, r.line) for r in declined.reasons if r.kind == SeveralLoops.kind]
    others = [f"--loop {file.name}:{line}" for file, line in loops if (file, line) != taken]
    if others and taken in loops:
        place = f"{seen_from_here(taken[0])}:{taken[1]}"
        yield one_of_several(loop["function"], place, others)


def _found_by_running(plan: Plan, warning: Caveat) -> Plan:
    """The plan that says so, in its warnings and in its document."""
    warnings = (*plan.warnings, warning)
    document = {**plan.explanation, "found_by": RUNNING, "warnings": plain(warnings)}
    return structs.replace(plan, warnings=warnings, explanation=document)


def choices(seen: Observed, options: Options) -> Iterator[Options]:
    """The loop that was seen, as reading understands it; then its step as it was seen.

    Where the parts of a step are turns of that loop, all its turns together are a step.
    """
    if seen.library or not (seen.backward and seen.step):
        return
    try:
        tree = parse(seen.file, read_bytes(seen.file)).tree
    except (OSError, SyntaxError):  # the script has made it in its copy, or made it up
        return
    loop = loop_seen(tree, seen)
    if loop is not None and seen.in_turns:
        turns = (str(seen.file), loop.lineno, loop.end_lineno or loop.lineno)
        yield dataclasses.replace(options, loop=None, region=turns)
    elif loop is not None:
        yield dataclasses.replace(options, loop=(str(seen.file), loop.lineno))
        yield dataclasses.replace(options, loop=None, seen=seen)


def whole_steps(
    seen: Observed, script: Path, options: Options, warning: Caveat, why: str = ""
) -> Prepared:
    """A plan without edits: samples run from one optimizer step's end to the next.

    Args:
        warning: says that the step was found by a run; goes to the plan with its own warning.
        why: its lines, which are the user's, cannot be timed by themselves.
    """
    told = f" Its lines cannot be timed by themselves: {why}." if why else ""
    path = script_path(script)
    file, line = seen.call
    includes = Caveat(
        "whole-steps",
        "Samples are whole steps, from the end of one optimizer step to the end of the next. Data "
        f"loading, logging and callbacks are part of them.{told}",
    )
    warnings = (includes, warning)
    document = PlanDocument(
        eligible=True,
        mode="train",
        loop=Loop(file=str(file), line=line, end_line=line, function=None, outer_lines=[]),
        scope="step",
        label=WHOLE_STEP,
        warnings=warnings,
        found_by=RUNNING,
    )
    plan = Plan(path, (), document.to_json(), (), WHOLE_STEP, options, warnings)
    return Prepared(path, find_project(path), {}, {}, plan)
