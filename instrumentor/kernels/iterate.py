"""Change, measure, validate, compare, keep or go back: tt-lang's optimisation loop.

The user edits; this measures what the files hold, several runs a version, and holds it against
the best version so far with the comparison engine's interval. A version that fails its validation
is never called faster. Where tt-lang's simulator is installed, a version that hangs, is wrong or
does not fit L1 there never comes to the device; without a device the simulator's counts are what
versions are compared by.
"""

from __future__ import annotations

import ast
import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.kernels.options import Criteria, KernelOptions
from instrumentor.kernels.own_check import own_check
from instrumentor.kernels.plan import make_plan
from instrumentor.kernels.run import run_kernel
from instrumentor.kernels.session import (
    RUNS,
    WRITTEN,
    Session,
    Version,
    counted_against,
    described_change,
    digests,
    held_against,
    open_session,
)
from instrumentor.kernels.simulate import NotSimulated, SimulatedRun, can_simulate, without_device
from instrumentor.kernels.trials import Trial, Tried, trials
from instrumentor.rewrite.prepare import script_path
from instrumentor.shared.errors import InstrumentError, Interrupted, NotReady, RunFailed, UsageError
from instrumentor.shared.outputs import new_below
from instrumentor.shared.progress import Progress, Silent
from instrumentor_analysis.kernels.report import KernelReport
from instrumentor_analysis.kernels.simulated_findings import TOO_LARGE
from instrumentor_analysis.kernels.simulated_report import SimulatedReport
from instrumentor_analysis.shared.files import read_bytes, write_whole

if TYPE_CHECKING:
    from instrumentor_analysis.kernels.report import AnyReport

#: Pause between two looks at the files: a save is complete when they stay the same over one.
POLL_S = 0.3


class _Changed(NotReady):
    """The files are no longer those whose measurement began."""


class Restored(Struct, frozen=True):
    """A version that was put back: its number, and where its text came from."""

    number: int
    source: str


class Iteration:
    """An optimisation session of one kernel."""

    def __init__(
        self,
        script: Path,
        arguments: Sequence[str],
        options: KernelOptions,
        *,
        # Fewer runs on each side cannot tell two versions apart at 95 %
        # (ratio.chance_of_separation).
        repeat: int = 4,
        folder: Path | None = None,
        progress: Progress | None = None,
        restoring: bool = False,
    ) -> None:
        """Open the session of a kernel, or begin one.

        Args:
            repeat: runs of each version.
            folder: of the session.
            restoring: nothing is measured, so that it does not matter how it would be.
        """
        if repeat < 1:
            raise UsageError(f"--repeat {repeat}: must be 1 or more")
        self.script = script_path(script)
        self.arguments, self.options, self.repeat = tuple(arguments), options, repeat
        self.progress = progress or Silent()
        cwd = (options.cwd or Path.cwd()).absolute()
        plan = make_plan(self.script, options.choice)
        self.root = plan.project.root
        self.names = [str(path.resolve().relative_to(self.root)) for path in plan.edits]
        asked = options.simulated.simulate or restoring
        why = "" if asked else without_device(options, self.script)
        if why:
            self.progress.note(why)
        self.only_simulated = bool(options.simulated.simulate or why)
        self.simulated = self.only_simulated or can_simulate(options, self.script)
        counts = self.only_simulated and not options.simulated.no_arithmetic
        #: Line of the script's own check, where its outcome decides.
        self.own_check = own_check(plan.found, plan.invocation) if counts else 0
        settings: dict[str, Any] = {"script": str(self.script), "kernel": plan.kernel.qualified}
        if not restoring:
            settings |= {
                "arguments": list(self.arguments),
                "call": options.choice.call,
                "mode": "simulated" if self.only_simulated else options.mode,
            }
        self.session: Session = open_session(
            cwd / (folder or Path(f"{self.script.stem}_iterate")), settings
        )
        self.report: AnyReport | None = None

    def texts(self) -> dict[str, bytes]:
        """The files of the kernel as they are now."""
        try:
            return {name: read_bytes(self.root / name) for name in self.names}
        except OSError as error:
            raise UsageError(f"{error.filename}: cannot be read: {error.strerror}") from error

    def changed(self) -> bool:
        """Whether the files differ from the version measured last."""
        versions = self.session.versions
        return not versions or digests(self.texts()) != dict(versions[-1].sha256)

    def wait_for_change(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Return when the files differ, have been still for a moment, and parse."""
        while True:
            stamps = self._stamps()
            sleep(POLL_S)
            if stamps == self._stamps() and self._readable() and self.changed():
                return

    def _stamps(self) -> list[tuple[int, int]]:
        stats = [(self.root / name).stat() for name in self.names if (self.root / name).exists()]
        return [(stat.st_mtime_ns, stat.st_size) for stat in stats]

    def _readable(self) -> bool:
        """Whether all files are there and are Python: an editor may be in the middle of it."""
        try:
            for text in self.texts().values():
                ast.parse(text)
        except (UsageError, SyntaxError, ValueError):
            return False
        return True

    def measure(self) -> Version:
        """Measure what the files hold now and append it to the session.

        Raises:
            Interrupted: by the user; nothing is appended.
            InstrumentError: the very first version cannot be measured.
        """
        texts, versions = self.texts(), self.session.versions
        version = Version(len(versions) + 1, "unsure" if versions else "baseline", digests(texts))
        if versions:
            before = {name: self.session.text_of(versions[-1], name) for name in texts}
            version = replace(version, change=described_change(before, texts))
        try:
            version = self._runs(version)
        except Interrupted:
            raise
        except _Changed as error:
            if not versions:
                self.progress.note(f"{error.message}: {error.hint}")
                self.wait_for_change()
                return self.measure()
            version = replace(version, state="failed", problem=error.message)
        except InstrumentError as error:
            if not versions:
                raise
            version = replace(version, state="failed", problem=error.message.splitlines()[0])
        version = self._judged(version)
        if not versions and version.state == "invalid":
            cause = self.report.wrong.change if self.report and self.report.wrong else ""
            raise RunFailed(
                f"the baseline does not pass its validation: {version.problem}",
                cause or "Start from a kernel that is correct, or fix the criteria.",
            )
        self.session = self.session.add(version, texts)
        return version

    def _simulate(self, version: Version) -> Version:
        """The version with what the simulator counts of it.

        Raises:
            RunFailed: it hangs or fails there, or does not fit L1.
        """
        criteria = self.options.criteria
        if not self.only_simulated:  # the command may need the device
            criteria = dataclasses.replace(criteria, validate=())
        options = self._simulating(f"{version.number}-simulated", criteria)
        result = run_kernel(self.script, self.arguments, options, self.progress)
        report, verdict = result.report, result.verdict
        assert isinstance(report, SimulatedReport)
        self.report, limit = report, report.limit
        wrong = report.wrong if verdict is None or verdict.ok else None
        awaited = not self.only_simulated and bool(self.options.criteria.validate)
        if wrong is not None and (wrong.kind in TOO_LARGE or not awaited):
            raise RunFailed(f"simulated: {wrong.title}", wrong.change)
        version = replace(
            version,
            metrics={"simulated": _counts(report)},
            bottleneck=limit.title if limit else "",
            folder=str(result.folder),
            validated=(report.facts.approved or None) if verdict is None else verdict.ok,
        )
        if verdict is not None and not verdict.ok:
            said = f"simulated: {verdict.by}: {verdict.detail}"
            return replace(version, state="invalid", problem=said)
        self._unchanged(version)
        return version

    def _simulating(self, folder: str, criteria: Criteria) -> KernelOptions:
        simulated = dataclasses.replace(self.options.simulated, simulate=True)
        made = self._new_run(folder)
        return dataclasses.replace(
            self.options, simulated=simulated, output=made, criteria=criteria
        )

    def try_edits(self) -> tuple[Tried, ...]:
        """Simulate what the findings of the last version name and can be tried as one number.

        The user's files stay as they are. What came of it is kept with the version.

        Raises:
            Interrupted: by the user; nothing is kept.
        """
        version, report = self.session.versions[-1], self.report
        if not isinstance(report, SimulatedReport):
            return ()
        kernel = make_plan(self.script, self.options.choice, others_run=True).kernel
        of = enumerate(trials(kernel, report.found), 1)
        tried = tuple(self._try(version, number, trial) for number, trial in of)
        self.session = self.session.noted(replace(version, tried=tried))
        return tried

    def _try(self, version: Version, number: int, trial: Trial) -> Tried:
        criteria = dataclasses.replace(self.options.criteria, validate=())
        options = self._simulating(f"{version.number}-tried-{number}", criteria)
        run = SimulatedRun(self.script, self.arguments, options, self.progress, trial)
        try:
            result = run.go()
        except Interrupted:
            raise
        except InstrumentError as error:
            return Tried(trial.title, "failed", error.message.splitlines()[0])
        report, verdict = result.report, result.verdict
        assert isinstance(report, SimulatedReport)
        if verdict is not None and not verdict.ok:
            return Tried(trial.title, "invalid", f"{verdict.by}: {verdict.detail}")
        # What was found right all the same by the validation of the version is so here.
        known = {finding.kind for finding in self.report.found} if self.report else set()
        if report.wrong is not None and report.wrong.kind not in known:
            return Tried(trial.title, "failed", report.wrong.title)
        measured = replace(version, metrics={"simulated": _counts(report)})
        return Tried(trial.title, *counted_against(version, measured))

    def _unchanged(self, version: Version) -> None:
        if digests(self.texts()) != dict(version.sha256):
            raise _Changed("the files changed while they were measured", "They are measured again.")

    def _runs(self, version: Version) -> Version:
        if self.simulated:
            try:
                version = self._simulate(version)
            except NotSimulated as error:
                if self.only_simulated:
                    raise
                self.progress.stage("not simulated", error.message)
            if self.only_simulated or version.state == "invalid":
                return version
        walls: list[float] = []
        for run in range(1, self.repeat + 1):
            folder = self._new_run(f"{version.number}-{run}")
            # The result is the same in each run of a version: it is validated once.
            criteria = self.options.criteria if run == 1 else Criteria()
            options = dataclasses.replace(self.options, output=folder, criteria=criteria)
            result = run_kernel(self.script, self.arguments, options, self.progress)
            report, verdict = result.report, result.verdict
            assert isinstance(report, KernelReport)
            if run == 1:
                self.report = report
                version = replace(
                    version,
                    metrics={**version.metrics, **_metrics(report)},
                    bottleneck=report.limit.title if report.limit else "",
                    folder=str(result.folder),
                    validated=version.validated if verdict is None else verdict.ok,
                )
            walls += [report.wall_us] if report.wall_us is not None else []
            self._unchanged(version)
            if verdict is not None and not verdict.ok:
                said = f"{verdict.by}: {verdict.detail}"
                return replace(version, state="invalid", wall_us=tuple(walls), problem=said)
        if not walls:
            raise NotReady(
                "the runs gave no wall time", "Use --mode perf, which prints the duration."
            )
        return replace(version, wall_us=tuple(walls))

    def _judged(self, version: Version) -> Version:
        """The version held against the best one."""
        best = self.session.best_version
        if version.state != "unsure" or best is None:
            return version
        if self.only_simulated:
            state, sentence = counted_against(best, version)
            if state == "failed":
                return replace(version, state=state, problem=f"simulated: {sentence}")
            return replace(version, state=state, compared=f"against {best.number}: {sentence}")
        held = held_against(best, version)
        if held is None:
            return replace(version, state="failed", problem="a run took no time at all")
        ratio, sentence = held
        state = ("faster" if ratio.value < 1 else "slower") if ratio.real else "unsure"
        if not ratio.real and version.wall_us == best.wall_us:
            sentence = "the same time"
        compared = f"against {best.number}: {sentence}"
        return replace(version, state=state, ratio=ratio.value, compared=compared)

    # -- going back ----------------------------------------------------------------------------

    def last_good(self) -> Version | None:
        """The version that may be gone back to: the best one, unless it was measured last."""
        last, best = self.session.versions[-1:], self.session.best_version
        return best if best is not None and best not in last else None

    def _new_run(self, name: str) -> Path:
        self.session.folder.mkdir(parents=True, exist_ok=True)
        try:
            return new_below(self.session.folder, f"{RUNS}/{name}")
        except OSError as error:
            raise UsageError(f"{error.filename}: no run can be kept: {error.strerror}") from error

    def restore(self) -> Restored:
        """Put the best version back into the user's files.

        What stands there now is kept in the session: only a measured version is replaced.

        Raises:
            UsageError: there is nothing to go back to, or the files hold unmeasured changes.
        """
        target = self.last_good()
        if target is None:
            raise UsageError("the last version measured is the best one: nothing to restore")
        if self.changed():
            raise UsageError(
                "the files hold changes that were not measured",
                "Measure these edits first (--once) or undo them yourself: no other copy exists.",
            )
        texts = {name: self.session.text_of(target, name) for name in self.names}
        if digests(texts) != {name: target.sha256.get(name) for name in self.names}:
            raise UsageError(
                f"{self.session.folder}: its version {target.number} is not the text that was "
                "measured: nothing is put back",
                "Look at it there, under versions.",
            )
        sources = {self._put_back(name, text) for name, text in texts.items()}
        return Restored(target.number, " and ".join(sorted(sources)))

    def _put_back(self, name: str, text: bytes) -> str:
        """Write a file as a whole; returns where its text came from."""
        path = self.root / name
        blob = _in_git(self.root, text)
        # An editor that looks at the file meanwhile sees the old text or the new one. A new file
        # has the mode of the umask, and the user's may be executable.
        write_whole(path, text, mode=path.stat().st_mode & 0o7777)
        return f"git (blob {blob[:12]})" if blob else "the session's copy"


def _in_git(root: Path, text: bytes) -> str:
    """The name of the blob with these bytes where git holds it, else ''."""
    from instrumentor.workspace import git

    if not git.available():
        return ""
    try:
        # hash-object names any bytes, whether git holds them or not: cat-file tells.
        blob = git.read(root, "hash-object", "--no-filters", "--stdin", stdin=text).decode().strip()
        return blob if git.read(root, "cat-file", "blob", blob) == text else ""
    except NotReady:
        return ""


def _counts(report: SimulatedReport) -> dict[str, int]:
    """What versions are held against each other by."""
    return {**report.simulation.measures, WRITTEN: report.simulation.written_tiles}


def _metrics(report: KernelReport) -> dict[str, Any]:
    document = report.to_json()
    names = ("cores_used", "cores_available", "dram_bytes", "duration_cycles", "block_bytes")
    return {name: document[name] for name in names} | {
        "bandwidth_gb_s": (document["program"] or {}).get("bandwidth_gb_s"),
        "bound": (document["roofline"] or {}).get("bound"),
    }
