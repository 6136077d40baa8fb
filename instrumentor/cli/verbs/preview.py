"""`instrument --dry-run SCRIPT ARGS`: the unified diff on stdout, counts and warnings on stderr."""

from __future__ import annotations

from typing import Annotated

import typer

from instrumentor.cli import common, next_commands
from instrumentor.cli.diff_preview import show
from instrumentor.cli.signature import Only, Verb, Without
from instrumentor.cli.verbs import VERBS
from instrumentor.run.options import RunOptions
from instrumentor.shared import console
from instrumentor.shared.errors import UsageError
from instrumentor.shared.options import Options


@Verb
def preview(
    context: typer.Context,
    script: common.Script = None,
    arguments: common.Configuration = None,
    *,
    rewrite: Annotated[Options, Without("profiler")],
    options: Annotated[RunOptions, Only("module")],
    shown: Annotated[common.Preview, Only("full")],
    notes: common.Notes,
) -> None:
    """Print the diff that a run would apply; write nothing. `instrument --dry-run` is the same."""
    if arguments and arguments[0] in VERBS:
        raise UsageError(
            f"--dry-run SCRIPT takes no command, and {arguments[0]!r} is one",
            f"For a run: instrument run --dry-run {console.quoted(str(script))}",
        )
    started = common.started_by(script, arguments, options.module)
    common.tell_handed_over(context, started.script, started.arguments)
    words = next_commands.typed(context)
    show(started, rewrite, full=shown.full, notes=notes.verbose, words=words)
