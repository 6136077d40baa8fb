"""The whole of a tuning: survey, trials, journal; every file of the user's stays as it is."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from instrumentor.errors import UsageError
from instrumentor.options import Options
from instrumentor.tune import batch_size
from instrumentor.tune import outcome as words
from instrumentor.tune.edits import Refusal, Site, own_dtype, survey
from instrumentor.tune.executors import Executor, Job, choose, environment_of_trials
from instrumentor.tune.judge import Judge, Measured
from instrumentor.tune.levers import BATCH_SIZE, LEVERS, Lever, Setting, lever
from instrumentor.tune.outcome import Outcome
from instrumentor.tune.search import Ask, Choice, Search, batch_sizes
from instrumentor.tune.state import Journal
from instrumentor.tune.target import NotApplicable, Target, read_target
from instrumentor.tune.trial import (
    Spec,
    digest,
    options_from_json,
    options_to_json,
    read_result,
    runs,
)

#: Steady steps in a trial below which no difference is ever sure.
FEWEST_STEADY = 4
_POLL_S = 0.2
_LEAST_TIMEOUT_S = 300.0
_TIMES_BASELINE = 10


@dataclass(frozen=True)
class TuneOptions:
    """Choices of a tuning.

    Attributes:
        rewrite: for locating and rewriting; by default 3 warm-up and 10 steady steps.
        levers: names, in any order; empty means all.
        batch_sizes: tried instead of the usual ones.
        budget_s: no trial is started after that time, and none runs on beyond it.
        timeout_s: limit of one trial; by default 10 times the baseline's, 300 s at least.
        loss_tolerance: relative change of the median loss that is allowed.
        output: the folder; None makes `<name>_tune` in the working directory.
        jobs: trials at once under Slurm.
        executor_parameters: handed to submitit's `update_parameters`.
        run: further choices for each run (python, tt_xla, link, no_link).

    Raises:
        UsageError: a value out of range.
    """

    rewrite: Options = field(default_factory=lambda: Options(steps=13, warmup=3))
    levers: tuple[str, ...] = ()
    batch_sizes: tuple[int, ...] = ()
    strategy: str = "one-at-a-time"
    budget_s: float | None = None
    timeout_s: float | None = None
    loss_tolerance: float = 1e-2
    output: Path | None = None
    executor: str = "local"
    jobs: int = 1
    executor_parameters: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)
    cwd: Path | None = None

    def __post_init__(self) -> None:
        steady = self.rewrite.steps - self.rewrite.warmup
        if steady < FEWEST_STEADY:
            raise UsageError(
                f"{steady} steady steps cannot show any difference for sure",
                f"Give --steps {self.rewrite.warmup + 10} or so.",
            )
        if self.budget_s is not None and self.budget_s <= 0:
            raise UsageError("--budget: must be above 0 minutes")
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise UsageError("--trial-timeout: must be above 0 seconds")
        if self.loss_tolerance < 0:
            raise UsageError("--loss-tolerance: cannot be negative")
        if any(size < 1 for size in self.batch_sizes):
            raise UsageError("--batch-sizes: must be 1 or more")
        for name in self.levers:
            lever(name)


class Listener(Protocol):
    """Hears of the progress."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def began(self, folder: Path) -> None:
        """The folder is there, with the journal in it."""

    def found(self, target: Target, survey: Mapping[str, Site | Refusal]) -> None:
        """Where each lever acts."""

    def begins(self, ask: Ask, number: int, left: int, left_s: float | None) -> None:
        """A trial starts; ``left`` trials at most are still to come, it included."""

    def ends(self, ask: Ask, measured: Measured, *, known: bool) -> None:
        """A trial has its result; ``known`` from the journal."""


class Silent:
    """Says nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def began(self, folder: Path) -> None:
        """Nothing."""

    def found(self, target: Target, survey: Mapping[str, Site | Refusal]) -> None:
        """Nothing."""

    def begins(self, ask: Ask, number: int, left: int, left_s: float | None) -> None:
        """Nothing."""

    def ends(self, ask: Ask, measured: Measured, *, known: bool) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Tuned:
    """A finished tuning.

    Attributes:
        folder: everything that was written.
        survey: where each lever acts, or why not.
    """

    folder: Path
    target: Target
    survey: Mapping[str, Site | Refusal]
    search: Search
    options: TuneOptions
    duration_s: float


def tune(
    script: Path,
    arguments: Sequence[str] = (),
    options: TuneOptions | None = None,
    listener: Listener | None = None,
) -> Tuned:
    """Find out which levers make a script faster, by changing one at a time.

    Raises:
        Declined, UsageError, NotReady: before anything runs.
        RunFailed: the script as it is cannot be measured.
        KeyboardInterrupt: the trial under way was ended; the journal keeps the others.
    """
    options = options or TuneOptions()
    cwd = (options.cwd or Path.cwd()).absolute()
    target = read_target(script, arguments, cwd, options.rewrite)
    folder = _new_folder(target, options, cwd)
    header = {
        "script": str(target.script),
        "arguments": list(target.arguments),
        "cwd": str(cwd),
        "digest": digest(target.files()),
        "rewrite": options_to_json(options.rewrite),
        "levers": list(options.levers),
        "batch_sizes": list(options.batch_sizes),
        "strategy": options.strategy,
        "loss_tolerance": options.loss_tolerance,
        "run": dict(options.run),
    }
    journal = Journal.create(folder, header)
    return _go(target, journal, options, listener or Silent())


def resume(
    folder: Path, options: TuneOptions | None = None, listener: Listener | None = None
) -> Tuned:
    """Go on with a tuning that was killed, interrupted or out of budget.

    What is tried comes from its journal; budget, timeout and executor from ``options``.

    Raises:
        UsageError: there is no journal, or the script changed since.
    """
    options = options or TuneOptions()
    journal = Journal.open(folder.absolute())
    journal.forget_killed()
    told = journal.header
    options = dataclasses.replace(
        options,
        rewrite=options_from_json(told["rewrite"]),
        levers=tuple(told["levers"]),
        batch_sizes=tuple(told["batch_sizes"]),
        strategy=told["strategy"],
        loss_tolerance=told["loss_tolerance"],
        run=told["run"],
        cwd=Path(told["cwd"]),
    )
    target = read_target(
        Path(told["script"]), told["arguments"], Path(told["cwd"]), options.rewrite
    )
    if digest(target.files()) != told["digest"]:
        raise UsageError(
            f"--resume {folder}: {target.script.name} or a file it uses changed since then",
            "Start a new tuning: what was measured is of another script.",
        )
    return _go(target, journal, options, listener or Silent())


def _go(target: Target, journal: Journal, options: TuneOptions, listener: Listener) -> Tuned:
    from filelock import FileLock, Timeout

    folder = journal.path.parent
    listener.began(folder)
    started = time.monotonic()
    executor = choose(
        options.executor, folder, jobs=options.jobs, parameters=options.executor_parameters
    )
    levers = [one for one in LEVERS if not options.levers or one.name in options.levers]
    found = survey(target, levers)
    listener.found(target, found)
    listener.note(executor.description)
    choices = [_choice(target, one, found, options) for one in levers]
    lock = FileLock(folder / ".lock")
    try:
        with lock.acquire(timeout=0):
            lab = _Lab(target, journal, options, executor, listener)
            lab.own_batch = _own_batch(target)
            search = Search(
                lab,
                [c for c in choices if c is not None],
                Judge(loss_tolerance=options.loss_tolerance),
            )
            search.run(options.strategy)
    except Timeout as error:
        raise UsageError(f"{folder}: another tuning works in it") from error
    return Tuned(folder, target, found, search, options, time.monotonic() - started)


def _choice(
    target: Target, one: Lever, found: Mapping[str, Site | Refusal], options: TuneOptions
) -> Choice | None:
    site = found[one.name]
    if isinstance(site, Refusal):
        return None
    values = one.values
    if one.name == BATCH_SIZE.name:
        values = tuple(sorted(options.batch_sizes)) or batch_sizes(_own_batch(target))
    brings = {
        name: value
        for name, value in one.needs.items()
        if not (name == "dtype" and own_dtype(target) == value)
    }
    return Choice(one, site.own, values, brings)


def _own_batch(target: Target) -> int | None:
    """The script's own batch size, where it can be seen; known also when it is not tuned."""
    try:
        return batch_size.find(target).value
    except NotApplicable:
        return None


class _Lab:
    """Runs trials and remembers them."""

    def __init__(
        self,
        target: Target,
        journal: Journal,
        options: TuneOptions,
        executor: Executor,
        listener: Listener,
    ) -> None:
        self.target = target
        self.journal = journal
        self.options = options
        self.executor = executor
        self.listener = listener
        self.own_batch: int | None = None
        self.shows_batch: bool | None = None
        self.left = 0
        self.cut_short: set[str] = set()  # trials whose limit is the end of the budget
        self.deadline = (
            time.monotonic() + options.budget_s if options.budget_s is not None else None
        )

    def expect(self, trials: int) -> None:
        """At most so many trials are still to come."""
        self.left = trials

    def measure(self, asks: Sequence[Ask]) -> list[Measured | None]:
        """Outcomes of independent trials, as many at once as the executor allows."""
        waiting = list(asks)
        running: dict[str, tuple[Ask, Path, Job | None]] = {}
        results: dict[str, Measured | None] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.executor.jobs:
                    ask = waiting.pop(0)
                    known = self.journal.outcomes.get(ask.key)
                    if known is not None:
                        results[ask.key] = self._told(ask, known, known=True)
                    else:
                        begun = self._begin(ask)
                        if begun is None:
                            results[ask.key] = None
                        else:
                            running[ask.key] = (ask, *begun)
                for key, (ask, folder, job) in list(running.items()):
                    made = self._ended(key, folder, job)
                    if made is None:
                        continue
                    del running[key]
                    if made.status == words.TIMEOUT and key in self.cut_short:
                        self.journal.drop(key)  # another day it may come to its end
                        results[key] = None
                    else:
                        self.journal.end(key, made)
                        results[key] = self._told(ask, made, known=False)
                if running:
                    time.sleep(_POLL_S)
        except BaseException:
            for key, (_, _, job) in running.items():
                if job is not None:
                    job.cancel()
                    self.journal.drop(key)  # what it left shows the interruption
            raise
        return [results[ask.key] for ask in asks]

    def _told(self, ask: Ask, made: Outcome, *, known: bool) -> Measured:
        self.left = max(0, self.left - 1)
        measured = Measured(made, self._batch_size(ask, made))
        asked = ask.setting.get(BATCH_SIZE.name)
        if made.measured and asked is not None and measured.batch_size != asked:
            why = f"its batches hold {measured.batch_size}: something else decides their size"
            measured = Measured(dataclasses.replace(made, status=words.FAILED, reason=why), None)
        self.listener.ends(ask, measured, known=known)
        return measured

    def _begin(self, ask: Ask) -> tuple[Path, Job | None] | None:
        """Start a trial, or find the one that a killed tuning left running."""
        left = self.journal.unfinished(ask.key)
        if left is not None and (left[1] or read_result(left[0]) is not None):
            self.listener.note(f"{ask.setting}: the trial of the tuning before goes on")
            return left[0], None
        limit = self._own_limit()
        rest = self.deadline - time.monotonic() if self.deadline is not None else None
        if rest is not None and rest <= 0:
            return None
        if rest is not None and (limit is None or rest < limit):
            limit = rest
            self.cut_short.add(ask.key)
        number = self.journal.count + 1
        self.listener.begins(ask, number, self.left, self._left_s())
        folder = self.journal.path.parent / "trials" / f"{number:02d}_{_slug(ask)}"
        folder.mkdir(parents=True)
        spec = Spec(
            script=str(self.target.script),
            arguments=self.target.arguments,
            cwd=str(self.target.cwd),
            folder=str(folder),
            setting=ask.setting.to_json(),
            rewrite=options_to_json(self.options.rewrite),
            run={"profiler": "wallclock", "label": _slug(ask), **self.options.run},
            environment=environment_of_trials(self.options.executor),
            digest=self.journal.header["digest"],
            timeout_s=limit,
        )
        path = spec.write()
        self.journal.begin(ask.key, folder)
        return folder, self.executor.start(path, limit)

    def _ended(self, key: str, folder: Path, job: Job | None) -> Outcome | None:
        """The outcome of a trial, or None while it runs."""
        over = job.ended() if job is not None else not runs(folder)
        made = read_result(folder)  # behind the question: it is written before the end
        if made is not None or not over:
            return made
        how = job.how() if job is not None else "its process is gone"
        return Outcome(words.KILLED, f"the trial left no result: {how}")

    def _own_limit(self) -> float | None:
        """Time limit of a trial for its own sake, seconds."""
        if self.options.timeout_s is not None:
            return self.options.timeout_s
        baseline = self.journal.outcomes.get(Ask(Setting()).key)
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

    def _batch_size(self, ask: Ask, made: Outcome) -> int | None:
        """Samples in a step: from the first dimension of what the loop took, where that tells."""
        shown = made.batch_shape[0] if made.batch_shape else None
        if not ask.lever and shown is not None:
            self.shows_batch = self.own_batch is None or shown == self.own_batch
        if self.shows_batch and shown is not None:
            return shown
        asked = ask.setting.get(BATCH_SIZE.name)
        return int(asked) if asked is not None else self.own_batch


def _slug(ask: Ask) -> str:
    text = re.sub(r"[^A-Za-z0-9]+", "-", str(ask.setting)) if ask.setting.values else "baseline"
    return f"{text}-again" if ask.again else text


def _new_folder(target: Target, options: TuneOptions, cwd: Path) -> Path:
    from instrumentor.runner import run_name

    wanted = cwd / (options.output or Path(f"{run_name(target.script)}_tune"))
    number, folder = 1, wanted
    while folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        number += 1
        folder = wanted.with_name(f"{wanted.name}-{number}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made: {error.strerror}", "Give --output.") from error
    return folder
