"""The whole of a tuning: survey, trials, journal; every file of the user's stays as it is."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from msgspec import Struct

from instrumentor.errors import UsageError
from instrumentor.outputs import new_folder
from instrumentor.runner import run_name
from instrumentor.tune import batch_size
from instrumentor.tune.edits import Applicable, Survey, own_dtype, survey
from instrumentor.tune.executors import Executor, check
from instrumentor.tune.journal import NAME as JOURNAL
from instrumentor.tune.journal import Journal
from instrumentor.tune.judge import Judge
from instrumentor.tune.narrator import Narrator
from instrumentor.tune.options import TuneOptions
from instrumentor.tune.search import Axis, NothingToTry, Search, batch_sizes
from instrumentor.tune.settings import BATCH_SIZE, SETTINGS, Setting
from instrumentor.tune.spec import digest, options_from_json, options_to_json
from instrumentor.tune.target import NotApplicable, Target, read_target
from instrumentor.tune.trials import Trials

#: What is tried: the choices that a journal keeps.
_KEPT = ("settings", "batch_sizes", "strategy", "loss_tolerance", "run")


class Tuned(Struct, frozen=True):
    """A finished tuning.

    Attributes:
        folder: everything that was written.
        survey: where each setting acts, or why not.
    """

    folder: Path
    target: Target
    survey: Survey
    search: Search
    options: TuneOptions
    duration_s: float


def tune(
    script: Path,
    arguments: Sequence[str] = (),
    options: TuneOptions | None = None,
    narrator: Narrator | None = None,
) -> Tuned:
    """Find out which settings make a script faster, by changing one at a time.

    Raises:
        Declined, UsageError, NotReady: before anything runs.
        NothingToTry: no setting can act on the script, or not where it runs.
        RunFailed: the baseline cannot be measured.
        KeyboardInterrupt: the trial under way was ended; the journal keeps the others.
    """
    options = options or TuneOptions()
    cwd = (options.cwd or Path.cwd()).absolute()
    check(options.executor)
    target = read_target(script, arguments, cwd, options.rewrite)
    found = _survey(target, options)
    folder = new_folder(cwd / (options.output or f"{run_name(target.script)}_tune"), JOURNAL)
    header = {
        "script": str(target.script),
        "arguments": target.arguments,
        "cwd": str(cwd),
        "digest": digest(target.files()),
        "rewrite": options_to_json(options.rewrite),
        **{name: getattr(options, name) for name in _KEPT},
    }
    return _go(target, found, Journal.create(folder, header), options, narrator)


def resume(
    folder: Path, options: TuneOptions | None = None, narrator: Narrator | None = None
) -> Tuned:
    """Go on with a tuning that was killed, interrupted or out of budget.

    What is tried comes from its journal; budget, timeout and executor from ``options``.

    Raises:
        UsageError: there is no journal, or the script changed since.
    """
    journal = Journal.open(folder.absolute())
    journal.forget_killed()
    told = journal.header
    kept: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in told.items()
        if name in _KEPT
    }
    options = dataclasses.replace(
        options or TuneOptions(),
        rewrite=options_from_json(told["rewrite"]),
        cwd=Path(told["cwd"]),
        **kept,
    )
    check(options.executor)
    script, cwd = Path(told["script"]), Path(told["cwd"])
    target = read_target(script, told["arguments"], cwd, options.rewrite)
    if digest(target.files()) != told["digest"]:
        raise UsageError(
            f"--resume {folder}: {target.script.name} or a file it uses changed since",
            "Start a new tuning: those measurements are of another script.",
        )
    return _go(target, _survey(target, options), journal, options, narrator)


def _settings(options: TuneOptions) -> list[Setting]:
    return [one for one in SETTINGS if not options.settings or one.name in options.settings]


def _survey(target: Target, options: TuneOptions) -> Survey:
    """Where each setting acts, or why not.

    Raises:
        NothingToTry: none of them does.
    """
    found = survey(target, _settings(options))
    if not any(isinstance(one, Applicable) for one in found.values()):
        reasons = (f"\n  {name}: {one}" for name, one in found.items())
        raise NothingToTry(
            f"{target.script.name}: no setting can be applied:{''.join(reasons)}",
            "Give other --settings, or fix what the reasons name.",
        )
    return found


def _go(
    target: Target,
    found: Survey,
    journal: Journal,
    options: TuneOptions,
    narrator: Narrator | None,
) -> Tuned:
    folder, narrator = journal.path.parent, narrator or Narrator(quiet=True)
    narrator.began(folder)
    started = time.monotonic()
    executor = Executor(options.executor, folder, options.jobs, options.executor_parameters)
    narrator.found(found)
    narrator.note(executor.description)
    own_batch = _own_batch(target)
    axes = [
        _axis(target, setting, at, options, own_batch)
        for setting in _settings(options)
        if isinstance(at := found[setting.name], Applicable)
    ]
    try:
        with FileLock(folder / ".lock").acquire(timeout=0):
            search = Search(
                Trials(target, journal, options, executor, narrator, own_batch),
                axes,
                Judge(loss_tolerance=options.loss_tolerance),
                tell=narrator.note,
            )
            search.run(options.strategy)
    except Timeout as error:
        raise UsageError(f"{folder}: another tuning is using it") from error
    tried = dict(found)
    for name, reason in search.without_effect.items():
        at = found[name]
        tried[name] = NotApplicable(at.file, at.line, reason)
    return Tuned(folder, target, tried, search, options, time.monotonic() - started)


def _axis(
    target: Target, setting: Setting, at: Applicable, options: TuneOptions, own_batch: int | None
) -> Axis:
    values = setting.values
    if setting is BATCH_SIZE:
        values = tuple(sorted(options.batch_sizes)) or batch_sizes(own_batch)
    brings = {
        name: value
        for name, value in setting.needs.items()
        if not (name == "dtype" and own_dtype(target) == value)
    }
    return Axis(setting, at.own, values, brings)


def _own_batch(target: Target) -> int | None:
    """The script's own batch size, where it can be seen; known also when it is not tuned."""
    try:
        return batch_size.find(target).value
    except NotApplicable:
        return None
