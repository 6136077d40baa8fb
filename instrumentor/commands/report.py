"""`instrument report DIR`: analyse and render an earlier run again."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from instrumentor import console
from instrumentor.commands import common
from instrumentor.errors import UsageError

if TYPE_CHECKING:
    from analysis.model import Summary


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.")],
    json: common.Json = False,
) -> None:
    """Analyse and render an earlier run again."""
    from analysis.errors import AnalysisError
    from instrumentor.runner import analyse

    if not folder.is_dir():
        raise UsageError(
            f"{folder}: no such run folder", "Give a folder that `instrument run` wrote."
        )
    try:
        summary = analyse(folder)
    except AnalysisError as error:
        raise UsageError(str(error), getattr(error, "hint", "")) from error
    if json:
        console.out_json(summary.to_json())
    else:
        show_summary(summary)


def show_summary(summary: Summary) -> None:
    """The console's summary of a run."""
    from analysis.reports.console import render

    width = (
        shutil.get_terminal_size((100, 24)).columns
        if sys.stdout.isatty()
        else int(os.environ.get("COLUMNS") or 100)
    )
    console.out(render(summary, width=width, color=console.colored(sys.stdout)).rstrip("\n"))
