"""`instrument run SCRIPT ARGS`: instrument, run, analyse, report, leave no trace."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from instrumentor import console
from instrumentor.commands import common, following
from instrumentor.commands import repeat as repeats
from instrumentor.commands.history import NoHistory, Store, remember
from instrumentor.errors import InstrumentError

if TYPE_CHECKING:
    from instrumentor.runner import DryRun
from instrumentor.run_options import RunOptions, RunResult


def run(
    context: typer.Context,
    script: Annotated[Path | None, typer.Argument(help="The training script.")] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Its own arguments, handed over untouched.")
    ] = None,
    module: common.Module = "",
    profiler: common.ProfilerName = "auto",
    steps: common.Steps = None,
    warmup: common.Warmup = None,
    scope: common.Scope = "auto",
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            envvar="INSTRUMENT_OUTPUT",
            metavar="DIR",
            help=(
                "The run folder; default NAME_LABEL in the working directory, -2, -3 ... "
                "when it exists."
            ),
        ),
    ] = None,
    label: Annotated[
        str, typer.Option("--label", envvar="INSTRUMENT_LABEL", help="Name of this variant.")
    ] = "baseline",
    loop: common.Loop = "",
    mode: common.Mode = "auto",
    region: common.Region = "",
    keep_validation: common.KeepValidation = False,
    batch_dim: Annotated[
        int | None,
        typer.Option(
            "--batch-dim",
            envvar="INSTRUMENT_BATCH_DIM",
            metavar="AXIS",
            min=0,
            help="Axis of a batch along which its samples lie; default: the one of its batch size.",
        ),
    ] = None,
    python: common.Python = None,
    tt_xla: common.TtXla = None,
    tracy_tools_folder: common.TracyToolsFolder = None,
    port: Annotated[
        int | None,
        typer.Option("--port", envvar="INSTRUMENT_PORT", help="Tracy's port; default: a free one."),
    ] = None,
    op_support_count: common.OpSupportCount = None,
    repeat: Annotated[
        int,
        typer.Option(
            "--repeat",
            envvar="INSTRUMENT_REPEAT",
            metavar="N",
            min=1,
            help="Run so many times: how much runs differ is what a comparison has to know.",
        ),
    ] = 1,
    untraced: Annotated[
        bool,
        typer.Option(
            "--untraced",
            envvar="INSTRUMENT_UNTRACED",
            help=(
                "Run once without the profiler first: wall clock without profiler overhead, and "
                "Tracy's cost."
            ),
        ),
    ] = False,
    no_discover: Annotated[
        bool,
        typer.Option(
            "--no-discover",
            envvar="INSTRUMENT_NO_DISCOVER",
            help=(
                "Never run the script as it is, for two optimizer steps in a copy, where reading "
                "it does not show its step."
            ),
        ),
    ] = False,
    in_place: Annotated[
        bool,
        typer.Option(
            "--in-place",
            envvar="INSTRUMENT_IN_PLACE",
            help=(
                "Instrument the file itself while the run lasts, for scripts that cannot run from "
                "a copy; it is restored from git afterwards."
            ),
        ),
    ] = False,
    reset: common.Reset = False,
    yes: common.Yes = False,
    timeout: common.Timeout = None,
    link: common.Link = None,
    no_link: common.NoLink = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            envvar="INSTRUMENT_KEEP",
            help="Keep the files that the script wrote, in the run folder.",
        ),
    ] = False,
    only: common.Only = "",
    skip: common.Skip = "",
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            envvar="INSTRUMENT_DRY_RUN",
            help="Show diff, command and environment; run nothing.",
        ),
    ] = False,
    full: common.Full = False,
    history: Store = None,
    no_history: NoHistory = False,
    json: common.Json = False,
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Measure a step: instrument a copy, run it, analyse, report."""
    from instrumentor.run_options import RunOptions

    script, handed = common.script_of(script, arguments, module)
    options = RunOptions(
        rewrite=common.make_options(
            steps=steps,
            warmup=warmup,
            scope=scope,
            profiler=profiler,
            loop=loop,
            mode=mode,
            region=region,
            keep_validation=keep_validation,
            only=only,
            skip=skip,
        ),
        profiler=profiler,
        output=output,
        batch_dim=batch_dim,
        module=module,
        label=label,
        python=python,
        python_configured="python" in common.configured(context),
        tt_xla=common.existing(tt_xla, "--tt-xla"),
        tracy_tools_folder=common.existing(tracy_tools_folder, "--tracy-tools-folder"),
        port=port,
        op_support_count=op_support_count,
        untraced=untraced,
        discover=not no_discover,
        in_place=in_place,
        reset=reset,
        yes=yes,
        timeout_s=timeout,
        keep=keep,
        link=tuple(link or ()),
        no_link=tuple(no_link or ()),
    )
    if not quiet:
        common.tell_handed_over(context, script, handed)
    if dry_run:
        asked = following.typed(context), following.target(script, handed, module)
        _preview(script, handed, options, asked, json=json, full=full)
        return
    results: list[RunResult] = []
    for number in range(1, repeat + 1):
        if repeat > 1 and not quiet:
            console.say(f"Run {number} of {repeat}")
        result = _measure(
            script,
            handed,
            repeats.numbered(options, number),
            json=json,
            quiet=quiet,
            verbose=verbose,
            alone=repeat == 1,
        )
        remember(result, script, history, no_history)
        results.append(result)
    if repeat > 1:
        repeats.show(results, json=json)


def _measure(
    script: Path,
    arguments: list[str],
    options: RunOptions,
    *,
    json: bool,
    quiet: bool,
    verbose: bool,
    alone: bool = True,
) -> RunResult:
    from instrumentor.runner import run as run_script

    # Outside of the script's own time, too, SIGTERM is to leave nothing behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    narrator = console.Narrator(quiet=quiet or (json and not verbose), verbose=verbose)
    try:
        with narrator.alive():
            result = run_script(script, arguments, options, narrator)
    except InstrumentError as error:
        partial: RunResult | None = error.result
        if partial is not None:
            _show(partial, json=json, verbose=verbose)
            folder = console.shown(partial.folder)
            samples = "" if _is_empty(partial) else "what was measured, and "
            console.say(f"Kept in {folder}/: {samples}the output in {folder}/run.log")
        raise
    if alone:
        _show(result, json=json, verbose=verbose)
    if not quiet and not json:
        _closing(result, in_place=options.in_place)
    return result


def _is_empty(result: RunResult) -> bool:
    return result.summary.wall_clock is None and result.summary.op_count is None


def _show(result: RunResult, *, json: bool, verbose: bool) -> None:
    if json:
        console.out_json({**result.summary.to_json(), "folder": str(result.folder)})
        return
    if _is_empty(result):
        console.say("Nothing was measured")
        console.warn_all(result.warnings, notes=verbose)
        return
    from instrumentor.commands.report import show_summary

    show_summary(result.summary, notes=verbose)


def _closing(result: RunResult, *, in_place: bool) -> None:
    if result.new_files:
        shown = ", ".join(str(p) for p in result.new_files[:5])
        more = f" and {len(result.new_files) - 5} more" if len(result.new_files) > 5 else ""
        console.say(f"The script wrote {shown}{more} into the copy (kept with --keep)")
    console.say(f"Wrote {console.shown(result.folder)}/ ({_fate(result, in_place=in_place)})")
    console.say(f"Next: instrument report {console.quoted(console.shown(result.folder))}")


def _fate(result: RunResult, *, in_place: bool) -> str:
    from instrumentor.workspace.linked import fate

    if result.originals_changed:
        return "your files changed during the run: see above"
    if in_place:
        return "your file is as it was"
    return fate(changed=bool(result.linked_changed), whole=result.linked_whole)


def _preview(
    script: Path,
    arguments: list[str],
    options: RunOptions,
    asked: tuple[list[str], list[str]],
    *,
    json: bool,
    full: bool,
) -> None:
    from instrumentor.locate.model import Declined
    from instrumentor.runner import dry_run

    try:
        found = dry_run(script, arguments, options)
    except Declined as declined:
        declined.hint = following.instead(declined, script, options.rewrite, *asked)
        raise
    if json:
        console.out_json(
            {
                **found.prepared.plan.to_json(),
                "diff": found.prepared.diff,
                "command": list(found.command),
                "environment": dict(found.environment),
                "profiler": found.profiler,
                "linked": [str(p) for p in found.linked],
            }
        )
        return
    console.diff(found.prepared.whole_patch if full else found.prepared.patch)
    _describe(found, options)
    console.say(f"Next: {following.run(*asked)}")


def _describe(found: DryRun, options: RunOptions) -> None:
    console.say(
        console.counts_line(found.prepared.plan.counts(), found.prepared.plan.options.steps)
    )
    console.say(f"Profiler {found.reason}")
    megabytes = found.copied_bytes / 1e6
    if options.in_place:
        names = ", ".join(str(path) for path in found.prepared.replacements)
        console.say(f"Would instrument {names} in place while the run lasts")
    else:
        console.say(
            f"Would copy {found.copied_files} files ({megabytes:.1f} MB) of "
            f"{found.prepared.project.root}"
        )
    for path in found.linked:
        console.say(f"  linked: {path}")
    console.say("Would run:")
    for name, value in sorted(found.environment.items()):
        console.say(f"  {name}={shlex.quote(value)} \\")
    console.say(f"  {shlex.join(found.command)}")
    console.warn_all(found.prepared.plan.warnings)
