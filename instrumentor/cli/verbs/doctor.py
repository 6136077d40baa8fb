"""`instrument doctor [SCRIPT]`: is this machine ready, and what to do about what is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
        common.tell_handed_over(context, script, arguments or [])
    options = replace(options, configured=common.configured(context))
    planned = planned_run(script, arguments or [], options)
    if asked.fix or options.reset:
        _fix(planned, options, quiet=shown.json)
    checks = examine(planned)
    kernel = ""
    if script is not None:
        options_typed, target = next_commands.typed(context), [str(script), *(arguments or [])]
        kernel = next_commands.kernel_run(script, options_typed, target)
        checks += () if kernel else tuple(_of_script(script, arguments or []))
    if shown.json:
        console.out_json(_document(planned, checks))
    else:
        for check in checks:
            _show(check)
        if script is not None and not failed(checks):
            following = kernel or next_commands.run(options_typed, target)
            console.say(f"Next{', when it is quiet' * _is_busy(checks)}: {following}")
    raise typer.Exit(4 if failed(checks) else 0)


def _of_script(script: Path, arguments: Sequence[str]) -> Iterator[Check]:
    """Where its loop is; that none is found by reading stops no run, which may look further."""
    from instrumentor.rewrite.prepare import explain
    from instrumentor.run.ready.doctor import Check, Status

    remedy = f"instrument explain {console.quoted(console.word(script))}"
    try:
        found = explain(script, None, arguments)
    except InstrumentError as error:  # as of a file that holds a recorder already
        yield Check("script", Status.WARNING, error.message, error.hint or remedy)
        return
    if found.plan is None:
        yield Check("script", Status.WARNING, f"declined: {found.reasons[0]}", remedy)
        return
    document = found.to_json()
    loop = document["loop"]
    place = f"{console.shown(Path(loop['file']))}:{loop['line']}"
    yield Check("script", Status.OK, f"{common.LOOPS.get(document['mode'], 'loop')} at {place}")


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
