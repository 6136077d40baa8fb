"""`instrument apply SCRIPT -o COPY`: write the instrumented copy, never over a file of yours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from instrumentor.cli import common
from instrumentor.cli.signature import Verb
from instrumentor.shared import console
from instrumentor.shared.errors import UsageError
from instrumentor.shared.option_fields import OUTPUT, option
from instrumentor.shared.options import Options
from instrumentor.shared.outputs import write_new


@dataclass(frozen=True)
class Asked:
    """Choices of the command line alone."""

    output: Path = option(OUTPUT, ..., "Where the copy goes.", "-o", "--output", once=True)
    force: bool = option(OUTPUT, False, "Replace an existing file (never the original).", once=True)


@Verb
def apply(
    script: Annotated[Path, typer.Argument(help="The training script.")],
    *,
    asked: Asked,
    notes: common.Notes,
    rewrite: Options,
) -> None:
    """Write the instrumented copy of the module that holds the loop."""
    from instrumentor.rewrite.prepare import prepare

    output = asked.output
    # The copy is run by hand, without the recorder's module on its path.
    prepared = prepare(script, replace(rewrite, self_contained=True))
    main = prepared.plan.file
    if output.resolve() in {p.resolve() for p in prepared.originals} | {prepared.script.resolve()}:
        raise UsageError(f"{output} is the original", "Give another name with -o.")
    if output.is_dir():
        output = output / main.name
    write_new(output, prepared.replacements[main], force=asked.force)
    if main != prepared.script:
        console.say(f"The loop is in {main}: {output} is the copy of that module")
    caveats, ignored = prepared.plan.warnings, rewrite.ignore_warnings
    console.warn_all(caveats, notes=notes.verbose, ignored=ignored)
    console.say(f"Wrote {output} (your file was not touched)")
    following = ("python3", output) if main == prepared.script else ("instrument", "run", script)
    console.say(f"Next: {console.quoted(*following)}")
