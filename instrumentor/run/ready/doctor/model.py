"""What a check looks at, the run that is planned, and what it answers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from instrumentor.machine.device_nodes import Holder, device_holders, device_root
from instrumentor.machine.environment import Machine
from instrumentor.shared.project import home_folder, is_git_root

if TYPE_CHECKING:
    from instrumentor.run.options import RunOptions


_TORCH = re.compile(rb"^[ \t]*(?:import|from)\s+torch\b", re.MULTILINE)


class Status(str, Enum):
    """The answer of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Check:
    """One line of the doctor's report.

    Attributes:
        name: stable, for programs: ``tracy-tools``.
        text: what was found, one sentence.
        remedy: what to do; empty when it is ok.
    """

    name: str
    status: Status
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class PlannedRun:
    """The run that the checks are about.

    Attributes:
        profiler: the one the run will use; what only another one needs is at most a warning.
        config: the script's configuration, as read from its YAML.
        folders: where the run will write: its scratch folder, its output.
        env: environment of the run.
        cwd: its working directory.
        device_folder: where the device nodes are; None: where ``env`` says.
        port: Tracy's port where one was asked for.
        ask_tracy: the tracy package may be run, to be asked for its options.
        needs_torch: the script imports torch, as :func:`needs_torch` tells.
    """

    machine: Machine
    profiler: str = "tracy"
    config: Mapping[str, object] = field(default_factory=dict)
    folders: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    cwd: Path = field(default_factory=Path.cwd)
    device_folder: Path | None = None
    port: int | None = None
    ask_tracy: bool = True
    needs_torch: bool = False

    @property
    def device_root(self) -> Path:
        """The folder of the device nodes."""
        return self.device_folder or device_root(self.env)

    def holders(self) -> tuple[Holder, ...]:
        """The processes that have a device open now."""
        return device_holders(self.device_root)

    @property
    def for_tracy(self) -> bool:
        """Whether Tracy is what will run."""
        return self.profiler == "tracy"

    def lacking(self, name: str, text: str, remedy: str) -> Check:
        """Something that Tracy needs is not there."""
        status = Status.FAILED if self.for_tracy else Status.WARNING
        return Check(name, status, text, remedy)


def planned_run(
    script: Path | str | None = None,
    arguments: Sequence[str] = (),
    options: RunOptions | None = None,
) -> PlannedRun:
    """Look at this machine for a script, or for the working folder alone.

    Nothing of the project is run: what comes with it, or is named in its configuration, is not on
    the way of any program that is asked.

    Args:
        arguments: the script's own (`--config x.yaml` is looked at).
        options: of the run.

    Raises:
        UsageError: something that was named does not exist.
        NotReady: the interpreter does not run.
    """
    from instrumentor.rewrite.prepare import config_of, script_path
    from instrumentor.run.options import RunOptions
    from instrumentor.run.profilers import choose
    from instrumentor.shared.private import cache_folder
    from instrumentor.shared.project import find_project

    options = options or RunOptions()
    path = script_path(Path(script)) if script is not None else None
    project = find_project(path) if path is not None else None
    root = project.root if project is not None else options.folder
    came = {came_with(root), came_with(options.folder.resolve())}
    named = options.tt_xla is not None and "tt_xla" not in options.configured
    machine = options.examine(root, preview=True)
    profiler = options.profiler
    return PlannedRun(
        machine=machine,
        profiler=choose(profiler, machine)[0].name if profiler == "auto" else profiler,
        config=config_of(path, arguments, options.folder) if path is not None else {},
        folders=(cache_folder(root), options.folder),
        env=_outside(came, options.variables),
        cwd=options.folder,
        port=options.port,
        needs_torch=path is not None and needs_torch(profiler, _texts(path, arguments, options)),
        # A checkout that was found, not named, may have come in the same clone or archive.
        ask_tracy=machine.asked and (named or machine.tt_xla is None),
    )


def needs_torch(profiler: str, texts: Iterable[bytes]) -> bool:
    """Whether a run is refused where there is no torch: timers alone may do without.

    Args:
        profiler: as it was asked for.
        texts: the files that the run would rewrite.
    """
    return profiler != "wallclock" and any(_TORCH.search(text) for text in texts)


def _texts(script: Path, arguments: Sequence[str], options: RunOptions) -> Iterable[bytes]:
    """The files that a run would rewrite; of a script that is declined its own alone."""
    from instrumentor.rewrite.prepare import prepare
    from instrumentor.shared.errors import InstrumentError
    from instrumentor_analysis.shared.files import read_bytes

    try:
        return prepare(script, options.rewrite, arguments).originals.values()
    except InstrumentError:
        return [read_bytes(script)]


def came_with(folder: Path) -> Path:
    """The folder below which everything may have come together with this one, from anybody.

    The outermost repository around it: a submodule, or a repository in an unpacked archive, has
    its own inside. Without one the folder above, beside which an archive's other parts lie; the
    home folder is no part of an archive.
    """
    around = [each for each in (folder, *folder.parents) if is_git_root(each)]
    if around:
        return around[-1]
    home = home_folder()
    return folder if home is not None and home.is_relative_to(folder.parent) else folder.parent


def _outside(came: Set[Path], env: Mapping[str, str]) -> dict[str, str]:
    """An environment, its PYTHONPATH free of what lies in one of these folders."""
    entries = [Path(entry) for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]
    kept = [
        str(path.absolute())
        for path in entries
        if not any(path.resolve().is_relative_to(folder) for folder in came)
    ]
    return {**env, "PYTHONPATH": os.pathsep.join(kept)}
