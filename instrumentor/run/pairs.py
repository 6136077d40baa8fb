"""Two versions of a script run in pairs, until it is known which of them is faster.

Each version stands in a copy of its own; in each pair a coin decides which runs first, which is
what the test relies on (:mod:`instrumentor_analysis.compare.paired`). What the machine does besides
meets both alike. Every finished pair is kept, whatever comes next.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs
from msgspec.structs import force_setattr

from instrumentor.run.options import RunOptions
from instrumentor.run.training import run
from instrumentor.shared.errors import InstrumentError, Interrupted, RunFailed, UsageError
from instrumentor.shared.outputs import PAIRS, new_below, write_json
from instrumentor.shared.progress import Progress, Silent
from instrumentor_analysis.compare.paired import Gated, Verdict, gate, verdict
from instrumentor_analysis.model import Summary
from instrumentor_analysis.shared.documents import converted, plain, read

SCHEMA = "instrument-pairs/1"
ITERATION, UPDATE = "iteration", "update"
#: To judge them takes a time that grows with their number squared: of so many, seconds.
MOST_PAIRS = 2000


class Version(Struct, frozen=True):
    """One of two versions.

    Attributes:
        name: as the user called it.
        script: in the version's own copy, absolute.
        options: of each of its runs.
        commit: None for files as they stood.
        source: a digest of the files in its copy; empty where an older record does not have it.
        how: what is started and how it is timed, as a text that only equal ones share.
    """

    name: str
    script: Path
    arguments: tuple[str, ...]
    options: RunOptions
    commit: str | None = None
    source: str = ""
    how: str = ""


Ms = Annotated[float, Meta(gt=0, lt=1e15)]


class Measured(Struct, frozen=True):
    """One run: times in milliseconds by what was timed, and the samples in a step.

    Attributes:
        folder: its name; the folder stands in that of the pairs, whatever a record says.
        micro_steps: iterations to an update of the weights, where it takes several.
    """

    folder: str
    times_ms: dict[str, Ms]
    batch: Annotated[float, Meta(gt=0, lt=1e15)] | None = None
    busy: bool = False
    micro_steps: int | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "folder", Path(self.folder).name)


class Pair(Struct, frozen=True):
    """One run of each version, and which of them ran first: ``base`` or ``new``."""

    first: Literal["base", "new"]
    base: Measured
    new: Measured


class Command(Struct, frozen=True):
    """The `instrument compare` that made the pairs, as far as another one needs its words.

    Attributes:
        options: as they were typed.
        versions: script or module and its arguments: of one version, or of both.
        folder: where it was typed, absolute.
    """

    options: tuple[str, ...]
    versions: tuple[tuple[str, ...], ...]
    folder: str


class Paired(Struct, frozen=True):
    """What the pairs came to.

    Attributes:
        figure: what is compared: ``iteration``, ``update`` of as many micro-steps on both sides,
            or the label of the timed region.
        per_sample: the versions' steps have batches of different size.
        gate_percent: the slow-down that is allowed, where that was asked.
        of_region: what is compared is the timed region, as was asked.
        interrupted: by the user, before it was decided.
        command: what made the pairs; None where a record does not hold it.
    """

    folder: Path
    base: Version
    new: Version
    pairs: tuple[Pair, ...]
    figure: str
    per_sample: bool
    verdict: Verdict
    duration_s: float
    gate_percent: float | None = None
    interrupted: bool = False
    of_region: bool = False
    command: Command | None = None

    @property
    def differences(self) -> list[float]:
        """Of each pair the logarithm of the new version's time over the base's."""
        return differences(self.pairs, of_region=self.of_region)

    def compared_ms(self, run: Measured) -> float:
        """What is compared of a run: a sample's share of it where batches differ."""
        return _compared_ms(run, self.figure, per_sample=self.per_sample)

    @property
    def gate(self) -> Gated:
        """Whether the new version is slower by more than is allowed."""
        return gate(self.differences, self.gate_percent or 0.0)

    @property
    def decided(self) -> bool:
        """Another pair would tell nothing that was asked for."""
        if self.gate_percent is not None:
            return self.gate != "undecided"
        return self.verdict.outcome != "undecided"

    def to_json(self) -> dict[str, Any]:
        """The document pairs.json."""
        names = ("figure", "per_sample", "duration_s", "gate_percent", "interrupted", "of_region")
        return {
            "schema": SCHEMA,
            "base": _version_json(self.base),
            "new": _version_json(self.new),
            **{name: getattr(self, name) for name in names},
            "command": plain(self.command),
            "verdict": {**plain(self.verdict), "percent": self.verdict.percent},
            "pairs": plain(self.pairs),
        }


def _version_json(version: Version) -> dict[str, Any]:
    told = {"name": version.name, "commit": version.commit, "arguments": [*version.arguments]}
    named = {"source": version.source, "how": version.how}
    return {**told, "python": version.options.python, **named}


class _Version(Struct):
    name: str
    commit: str | None = None
    arguments: tuple[str, ...] = ()
    python: str | None = None
    source: str = ""
    how: str = ""


class _Limit(Struct):
    resolution_percent: Annotated[float, Meta(gt=0, lt=1e6)] = 1.0


class _Record(Struct):
    base: _Version
    new: _Version
    pairs: Annotated[list[Pair], Meta(min_length=1, max_length=MOST_PAIRS)]
    verdict: _Limit
    duration_s: float = 0.0
    interrupted: bool = False
    of_region: bool = False
    command: Command | None = None


def read_pairs(
    folder: Path,
    resolution_percent: float | None = None,
    gate_percent: float | None = None,
    *,
    of_region: bool = False,
) -> Paired:
    """What the pairs of an earlier comparison come to, judged again.

    Args:
        resolution_percent: as they were judged, where it is None.
        of_region: conclude from the timed region; so they do where that was asked at the time.

    Raises:
        UsageError: it holds no pair, or is no such record.
        RunFailed: the runs have nothing in common.
    """
    path = folder / PAIRS
    try:
        document = read(path)
        if document == {"schema": SCHEMA}:
            raise UsageError(
                f"{folder}: it holds no pair", "Its comparison ended before the first."
            )
        record = converted(document, _Record)
    except (OSError, ValueError) as error:  # msgspec's is one
        raise UsageError(f"{path}: it is no record of pairs ({error})") from error
    found = judged(
        folder,
        _version(record.base),
        _version(record.new),
        record.pairs,
        resolution_percent or record.verdict.resolution_percent,
        gate_percent,
        of_region=of_region or record.of_region,
    )
    return structs.replace(
        found,
        duration_s=record.duration_s,
        interrupted=record.interrupted,
        command=record.command,
    )


def _version(told: _Version) -> Version:
    options = RunOptions(python=told.python)
    return Version(told.name, Path(), told.arguments, options, told.commit, told.source, told.how)


def alike(base: Version, new: Version) -> bool:
    """Whether both run the same files in the same way, whatever they are called."""

    def ran(version: Version) -> tuple[object, ...]:
        options = version.options
        settings = options.python, options.rewrite
        return version.source, version.how, version.arguments, settings

    return bool(base.source) and ran(base) == ran(new)


def refuse_other(earlier: Paired, base: Version, new: Version) -> None:
    """Pairs are continued with the versions that they are of, or the answer is about none.

    Raises:
        UsageError: one of the versions is another one now, or the record does not tell.
    """
    for then, now in ((earlier.base, base), (earlier.new, new)):
        sides = [
            {
                "its files": side.source,
                "its commit": side.commit,
                "its arguments": side.arguments,
                "its interpreter": side.options.python,
                "what is started or how it is timed": side.how,
            }
            for side in (then, now)
        ]
        changed = [name for name in sides[0] if sides[0][name] != sides[1][name]]
        why = f"{now.name} is not what its pairs were run with ({', '.join(changed)})"
        if not then.source:
            why = "its pairs were recorded by an earlier version, which does not tell what ran"
        if changed or not then.source:
            raise UsageError(
                f"--resume {earlier.folder}: {why}",
                "Start a new comparison: the same command without --resume.",
            )


def run_pairs(
    base: Version,
    new: Version,
    folder: Path,
    *,
    most: int,
    resolution_percent: float,
    gate_percent: float | None = None,
    of_region: bool = False,
    progress: Progress | None = None,
    tell: Callable[[Paired], None] = lambda paired: None,
    coin: Callable[[], bool] | None = None,
    earlier: Paired | None = None,
    command: Command | None = None,
) -> Paired:
    """Run pairs until the versions are told apart, or as many as are allowed.

    Args:
        folder: for runs and record.
        most: number of pairs, the earlier ones included.
        of_region: conclude from the timed region, not from the iteration around it.
        tell: called after each pair.
        coin: whether the new version runs first; a fair one unless given.
        earlier: pairs of the same versions, of that folder, with which to go on.
        command: for the record, so that a later report can say how to go on.

    Raises:
        RunFailed and what :func:`instrumentor.run.training.run` raises: a run failed; which
            version's, its message says. `error.result` is what there is of the pairs.
        Interrupted: the same, by the user.
    """
    started, fair = time.monotonic(), random.SystemRandom()
    toss = coin or (lambda: fair.random() < 0.5)
    pairs: list[Pair] = [] if earlier is None else [*earlier.pairs]
    spent_s = 0.0 if earlier is None else earlier.duration_s

    def paired(interrupted: bool = False) -> Paired:
        found = judged(
            folder, base, new, pairs, resolution_percent, gate_percent, of_region=of_region
        )
        duration_s = round(spent_s + time.monotonic() - started, 1)
        return structs.replace(
            found, duration_s=duration_s, interrupted=interrupted, command=command
        )

    found = paired()
    for number in () if found.decided else range(len(pairs) + 1, most + 1):
        try:
            pairs.append(_pair(number, folder, (base, new), toss(), progress or Silent()))
        except (KeyboardInterrupt, InstrumentError) as error:
            stopped = isinstance(error, (KeyboardInterrupt, Interrupted))
            raised = error if isinstance(error, InstrumentError) else Interrupted("interrupted")
            raised.result = paired(interrupted=stopped) if pairs else None
            if stopped and not pairs:
                raised.message = "interrupted before the first pair was complete"
            if pairs:
                write_json(folder / PAIRS, raised.result.to_json())
            raise raised from error
        found = paired()
        write_json(folder / PAIRS, found.to_json())
        tell(found)
        if found.decided:
            break
    return found


def judged(
    folder: Path,
    base: Version,
    new: Version,
    pairs: Sequence[Pair],
    resolution_percent: float,
    gate_percent: float | None,
    *,
    of_region: bool = False,
) -> Paired:
    """What the pairs so far come to."""
    found = verdict(differences(pairs, of_region=of_region), resolution_percent)
    figure, per_sample = _compared(pairs, of_region=of_region)
    kept = tuple(pairs)
    return Paired(
        folder, base, new, kept, figure, per_sample, found, 0.0, gate_percent, of_region=of_region
    )


def differences(pairs: Sequence[Pair], *, of_region: bool = False) -> list[float]:
    """Of each pair the logarithm of the new version's time over the base's."""
    figure, per_sample = _compared(pairs, of_region=of_region)
    time_of = partial(_compared_ms, figure=figure, per_sample=per_sample)
    return [math.log(time_of(pair.new) / time_of(pair.base)) for pair in pairs]


def _compared_ms(run: Measured, figure: str, *, per_sample: bool) -> float:
    """The time of a run's figure, or that of one of its samples."""
    if not per_sample:
        return run.times_ms[figure]
    steps = run.micro_steps or 1 if figure == UPDATE else 1
    return run.times_ms[figure] / ((run.batch or 1.0) * steps)


def _compared(pairs: Sequence[Pair], *, of_region: bool) -> tuple[str, bool]:
    """What all runs have timed, the iteration if they can; and whether it is told per sample.

    Where all make an update of the same number of micro-steps it is the update.

    Args:
        of_region: the timed region instead.

    Raises:
        RunFailed: nothing is common to all.
    """
    runs = [each for pair in pairs for each in (pair.base, pair.new)]
    if not runs:
        return "", False
    common = set.intersection(*(set(each.times_ms) for each in runs))
    common -= {ITERATION, UPDATE} if of_region else set()
    if not common:
        labels = sorted({label for each in runs for label in each.times_ms})
        raise RunFailed(
            f"the versions time different parts of a step: {', '.join(labels)}",
            "Give --scope step, which both have.",
        )
    sizes = [each.batch for each in runs]
    known = all(sizes)
    differ = known and max(filter(None, sizes)) > 1.01 * min(filter(None, sizes))
    if len({each.micro_steps for each in runs}) > 1:
        common -= {UPDATE}
    figure = next((name for name in (UPDATE, ITERATION) if name in common), min(common))
    return figure, bool(differ)


def _pair(
    number: int, folder: Path, sides: tuple[Version, Version], new_first: bool, progress: Progress
) -> Pair:
    done: dict[int, Measured] = {}
    for which in (1, 0) if new_first else (0, 1):
        version = sides[which]
        name = f"{number:02}_{'new' if which else 'base'}"
        progress.stage("pair", f"{number}: {version.name}")
        try:
            place = new_below(folder, name)
        except OSError as error:
            raise RunFailed(f"{error.filename}: no run can be kept: {error.strerror}") from error
        done[which] = _measure(version, place, progress)
    return Pair("new" if new_first else "base", done[0], done[1])


def _measure(version: Version, folder: Path, progress: Progress) -> Measured:
    options = replace(version.options, output=folder)
    try:
        result = run(version.script, version.arguments, options, _Quietly(progress))
    except Interrupted:
        raise
    except InstrumentError as error:
        error.message = f"{version.name}: {error.message}"
        raise
    return measured(folder, result.summary)


def measured(folder: Path, summary: Summary) -> Measured:
    """The times of a run.

    Raises:
        RunFailed: it has none.
    """
    wall, times = summary.wall_clock, dict[str, float]()
    if wall is not None and wall.median_ms:
        times[wall.label] = wall.median_ms
    found = None if wall is None else wall.iteration
    if found is not None and found.median_ms > 0:
        times[ITERATION] = found.median_ms
    update = None if found is None else found.update
    if update is not None and update.ms:
        times[UPDATE] = update.ms
    if wall is None or not times:
        raise RunFailed(f"{folder.name}: no step was timed", f"See {folder / 'run.log'}.")
    batch = None
    if wall.samples_per_s and wall.median_ms:
        batch = wall.samples_per_s * wall.median_ms / 1000
    busy = any(each.kind == "busy-machine" for each in summary.warnings)
    return Measured(folder.name, times, batch, busy, None if update is None else update.micro_steps)


class _Quietly(Silent):
    """Of the runs only what goes wrong, not each stage and step."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def note(self, text: str) -> None:
        """A stall, an ending."""
        self._progress.note(text)
