"""`instrument explain-warning CODE`: what a warning means, and what to do about it."""

from __future__ import annotations

from typing import Annotated

import typer

from instrumentor.cli.signature import Verb
from instrumentor.shared import console
from instrumentor.shared.options import no_warning
from instrumentor_analysis.shared.warning_codes import LEVELS, WARNINGS, explained


@Verb
def explain_warning(
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE",
            help="As it stands behind the warning: W205. Without it, all are listed.",
        ),
    ] = None,
) -> None:
    """Say what a warning means, and what to do about it; or which there are."""
    if code is None:
        for each in WARNINGS:
            console.out(f"{each.code}  {each.title} ({each.kind})")
        return
    found = explained(code)
    if found is None:
        raise no_warning(code)
    console.out(f"{found.code} ({found.kind}): {found.title}.")
    console.out(f"  level   {found.weight}: {LEVELS[found.weight]}")
    console.out(f"  means   {found.why}")
    console.out(f"  remedy  {found.remedy}")
    ignore = f"--ignore-warnings {found.code} (of run, tune and explain)"
    console.out(f"  ignore  {ignore}, or in pyproject.toml:")
    console.out(f'            [tool.instrument]\n            ignore-warnings = "{found.code}"')
