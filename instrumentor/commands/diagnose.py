"""`instrument diagnose LOGFILE`: known failures in anybody's log, as what / why / do this."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from instrumentor import console
from instrumentor.commands import common
from instrumentor.errors import UsageError

SCHEMA = "instrument-diagnosis/1"


def diagnose(
    logfile: Annotated[
        Path, typer.Argument(metavar="LOGFILE", help="A log, a run folder, or - for stdin.")
    ],
    json: common.Json = False,
) -> None:
    """Explain a log of a run: what happened, why, what to do."""
    from instrumentor.diagnose import diagnose as find
    from instrumentor.diagnose import last_traceback, relevant_tail

    path, text = _read(logfile)
    found = find(text)
    shown = last_traceback(text) or relevant_tail(text)
    if json:
        console.out_json(
            {
                "schema": SCHEMA,
                "log": str(path),
                "failures": [asdict(each) for each in found],
                "last_lines": shown.splitlines(),
            }
        )
        return
    for each in found:
        console.out(f"what: {each.title}")
        console.out(f"  line {each.line_number}: {each.line}")
        console.out(f"why:  {each.cause}")
        console.out(f"do:   {each.remedy}" + (f" ({each.link})" if each.link else ""))
        console.out()
    if not found:
        console.out(f"No known failure in {path}; its last lines:")
        console.out(shown)


def _read(logfile: Path) -> tuple[Path, str]:
    if str(logfile) == "-":
        return logfile, sys.stdin.buffer.read().decode("utf-8", "replace")
    path = logfile / "run.log" if logfile.is_dir() else logfile
    try:
        return path, path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror}", "Give the log of a run."
        ) from error
