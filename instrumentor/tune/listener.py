"""Who listens to a tuning: the command line's narrator, a program's own, or nobody."""

from __future__ import annotations

from pathlib import Path

from instrumentor.tune.edits import Survey
from instrumentor.tune.judge import Measured
from instrumentor.tune.search import Trial


class Listener:
    """Hears of the progress; this one says nothing."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def began(self, folder: Path) -> None:
        """The folder is there, with the journal in it."""

    def found(self, survey: Survey) -> None:
        """Where each setting acts."""

    def begins(self, trial: Trial, number: int, left: int, left_s: float | None) -> None:
        """A trial starts; ``left`` trials at most are still to come, it included."""

    def ends(self, trial: Trial, measured: Measured, *, known: bool) -> None:
        """A trial has its result; ``known`` from the journal."""
