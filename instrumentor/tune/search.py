"""Which settings are tried, in which order, and what is kept.

The order depends on outcomes alone, so a search that is begun again and given the outcomes of its
journal comes to where it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from instrumentor.shared.errors import InstrumentError, RunFailed, UsageError
from instrumentor.tune.judge import BASELINE, KEPT, NOT_PROVEN, Judge, Judgement, Noise, noise_of
from instrumentor.tune.outcome import Outcome
from instrumentor.tune.settings import BATCH_SIZE, Configuration, Setting, Value
from instrumentor_analysis.compare.ratio import ratio_of_medians
from instrumentor_analysis.shared.units import quantity

#: Most configurations of a grid: more of them would run for a week.
LARGEST_GRID = 500
#: Two runs of the unchanged script that differ by more leave nothing to be told.
TOO_NOISY = 0.2
#: Runs of the unchanged script without which nothing is recommended.
_BASELINES = 3
#: Of a batch of images: samples, channels, height, width.
IMAGE_AXES = 4
#: Batch sizes are tried up to so many times the script's own.
_TIMES_OWN = 4


class NothingToTry(InstrumentError):
    """No setting can act on this script where it runs."""

    exit_code = 3


class Trial(Struct, frozen=True):
    """A trial that is wanted.

    Attributes:
        setting: what is being tried; '' for the script as it is.
        again: repetition of the same configuration, from 0.
    """

    configuration: Configuration
    setting: str = ""
    again: int = 0

    @property
    def key(self) -> str:
        """Names the trial in the journal."""
        return f"{self.configuration} #{self.again}" if self.again else str(self.configuration)

    @property
    def slug(self) -> str:
        """Names the trial in a file name."""
        text = re.sub(r"[^A-Za-z0-9]+", "-", str(self.configuration))
        return f"{text}-again" if self.again else text


class Row(Struct, frozen=True):
    """A trial with what it is worth, and the configuration it was held against."""

    trial: Trial
    outcome: Outcome
    judgement: Judgement
    against: Configuration

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.trial.configuration}{('', ' again', ' at the end')[self.trial.again]}"

    @property
    def kept(self) -> bool:
        """Whether it is faster for sure."""
        return self.judgement.verdict == KEPT


class Trials(Protocol):
    """Whatever runs trials."""

    def measure(self, trials: Sequence[Trial]) -> list[Outcome | None]:
        """Run them, or take their outcomes from the journal; None when the budget is used up."""
        ...

    def expect(self, trials: int) -> None:
        """At most so many trials are still to come."""
        ...


class Axis(Struct, frozen=True):
    """A setting as it can be used on this script.

    Attributes:
        own: the value that the script has itself; None when unknown.
        brings: settings it has to be tried with, because the script is not that by itself.
    """

    setting: Setting
    own: Value | None
    values: tuple[Value, ...]
    brings: Mapping[str, Value] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the setting."""
        return self.setting.name


class Search(Struct):
    """A search under way, and afterwards its result.

    Attributes:
        rows: the trials, in the order in which they were judged.
        best: the configuration that is recommended; of no value when it is the script as it is.
        out_of_budget: the search ended before its time.
        without_effect: setting -> why it was not tried, known from the first run of the script.
        untried: values that were listed and not tried, each with why.
        drift: what the first and the last run of the script as it is differ by, as a fraction,
            where that exceeds the interval and what two runs in a row differ by; else 0.
        allow_busy: go on and recommend although the machine is busy or too noisy.
        withheld: why nothing is recommended although something was kept; else empty.
        tell: hears what is decided on the way.
        settled: hears which settings are tried, once the device of the steps is known.
    """

    trials: Trials
    axes: Sequence[Axis]
    judge: Judge
    rows: list[Row] = field(default_factory=list)
    best: Configuration = field(default_factory=Configuration)
    out_of_budget: bool = False
    without_effect: dict[str, str] = field(default_factory=dict)
    untried: list[str] = field(default_factory=list)
    drift: float = 0.0
    allow_busy: bool = False
    withheld: str = ""
    _left_out: set[tuple[str, Value | None]] = field(default_factory=set)
    tell: Callable[[str], None] = lambda text: None
    settled: Callable[[Sequence[str]], None] = lambda names: None

    @property
    def noise(self) -> Noise:
        """How much two runs of the unchanged script differ."""
        return self.judge.noise

    @property
    def too_noisy(self) -> bool:
        """Whether they differ so much that nothing else was tried."""
        return self.noise.time > TOO_NOISY and not self.allow_busy

    def run(self, strategy: str) -> None:
        """All of it.

        Raises:
            UsageError: too large a grid.
            RunFailed: the baseline cannot be measured.
            NothingToTry: no setting can act where its steps ran.
        """
        grid = strategy == "grid"
        count = len(self._grid()) if grid else sum(len(axis.values) for axis in self.axes)
        try:
            # 3: the script as it is, twice first and once at the end.
            self.trials.expect(_BASELINES + count)
            self._baselines()
            if not self.too_noisy:
                self._try_all(grid)
        except _BudgetUsed:
            self.out_of_budget = True
            for axis in self.axes:
                seen = {row.trial.configuration.get(axis.name) for row in self.rows} | {axis.own}
                left = [value for value in axis.values if value not in seen]
                self._leave(axis.name, left, "the budget was used up")
        self.trials.expect(0)
        self._withhold()

    def _try_all(self, grid: bool) -> None:
        if grid:
            self._try("grid", self._grid())
        for position, axis in enumerate(() if grid else self.axes):
            self.trials.expect(1 + sum(len(each.values) for each in self.axes[position:]))
            self._one(axis)
        self._baseline_at_the_end()

    def _withhold(self) -> None:
        """Recommend nothing where the measurements do not carry it."""
        own = [row for row in self.rows if not row.trial.configuration.values]
        best = [row for row in self.rows if row.trial.configuration == self.best]
        busy = sum(row.outcome.busy for row in {id(row): row for row in [*own, *best]}.values())
        if self.too_noisy:
            self.withheld = self._why_noisy([row.outcome for row in own])
        elif self.best.values and len(own) < _BASELINES:
            self.withheld = "the budget ended before the third run of the unchanged script"
        elif self.best.values and busy and not self.allow_busy:
            self.withheld = (
                f"other processes kept the machine busy in {busy} of the trials it rests on"
            )
        if self.withheld:
            self.best = Configuration()

    def _why_noisy(self, own: Sequence[Outcome]) -> str:
        """Which runs of the unchanged script differ, and whether that ended it."""
        tried = len(self.rows) - len(own)
        if not tried:
            return (
                f"two runs of the unchanged script differ by {self.noise.time * 100:,.0f} %, so no "
                "setting was tried; --allow-busy tries them all the same"
            )
        first, last = (quantity(own[at].median_ms or 0.0, "ms") for at in (0, -1))
        rows = "The setting tried is" if tried == 1 else f"The {tried} settings tried are"
        return (
            f"the unchanged script took {first} first and {last} at the end. {rows} in the table; "
            "measure again when the machine is quiet"
        )

    # -- one at a time ---------------------------------------------------------------------------

    def _one(self, axis: Axis) -> None:
        """The values of one setting on top of the best so far; the fastest that helps is kept."""
        rules = [name for name in axis.setting.excludes if self.best.get(name) is not None]
        if rules:
            self._leave(axis.name, axis.values, f"{rules[0]} is in effect")
            return
        by_size = axis.setting is BATCH_SIZE
        current = self.best_measured().batch_size if by_size else self.best.get(axis.name)
        current = axis.own if current is None else current
        others = [value for value in axis.values if value != current]
        if len(others) < len(axis.values):
            self._leave(axis.name, [current], "it is the current value")
        if axis.setting.rising and current is not None:
            self._rising(axis.name, [int(size) for size in others], int(current))
        else:
            changes = [{**axis.brings, axis.name: value} for value in others]
            self._try(axis.name, [self.best.having(each) for each in changes])

    def _rising(self, name: str, sizes: Sequence[int], own: int) -> None:
        """Larger values until one does not help or fails; if none helped, smaller ones."""
        down = [size for size in reversed(sizes) if size < own]
        if self._as_long_as_it_helps(name, [size for size in sizes if size > own]):
            self._leave(name, down, "larger ones helped")
        else:
            self._as_long_as_it_helps(name, down)

    def _as_long_as_it_helps(self, name: str, sizes: Sequence[int]) -> bool:
        for position, size in enumerate(sizes):
            if not self._try(name, [self.best.having({name: size})]):
                unsure = self.rows[-1].judgement.verdict == NOT_PROVEN
                why = f"no gain of {size} was proven" if unsure else f"{size} did not help"
                self._leave(name, sizes[position + 1 :], why)
                return position > 0
        return bool(sizes)

    def _leave(self, name: str, values: Sequence[Value | None], why: str) -> None:
        """Say why listed values of a setting are left out."""
        left = [value for value in values if (name, value) not in self._left_out]
        self._left_out.update((name, value) for value in left)
        if left:
            said = f"{name} {', '.join(map(str, left))}: not tried: {why}"
            self.untried.append(said)
            self.tell(said)

    # -- all combinations ------------------------------------------------------------------------

    def _grid(self) -> list[Configuration]:
        sets = [[{}, *({axis.name: v} for v in axis.values if v != axis.own)] for axis in self.axes]
        merged = ({n: v for part in parts for n, v in part.items()} for parts in product(*sets))
        made = map(Configuration.of, merged)
        found = [each for each in made if each.values and self._holds_together(each)]
        if len(found) > LARGEST_GRID:
            raise UsageError(
                f"--strategy grid: {len(found)} configurations are more than {LARGEST_GRID}",
                "Give fewer --settings or --batch-sizes, or --strategy one-at-a-time.",
            )
        return found

    def _holds_together(self, configuration: Configuration) -> bool:
        """Every setting has what it needs, and none that does the same."""
        within = [axis for axis in self.axes if configuration.get(axis.name) is not None]
        return all(
            configuration.get(name) == value
            for axis in within
            for name, value in axis.brings.items()
        ) and not any(
            name in dict(configuration.values) for a in within for name in a.setting.excludes
        )

    # -- the script as it is ---------------------------------------------------------------------

    def _baselines(self) -> None:
        """The script as it is, twice: what two equal runs differ by bounds what can be seen."""
        self._baseline()
        first = self.rows[0].outcome
        if not first.measured:
            raise RunFailed(
                f"the baseline cannot be measured: {first.reason}",
                f"Its output is in {first.folder or 'the trial folder'}.",
            )
        self._leave_out(first)
        noise = self._baseline(again=1)
        if noise is not None:
            self.judge = replace(self.judge, noise=noise)

    def _baseline(self, again: int = 0) -> Noise | None:
        """The script as it is: what it differs by from the first time."""
        trial, noise, said = Trial(Configuration(), again=again), None, "the unchanged script"
        made = self.trials.measure([trial])[0]
        if made is None:
            raise _BudgetUsed
        if again and made.measured:
            noise = noise_of(self.rows[0].outcome, made)
        if again:
            said = made.status if noise is None else _apart(noise)
        self.rows.append(Row(trial, made, Judgement(BASELINE, said), Configuration()))
        return noise

    def _leave_out(self, first: Outcome) -> None:
        """Settings that cannot act on steps like the first ones: what they seem to do is noise."""
        device, shape = first.device, first.batch_shape
        for axis in self.axes:
            if not axis.setting.acts_on(device):
                only = " or ".join(axis.setting.devices.values())
                reason = f"the steps ran on {device}, this acts on {only} only"
                self.without_effect[axis.name] = reason
            elif axis.setting.image_batches and shape and len(shape) != IMAGE_AXES:
                reason = f"a batch has {len(shape)} axes, this acts on images, which have four"
                self.without_effect[axis.name] = reason
        if self.without_effect:
            self.tell(f"Not applicable on {device}: {', '.join(self.without_effect)}")
        self.axes = [axis for axis in self.axes if axis.name not in self.without_effect]
        if self.without_effect and not self.axes:
            raise NothingToTry(
                f"there is nothing to try: the steps ran on {device}, where "
                f"{', '.join(self.without_effect)} would have no effect",
                "Run on a machine with the device, or give other --settings.",
            )
        self.settled([axis.name for axis in self.axes])

    def _baseline_at_the_end(self) -> None:
        """The script as it is once more: what drifted in the meantime is no gain."""
        if all(not row.trial.configuration.values for row in self.rows):
            return
        noise = self._baseline(again=2)
        # Two runs in a row show the jitter only; the first and the last one also show drifting
        # clocks and other load.
        if noise is not None and noise.time > self.noise.time:
            first, last = (self.rows[at].outcome.samples_ms for at in (0, -1))
            ratio = ratio_of_medians(first, last)
            if ratio is not None and ratio.real:
                self.drift = noise.time
                self.judge = replace(self.judge, noise=replace(self.noise, time=noise.time))
        self._confirm()

    def _confirm(self) -> None:
        """Recommend only what is faster than all runs of the script as it is together.

        What was built on something that is not is held against the script as it is, too: of what
        it adds to that nothing is to be told.
        """
        base, confirmed = self.baseline(), list[Row]()
        proven = {Configuration()}
        for position, row in enumerate(self.rows):
            stands = row.against in proven
            if not row.trial.configuration.values or (stands and not row.kept):
                continue
            again = self._held_against(base, Configuration(), row.trial, row.outcome)
            if again.kept:
                confirmed.append(again)
                proven.add(row.trial.configuration)
            elif row.kept:
                again = _taken_back(again)
            # On top of what is proven it is the gain beyond that which is told.
            if not (stands and again.kept and row.against.values):
                self.rows[position] = again
        if self.best not in [row.trial.configuration for row in confirmed]:
            self.best = _fastest(confirmed) or Configuration()

    def baseline(self) -> Outcome:
        """The runs of the script as it is, as one."""
        own = [row.outcome for row in self.rows if not row.trial.configuration.values]
        samples = (ms for made in own if made.measured for ms in made.samples_ms)
        return replace(own[0], samples_ms=tuple(samples))

    def promising(self) -> tuple[str, Value] | None:
        """What to hold against the script as it is where nothing is recommended.

        The fastest value that was kept, else the first one that can act; None without any.
        """
        alone = {axis.name: axis for axis in self.axes if not axis.brings}
        kept = [row for row in self.rows if row.kept and row.trial.setting in alone]
        for row in sorted(kept, key=lambda row: row.judgement.time):
            value = row.trial.configuration.get(row.trial.setting)
            if value is not None:
                return row.trial.setting, value
        others = ((name, v) for name, axis in alone.items() for v in axis.values if v != axis.own)
        return next(others, None)

    # -- trials ----------------------------------------------------------------------------------

    def _try(self, setting: str, configurations: Sequence[Configuration]) -> bool:
        """Measure independent configurations, judge each, keep the fastest of those that help."""
        start, best = self.best, self.best_measured()
        trials = [Trial(each, setting) for each in configurations]
        results = self.trials.measure(trials)
        tried = [
            self._held_against(best, start, trial, measured)
            for trial, measured in zip(trials, results, strict=True)
            if measured is not None
        ]
        self.rows += tried
        self.best = _fastest(tried) or self.best
        if None in results:
            raise _BudgetUsed
        return any(row.kept for row in tried)

    def _held_against(
        self, best: Outcome, against: Configuration, trial: Trial, measured: Outcome
    ) -> Row:
        size = trial.configuration.get(BATCH_SIZE.name)
        by_rate = size != against.get(BATCH_SIZE.name)
        judgement = self.judge.judge(best, measured, self._reference(size), by_rate=by_rate)
        return Row(trial, measured, judgement, against)

    def _reference(self, size: Value | None) -> Outcome | None:
        """A run of the same work: the same batch size, no setting that may change the loss."""
        wanted = Configuration() if size is None else Configuration(((BATCH_SIZE.name, size),))
        same = (row.outcome for row in self.rows if row.trial.configuration == wanted)
        return next((made for made in same if made.measured), None)

    def best_measured(self) -> Outcome:
        """The trial of the best configuration so far."""
        return next(row.outcome for row in self.rows if row.trial.configuration == self.best)


def _apart(noise: Noise) -> str:
    said = f"{quantity(noise.time * 100, '%')} apart"
    return f"{said}: too noisy" if noise.time > TOO_NOISY else said


def _taken_back(row: Row) -> Row:
    """A row that seemed to help, and why others were tried on top of it."""
    told = "kept until the script as it is was measured once more"
    return replace(row, judgement=replace(row.judgement, text=f"{row.judgement.text}; {told}"))


class _BudgetUsed(Exception):
    """No further trial is to be started."""


def _fastest(rows: Sequence[Row]) -> Configuration | None:
    """The configuration of the fastest row that is kept."""
    kept = (row for row in rows if row.kept)
    fastest = min(kept, key=lambda row: row.judgement.time, default=None)
    return None if fastest is None else fastest.trial.configuration


def batch_sizes(own: int | None) -> tuple[int, ...]:
    """The batch sizes to try: those of tt-xla's guide, and up to four times the script's own."""
    sizes = {int(value) for value in BATCH_SIZE.values}
    size = max(sizes)
    while own is not None and size < _TIMES_OWN * own:
        size *= 2
        sizes.add(size)
    # A size that is not a power of two gets its own double, quadruple and half.
    if own is not None and own not in sizes:
        sizes |= {own * 2, own * 4, max(1, own // 2)}
    return tuple(sorted(s for s in sizes if own is None or s <= max(32, _TIMES_OWN * own)))
