"""`instrument diagnose LOGFILE`: known failures in anybody's log: what, why, what to do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import asdict

from instrumentor.cli import common
from instrumentor.cli.signature import Verb
from instrumentor.shared import console
from instrumentor.shared.errors import UsageError
from instrumentor_analysis.shared.documents import object_in
from instrumentor_analysis.shared.files import LIMIT_BYTES, read_text

SCHEMA = "instrument-diagnosis/1"


@Verb
def diagnose(
    logfile: Annotated[
        Path, typer.Argument(metavar="LOGFILE", help="A log, a run folder, or - for stdin.")
    ],
    *,
    shown: common.Json,
) -> None:
    """Explain a log of a run: what happened, why, what to do.

    Exit code 1 when the log shows an error that is not known.
    """
    from instrumentor.run.known_failures import diagnose as find
    from instrumentor.run.known_failures import error_lines, last_traceback, reasons

    path, text = _read(logfile)
    found = find(text)
    # Of a known failure the line that shows it is enough.
    telling = () if reasons(found) else error_lines(text)
    traceback = _in_users_lines(path) or last_traceback(text) or ""
    known = bool(reasons(found)) or not (telling or traceback)
    if shown.json:
        console.out_json(
            {
                "schema": SCHEMA,
                "log": str(path),
                "failures": [asdict(each) for each in found],
                "telling_lines": [{"line_number": n, "line": line} for n, line in telling],
                "traceback": traceback.splitlines(),
            }
        )
        raise typer.Exit(0 if known else 1)
    for each in found:
        console.out(f"{'note' if each.harmless else 'what'}: {each.title}")
        console.out(f"  line {each.line_number}: {each.line}")
        console.out(f"why:  {each.cause}")
        console.out(f"hint: {each.remedy}")
        if each.page:
            console.out(f"seen: {each.page}")
        console.out()
    if not known:
        _show_unknown(path, telling, traceback)
        raise typer.Exit(1)
    if not found:
        console.out("This log shows no error.")


def _show_unknown(path: Path, telling: Sequence[tuple[int, str]], traceback: str) -> None:
    console.out(f"No known failure in {path}.")
    if traceback:
        # What a run tells of its failure has a first line of its own.
        if traceback.startswith("Traceback"):
            console.out("Its last traceback:")
        console.out(f"{traceback[:1].upper()}{traceback[1:]}")
    telling = [each for each in telling if each[1].strip() not in traceback]
    if telling:
        console.out("Lines that look like errors:")
    for number, line in telling:
        console.out(f"  line {number}: {line}")


def _in_users_lines(log: Path) -> str:
    """Why the run beside a log failed, as the run told it; its log names the lines of a copy."""
    failure = object_in(log.with_name("run.json")).get("failure")
    return failure if isinstance(failure, str) else ""


def _read(logfile: Path) -> tuple[Path, str]:
    if str(logfile) == "-":
        data = sys.stdin.buffer.read(LIMIT_BYTES + 1)
        if len(data) > LIMIT_BYTES:
            raise UsageError(
                f"the input is larger than {LIMIT_BYTES // 2**20} MiB", "Give the end of the log."
            )
        return logfile, data.decode("utf-8", "replace")
    path = logfile / "run.log" if logfile.is_dir() else logfile
    try:
        return path, read_text(path, "replace")
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror}", "Give the log of a run."
        ) from error
