"""What a run or a profile is asked for, and what a run gives back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from instrumentor.shared.errors import UsageError
from instrumentor.shared.option_fields import (
    COPY,
    DEVICE,
    MEASURE,
    OUTPUT,
    USUAL,
    WHERE,
    Checked,
    option,
    output_file,
    same,
)
from instrumentor.shared.options import Options

if TYPE_CHECKING:
    from instrumentor.machine.environment import Machine
    from instrumentor.workspace.linked_data import UsersFiles
    from instrumentor_analysis.model import Summary
    from instrumentor_analysis.shared.caveats import Caveat


#: What compute waits for, and Tracy's own groups of hardware counters.
COUNTERS = (
    *("waits", "fpu", "sfpu", "pack", "unpack", "instrn"),
    *("l1_0", "l1_1", "l1_2", "l1_3", "l1_4", "all"),
)


def _existing(flag: str, path: Path) -> Path:
    if not path.exists():
        raise UsageError(f"{flag} {path}: does not exist")
    return path


def counter_groups(text: str) -> tuple[str, ...]:
    """The groups of counters in a list with commas.

    Raises:
        UsageError: Tracy has no such group.
    """
    groups = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    unknown = [each for each in groups if each not in COUNTERS]
    if unknown or not groups:
        known = ", ".join(COUNTERS)
        raise UsageError(f"--counters {text}: must be some of {known}, separated by commas")
    return groups


@dataclass(frozen=True)
class ProcessOptions(Checked):
    """How a process is run: what everything that is measured has in common.

    Attributes:
        stall_s: how long nothing may happen before it is said.
        env: environment of the process; None means this process's own.
        own_script: the user's, where the script that runs is in a copy that ends with the command.
    """

    python: str | None = option(
        USUAL,
        None,
        "The script's interpreter; default: the active environment's, else env/crank_env or "
        "env/xla_env, else instrument's own if it has torch, else the first python3 on PATH that "
        "has.",
    )
    timeout_s: float | None = option(
        WHERE, None, "Limit for one run, seconds.", "--timeout", metavar="S", above=0
    )
    # A locked device is waited for forever: after this much silence the user is told.
    stall_s: float | None = 120.0
    cwd: Path | None = None
    env: Mapping[str, str] | None = None
    own_script: Path | None = None

    @property
    def folder(self) -> Path:
        """Where the script runs, unless it runs in a copy: there at its counterpart."""
        return (self.cwd or Path.cwd()).absolute()

    @property
    def variables(self) -> dict[str, str]:
        """The whole environment of the process."""
        return dict(os.environ if self.env is None else self.env)


@dataclass(frozen=True)
class MachineOptions(ProcessOptions):
    """Where a process is run: what a run and a profile have in common.

    Attributes:
        configured: names of the options that a pyproject.toml gave, which may have come with the
            project: a preview does not start such a `python`.

    Raises:
        UsageError: a value out of range.
    """

    tt_xla: Path | None = option(
        DEVICE,
        None,
        "tt-xla checkout; its python_package joins PYTHONPATH. Searched beside the repository.",
        metavar="DIR",
        type=Path | None,
        convert=partial(_existing, "--tt-xla"),
    )
    tracy_tools_folder: Path | None = option(
        DEVICE,
        None,
        "Folder with Tracy's capture and csvexport tools.",
        metavar="DIR",
        type=Path | None,
        convert=partial(_existing, "--tracy-tools-folder"),
    )
    port: int | None = option(DEVICE, None, "Tracy's port; default: a free one.")
    op_support_count: int | None = option(
        DEVICE,
        None,
        "Programs that Tracy's buffers on the device must hold between two reads; default 1000, or "
        "more when an earlier run counted more.",
        metavar="N",
        minimum=1,
    )
    counters: tuple[str, ...] = option(
        DEVICE,
        (),
        "Have Tracy count why ops are slow: waits (what compute waits for), and groups of hardware "
        "counters: fpu, pack, unpack, instrn, l1_0, all. Kernels become longer.",
        metavar="GROUP,...",
        type=str,
        convert=counter_groups,
    )
    noc_trace: bool = option(
        DEVICE,
        False,
        "Have Tracy record what moves on the NoC, which tells its use and DRAM's where tt-npe is "
        "installed. Kernels become longer.",
    )
    # Not in a file: a pyproject.toml may have come with the project, and these two act on what
    # belongs to others on the machine.
    reset: bool = option(
        DEVICE,
        False,
        "Reset the boards with tt-smi first, and wait until they answer.",
        file=False,
    )
    yes: bool = option(
        DEVICE,
        False,
        "End processes that hold the device first: SIGINT, then SIGTERM, never SIGKILL. Without it "
        "they are only shown.",
        file=False,
    )

    configured: frozenset[str] = frozenset()

    def examine(self, root: Path, *, python: Path | None = None, preview: bool = False) -> Machine:
        """The interpreter, packages and devices that a run in a project has.

        Args:
            root: of the project.
            python: the interpreter where none was asked for.
            preview: nothing will be run.
        """
        from instrumentor.machine.environment import examine

        return examine(
            root,
            python=self.python or python,
            tt_xla=self.tt_xla,
            tools_folder=self.tracy_tools_folder,
            env=self.env,
            cwd=self.folder,
            configured="python" in self.configured,
            preview=preview,
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.port is not None and not 0 < self.port < 65536:
            raise UsageError(f"--port {self.port}: must be between 1 and 65535")


@dataclass(frozen=True)
class ProfileOptions(MachineOptions):
    """Choices of a profile."""

    output: Path | None = output_file(
        "The table; default results/perf/device_ops_perf_trace.csv.",
        "-o",
        "--output",
        metavar="CSV",
    )
    port: int | None = option(
        WHERE, None, "Tracy's port; default: a free one.", "-p", "--port", variable=False
    )


@dataclass(frozen=True)
class RunOptions(MachineOptions):
    """Choices of a run; the rewriting's own are in `rewrite`.

    Attributes:
        module: the name as a module of the script, or of its launcher: it runs as `python -m` would
            from `cwd`.
        launcher: the words of a launcher, the script among them
            (:mod:`instrumentor.run.launchers`); empty without one.
        discover: run the script as it is for two optimizer steps, in a copy, when reading it does
            not show its step, or the run shows that it was read wrongly.
        keep_copy: of more than 1,000 files or 64 MiB, in the cache folder, for a week.
        keep: under `<output>/files`.
        link, no_link: folders of the project.

    Raises:
        UsageError: a value out of range.
    """

    rewrite: Options = field(default_factory=Options)
    module: str = option(
        USUAL,
        "",
        "Run a module as python -m does; what follows are its arguments.",
        "-m",
        metavar="MODULE",
        once=True,
    )
    launcher: tuple[str, ...] = ()
    profiler: str = same(Options, "profiler")
    output: Path | None = option(
        USUAL,
        None,
        "The run folder, new or empty; default instrument-runs/NAME-N in the working directory, "
        "which git ignores, where latest leads to the newest with figures.",
        *("-o", "--output"),
        metavar="DIR",
    )
    label: str = option(OUTPUT, "", "Name of this variant, in the name of its folder.")
    batch_dim: int | None = option(
        MEASURE,
        None,
        "Axis of a batch that counts its samples; default: the one as long as the batch size.",
        metavar="AXIS",
        minimum=0,
    )
    untraced: bool = option(
        MEASURE,
        False,
        "First run once without the profiler, to report its overhead (Tracy's; torch.profiler "
        "takes part in one extra step alone).",
    )
    discover: bool = option(
        COPY,
        True,
        "Never run the unmodified script for two optimizer steps in a copy when reading it does "
        "not show its step.",
        "--no-discover",
    )
    in_place: bool = option(
        COPY,
        False,
        "Instrument the file itself while the run lasts, for scripts that cannot run from a copy; "
        "it is restored from git afterwards.",
    )
    link: tuple[Path, ...] = option(
        COPY, (), "Link this folder into the copy instead of copying it.", metavar="DIR"
    )
    no_link: tuple[Path, ...] = option(
        COPY, (), "Do not link this folder into the copy.", metavar="DIR"
    )
    keep_copy: bool = option(
        COPY,
        True,
        "Remove the temporary copy of a large project at the end, instead of keeping it for the "
        "next run, which then copies only what has changed.",
        "--no-keep-copy",
    )
    keep: bool = option(OUTPUT, False, "Keep the files that the script wrote, in the run folder.")

    def __post_init__(self) -> None:
        if "/" in self.label:
            raise UsageError(f"--label {self.label!r}: must be a plain name")
        super().__post_init__()


class RunResult(Struct, frozen=True):
    """A finished run.

    Attributes:
        folder: the run folder.
        summary: what it says; without figures when nothing was measured.
        script_exit_code: the script's own code, None when it never ran to an end.
        users_files: what became of the user's own.
        new_files: what the script wrote into the copy, relative to the project.
    """

    folder: Path
    summary: Summary
    script_exit_code: int | None
    users_files: UsersFiles
    new_files: tuple[Path, ...] = ()
    warnings: tuple[Caveat, ...] = ()
