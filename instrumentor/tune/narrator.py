"""A tuning's progress on the terminal; no silence is longer than ten seconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from instrumentor.shared import console
from instrumentor.tune.edits import Survey
from instrumentor.tune.outcome import Outcome
from instrumentor.tune.search import Trial
from instrumentor.tune.target import NotApplicable
from instrumentor_analysis.shared.units import quantity

_WORDS = {"True": "on", "False": "off"}


class Narrator(console.Narrator):
    """The progress as lines: what is tried, what came of it, how long it may still take."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self.folder: Path | None = None
        self.survey: Survey = {}
        self.left_s: float | None = None  # of all trials, when the one that runs began

    def note(self, text: str) -> None:
        """Something worth a line."""
        self._say(text)

    def busy(self, said: str, *, goes_on: bool) -> None:
        """Before the first trial: other work goes on here.

        Args:
            said: how much, as :func:`.load.busy_lately` says it.
            goes_on: a recommendation is made all the same.
        """
        self._say(f"{said[:1].upper()}{said[1:]}")
        end = "the times may be wrong" if goes_on else "the tuning recommends nothing"
        self._say(f"  If that lasts, {end}; better wait until it is quiet")

    def began(self, folder: Path, survey: Survey) -> None:
        """The folder is there, with the journal in it; which settings the script rules out."""
        self.folder, self.survey = folder, survey
        left = [name for name, at in survey.items() if isinstance(at, NotApplicable)]
        if left:
            self._say(f"Not applicable to this script: {', '.join(left)} (tune.md says why)")

    def tries(self, names: Sequence[str]) -> None:
        """Which settings can act where the steps run, and at which line each does."""
        for name in names:
            at = self.survey[name]
            if not isinstance(at, NotApplicable):
                own = "" if at.own is None else f", now {_WORDS.get(str(at.own), at.own)}"
                self._say(f"Will try {name}: {console.shown(at.file)}:{at.line} ({at.how}{own})")

    def begins(self, trial: Trial, number: int, left: int, left_s: float | None) -> None:
        """A trial starts.

        Args:
            number: of the trial, from 1.
            left: trials that are still to come at most, this one included.
            left_s: time they may still take, seconds; None when it cannot be estimated.
        """
        rest = "" if left_s is None else f", about {_duration(left_s)} left"
        self.left_s = left_s
        self.steps, self.total = number - 1, number + max(0, left - 1)
        said = f"trial {number} of at most {self.total}"
        self._say(f"{said.capitalize()}{rest}: {trial.configuration}")
        self._now(f"running {said}: {trial.configuration}")

    def _left(self, now: float) -> str:
        """How long the tuning may still take."""
        if not self.doing.startswith("running trial"):
            return ""
        if self.left_s is None:
            return "how long all will take is known after it"
        return f"about {_duration(max(0.0, self.left_s - (now - self.since)))} left in all"

    def ends(self, trial: Trial, made: Outcome, *, known: bool) -> None:
        """A trial has its result.

        Args:
            known: it was read from the journal of an earlier tuning, not run.
        """
        if not made.measured:
            text = f"{made.status}: {made.reason}"
        else:
            rate = made.samples_per_s
            text = f"{quantity(made.median_ms, 'ms')} per step"
            text += "" if rate is None else f", {quantity(rate, 'samples/s')}"
        self._say(f"  {'(from the journal) ' if known else ''}{trial.configuration}: {text}")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
