"""Runs trials, as many at once as the executor allows, and writes what came of them down."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from instrumentor.tune import outcome as words
from instrumentor.tune.executors import Executor, Job, runs
from instrumentor.tune.journal import Journal
from instrumentor.tune.narrator import Narrator
from instrumentor.tune.options import TuneOptions
from instrumentor.tune.outcome import Outcome
from instrumentor.tune.search import Trial
from instrumentor.tune.settings import BATCH_SIZE, Configuration
from instrumentor.tune.target import Target
from instrumentor.tune.trial import Spec, read_result, run_trial

_POLL_S = 0.2
#: The default limit of a trial: so many times the baseline's duration, and at least that.
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
        shows_batch: the first axis of what the loop takes is the batch; None before it is known.
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
        """Outcomes of independent trials; None for those that the budget does not allow."""
        waiting = list(trials)
        running: list[_Running] = []
        results: dict[str, Outcome | None] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.executor.jobs:
                    trial = waiting.pop(0)
                    known = self.journal.outcomes.get(trial.key)
                    begun = self._begin(trial) if known is None else None
                    running += [begun] if begun else []
                    results[trial.key] = self._told(trial, known, known=True) if known else None
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

    def _begin(self, trial: Trial) -> _Running | None:
        """Start a trial, or find the one that a killed tuning left; None at the budget's end."""
        left = self.journal.begun.get(trial.key)
        if left is not None and (runs(left) or read_result(left) is not None):
            self.narrator.note(
                f"{trial.configuration}: the trial of the earlier tuning is still running"
            )
            return _Running(trial, left, None)
        # Until the baseline is known nothing but the budget limits a trial: a first compilation
        # may take any time.
        limit, rest = self._own_limit(), self._rest_s()
        if rest is not None and rest <= 0:
            return None
        if rest is not None and (limit is None or rest < limit):
            limit = rest
            self.cut_short.add(trial.key)
        number = self.journal.count + 1
        self.narrator.begins(trial, number, self.left, self._left_s())
        folder = self.journal.free(trial.slug)
        options = dataclasses.replace(
            self.options.run,
            profiler="wallclock",
            label=trial.slug,
            rewrite=self.options.rewrite,
            cwd=self.target.cwd,
            timeout_s=limit,
        )
        spec = Spec(
            self.target.script,
            self.target.arguments,
            folder,
            trial.configuration,
            options,
            self.executor.environment,
            self.journal.header["digest"],
        )
        self.journal.begin(trial.key, folder)
        return _Running(trial, folder, self.executor.start(run_trial, spec, limit))

    def _ended(self, one: _Running) -> Outcome | None:
        """The outcome of a trial, or None while it runs."""
        over = one.job.ended() if one.job is not None else not runs(one.folder)
        made = read_result(one.folder)  # behind the question: it is written before the end
        if made is not None or not over:
            return made
        how = one.job.how() if one.job is not None else "its process is gone"
        return Outcome(words.KILLED, f"the trial left no result: {how}")

    def _kept(self, trial: Trial, made: Outcome) -> Outcome | None:
        """Write an outcome down; None for one that only the end of the budget made."""
        # Not a result of the setting: with a larger budget the same trial may end well.
        if made.status == words.TIMEOUT and trial.key in self.cut_short:
            self.journal.drop(trial.key)  # another day it may come to its end
            return None
        self.journal.end(trial.key, made)
        return self._told(trial, made, known=False)

    def _told(self, trial: Trial, made: Outcome, *, known: bool) -> Outcome:
        self.left = max(0, self.left - 1)
        asked = trial.configuration.get(BATCH_SIZE.name)
        made = replace(made, batch_size=self._batch_size(trial, made, asked))
        # The change did not reach the data loader, so this trial is one of the script as it was.
        if made.measured and asked is not None and made.batch_size != asked:
            why = f"its batches hold {made.batch_size}: something else decides their size"
            made = replace(made, status=words.FAILED, reason=why, batch_size=None)
        self.narrator.ends(trial, made, known=known)
        return made

    def _batch_size(self, trial: Trial, made: Outcome, asked: object) -> int | None:
        """Samples in a step: from the first dimension of what the loop took, where that tells."""
        shown = made.batch_shape[0] if made.batch_shape else None
        if not trial.setting and shown is not None:
            self.shows_batch = self.own_batch is None or shown == self.own_batch
        if self.shows_batch and shown is not None:
            return shown
        return asked if isinstance(asked, int) else self.own_batch

    def _own_limit(self) -> float | None:
        """Time limit of a trial for its own sake, seconds."""
        if self.options.timeout_s is not None:
            return self.options.timeout_s
        baseline = self.journal.outcomes.get(Trial(Configuration()).key)
        if baseline is None:
            return None
        return max(_LEAST_TIMEOUT_S, _TIMES_BASELINE * baseline.duration_s)

    def _rest_s(self) -> float | None:
        """Remaining budget, seconds; None without a budget."""
        return None if self.deadline is None else self.deadline - time.monotonic()

    def _left_s(self) -> float | None:
        """Estimate of the time to the end: trials at most left, at the mean so far."""
        times = [o.duration_s for o in self.journal.outcomes.values() if o.duration_s]
        if not times:
            return None
        left, rest = self.left * sum(times) / len(times) / self.executor.jobs, self._rest_s()
        return left if rest is None else max(0.0, min(left, rest))
