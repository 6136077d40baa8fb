"""One family of errors: a message, a remedy, and the exit code that the command line gives it.

Everything this package raises on purpose is an :class:`InstrumentError`; the command line
catches it at one seam, prints ``message`` and ``hint`` and leaves with ``exit_code``.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

EXIT_CODES: dict[int, str] = {
    0: "done",
    1: "script or profiler failed (the script's own code is in summary.json); kernel run: the "
    "kernel hangs, is wrong or does not fit; diagnose: an error that is not known",
    2: "usage: an option, a path or a configuration file is wrong",
    3: "declined: the script cannot be instrumented correctly; file, line and reason are printed",
    4: "not ready: something the run needs is missing or busy",
    5: "not undone: an earlier run could not be undone automatically; what to do is printed",
    6: "regression found (compare --fail-on-regression)",
    7: "undecided: more runs are needed to rule a regression in or out (compare "
    "--fail-on-regression)",
    8: "not verified: the timed region is not the step; what lies outside is printed, no figures",
    130: "interrupted",
}


class InstrumentError(Exception):
    """Base of all errors raised on purpose.

    Attributes:
        message: what happened, one sentence.
        hint: what to do next, or an empty string.
        word: what the console calls it.
        result: of a run that failed half way, what it would have returned, as far as it came.
    """

    exit_code: ClassVar[int] = 1
    word: ClassVar[str] = "error"
    result: Any = None

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(InstrumentError):
    """An option, a path or a configuration value that cannot be used."""

    exit_code = 2


class NotReady(InstrumentError):
    """The machine lacks something that the run needs."""

    exit_code = 4


#: Refusals of the system that are no fault of this program, and what to do about them.
_REFUSALS = {
    errno.ENOSPC: "Make room there.",
    errno.EDQUOT: "Make room there: your quota is used up.",
    errno.EFBIG: "Raise the limit on the size of files (ulimit -f), or write less.",
    errno.EROFS: "Choose a location that you can write to.",
    errno.EIO: "See the system's log (dmesg): the disk or its connection is failing.",
    errno.EMFILE: "Raise the limit on open files (ulimit -n).",
    errno.ENFILE: "End other programs: the machine has no open files left.",
    errno.ENOMEM: "End other programs, or raise the limit on memory (ulimit -v).",
}


def of_the_system(error: OSError) -> InstrumentError | None:
    """The error to show for a refusal of the system; None for one that names no file."""
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in _REFUSALS:
        return NotReady(f"{where}{error.strerror}", _REFUSALS[error.errno])
    if not error.filename:
        return None
    # Whatever stands at a path is somebody's choice, a repository's or a script's: no fault here.
    told = f"{where}{error.strerror}"
    return UsageError(told, "Look at what stands there (ls -l), or give another.")


class RunFailed(InstrumentError):
    """The script or the profiler failed."""

    exit_code = 1


class ScriptFailed(RunFailed):
    """The script itself ended with an error, which no other way of reading or running it avoids.

    Attributes:
        raised: the traceback with which it ended, as it stands in the log; empty without one.
    """

    raised = ""


class ProofFailed(InstrumentError):
    """The rewritten source did not pass one of its proofs; nothing was run."""

    exit_code = 3


Action = Literal["restored", "unchanged", "kept-both", "failed", "running"]


@dataclass(frozen=True)
class Restored:
    """What became of one file.

    Attributes:
        path: the user's file.
        action: ``restored`` from git; ``unchanged``: it was as before already; ``kept-both``: it
            was edited during the run, so it stays as it is; ``failed``: see text; ``running``:
            its run is alive.
        text: one sentence.
        kept: where another version of it was put, if one was.
        elsewhere: where its instrumented text stays, if it does.
    """

    path: Path
    action: Action
    text: str
    kept: tuple[Path, ...] = ()
    elsewhere: str = ""

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return {
            "path": str(self.path),
            "action": self.action,
            "text": self.text,
            "kept": [str(path) for path in self.kept],
        }


class RestoreNeeded(InstrumentError):
    """A file of the user's could not be put back without a decision of theirs.

    Attributes:
        restored: what was found and what became of it, the rest included.
    """

    exit_code = 5
    restored: tuple[Restored, ...] = ()


class RegressionFound(InstrumentError):
    """A run is slower than the one it was compared with by more than was allowed."""

    exit_code = 6


class Undecided(InstrumentError):
    """Whether a run is slower than allowed takes more runs than were given."""

    exit_code = 7


class NotVerified(InstrumentError):
    """The run showed that the timed region is not the step: there are no figures."""

    exit_code = 8


class Interrupted(InstrumentError):
    """The user interrupted the run."""

    exit_code = 130  # as shells have it: 128 + SIGINT
