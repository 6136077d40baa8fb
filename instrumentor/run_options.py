"""What a run is asked for, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from instrumentor.environment import Machine, examine
from instrumentor.errors import UsageError
from instrumentor.options import Options
from instrumentor.project import Project
from instrumentor_analysis.caveats import Caveat

if TYPE_CHECKING:
    from instrumentor_analysis.model import Summary


@dataclass(frozen=True)
class RunOptions:
    """Choices of a run; the rewriting's own are in `rewrite`.

    Attributes:
        python_configured: `python` is named in a pyproject.toml: a dry run does not start it.
        output: the run folder; None makes `<name>_<label>` in the working directory.
        timeout_s: limit for the whole run, seconds.
        stall_s: how long nothing may happen before it is said.
        batch_dim: axis of a batch along which its samples lie; None finds it.
        module: the script's name as a module: it runs as `python -m` would from `cwd`.
        keep: keep the files that the script wrote into the copy, under `<output>/files`.
        link, no_link: folders of the project to link into the copy, or not to.
        discover: run the script as it is for two optimizer steps, in a copy, when reading it does
            not show its step, or the run shows that it was read wrongly.
        in_place: run the user's own file, swapped for the instrumented one while the run lasts.
        untraced: run once without a profiler first, for the wall clock without profiler overhead.
        op_support_count: programs that Tracy's buffers on the device must hold.
        port: Tracy's port; None chooses a free one.
        reset: reset the boards with tt-smi first.
        yes: end processes that hold the device, by SIGINT and SIGTERM.
        env: environment of the script; None means this process's own.

    Raises:
        UsageError: a value out of range.
    """

    rewrite: Options = field(default_factory=Options)
    profiler: str = "auto"
    output: Path | None = None
    batch_dim: int | None = None
    module: str = ""
    label: str = "baseline"
    python: str | None = None
    python_configured: bool = False
    tt_xla: Path | None = None
    tracy_tools_folder: Path | None = None
    timeout_s: float | None = None
    stall_s: float | None = 120.0
    keep: bool = False
    link: tuple[Path, ...] = ()
    no_link: tuple[Path, ...] = ()
    discover: bool = True
    in_place: bool = False
    untraced: bool = False
    op_support_count: int | None = None
    port: int | None = None
    reset: bool = False
    yes: bool = False
    cwd: Path | None = None
    env: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if not self.label or "/" in self.label or self.label in (".", ".."):
            raise UsageError(f"--label {self.label!r}: must be a plain name")
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise UsageError(f"--timeout {self.timeout_s:g}: must be above 0 seconds")
        if self.op_support_count is not None and self.op_support_count < 1:
            raise UsageError(f"--op-support-count {self.op_support_count}: must be 1 or more")
        if self.port is not None and not 0 < self.port < 65536:
            raise UsageError(f"--port {self.port}: must be between 1 and 65535")

    @property
    def folder(self) -> Path:
        """Where the script runs, unless it runs in a copy: there at its counterpart."""
        return (self.cwd or Path.cwd()).absolute()

    def examine(self, project: Project, *, preview: bool = False) -> Machine:
        """The interpreter, packages and devices that a run of the project has."""
        return examine(
            project.root,
            python=self.python,
            tt_xla=self.tt_xla,
            tools_folder=self.tracy_tools_folder,
            env=self.env,
            cwd=self.folder,
            configured=self.python_configured,
            preview=preview,
        )


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Attributes:
        folder: the run folder.
        summary: what it says; without figures when nothing was measured.
        script_exit_code: the script's own code, None when it never ran to an end.
        new_files: what the script wrote into the copy, relative to the project.
        linked_changed: what changed of the user's own behind links, relative to the project.
        linked_whole: all that is behind links was compared.
        originals_changed: the script's own files differ from before.
    """

    folder: Path
    summary: Summary
    script_exit_code: int | None
    new_files: tuple[Path, ...] = ()
    warnings: tuple[Caveat, ...] = ()
    linked_changed: tuple[Path, ...] = ()
    linked_whole: bool = True
    originals_changed: bool = False
