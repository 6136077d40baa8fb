"""The recipe of a training script: find its step, time it under a profiler, prove, analyse.

What was measured is kept whatever happens: the run folder is written stage by stage, and a
failure comes out as a typed error that carries the folder and the partial summary.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from instrumentor.locate.located import Declined
from instrumentor.machine.device_nodes import device_root
from instrumentor.machine.environment import Machine
from instrumentor.machine.load import MachineLoad
from instrumentor.machine.telemetry import Telemetry, class_root
from instrumentor.plan import WHOLE_STEP
from instrumentor.results.reporting import refresh, with_artifacts
from instrumentor.rewrite.prepare import Prepared, config_of, prepare, script_path
from instrumentor.rewrite.proofs import compiles_under
from instrumentor.run.compiler_breaks import causes
from instrumentor.run.conditions import chosen, conditions
from instrumentor.run.discovery import UNMODIFIED, Discovery, may_help, other_loops, prepared_by
from instrumentor.run.execution import Execution
from instrumentor.run.launchers import launched
from instrumentor.run.options import RunOptions, RunResult
from instrumentor.run.pipeline import InstrumentedRun
from instrumentor.run.profilers import WALLCLOCK, Launch, LaunchRequest, Profiler, choose
from instrumentor.run.profilers.torch import NO_OPS
from instrumentor.run.profilers.tracy import PROGRAMS_PER_READ
from instrumentor.run.ready.doctor import PlannedRun
from instrumentor.run.ready.doctor.model import needs_torch
from instrumentor.run.ready.readiness import programs_per_step, ready
from instrumentor.run.retries import RETRIES, Attempt
from instrumentor.run.verification import failure, verification
from instrumentor.runtime.bundle import write_module
from instrumentor.runtime.recorder.runtimes import NOBODY_DRIVES
from instrumentor.runtime.recorder.sampling import LEAST
from instrumentor.shared.errors import (
    InstrumentError,
    Interrupted,
    ProofFailed,
    RunFailed,
    ScriptFailed,
)
from instrumentor.shared.keywords import says_where
from instrumentor.shared.observed import Observed
from instrumentor.shared.options import Options
from instrumentor.shared.outputs import write_json
from instrumentor.shared.private import cache_folder
from instrumentor.shared.progress import Progress
from instrumentor.shared.project import seen_from_here
from instrumentor.shared.removal import remove_tree
from instrumentor.workspace.in_place import in_place
from instrumentor.workspace.run_location import Workspace
from instrumentor.workspace.shadow import shadow
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.shared.caveats import UNCALLED_TEST, Caveat, by_weight, few, recorded
from instrumentor_analysis.shared.files import RUNS_FOLDER

if TYPE_CHECKING:
    from instrumentor_analysis.model import Summary

#: How a run is measured, by the name of a profiler; torch's is on in extra steps alone.
_UNDER = {
    "torch": ", and a few more under torch.profiler",
    "tracy": " under Tracy",
    "wallclock": " with timers alone",
}
_NOTHING_UNTRACED = (
    "--untraced does nothing in this run: without Tracy, no profiler takes part in the steps whose "
    "wall clock is reported."
)
# tt-blacksmith has a `train.py` for each model: only the folder tells which one.
_PLAIN_NAMES = ("train", "main", "run", "__main__")


def run_name(script: Path) -> str:
    """Name of the script, or of its folder when the script is called train / main / run."""
    if script.stem in _PLAIN_NAMES and script.parent.name:
        return script.parent.name
    return script.stem


@says_where(
    (RunOptions, "options=RunOptions({})"), (Options, "options=RunOptions(rewrite=Options({}))")
)
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
    return TrainingRun(script, arguments, options or RunOptions(), progress).go()


class TrainingRun(InstrumentedRun[RunResult]):
    """State of one run; the stages are those of :class:`instrumentor.run.pipeline.Pipeline`."""

    prepared: Prepared

    def __init__(
        self,
        script: Path | str,
        arguments: Sequence[str],
        options: RunOptions,
        progress: Progress | None,
    ) -> None:
        super().__init__(script, arguments, options, progress)
        self.options = options
        self.load: MachineLoad | None = None
        self.telemetry: Telemetry | None = None
        self.load_facts: dict[str, Any] | None = None
        self.untraced: Execution | None = None
        self.verification: dict[str, Any] | None = None
        self.causes: list[dict[str, Any]] = []
        self.seen: Observed | None = None

    def prepare(self) -> None:
        """The plan by reading, else by running the script for two steps."""
        self.prepared = self._prepare()
        self.warnings.extend(self.prepared.plan.warnings)
        self.progress.stage("found", self.prepared.plan.found)

    def examine(self) -> None:
        """The script's interpreter, and the profiler to measure by."""
        self.machine = self.options.examine(self.prepared.project.root)
        chosen = self.machine.interpreter
        if chosen.of_project:
            named = f"{chosen.path} ({chosen.source} of the project)"
            self.progress.stage("interpreter", named)
        self.profiler, self.reason = choose(self.options.profiler, self.machine)
        self._check_compiles()
        self.progress.stage("profiler", self.reason)

    def ready(self) -> AbstractContextManager[None]:
        """The doctor's checks of this run, and the devices."""
        output = self.cwd / (self.options.output or RUNS_FOLDER)
        planned = PlannedRun(
            machine=self.machine,
            profiler=self.profiler.name,
            config=config_of(self.prepared.script, self.arguments, self.cwd),
            folders=(cache_folder(self.prepared.project.root), output),
            env=self.env,
            cwd=self.cwd,
            port=self.options.port,
            needs_torch=needs_torch(self.options.profiler, self.prepared.originals.values()),
        )
        options = self.options
        return ready(planned, self.progress, reset=options.reset, end_holders=options.yes)

    def name(self) -> str:
        """By the script's name and the run's label."""
        label = self.options.label
        return f"{run_name(self.prepared.script)}{'_' if label else ''}{label}"

    def output(self) -> Path | None:
        """The one asked for."""
        return self.options.output

    def plan_json(self) -> Mapping[str, Any]:
        """The document of the plan."""
        return self.prepared.plan.to_json()

    def _prepare(self) -> Prepared:
        """The plan by reading, else by running the script for two steps.

        Raises:
            Declined: neither shows the step.
        """
        rewrite = self.options.rewrite
        try:
            return prepare(self.script, rewrite, self.arguments)
        except Declined as declined:
            path = script_path(self.script)
            if not (self.may_discover and may_help(declined, path, rewrite)):
                raise
            try:
                seen = self._observe(f"{UNMODIFIED} ({declined.reasons[0]})")
            except ScriptFailed:
                raise  # it would fail under whatever plan
            except RunFailed as error:
                declined.message += f"\nrunning it did not reveal its step either: {error.message}"
                raise declined from error
            found = prepared_by(seen, path, rewrite, self.arguments, str(declined.reasons[0]))
            self.warnings += other_loops(declined, found.plan)
            return found

    @property
    def may_discover(self) -> bool:
        """Whether the script may be run as it is, in a copy; once in a run."""
        return self.options.discover and not self.options.in_place and self.seen is None

    def observe(self, attempt: Attempt, doing: str) -> tuple[Observed, Attempt]:
        """Run the script as it is, and add its warnings; raises as :class:`Discovery`."""
        seen = self._observe(doing, self.machine)
        return seen, replace(attempt, warnings=tuple(self.warnings))

    def _observe(self, doing: str, machine: Machine | None = None) -> Observed:
        self.progress.stage("discover", doing)
        # Its copy ends with it: what the script writes in these two steps is in no later one.
        path = script_path(self.script)
        run = Discovery(path, self.arguments, self.options, self.progress, machine)
        run.told = self.told
        try:
            self.seen = run.go()
        finally:
            self.users_files = self.users_files.then(run.users_files)
            self.warnings += [each for each in run.warnings if each.weight == "wrong"]
        return self.seen

    def _check_compiles(self) -> None:
        # Under this version of Python the proofs have compiled it already.
        version = ".".join(self.machine.python_version.split(".")[:2])
        if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
            return

        for path, code in self.prepared.replacements.items():
            # If the original does not compile there either, the script will say so itself.
            error = compiles_under(self.machine.python, code, str(path))
            if error and not compiles_under(
                self.machine.python, self.prepared.originals[path], str(path)
            ):
                raise ProofFailed(f"proof 'compiles' failed under Python {version}: {error}")

    def measure(self) -> None:
        """Without a profiler when that is asked for, then under it; again as `RETRIES` see fit.

        Each pass has a fresh copy: a checkpoint of one must not shorten the next.
        """
        if self.options.untraced and self.profiler.name != "tracy":
            self.progress.note(_NOTHING_UNTRACED)
        elif self.options.untraced:
            self.progress.stage("untraced", "first without a profiler, for the wall clock")
            self.untraced = self.process(WALLCLOCK, "untraced")
            if self.untraced.failure is not None:
                return
        count = self.options.op_support_count or self._foreseen()
        made = self.process(self.profiler, programs_per_read=count)
        attempt = Attempt(self.prepared, self.profiler, self.reason, made, programs_per_read=count)
        attempt = self._judged(attempt)
        for retry in RETRIES:
            attempt = retry(attempt, self) or attempt
            self._take(attempt)

    def again(self, attempt: Attempt) -> Attempt:
        """Measure what an attempt says once more; the one before is set aside."""
        if attempt.prepared is not self.prepared:
            self.progress.stage("found", attempt.prepared.plan.found)
        self._take(attempt)
        self._set_aside()
        count, dump = attempt.programs_per_read, attempt.mid_run_dump
        made = self.process(attempt.profiler, programs_per_read=count, mid_run_dump=dump)
        return self._judged(replace(attempt, execution=made))

    def _judged(self, attempt: Attempt) -> Attempt:
        """An attempt with what the last process has shown."""
        return replace(
            attempt,
            verification=self.verification,
            failure=self.failure,
            warnings=tuple(self.warnings),
        )

    def _take(self, attempt: Attempt) -> None:
        """Make an attempt the run's."""
        self.prepared, self.last = attempt.prepared, attempt.execution
        self.profiler, self.reason = attempt.profiler, attempt.reason
        self.verification, self.failure = attempt.verification, attempt.failure
        self.warnings = [*attempt.warnings]

    def _foreseen(self) -> int | None:
        """Programs that Tracy's buffers must hold, when an earlier run shows that 1000 is few."""
        if self.profiler.name != "tracy":
            return None
        known = programs_per_step(self.prepared.script, self.folder.parent)
        if known is None:
            return None
        # The optimizer's programs are outside of the counted window.
        count = 2 * known * self.prepared.plan.options.samples
        if count <= PROGRAMS_PER_READ:
            return None
        self.progress.note(
            f"an earlier run counted {known} programs a step: making room for {count}"
        )
        return count

    def _set_aside(self) -> None:
        """Keep the log and the records of an attempt that another one follows."""
        for name in ("run.log", "timings.jsonl"):
            path = self.folder / name
            if path.exists():
                path.replace(path.with_name(f"first_attempt_{name}"))
        for name in ("tracy_profile", "tracy_perf"):
            if os.path.lexists(self.folder / name):
                remove_tree(self.folder / name)

    def workspace(self) -> AbstractContextManager[Workspace]:
        """A copy, or the user's own files."""
        made, options = self.prepared, self.options
        if options.in_place:
            return in_place(made.project, made.script, self.cwd, made.originals, made.replacements)
        return shadow(
            made.project,
            made.script,
            self.cwd,
            made.replacements,
            link=options.link,
            no_link=options.no_link,
            keep_to=self.folder / "files" if options.keep else None,
            kept=options.keep_copy,
        )

    def request(self, workspace: Workspace, name: str, **more: Any) -> LaunchRequest:
        """Add the recorder's module, which the instrumented files import."""
        plan = self.prepared.plan
        whole = plan.label == WHOLE_STEP
        folder = write_module(workspace.scratch, plan.options, observing=whole)
        same = (workspace.cwd / self.typed).resolve() == workspace.script.resolve()
        return super().request(
            workspace,
            name,
            typed=self.typed if same else "",
            **launched(self.options, workspace, self.script, self.cwd),
            steps=plan.options.samples,
            warmup=plan.options.leading,
            budget_s=plan.options.budget_s,
            phases=plan.options.phases,
            tools_folder=self.machine.tools_folder,
            port=self.options.port,
            counters=self.options.counters,
            noc_trace=self.options.noc_trace,
            import_paths=(folder,),
            observe=WHOLE_STEP if whole else "",
            **more,
        )

    def launched(self, launch: Launch, profiler: Profiler, name: str) -> None:
        """Write run.json already, in case that we are killed."""
        self.launch = launch
        self.load = MachineLoad(device_root(self.options.env))
        if self.telemetry is not None:
            self.telemetry.stop()
        self.telemetry = Telemetry(device_root(self.options.env), class_root(self.options.env))
        if not name:
            self._write_facts()
        options = self.prepared.plan.options
        steps = f"{options.samples} steps{self.prepared.plan.rest_of_update}"
        under = _UNDER.get(profiler.name, f" under {profiler.name}")
        if options.budget_s is not None and profiler.name != "tracy":
            at_most = f"at most {options.budget_s:g} s"
            steps = f"until the median is known to 1 % ({at_most} of steady steps)"
        self.progress.stage("running", f"{steps}{under}")

    def judge(self, made: Execution, workspace: Workspace) -> InstrumentError | None:
        """Whether it ended well, and really measured the step of the instrumented script."""
        self.load_facts = None if self.load is None else loaded(self.load.facts(), made.records)
        if self.telemetry is not None:
            self.telemetry.stop(self.folder)
        found = verification(made.records, self.source_map(workspace), self.prepared.plan.apart)
        self.verification = found if made.clock_failure is None else None
        self.causes = causes(made.records, self.source_map(workspace))
        return self._doubt(made, workspace) or made.failure

    def _doubt(self, made: Execution, workspace: Workspace) -> InstrumentError | None:
        """Whether a process that ended well really measured the instrumented script."""
        if made.exit_code != 0 or not isinstance(made.failure, (RunFailed, type(None))):
            return None
        refused = self.loaded_elsewhere(made, workspace, made.records) or failure(self.verification)
        if refused is not None:
            return refused
        if made.samples or made.failure is not None:
            return made.clock_failure
        steps = [record for record in made.records if record.get("event") == "refused"]
        if steps:
            reason = str(steps[-1].get("reason"))
            return RunFailed(f"no step could be timed: {reason}", _way_to_wait(reason))
        hint = f"See {self.folder / 'run.log'}; give the arguments with which it trains."
        for each in self.prepared.plan.warnings:
            if each.kind == UNCALLED_TEST:
                hint = f"{each.message.removesuffix('.')}: {each.hint}"
        loop = self.prepared.plan.explanation["loop"]
        place = f"{seen_from_here(Path(loop['file']))}:{loop['line']}"
        return RunFailed(f"the script ended without running the loop at {place}", hint)

    def conclude(self) -> RunResult:
        """Analyse what there is; the failure is raised at the very end."""
        try:
            return self._conclude()
        except OSError as error:
            if self.failure is None:
                raise
            # A script that takes its project away must not hide what became of the user's file.
            raise self.failure from error
        except KeyboardInterrupt as stop:
            raise Interrupted(
                "interrupted during the analysis",
                f"Next: instrument report {shlex.quote(str(self.folder))}",
            ) from stop

    def _conclude(self) -> RunResult:
        within = self.folder.is_relative_to(self.cwd)
        shown = self.folder.relative_to(self.cwd) if within else self.folder
        self.progress.stage("analysing", str(shown))
        assert self.last is not None
        samples = self.last.samples
        self.warnings.extend(self._of_artifacts(self.last))
        if self.last.overflowed and self.profiler.name == "tracy":
            text = (
                "Tracy's device buffers were full and measurements were dropped. Use fewer "
                "--steps, or more programs per read with --op-support-count."
            )
            self.warnings.append(Caveat("buffers-full", text))
        warned = few(recorded(r) for r in self.last.records if r.get("event") == "warning")
        # What was concluded from the records may be what the record says itself.
        self.warnings.extend(each for each in warned if each not in self.warnings)
        if self.last.complete:  # what might have ended the loop too early did not
            self.warnings = [each for each in self.warnings if each.kind != "own-limit"]
        if samples:  # it came to the loop
            self.warnings = [each for each in self.warnings if each.kind != UNCALLED_TEST]
        if samples and self.failure is None and not self.last.complete:
            stopped = any(r.get("event") == "ended" for r in self.last.records)
            options = self.prepared.plan.options
            self.warnings.append(_ended_early(len(samples), options, stopped=stopped))
        # Ahead of the summary, which is made from what stands in the folder.
        self._write_facts()
        wrong = self.last.clock_failure or failure(self.verification)
        summary = self._summarise() if samples and wrong is None else None
        result = RunResult(
            self.folder,
            summary or self._summary_of_nothing(),
            self.exit_code,
            self.users_files,
            self.new_files,
            by_weight(self.warnings),
        )
        if self.failure is not None:
            self.failure.result = result
            raise self.failure
        return result

    def _of_artifacts(self, last: Execution) -> Iterator[Caveat]:
        """Warnings of the profiler; of a script that ended ahead of its step that is the cause."""
        reached = last.complete or any(r.get("event") == "profiled" for r in last.records)
        yield from (each for each in last.artifacts.warnings if reached or each.kind != NO_OPS)

    def _summarise(self) -> Summary | None:
        from instrumentor_analysis.shared.errors import AnalysisError

        try:
            summary = refresh(self.folder).summary
            self.has_figures()
        except AnalysisError as error:
            if self.failure is None:
                self.failure = RunFailed(str(error), getattr(error, "hint", ""))
            return None
        return summary

    def _summary_of_nothing(self) -> Summary:
        """Profiler, exit code and warnings; every figure null. Written like any other summary."""
        from instrumentor_analysis.model import Summary
        from instrumentor_analysis.reports.write import write_all

        summary = Summary(
            profiler=self.profiler.name,
            scope=self.prepared.plan.label,
            loop=self.prepared.plan.explanation["loop"],
            interrupted=isinstance(self.failure, Interrupted),
            partial=True,
            script_exit_code=self.exit_code,
            artifacts=self._artifacts(),
            verification=self.verification,
            warnings=by_weight(self.warnings),
        )
        return with_artifacts(
            summary, self.folder, write_all(summary, self.folder, formats=("json",))
        )

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
        made = attempt.artifacts.files if attempt else {}
        here = {name: path for name, path in named.items() if (self.folder / path).is_file()}
        return here | {name: os.path.relpath(path, self.folder) for name, path in made.items()}

    def _write_facts(self) -> None:
        options, last, untraced = self.options, self.last, self.untraced
        record = self.folder / "timings.jsonl"
        made, where = self.prepared, (self.arguments, self.cwd)
        document = {
            **self.facts(self.launch.argv),
            **conditions(made, self.machine, *where, record, options.batch_dim),
            "warnings": [each.to_json() for each in by_weight(self.warnings)],
            "ignored_warnings": list(options.rewrite.ignore_warnings),
            "label": options.label,
            "chosen": chosen(options.rewrite),
            "own_script": None if options.own_script is None else str(options.own_script),
            "in_place": options.in_place,
            "command": list(self.launch.argv),
            "profiler": self.profiler.name,
            "profiler_reason": self.reason,
            "machine": self.load_facts,
            "interrupted": last is None or last.finished.interrupted,
            "partial": last is None or self.failure is not None,
            "failure": None if self.failure is None else self.failure.message,
            "verification": self.verification,
            "causes": self.causes,
            "new_files": [str(p) for p in self.new_files],
            **self.users_files.to_json(),
            "untraced": None
            if untraced is None
            else {
                "record": "untraced.jsonl",
                "log": "untraced.log",
                "duration_s": round(untraced.finished.duration_s, 3),
                "script_exit_code": untraced.exit_code,
            },
            "artifacts": self._artifacts(),
        }
        write_json(self.folder / "run.json", document)


def loaded(facts: dict[str, Any], records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What else went on; where others' load has disturbed the samples, while these were taken."""
    for end in (each for each in records if each.get("event") == "complete"):
        busy = end.get("other_cpus")
        if isinstance(busy, float):
            others = max(facts["other_cpus"] or 0.0, round(busy, 2))
            early = {"ended_early": True} if end.get("why") == "busy" else {}
            return {**facts, "other_cpus": others, **early}
    return facts


def _ended_early(samples: int, options: Options, *, stopped: bool) -> Caveat:
    """That the script ended by itself before there were enough samples.

    Args:
        stopped: it was ended behind its loop.
    """
    what = "loop" if stopped else "script"
    also = " What stands behind it did not run: it may need what is skipped." if stopped else ""
    asked = "" if options.budget_s is not None else f" of {options.samples}"
    steps = formatting.plural(samples, "sample")
    if asked and samples >= options.samples:
        text = (
            f"The {what} ended after {steps}, before what follows them was over: the rest of their "
            "update, or steps under the profiler."
        )
        remedy = " Give it more data or epochs, or ask for fewer --steps."
    elif asked:
        text = f"The {what} ended after {samples}{asked} samples."
        remedy = " Ask for fewer --steps, or give it more data or epochs."
    else:
        text = f"The {what} ended after {steps}, before the median was known to 1 %."
        remedy = "" if samples >= LEAST else " Give it more data or epochs."
    return Caveat("few-samples", f"{text}{also}{remedy}")


def _way_to_wait(reason: str) -> str:
    """What makes a device that nothing was seen to wait for one that can be waited for."""
    if NOBODY_DRIVES in reason:
        return (
            "Record its ops without a clock of the steps (instrument profile), or make its runtime "
            "known (docs/contributing.md, A device runtime)."
        )
    return "Return the loss from the step as a tensor, or use the model in the loop itself."
