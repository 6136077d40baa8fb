"""`instrument doctor [SCRIPT]`: is this machine ready, and what to do about what is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from instrumentor.cli import common, next_commands
from instrumentor.cli.signature import Only, Verb
from instrumentor.run.options import RunOptions
from instrumentor.shared import console
from instrumentor.shared.errors import InstrumentError
from instrumentor.shared.option_fields import WHERE, option
from instrumentor_analysis.shared.caveats import UNCALLED_TEST

if TYPE_CHECKING:
    from instrumentor.run.ready.doctor import Check, PlannedRun

SCHEMA = "instrument-doctor/1"


@dataclass(frozen=True)
class Asked:
    """Choices of the command line alone."""

    fix: bool = option(
        WHERE,
        False,
        "Fix what can be fixed: end processes that hold the device (--yes).",
        once=True,
    )


@Verb
def doctor(
    context: typer.Context,
    script: Annotated[
        Path | None, typer.Argument(help="A training script; its configuration is checked.")
    ] = None,
    arguments: common.Configuration = None,
    *,
    options: Annotated[
        RunOptions, Only("profiler", "python", "tt_xla", "tracy_tools_folder", "reset", "yes")
    ],
    asked: Asked,
    shown: common.Json,
) -> None:
    """Check whether this machine is ready; each line has its remedy."""
    from instrumentor.run.ready.doctor import doctor as examine
    from instrumentor.run.ready.doctor import failed, planned_run

    if script is not None:
        common.warn_of_ignored(script)
        common.tell_handed_over(context, script, arguments or [])
    options = replace(options, configured=common.configured(context))
    planned = planned_run(script, arguments or [], options)
    if asked.fix or options.reset:
        _fix(planned, options, quiet=shown.json)
    checks = examine(planned)
    following = ""
    if script is not None:
        typed, target = next_commands.typed(context), [str(script), *(arguments or [])]
        following = next_commands.kernel_run(script, typed, target)
        if not following:
            check, measured = _of_script(script, arguments or [])
            checks += (check,)
            following = next_commands.run(typed, measured) if measured else ""
    if shown.json:
        console.out_json(_document(planned, checks))
    else:
        for check in checks:
            _show(check)
        if following and not failed(checks):
            console.say(f"Next{', when it is quiet' * _is_busy(checks)}: {following}")
    raise typer.Exit(4 if failed(checks) else 0)


def _of_script(script: Path, arguments: Sequence[str]) -> tuple[Check, list[str]]:
    """Where its loop is, and what a run may measure: one may find what reading does not.

    Of what reading has declined for good, as a run would, nothing.
    """
    from instrumentor.locate.located import Declined
    from instrumentor.rewrite.prepare import explain
    from instrumentor.run.discovery import may_help
    from instrumentor.run.launchers import Started
    from instrumentor.run.ready.doctor import Check, Status
    from instrumentor.shared.options import Options

    remedy = f"instrument explain {console.quoted(console.word(script), *arguments)}"
    plain = Started(script, tuple(arguments))
    try:
        found = explain(script, None, arguments)
    except InstrumentError as error:  # as of a file that holds a recorder already
        return Check("script", Status.WARNING, error.message, error.hint or remedy), []
    if found.plan is None:
        may_run = may_help(Declined(*found.reasons), script, Options())
        if may_run:
            remedy = "A run looks for its step by running it for two steps in a copy"
        check = Check("script", Status.WARNING, f"declined: {found.reasons[0]}", remedy)
        return check, next_commands.target(plain) if may_run else []
    document = found.to_json()
    loop = document["loop"]
    place = f"{console.shown(Path(loop['file']))}:{loop['line']}"
    kind = common.LOOPS.get(document["mode"], "loop")
    warnings = found.plan.warnings
    status, said, remedy = Status.OK, f"{kind} at {place}", ""
    for each in warnings:
        if each.kind == UNCALLED_TEST:
            status, said, remedy = Status.WARNING, f"{said}: {each.message}", each.hint
    return Check("script", status, said, remedy), next_commands.measured(plain, warnings)


def _is_busy(checks: Sequence[Check]) -> bool:
    from instrumentor.run.ready.doctor import Status

    return any(each.name == "load" and each.status is Status.WARNING for each in checks)


def _fix(planned: PlannedRun, options: RunOptions, *, quiet: bool) -> None:
    """Free the devices and reset them, as far as that was allowed; undo what a kill left."""
    from instrumentor.machine.device_locks import held
    from instrumentor.run.ready.readiness import free_devices, reset_boards
    from instrumentor.workspace.in_place.restoring import restore

    narrator = console.Narrator(quiet=quiet)
    restore(Path.cwd())
    # Otherwise another run could take a device between the end of its holder and the reset.
    with held(planned.machine.devices):
        free_devices(planned, narrator, end=options.yes, needed=options.reset)
        if options.reset:
            reset_boards(planned.machine, planned.env, narrator)


def _document(planned: PlannedRun, checks: tuple[Check, ...]) -> dict[str, Any]:
    from instrumentor.run.ready.doctor import failed

    return {
        "schema": SCHEMA,
        "ready": not failed(checks),
        "profiler": planned.profiler,
        "python": str(planned.machine.python),
        "checks": [asdict(check) for check in checks],
    }


def _show(check: Check) -> None:
    import sys

    color = {"ok": "green", "warning": "yellow", "failed": "red"}[check.status.value]
    word = console.paint(f"{check.status.value:<8}", color, sys.stdout)
    console.out(f"{word} {check.name:<15} {check.text}")
    if check.remedy:
        console.out(f"{'':<8} {'':<15} hint: {check.remedy}")
