"""`instrument profile COMMAND...`: anything under Tracy, without rewriting, as one CSV."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from instrumentor import console
from instrumentor.commands import common
from instrumentor.errors import InstrumentError

if TYPE_CHECKING:
    from instrumentor.profile import Profiled


def profile(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND...", help="A command with its arguments, or one quoted string."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="CSV",
            help="The table; default results/perf/device_ops_perf_trace.csv.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("-p", "--port", help="Tracy's port; default: a free one."),
    ] = None,
    python: common.Python = None,
    tt_xla: common.TtXla = None,
    tracy_tools_folder: common.TracyToolsFolder = None,
    op_support_count: common.OpSupportCount = None,
    timeout: common.Timeout = None,
    reset: common.Reset = False,
    yes: common.Yes = False,
    json: common.Json = False,
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Run any command under Tracy: one CSV of its device ops."""
    from instrumentor.profile import ProfileOptions
    from instrumentor.profile import profile as profile_command

    options = ProfileOptions(
        output=output,
        port=port,
        python=python,
        tt_xla=common.existing(tt_xla, "--tt-xla"),
        tracy_tools_folder=common.existing(tracy_tools_folder, "--tracy-tools-folder"),
        op_support_count=op_support_count,
        timeout_s=timeout,
        reset=reset,
        yes=yes,
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    narrator = console.Narrator(quiet=quiet or (json and not verbose), verbose=verbose)
    try:
        with narrator.alive():
            result = profile_command(command, options, narrator)
    except InstrumentError as error:
        partial: Profiled | None = error.result
        if partial is not None:
            _show(partial, json=json)
        raise
    _show(result, json=json)


def _show(result: Profiled, *, json: bool) -> None:
    from instrumentor.profile import GUI

    if json:
        console.out_json(result.to_json())
        return
    console.out(f"{result.csv}: {result.rows} device operations, {result.located} with LOC")
    if result.trace is not None:
        console.say(f"Host and device timeline: open {result.trace} in tt-metal's Tracy GUI")
        console.say(f"  ({GUI})")
    console.say(f"Next: tt-perf-report {console.quoted(result.csv)}")
