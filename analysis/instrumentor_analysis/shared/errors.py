"""Errors of the analysis: a message, a remedy, and where in the file it was.

The family stands alone (nothing here imports the command line's package); a front end catches
:class:`AnalysisError` and shows ``message`` and ``hint``.
"""

from __future__ import annotations

from pathlib import Path


class AnalysisError(Exception):
    """Base of all errors raised on purpose.

    Attributes:
        message: what is wrong, one sentence.
        hint: what to do next, or an empty string.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NotAnOpsFile(AnalysisError):
    """The file is not an ops CSV: a column that every one has is missing, or it is empty."""

    def __init__(self, message: str) -> None:
        hint = (
            "Give the folder of a run, or an ops_perf_results_*.csv as `python3 -m tracy -r` "
            "writes it."
        )
        super().__init__(message, hint)


class DamagedFile(AnalysisError):
    """The file begins well and then does not: truncated, or a cell of the wrong kind.

    Attributes:
        line: 1-based line of the damage (1 is the header), or None when unknown.
        column: name of the column, or None when the line as a whole is wrong.
    """

    def __init__(
        self, path: Path, message: str, line: int | None = None, column: str | None = None
    ) -> None:
        where = "" if line is None else f", line {line}"
        where += "" if column is None else f", column {column!r}"
        super().__init__(
            f"{path.name}{where}: {message}",
            "The file may be cut short by a killed run; make the report again from .logs with "
            "`python3 -m tracy --process-logs-only`, or profile again.",
        )
        self.line = line
        self.column = column


class EmptyWindow(AnalysisError):
    """The chosen part of the file holds no device op; the message says what was found."""


class NoSuchStep(AnalysisError):
    """The step asked for is not in the file, or is not complete."""


class NoSuchSignpost(AnalysisError):
    """A border of the window that the file does not have; the hint lists its signposts."""


class NothingMeasured(AnalysisError):
    """A run folder without a single usable sample or op."""


class BadOption(AnalysisError):
    """An option of the report that cannot be used, such as a range or an architecture."""


class NotASummary(AnalysisError):
    """The file is no summary.json of a run."""


class NotComparable(AnalysisError):
    """Two runs whose figures mean different things; the hint says how to measure them alike."""
