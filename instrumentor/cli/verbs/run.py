"""`instrument run SCRIPT ARGS`: instrument, run, analyse, report, leave no trace."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from msgspec import structs

from instrumentor.cli import common, next_commands
from instrumentor.cli.signature import Verb
from instrumentor.cli.verbs import repeat as repeats
from instrumentor.cli.verbs.history import remember
from instrumentor.machine.device_nodes import planned_here
from instrumentor.run.options import RunOptions, RunResult
from instrumentor.shared import console
from instrumentor.shared.errors import InstrumentError, NotVerified, RunFailed
from instrumentor.shared.option_fields import USUAL, Checked, option
from instrumentor.shared.options import Options
from instrumentor.shared.outputs import refuse_taken
from instrumentor_analysis.reports.formatting import plural, size

if TYPE_CHECKING:
    from instrumentor.run.launchers import Started
    from instrumentor.run.preview import DryRun

#: What Python says of a module of a package that is started as a script.
_OF_PACKAGE = "attempted relative import with no known parent package"


@dataclass(frozen=True)
class Asked(common.Shown, common.Preview, common.Remembered, Checked):
    """Choices of the command line alone."""

    repeat: int = option(
        USUAL,
        1,
        "Run N times, to see how much runs differ.",
        metavar="N",
        minimum=1,
    )


@Verb
def run(
    context: typer.Context,
    script: common.Script = None,
    arguments: common.Arguments = None,
    *,
    rewrite: Options,
    options: RunOptions,
    asked: Asked,
) -> None:
    """Measure a step: instrument a copy, run it, analyse, report."""
    from instrumentor.locate.located import Declined

    started = common.started_by(script, arguments, options.module)
    script, handed = started.script, list(started.arguments)
    if handed in (["-h"], ["--help"]) and not asked.dry_run:
        console.out(context.get_help())
        own = console.quoted("python3", *next_commands.target(started))
        console.say(f"The script's own options: {own}")
        return
    options = replace(
        options,
        rewrite=replace(rewrite, test=started.test),
        module=started.module,
        launcher=started.launcher,
        configured=common.configured(context),
    )
    taken = common.tell_handed_over(context, script, handed)
    words = next_commands.typed(context), next_commands.target(started)
    try:
        if asked.dry_run:
            _preview(started, options, words[0], asked)
        else:
            _measure_all(script, handed, options, asked)
    except Declined as declined:
        tried = options.discover and not asked.dry_run
        declined.hint = next_commands.instead(declined, script, None if tried else rewrite, *words)
        raise
    except RunFailed as failed:
        if not started.module and words[1][0] == "-m" and _OF_PACKAGE in failed.message:
            failed.hint = f"Start it as a module: {next_commands.run(*words)}"
        common.tell_taken(failed, script, taken)
        raise
    except NotVerified as refused:
        refused.hint = "\n  ".join((refused.hint, next_commands.discover(words[1])))
        raise


def _measure_all(script: Path, handed: list[str], options: RunOptions, asked: Asked) -> None:
    results: list[RunResult] = []
    for number in range(1, asked.repeat + 1):  # the last one's too, before the first one runs
        refuse_taken(options.folder, repeats.numbered(options, number).output)
    for number in range(1, asked.repeat + 1):
        if asked.repeat > 1 and not asked.quiet:
            console.say(f"Run {number} of {asked.repeat}")
        result = _measure(script, handed, repeats.numbered(options, number), asked)
        remember(result, script, asked)
        results.append(result)
    told = not asked.quiet and not asked.json
    if asked.repeat > 1:
        middle = repeats.show(results, json=asked.json)
        if told:
            repeats.closing(results, middle)
    elif told:
        _closing(results[0], in_place=options.in_place)


def _measure(script: Path, arguments: list[str], options: RunOptions, asked: Asked) -> RunResult:
    from instrumentor.run.training import run as run_script

    def show_partial(partial: RunResult) -> None:
        # How it ended, the error says last: not the title and a warning as well.
        figures = structs.replace(partial.summary, interrupted=False, script_exit_code=None)
        _show(partial if asked.json else structs.replace(partial, summary=figures), asked)
        folder = console.shown(partial.folder)
        samples = "" if _is_empty(partial) else "what was measured, and "
        console.say(f"Kept in {folder}/: {samples}the script's output, run.log")

    narrator = asked.narrator
    narrator.total = options.rewrite.steps or 0  # unknown
    narrator.budget_s = options.rewrite.budget_s if options.rewrite.steps is None else None
    try:
        with common.working(narrator, show_partial):
            result = run_script(script, arguments, options, narrator)
    except InstrumentError as error:
        if error.result is not None:
            remember(error.result, script, asked, why=_in_short(error.message))
        raise
    if asked.repeat == 1:
        _show(result, asked)
    return result


def _in_short(message: str) -> str:
    """What a message says first: ``the script ended with code 1``."""
    return message.partition("\n")[0].partition(";")[0].rstrip(":")


def _is_empty(result: RunResult) -> bool:
    return result.summary.wall_clock is None and result.summary.op_count is None


def _show(result: RunResult, asked: Asked) -> None:
    if asked.json:
        console.out_json({**result.summary.to_json(), "folder": str(result.folder)})
        return
    if _is_empty(result):
        from instrumentor.run.profilers.torch import NO_OPS

        console.say("Nothing was measured")
        # When nothing at all was measured, a warning about missing ops adds nothing.
        besides = [each for each in result.warnings if each.kind != NO_OPS]
        console.warn_all(besides, notes=asked.verbose)
        return
    if asked.verbose:
        from instrumentor.cli.verbs.report import show_summary

        show_summary(result.summary, notes=True)
        return
    from instrumentor_analysis.reports import brief

    console.show(brief.console, result.summary)


def _closing(result: RunResult, *, in_place: bool) -> None:
    from instrumentor_analysis.shared.documents import listed

    if result.new_files:
        written = listed(result.new_files, 5)
        console.say(f"The script wrote {written} into the copy (kept with --keep)")
    restored = in_place and not result.users_files.originals_changed
    fate = "your file is restored" if restored else result.users_files.fate
    console.say(f"Wrote {console.shown(result.folder)}/ ({fate})")
    page = result.folder / "report.html"
    if page.is_file():
        console.say(f"Page: {page.resolve().as_uri()}")
    console.say(f"Next: instrument report {console.quoted(console.shown(result.folder))}")


def _preview(started: Started, options: RunOptions, words: list[str], asked: Asked) -> None:
    from instrumentor.run.preview import dry_run

    found = dry_run(started.script, started.arguments, options)
    if asked.json:
        console.out_json(
            {
                **found.prepared.plan.to_json(),
                "diff": found.prepared.diff,
                "command": list(found.command),
                "environment": dict(found.environment),
                "profiler": found.profiler,
                "linked": [str(p) for p in found.plan.linked] if found.plan else [],
            }
        )
        return
    console.diff(found.prepared.whole_patch if asked.full else found.prepared.patch)
    _describe(found, notes=asked.verbose)
    measured = next_commands.measured(started, found.prepared.plan.warnings)
    console.say(f"Next: {next_commands.run(words, measured)}")


def _describe(found: DryRun, *, notes: bool) -> None:
    plan = found.prepared.plan
    console.say(console.counts_line(plan.counts(), plan.options.steps, plan.rest_of_update))
    console.say(f"Profiler {found.reason}")
    if found.plan is None:
        names = ", ".join(str(path) for path in found.prepared.replacements)
        console.say(f"Would instrument {names} in place while the run lasts")
    else:
        copied, root = plural(len(found.plan.copies), "file"), found.plan.project.root
        console.say(f"Would copy {copied} ({size(found.plan.copied_bytes)}) of {root}")
        for path in found.plan.linked:
            console.say(f"  linked: {path}")
        for name, reason in found.plan.left_out.items():
            console.say(f"  left out: {name} ({reason})")
    console.say("Would run:")
    for name, value in sorted(found.environment.items()):
        console.say(f"  {name}={shlex.quote(value)} \\")
    console.say(f"  {shlex.join(found.command)}")
    plan = found.prepared.plan
    console.warn_all(planned_here(plan.warnings), notes=notes, ignored=plan.options.ignore_warnings)
