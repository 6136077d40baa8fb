"""`instrument explain-warning CODE`: what a warning means, and what to do about it."""

from __future__ import annotations

from typing import Annotated

import typer

from instrumentor.cli.signature import Verb
from instrumentor.shared import console
from instrumentor.shared.errors import UsageError
from instrumentor_analysis.shared.warning_codes import LEVELS, explained


@Verb
def explain_warning(
    code: Annotated[
        str, typer.Argument(metavar="CODE", help="As it stands behind the warning: W205.")
    ],
) -> None:
    """Say what a warning means, and what to do about it."""
    found = explained(code)
    if found is None:
        raise UsageError(f"{code} is no warning", "docs/warnings.md lists them.")
    console.out(f"{found.code} ({found.kind}): {found.title}.")
    console.out(f"  level   {found.weight}: {LEVELS[found.weight]}")
    console.out(f"  means   {found.why}")
    console.out(f"  remedy  {found.remedy}")
    console.out(f"  ignore  --ignore-warnings {found.code}, or in pyproject.toml:")
    console.out(f'            [tool.instrument]\n            ignore-warnings = "{found.code}"')
