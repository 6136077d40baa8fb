"""`instrument apply SCRIPT -o COPY`: write the instrumented copy, never over a file of yours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from instrumentor import console
from instrumentor.commands import common
from instrumentor.errors import UsageError
from instrumentor.outputs import write_new


def apply(
    script: Annotated[Path, typer.Argument(help="The training script.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the copy goes.")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing file (never the original).")
    ] = False,
    steps: common.Steps = None,
    warmup: common.Warmup = None,
    scope: common.Scope = "auto",
    profiler: common.ProfilerName = "auto",
    loop: common.Loop = "",
    mode: common.Mode = "auto",
    region: common.Region = "",
    keep_validation: common.KeepValidation = False,
    only: common.Only = "",
    skip: common.Skip = "",
) -> None:
    """Write the instrumented copy of the module that holds the loop."""
    from instrumentor.prepare import prepare

    options = common.make_options(
        self_contained=True,
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
    )
    prepared = prepare(script, options)
    main = prepared.plan.file
    others = [p for p in prepared.replacements if p != main]
    if output.resolve() in {p.resolve() for p in prepared.originals} | {prepared.script.resolve()}:
        raise UsageError(f"{output} is the original", "Give another name with -o.")
    if output.is_dir():
        output = output / main.name
    write_new(output, prepared.replacements[main], force=force)
    if main != prepared.script:
        console.say(f"The loop is in {main}: {output} is the copy of that module")
    for other in others:
        console.warn(f"{other} would be changed too; `instrument run` does both")
    console.warn_all(prepared.plan.warnings)
    console.say(f"Wrote {output} (your file was not touched)")
    following = ("python3", output) if main == prepared.script else ("instrument", "run", script)
    console.say(f"Next: {console.quoted(*following)}")
