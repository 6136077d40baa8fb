"""What `instrument run --dry-run` shows: everything up to the run itself; nothing is written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.machine.environment import Machine
from instrumentor.rewrite.prepare import Prepared, prepare
from instrumentor.run.options import RunOptions
from instrumentor.run.profilers import choose
from instrumentor.runtime.bundle import FOLDER_NAME
from instrumentor.shared.errors import NotReady
from instrumentor.workspace.copy_plan import ShadowPlan, plan_shadow


class DryRun(Struct, frozen=True):
    """What a run would do: diff, command, changed environment; ``plan`` of its copy, if any."""

    prepared: Prepared
    command: tuple[str, ...]
    environment: Mapping[str, str]
    profiler: str
    reason: str
    plan: ShadowPlan | None


def dry_run(
    script: Path, arguments: Sequence[str] = (), options: RunOptions | None = None
) -> DryRun:
    """Everything up to the run itself; writes nothing.

    Raises:
        InstrumentError: as :func:`run` would before it starts the script.
    """
    options = options or RunOptions()
    cwd, base = options.folder, options.variables
    prepared = prepare(script, options.rewrite, arguments)
    machine = options.examine(prepared.project.root, preview=True)
    profiler, reason = _previewed(options.profiler, machine)
    plan = plan_shadow(
        prepared.project,
        prepared.script,
        cwd,
        list(prepared.replacements),
        link=options.link,
        no_link=options.no_link,
    )
    target = plan.root / prepared.script.resolve().relative_to(prepared.project.root)
    # Planned for a run in place as well: the plan tells its environment.
    if options.in_place:
        target, plan = prepared.script, replace(plan, root=prepared.project.root)
    environment = plan.environment(base, machine.import_paths)
    environment["PYTHONPATH"] = f"SCRATCH/{FOLDER_NAME}{os.pathsep}{environment['PYTHONPATH']}"
    environment["INSTRUMENT_PROFILER"] = profiler
    command = _shown_command(profiler, machine, target, arguments, options)
    changed = {k: v for k, v in environment.items() if base.get(k) != v}
    copied = None if options.in_place else plan
    return DryRun(prepared, command, changed, profiler, reason, copied)


def _previewed(requested: str, machine: Machine) -> tuple[str, str]:
    """The profiler of a preview and why: one that is not on this machine is shown all the same."""
    try:
        profiler, reason = choose(requested, machine)
    except NotReady as error:
        return requested, f"{requested}: requested, but it cannot run here: {error.message}"
    return profiler.name, reason


def _shown_command(
    profiler: str, machine: Machine, script: Path, arguments: Sequence[str], options: RunOptions
) -> tuple[str, ...]:
    head = [str(machine.python)]
    if profiler == "tracy":
        # Which options this version offers Tracy alone can say, and a preview does not start it.
        head += ["-m", "tracy", "-p", "-r", "--sync-host-device", "-o", "SCRATCH", "-t", "PORT"]
        if machine.tools_folder:
            head += ["--tracy-tools-folder", str(machine.tools_folder)]
    if options.launcher:
        return (*head, "-m", options.module, *options.launcher)
    what = ["-m", options.module] if options.module else [str(script)]
    return (*head, *what, *arguments)
