"""The whole of a tuning: survey, trials, journal; every file of the user's stays as it is."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from instrumentor.errors import UsageError
from instrumentor.pipeline import new_folder
from instrumentor.runner import run_name
from instrumentor.tune import batch_size, executors
from instrumentor.tune.edits import Refusal, Site, own_dtype, survey
from instrumentor.tune.journal import Journal
from instrumentor.tune.judge import Judge
from instrumentor.tune.levers import BATCH_SIZE, LEVERS, Lever
from instrumentor.tune.listener import Listener
from instrumentor.tune.options import TuneOptions
from instrumentor.tune.search import Choice, NothingToTry, Search, batch_sizes, check_strategy
from instrumentor.tune.spec import digest, options_from_json, options_to_json
from instrumentor.tune.target import NotApplicable, Target, read_target
from instrumentor.tune.trials import Trials


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
        NothingToTry: no lever can act on the script, or not where it runs.
        RunFailed: the baseline cannot be measured.
        KeyboardInterrupt: the trial under way was ended; the journal keeps the others.
    """
    options = options or TuneOptions()
    cwd = (options.cwd or Path.cwd()).absolute()
    check_strategy(options.strategy)
    executors.check(options.executor)
    target = read_target(script, arguments, cwd, options.rewrite)
    found = _survey(target, options)
    folder = new_folder(cwd / (options.output or f"{run_name(target.script)}_tune"))
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
    return _go(target, found, journal, options, listener or Listener())


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
            f"--resume {folder}: {target.script.name} or a file it uses changed since",
            "Start a new tuning: those measurements are of another script.",
        )
    executors.check(options.executor)
    found = _survey(target, options)
    return _go(target, found, journal, options, listener or Listener())


def _levers(options: TuneOptions) -> list[Lever]:
    return [one for one in LEVERS if not options.levers or one.name in options.levers]


def _survey(target: Target, options: TuneOptions) -> Mapping[str, Site | Refusal]:
    """Where each lever acts, or why not.

    Raises:
        NothingToTry: none of them does.
    """
    found = survey(target, _levers(options))
    refused = [one for one in found.values() if isinstance(one, Refusal)]
    if len(refused) == len(found):
        reasons = (f"\n  {x.lever}: {x.file}:{x.line}: {x.reason}" for x in refused)
        raise NothingToTry(
            f"{target.script.name}: no setting can be applied:{''.join(reasons)}",
            "Give other --settings, or fix what the reasons name.",
        )
    return found


def _go(
    target: Target,
    found: Mapping[str, Site | Refusal],
    journal: Journal,
    options: TuneOptions,
    listener: Listener,
) -> Tuned:
    folder = journal.path.parent
    listener.began(folder)
    started = time.monotonic()
    executor = executors.choose(
        options.executor, folder, jobs=options.jobs, parameters=options.executor_parameters
    )
    listener.found(target, found)
    listener.note(executor.description)
    choices = [_choice(target, one, found, options) for one in _levers(options)]
    lock = FileLock(folder / ".lock")
    try:
        with lock.acquire(timeout=0):
            search = Search(
                Trials(target, journal, options, executor, listener, _own_batch(target)),
                [c for c in choices if c is not None],
                Judge(loss_tolerance=options.loss_tolerance),
                tell=listener.note,
            )
            search.run(options.strategy)
    except Timeout as error:
        raise UsageError(f"{folder}: another tuning is using it") from error
    tried = dict(found)
    for name, reason in search.without_effect.items():
        tried[name] = Refusal(name, found[name].file, found[name].line, reason)
    return Tuned(folder, target, tried, search, options, time.monotonic() - started)


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
