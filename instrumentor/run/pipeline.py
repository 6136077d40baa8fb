"""What every run does, stage by stage; a recipe says what a stage is for its kind of run.

recover   what a killed run left behind is undone
prepare   what will run is found, rewritten and proven; nothing is written yet
examine   the interpreter, its packages, the devices, the profiler
ready     nothing is missing or busy; from here on the devices are ours
execute   processes, each in a place of its own: launched, watched, collected, explained
conclude  analysed and written; what went wrong is raised, with what there is all the same

The recipes: a training script (:mod:`instrumentor.run.training`), any command
(:mod:`instrumentor.run.command`) and a kernel (:mod:`instrumentor.kernels.run`). The first and the
last instrument a script, which runs in a copy of its project and leaves the user's files as they
are: :class:`InstrumentedRun`.
"""

from __future__ import annotations

import json
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from msgspec.structs import replace

from instrumentor.machine.environment import Machine
from instrumentor.rewrite.source_map import SourceMap
from instrumentor.run.execution import Execution, execute
from instrumentor.run.profilers import Launch, LaunchRequest, Profiler
from instrumentor.shared.errors import (
    InstrumentError,
    Interrupted,
    RestoreNeeded,
    RunFailed,
    ScriptFailed,
)
from instrumentor.shared.outputs import (
    mark_latest,
    refuse_taken,
    remove_run_folder,
    run_folder,
    write_json,
)
from instrumentor.shared.progress import Progress, Silent
from instrumentor.workspace import recovery
from instrumentor.workspace.linked_data import Linked, UsersFiles
from instrumentor.workspace.loaded_proof import check_loaded
from instrumentor.workspace.originals_proof import Originals
from instrumentor.workspace.run_location import Workspace
from instrumentor.workspace.shadow import shadow
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.documents import listed
from instrumentor_analysis.shared.files import write_whole

if TYPE_CHECKING:
    from instrumentor.rewrite import Instrumented  # imports LibCST, which a command needs not
    from instrumentor.run.options import ProcessOptions

Result = TypeVar("Result")
FACTS = "run.json"


class Pipeline(ABC, Generic[Result]):
    """One run.

    Attributes:
        cwd, env: of the user.
        machine: known from :meth:`examine` on.
    """

    machine: Machine

    def __init__(self, options: ProcessOptions, progress: Progress | None) -> None:
        self.progress: Progress = progress or Silent()
        self.cwd, self.env = options.folder, options.variables
        self.started = time.time()
        self.timeout_s, self.stall_s = options.timeout_s, options.stall_s

    def go(self) -> Result:
        """All stages; raises what the recipe's function documents."""
        recovery.recover(self.progress.note, self.progress.note)
        self.prepare()
        self.examine()
        with self.ready():
            self.execute()
        return self.conclude()

    # The stages; what each is for stands at the top of the module.

    @abstractmethod
    def prepare(self) -> None: ...

    @abstractmethod
    def examine(self) -> None: ...

    def ready(self) -> AbstractContextManager[None]:
        return nullcontext()

    @abstractmethod
    def execute(self) -> None: ...

    @abstractmethod
    def conclude(self) -> Result: ...


class InstrumentedRun(Pipeline[Result]):
    """A run of a rewritten script, with a run folder.

    Attributes:
        script, arguments: as given; the script absolute.
        prepared: known from :meth:`prepare` on.
        folder: the run folder, known from :meth:`execute` on.
        last: the process that ended last.
        failure: why the run does not count.
        new_files: what the script wrote into its copy, relative to the project.
    """

    prepared: Instrumented
    folder: Path
    schema: ClassVar[str] = "instrument-run/1"  # of run.json
    blame: ClassVar[str] = "The script raised it at {place}."  # said of its exception
    links_are_optional = True  # there is an option to copy what is linked

    def __init__(
        self,
        script: Path | str,
        arguments: Sequence[str],
        options: ProcessOptions,
        progress: Progress | None,
    ) -> None:
        super().__init__(options, progress)
        self.typed = str(script)
        self.script = self.cwd / script
        self.arguments = tuple(arguments)
        self.told: set[tuple[str, str]] = set()
        self.warnings: list[Caveat] = []
        self.failure: InstrumentError | None = None
        self.last: Execution | None = None
        self.new_files: tuple[Path, ...] = ()
        self.users_files = UsersFiles()

    # -- what a recipe says ----------------------------------------------------------------------

    @abstractmethod
    def name(self) -> str:
        """What the run folder is called, with a number behind it, unless one was asked for."""

    @abstractmethod
    def output(self) -> Path | None:
        """The run folder asked for."""

    def plan_json(self) -> Mapping[str, Any]:
        """The document plan.json; empty where nothing is planned."""
        return {}

    @abstractmethod
    def measure(self) -> None:
        """All processes of the run."""

    @abstractmethod
    def judge(self, made: Execution, workspace: Workspace) -> InstrumentError | None:
        """Why a process does not count, as far as its place, which still stands, is needed."""

    def workspace(self) -> AbstractContextManager[Workspace]:
        """The place for one process."""
        prepared = self.prepared
        return shadow(prepared.project, prepared.script, self.cwd, prepared.replacements)

    def launched(self, launch: Launch, profiler: Profiler, name: str) -> None:
        """Called when everything is ready to start; its command names the user's own script."""

    def loaded_elsewhere(
        self, made: Execution, workspace: Workspace, records: Sequence[Mapping[str, Any]]
    ) -> RunFailed | None:
        """That what ran was not the copy."""
        try:
            check_loaded(
                records,
                workspace,
                self.prepared.replacements,
                python=self.machine.python,
                environment=made.launch.env,
            )
        except RunFailed as error:
            return error
        return None

    # -- stages ----------------------------------------------------------------------------------

    def go(self) -> Result:
        """All stages, unless the folder asked for is taken."""
        refuse_taken(self.cwd, self.output())
        return super().go()

    def has_figures(self) -> None:
        """Something was measured: ``instrument-runs/latest`` leads here, as to no other run."""
        mark_latest(self.folder)

    def execute(self) -> None:
        """Measure; then the proof that the user's files are as they were."""
        prepared = self.prepared
        # The script, too, where only a module of it or nothing at all is rewritten.
        watched = dict.fromkeys([*prepared.replacements, prepared.script])
        originals = Originals.take(prepared.project, watched)
        self.folder = self._new_folder()
        try:
            self.measure()
            differences = originals.verify()
            if differences:
                self.users_files = replace(self.users_files, originals_changed=True)
                text = "The original changed during the run: " + "; ".join(differences)
                self.warnings.append(Caveat("original-changed", text))
        except InstrumentError as error:
            if self.last is None:
                raise
            # A file that needs the user, and Ctrl-C, count for more than why the script failed.
            worse = isinstance(error, (RestoreNeeded, Interrupted)) or self.failure is None
            self.failure = error if worse else self.failure
        finally:
            if self.last is None:
                self._remove_empty_folder()

    def _new_folder(self) -> Path:
        # It says at once what it is, so that no copy takes it for one of the project's.
        content = json.dumps({"schema": self.schema}).encode()
        return run_folder(self.cwd, self.output(), self.name(), FACTS, content)

    def process(self, profiler: Profiler, name: str = "", **more: Any) -> Execution:
        """One process in a place of its own, under a profiler.

        What it left becomes the run's, unless it has a ``name``.

        Args:
            more: for the :class:`LaunchRequest`.

        Raises:
            NotReady: it could not be started.
            RestoreNeeded: a file of a run in place needs the user.
        """
        prepared = self.prepared
        with self.workspace() as workspace:
            self._tell(workspace.stage, workspace.description)
            write_whole(self.folder / "changes.diff", prepared.patch)
            write_json(self.folder / "plan.json", self.plan_json())
            linked = Linked.take(prepared.project.root, workspace.linked, [self.folder])
            self._tell_links(linked)
            made = execute(
                profiler,
                self.request(workspace, name, **more),
                output=self.folder,
                log=self.folder / f"{name or 'run'}.log",
                timeout_s=self.timeout_s,
                stall_s=self.stall_s,
                progress=self.progress,
                on_launch=lambda launch: self.launched(
                    self._as_typed(launch, workspace), profiler, name
                ),
            )
            self.last = made
            self.warnings.extend(made.warnings)
            self.failure = self.judge(made, workspace)
            if isinstance(self.failure, RunFailed):
                self._tell_in_own_lines(self.failure, workspace)
            self.new_files = tuple(p for p in workspace.new_files() if "__pycache__" not in p.parts)
        left = [Caveat("copy-left", text) for text in workspace.slot.left]
        stays = (f"{each.path}: {each.elsewhere}" for each in workspace.restored if each.elsewhere)
        left += [Caveat("text-stays", text) for text in stays]
        self.warnings += left
        for each in left:  # told by the run: no figure depends on it
            self.progress.note(each.labelled)
        self._compare_links(linked)
        return replace(made, failure=self.failure)

    def request(self, workspace: Workspace, name: str, **more: Any) -> LaunchRequest:
        """The script in its place, with the user's arguments and environment."""
        return LaunchRequest(
            python=self.machine.python,
            script=workspace.script,
            cwd=workspace.cwd,
            env=workspace.environment(self.env, self.machine.import_paths),
            scratch=workspace.scratch,
            **{
                "record": self.folder / f"{name or 'timings'}.jsonl",
                "arguments": self.arguments,
                **more,
            },
        )

    def source_map(self, workspace: Workspace) -> SourceMap:
        """The way from a place back to the user's files and lines."""
        made = self.prepared
        return SourceMap(workspace.root, made.project.root, made.replacements, workspace.scratch)

    def _tell_in_own_lines(self, failed: RunFailed, workspace: Workspace) -> None:
        """Tell a failure of the copy in the user's files and lines, and where it was raised."""
        own = self.source_map(workspace)
        at = own.raised_at(failed.raised) if isinstance(failed, ScriptFailed) else None
        failed.message = own.traceback(failed.message)
        if at is not None:
            place = f"{at[0]}:{at[1]}"
            failed.hint = f"{failed.hint} {self.blame.format(place=place)}"

    def _as_typed(self, launch: Launch, workspace: Workspace) -> Launch:
        """A launch whose command names the user's own script: the copy is gone when it is read."""
        copy = str(workspace.script)
        return replace(launch, argv=tuple(word.replace(copy, self.typed) for word in launch.argv))

    def _tell(self, stage: str, detail: str) -> None:
        """What is true of every process of the run is told once: all copies stand at one path."""
        if (stage, detail) not in self.told:
            self.told.add((stage, detail))
            self.progress.stage(stage, detail)

    def _tell_links(self, linked: Linked) -> None:
        self.users_files = replace(self.users_files, linked=linked.names)
        if linked.names:
            watched = "watched" if linked.whole else "too large to be watched as a whole"
            names = listed(linked.names, 5)
            self._tell("linked", f"{names} (your own, not copied; {watched})")

    def _compare_links(self, linked: Linked) -> None:
        changed = linked.changed()
        now = UsersFiles(linked.names, changed, linked.whole)
        self.users_files = self.users_files.then(now)
        if changed:
            text = linked.sentence(changed, optional=self.links_are_optional)
            self.warnings.append(Caveat("linked-changed", text))

    def _remove_empty_folder(self) -> None:
        said = [*self.folder.glob("*.jsonl"), *self.folder.glob("*.log")]
        # If the watching process was killed, the output so far is worth keeping.
        if any(path.stat().st_size for path in said):
            return
        names = ("changes.diff", "plan.json", FACTS)
        for path in (*said, *(self.folder / name for name in names)):
            path.unlink(missing_ok=True)
        if not any(self.folder.iterdir()):
            remove_run_folder(self.folder)

    # -- what is written -------------------------------------------------------------------------

    @property
    def exit_code(self) -> int | None:
        """The script's own; None when it never ran to an end."""
        return self.last.exit_code if self.last else None

    def facts(self, argv: Sequence[str]) -> dict[str, Any]:
        """What run.json says of every run."""
        began = datetime.fromtimestamp(self.started, timezone.utc)
        return {
            "schema": self.schema,
            "script": str(self.prepared.script),
            "arguments": list(self.arguments),
            "command_line": shlex.join(argv),
            "started": began.isoformat(timespec="seconds"),
            "duration_s": round(self.last.finished.duration_s, 3) if self.last else None,
            "script_exit_code": self.exit_code,
            "python": str(self.machine.python),
        }
