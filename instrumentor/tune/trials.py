"""Runs trials, as many at once as the executor allows, and writes what came of them down."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from instrumentor.tune import outcome as words
from instrumentor.tune.executors import Executor, Job, environment_of_trials
from instrumentor.tune.journal import Journal
from instrumentor.tune.narrator import Narrator
from instrumentor.tune.options import TuneOptions
from instrumentor.tune.outcome import Outcome
from instrumentor.tune.search import Trial
from instrumentor.tune.settings import BATCH_SIZE, Configuration
from instrumentor.tune.spec import Spec, read_result, runs
from instrumentor.tune.target import Target

_POLL_S = 0.2
_LEAST_TIMEOUT_S = 300.0
_TIMES_BASELINE = 10


class _Running(Struct, frozen=True):
    """A trial under way; without a job one that an earlier tuning began."""

    trial: Trial
    folder: Path
    job: Job | None


class Trials(Struct):
    """Runs trials and remembers them.

    Attributes:
        own_batch: the script's own batch size, None where it cannot be seen.
        left: trials that are still to come, at most.
        cut_short: keys of trials whose limit is the end of the budget.
    """

    target: Target
    journal: Journal
    options: TuneOptions
    executor: Executor
    narrator: Narrator
    own_batch: int | None
    shows_batch: bool | None = None
    left: int = 0
    cut_short: set[str] = field(default_factory=set)
    deadline: float | None = None

    def __post_init__(self) -> None:
        if self.options.budget_s is not None:
            self.deadline = time.monotonic() + self.options.budget_s

    def expect(self, trials: int) -> None:
        """At most so many trials are still to come."""
        self.left = trials

    def measure(self, trials: Sequence[Trial]) -> list[Outcome | None]:
        """Outcomes of independent trials, as many at once as the executor allows."""
        waiting = list(trials)
        running: list[_Running] = []
        results: dict[str, Outcome | None] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.executor.jobs:
                    self._take(waiting.pop(0), running, results)
                for one in tuple(running):
                    made = self._ended(one)
                    if made is not None:
                        running.remove(one)
                        results[one.trial.key] = self._kept(one.trial, made)
                if running:
                    time.sleep(_POLL_S)
        except BaseException:
            for one in running:
                if one.job is not None:
                    one.job.cancel()
                    self.journal.drop(one.trial.key)  # what it left shows the interruption
            raise
        return [results[trial.key] for trial in trials]

    def _take(
        self, trial: Trial, running: list[_Running], results: dict[str, Outcome | None]
    ) -> None:
        """The outcome that the journal has, or a trial that runs; None at the budget's end."""
        known = self.journal.outcomes.get(trial.key)
        if known is not None:
            results[trial.key] = self._told(trial, known, known=True)
            return
        begun = self._begin(trial)
        if begun is None:
            results[trial.key] = None
        else:
            running.append(begun)

    def _kept(self, trial: Trial, made: Outcome) -> Outcome | None:
        """Write an outcome down; None for one that only the end of the budget made."""
        if made.status == words.TIMEOUT and trial.key in self.cut_short:
            self.journal.drop(trial.key)  # another day it may come to its end
            return None
        self.journal.end(trial.key, made)
        return self._told(trial, made, known=False)

    def _told(self, trial: Trial, made: Outcome, *, known: bool) -> Outcome:
        self.left = max(0, self.left - 1)
        made = replace(made, batch_size=self._batch_size(trial, made))
        asked = trial.configuration.get(BATCH_SIZE.name)
        if made.measured and asked is not None and made.batch_size != asked:
            why = f"its batches hold {made.batch_size}: something else decides their size"
            made = replace(made, status=words.FAILED, reason=why, batch_size=None)
        self.narrator.ends(trial, made, known=known)
        return made

    def _begin(self, trial: Trial) -> _Running | None:
        """Start a trial, or find the one that a killed tuning left running."""
        left = self.journal.begun.get(trial.key)
        if left is not None and (runs(left) or read_result(left) is not None):
            self.narrator.note(
                f"{trial.configuration}: the trial of the earlier tuning is still running"
            )
            return _Running(trial, left, None)
        limit = self._own_limit()
        rest = self.deadline - time.monotonic() if self.deadline is not None else None
        if rest is not None and rest <= 0:
            return None
        if rest is not None and (limit is None or rest < limit):
            limit = rest
            self.cut_short.add(trial.key)
        number = self.journal.count + 1
        self.narrator.begins(trial, number, self.left, self._left_s())
        folder = self.journal.path.parent / "trials" / f"{number:02d}_{trial.slug}"
        folder.mkdir(parents=True)
        spec = Spec(
            script=self.target.script,
            arguments=self.target.arguments,
            cwd=self.target.cwd,
            folder=folder,
            configuration=trial.configuration,
            rewrite=self.options.rewrite,
            run={"profiler": "wallclock", "label": trial.slug, **self.options.run},
            environment=environment_of_trials(self.options.executor),
            digest=self.journal.header["digest"],
            timeout_s=limit,
        )
        self.journal.begin(trial.key, folder)
        return _Running(trial, folder, self.executor.start(spec))

    def _ended(self, one: _Running) -> Outcome | None:
        """The outcome of a trial, or None while it runs."""
        over = one.job.ended() if one.job is not None else not runs(one.folder)
        made = read_result(one.folder)  # behind the question: it is written before the end
        if made is not None or not over:
            return made
        how = one.job.how() if one.job is not None else "its process is gone"
        return Outcome(words.KILLED, f"the trial left no result: {how}")

    def _own_limit(self) -> float | None:
        """Time limit of a trial for its own sake, seconds."""
        if self.options.timeout_s is not None:
            return self.options.timeout_s
        baseline = self.journal.outcomes.get(Trial(Configuration()).key)
        if baseline is None:
            return None
        return max(_LEAST_TIMEOUT_S, _TIMES_BASELINE * baseline.duration_s)

    def _left_s(self) -> float | None:
        """Estimate of the time to the end: trials at most left, at the mean so far."""
        times = [o.duration_s for o in self.journal.outcomes.values() if o.duration_s]
        if not times:
            return None
        left = self.left * sum(times) / len(times) / self.executor.jobs
        rest = self.deadline - time.monotonic() if self.deadline is not None else left
        return max(0.0, min(left, rest))

    def _batch_size(self, trial: Trial, made: Outcome) -> int | None:
        """Samples in a step: from the first dimension of what the loop took, where that tells."""
        shown = made.batch_shape[0] if made.batch_shape else None
        if not trial.setting and shown is not None:
            self.shows_batch = self.own_batch is None or shown == self.own_batch
        if self.shows_batch and shown is not None:
            return shown
        asked = trial.configuration.get(BATCH_SIZE.name)
        return int(asked) if asked is not None else self.own_batch
