"""Write a run's reports into its folder.

Each file is written beside its place and renamed into it, so that a reader never sees half of
one and a failed write leaves the earlier one. Only the paths of
:data:`analysis.reports.FORMATS` are ever written.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from analysis import reports
from analysis.model import Summary

if TYPE_CHECKING:
    from analysis.report_options import Report


def write_all(
    summary: Summary,
    folder: Path,
    *,
    report: Report | None = None,
    formats: Sequence[str] = reports.DEFAULT,
) -> Mapping[str, Path]:
    """Write the reports of a summary.

    Args:
        folder: of the run; it must exist.
        report: frames of the step's ops, for the formats that show single ops.
        formats: names from :data:`analysis.reports.FORMATS`.

    Returns:
        Format name to the path written, in the order of writing. A format that needs ops is
        left out when there are none.

    Raises:
        BadOption: an unknown format.
        OSError: the folder cannot be written to.
    """
    wanted = {reports.named(name).name for name in formats}
    written: dict[str, Path] = {}
    for each in reports.FORMATS:
        if each.name not in wanted or (each.needs_ops and report is None):
            continue
        # What lists files names those that are there, itself included.
        known = {**summary.artifacts, **{n: str(p.relative_to(folder)) for n, p in written.items()}}
        target = folder / each.path
        if _write(each.name, replace(summary, artifacts=known), target, report):
            written[each.name] = target
    return written


def _write(name: str, summary: Summary, target: Path, report: Report | None) -> bool:
    """Write one format; False where the summary has nothing for it."""
    if name == "json":
        from analysis.reports import json

        replace_text(target, json.render(summary))
    elif name == "markdown":
        from analysis.reports import markdown

        replace_text(target, markdown.render(summary))
    else:
        return False
    return True


def replace_text(target: Path, text: str) -> None:
    """Put a text file in place at once; UTF-8, newlines as they are."""
    replace_bytes(target, text.encode("utf-8"))


def replace_bytes(target: Path, content: bytes) -> None:
    """Put a file in place at once: the old content or the new, never part of one."""
    # Opened as any file is, not by tempfile: its 0600 would hide the report from colleagues.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
