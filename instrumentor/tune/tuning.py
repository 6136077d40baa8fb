"""The whole of a tuning: survey, trials, journal; every file of the user's stays as it is."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from filelock import FileLock, Timeout
from msgspec import Struct, ValidationError, defstruct
from msgspec.structs import asdict

from instrumentor.machine.load import busy_lately
from instrumentor.run.options import RunOptions
from instrumentor.run.training import run_name
from instrumentor.shared.errors import UsageError
from instrumentor.shared.options import Options
from instrumentor.shared.outputs import run_folder
from instrumentor.tune import batch_size
from instrumentor.tune.edits import Applicable, Survey, missing_needs, survey
from instrumentor.tune.executors import Executor, check
from instrumentor.tune.journal import NAME as JOURNAL
from instrumentor.tune.journal import Journal
from instrumentor.tune.judge import Judge
from instrumentor.tune.narrator import Narrator
from instrumentor.tune.options import TuneOptions
from instrumentor.tune.search import Axis, NothingToTry, Search, batch_sizes
from instrumentor.tune.settings import BATCH_SIZE, SETTINGS, Setting, Value
from instrumentor.tune.target import NotApplicable, Target, read_target
from instrumentor.tune.trials import Trials
from instrumentor_analysis.shared.documents import converted

#: Choices that a journal keeps, because they say what is tried.
_KEPT = ("settings", "batch_sizes", "strategy", "loss_tolerance")
#: All but the variant and what a run has shown, which each trial brings itself.
_REWRITE = tuple(each for each in fields(Options) if each.name not in ("variant", "seen"))


class _Where(Struct):
    """Where trials run; absolute, for --resume may be typed in another folder."""

    python: str | None = None
    tt_xla: str | None = None
    link: tuple[str, ...] = ()
    no_link: tuple[str, ...] = ()
    keep_copy: bool = True


class _Header(Struct):
    """What a journal says of its tuning: all that a trial depends on."""

    script: str
    arguments: tuple[str, ...]
    cwd: str
    digest: str
    rewrite: dict[str, Any]
    run: _Where
    settings: tuple[str, ...]
    batch_sizes: tuple[int, ...]
    strategy: str
    loss_tolerance: float


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
    folder = run_folder(cwd, options.output, f"{run_name(target.script)}_tune", JOURNAL)
    # --resume goes on from it (see _Header), and refuses files of another digest.
    header = {
        "script": str(target.script),
        "arguments": target.arguments,
        "cwd": str(cwd),
        "digest": target.digest(),
        "rewrite": _rewrite_json(options.rewrite),
        "run": _run_json(options.run),
        **{name: getattr(options, name) for name in _KEPT},
    }
    return _go(target, found, Journal.create(folder, header), options, narrator)


def resume(
    folder: Path, options: TuneOptions | None = None, narrator: Narrator | None = None
) -> Tuned:
    """Continue a tuning that was killed, interrupted or out of budget.

    What is tried comes from its journal; budget, timeout and executor from ``options``.

    Raises:
        UsageError: there is no journal, it is damaged, or the script changed since.
    """
    journal = Journal.resumed(folder.absolute())
    told = _told(folder, journal)
    cwd, rewrite, run = Path(told.cwd), _rewrite_of(folder, told.rewrite), _run_of(told.run)
    kept = {name: getattr(told, name) for name in _KEPT}
    options = replace(options or TuneOptions(), rewrite=rewrite, run=run, cwd=cwd, **kept)
    check(options.executor)
    target = read_target(Path(told.script), told.arguments, cwd, rewrite)
    if target.digest() != told.digest:
        raise UsageError(
            f"--resume {folder}: {target.script.name} or a file it uses changed since",
            "Start a new tuning: those measurements are of another script.",
        )
    return _go(target, _survey(target, options), journal, options, narrator)


def _told(folder: Path, journal: Journal) -> _Header:
    """The header of a journal, whose folder may have come from anybody.

    Raises:
        UsageError: it lacks something, or has it in another type.
    """
    try:
        return converted(dict(journal.header), _Header)
    except ValidationError as error:
        raise _damaged(folder, error) from error


def _damaged(folder: Path, error: ValidationError) -> UsageError:
    return UsageError(
        f"--resume {folder}: {JOURNAL} is damaged: {error}", "Start a new tuning of the script."
    )


def _rewrite_json(rewrite: Options) -> dict[str, Any]:
    return {each.name: getattr(rewrite, each.name) for each in _REWRITE}


def _rewrite_of(folder: Path, told: Mapping[str, Any]) -> Options:
    """The options that :func:`_rewrite_json` told of; those it lacks have their defaults.

    Raises:
        UsageError: one is unknown, of another type, or out of range.
    """
    hints = get_type_hints(Options, localns={"Variant": object, "Observed": object})
    typed = [(each.name, hints[each.name], each.default) for each in _REWRITE]
    kind = defstruct("Rewrite", typed, forbid_unknown_fields=True)
    try:
        return Options(**asdict(converted(dict(told), kind)))
    except ValidationError as error:
        raise _damaged(folder, error) from error


def _run_json(run: RunOptions) -> dict[str, Any]:
    links = {name: [*map(str, getattr(run, name))] for name in ("link", "no_link")}
    tt_xla = str(run.tt_xla.absolute()) if run.tt_xla else None
    return {"python": run.python, "tt_xla": tt_xla, **links, "keep_copy": run.keep_copy}


def _run_of(told: _Where) -> RunOptions:
    return RunOptions(
        python=told.python,
        tt_xla=Path(told.tt_xla) if told.tt_xla else None,
        link=tuple(map(Path, told.link)),
        no_link=tuple(map(Path, told.no_link)),
        keep_copy=told.keep_copy,
    )


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
    started = time.monotonic()
    executor = Executor(options.executor, folder, options.jobs, options.executor_parameters)
    narrator.began(folder, found)
    if executor.name != "local":
        narrator.note(executor.description)
    elif busy := busy_lately():
        narrator.busy(busy, goes_on=options.allow_busy)
    own_batch = _own_batch(target)
    axes = [
        _axis(target, setting, at.own, options, own_batch)
        for setting in _settings(options)
        if isinstance(at := found[setting.name], Applicable)
    ]
    trials = Trials(target, journal, options, executor, narrator, own_batch)
    judge = Judge(loss_tolerance=options.loss_tolerance)
    search = Search(
        trials,
        axes,
        judge,
        allow_busy=options.allow_busy,
        tell=narrator.note,
        settled=narrator.tries,
    )
    try:
        with FileLock(folder / ".lock").acquire(timeout=0):
            search.run(options.strategy)
    except Timeout as error:
        raise UsageError(f"{folder}: another tuning is using it") from error
    without = search.without_effect.items()
    idle = {name: NotApplicable(found[name].file, found[name].line, why) for name, why in without}
    duration_s = time.monotonic() - started
    return Tuned(folder, target, {**found, **idle}, search, options, duration_s)


def _axis(
    target: Target,
    setting: Setting,
    own: Value | None,
    options: TuneOptions,
    own_batch: int | None,
) -> Axis:
    values = setting.values
    if setting is BATCH_SIZE:
        # Rising: the search goes up from the script's own size.
        values = tuple(sorted(options.batch_sizes)) or batch_sizes(own_batch)
    return Axis(setting, own, values, missing_needs(target, setting))


def _own_batch(target: Target) -> int | None:
    """The script's own batch size, where it can be seen; known also when it is not tuned."""
    try:
        own = batch_size.way(target).own
    except NotApplicable:
        return None
    return int(own[2]) if own is not None and own[2] is not None else None
