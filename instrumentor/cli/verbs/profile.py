"""`instrument profile COMMAND...`: anything under Tracy, without rewriting, as one CSV."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from instrumentor.cli import common
from instrumentor.cli.signature import Verb
from instrumentor.run.options import ProfileOptions
from instrumentor.shared import console

if TYPE_CHECKING:
    from instrumentor.run.command import Profiled


@Verb
def profile(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND...", help="A command with its arguments, or one quoted string."
        ),
    ],
    *,
    options: ProfileOptions,
    shown: common.Shown,
) -> None:
    """Run any command under Tracy: one CSV of its device ops."""
    from instrumentor.run.command import profile as profile_command

    show = partial(_show, json=shown.json)
    narrator = shown.narrator
    with common.working(narrator, show):
        result = profile_command(command, options, narrator)
    show(result)


def _show(result: Profiled, *, json: bool) -> None:
    from instrumentor.run.command import GUI

    if json:
        console.out_json(result.to_json())
        return
    console.out(f"{result.csv}: {result.rows} device operations, {result.located} with LOC")
    if result.trace is not None:
        console.say(f"Host and device timeline: open {result.trace} in tt-metal's Tracy GUI")
        console.say(f"  ({GUI})")
    ops = console.quoted(result.csv)
    console.say(f"Next: instrument report {ops}")
