"""`instrument doctor [SCRIPT]`: is this machine ready, and what to do about what is not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from instrumentor import console
from instrumentor.commands import common
from instrumentor.errors import UsageError

if TYPE_CHECKING:
    from instrumentor.doctor import Check, Situation

SCHEMA = "instrument-doctor/1"


def doctor(
    context: typer.Context,
    script: Annotated[
        Path | None, typer.Argument(help="A training script, whose configuration is looked at.")
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Its own arguments (--config is looked at).")
    ] = None,
    profiler: common.ProfilerName = "auto",
    steps: common.Steps = None,
    python: common.Python = None,
    tt_xla: common.TtXla = None,
    tracy_tools_folder: common.TracyToolsFolder = None,
    reset: common.Reset = False,
    yes: common.Yes = False,
    fix: Annotated[
        bool,
        typer.Option(
            "--fix", help="Fix what can be fixed: end processes that hold the device (--yes)."
        ),
    ] = False,
    json: common.Json = False,
) -> None:
    """Check whether this machine is ready; each line has its remedy."""
    from instrumentor.doctor import doctor as examine
    from instrumentor.doctor import failed, situation_of

    if script is not None and str(script).startswith("-"):
        raise UsageError(f"{script}: no such option", "`instrument doctor --help` lists them.")
    situation = situation_of(
        script,
        arguments or [],
        profiler=profiler,
        steps=steps or 5,
        python=python,
        tt_xla=common.existing(tt_xla, "--tt-xla"),
        tools_folder=common.existing(tracy_tools_folder, "--tracy-tools-folder"),
        configured=common.configured(context),
    )
    if fix or reset:
        _fix(situation, reset=reset, yes=yes, quiet=json)
    checks = examine(situation)
    if json:
        console.out_json(_document(situation, checks))
    else:
        for check in checks:
            _show(check)
    raise typer.Exit(4 if failed(checks) else 0)


def _fix(situation: Situation, *, reset: bool, yes: bool, quiet: bool) -> None:
    """Free the devices and reset them, as far as that was allowed; undo what a kill left."""
    from instrumentor.device import held
    from instrumentor.readiness import free_devices, reset_boards
    from instrumentor.workspace import restore, sweep

    narrator = console.Narrator(quiet=quiet)
    restore(Path.cwd())
    sweep()
    with held(situation.machine.devices):
        free_devices(situation, narrator, end=yes, needed=reset)
        if reset:
            reset_boards(situation.machine, situation.env, narrator)


def _document(situation: Situation, checks: tuple[Check, ...]) -> dict[str, Any]:
    from instrumentor.doctor import failed

    return {
        "schema": SCHEMA,
        "ready": not failed(checks),
        "profiler": situation.profiler,
        "python": str(situation.machine.python),
        "checks": [
            {
                "name": check.name,
                "status": check.status.value,
                "text": check.text,
                "remedy": check.remedy,
            }
            for check in checks
        ],
    }


def _show(check: Check) -> None:
    import sys

    color = {"ok": "green", "warning": "yellow", "failed": "red"}[check.status.value]
    word = console.paint(f"{check.status.value:<8}", color, sys.stdout)
    console.out(f"{word} {check.name:<15} {check.text}")
    if check.remedy:
        console.out(f"{'':<8} {'':<15} hint: {check.remedy}")
