"""Which settings are tried, in which order, and what is kept.

The order depends on outcomes alone, so a search that is begun again and given the outcomes of its
journal comes to where it was.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from instrumentor.errors import InstrumentError, RunFailed, UsageError
from instrumentor.tune.judge import BASELINE, KEPT, Judge, Judgement, Noise, noise_of
from instrumentor.tune.outcome import Outcome
from instrumentor.tune.settings import BATCH_SIZE, Configuration, Setting, Value
from instrumentor_analysis.comparison.ratio import ratio_of_medians

#: Configurations of a grid above which it is refused: that is a week, not a grid.
LARGEST_GRID = 500
#: How far above the script's own batch size is looked.
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
    def gain(self) -> list[tuple[float, Configuration]]:
        """Its time over that of the other, with the configuration; of one that is kept alone."""
        ratio = self.judgement.ratio
        kept = self.judgement.verdict == KEPT and ratio is not None
        return [(ratio.value, self.trial.configuration)] if kept and ratio is not None else []


class Trials(Protocol):
    """Whoever runs trials."""

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
        """Of the setting."""
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
        tell: hears what is decided on the way.
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
    _left_out: set[tuple[str, Value | None]] = field(default_factory=set)
    tell: Callable[[str], None] = lambda text: None

    @property
    def noise(self) -> Noise:
        """What equal runs differ by."""
        return self.judge.noise

    def run(self, strategy: str) -> None:
        """All of it.

        Raises:
            UsageError: too large a grid.
            RunFailed: the baseline cannot be measured.
            NothingToTry: no setting can act where its steps ran.
        """
        grid = self._grid() if strategy == "grid" else []
        try:
            self.trials.expect(3 + (len(grid) or sum(len(axis.values) for axis in self.axes)))
            self._baseline()
            if strategy == "grid":
                self._try([Trial(each, "grid") for each in self._grid()])
            else:
                for position, axis in enumerate(self.axes):
                    left = self.axes[position:]
                    self.trials.expect(1 + sum(len(each.values) for each in left))
                    self._one(axis)
            self._baseline_at_the_end()
        except _BudgetUsed:
            self.out_of_budget = True
            self._name_what_is_left()
        self.trials.expect(0)

    def _one(self, axis: Axis) -> None:
        """The values of one setting on top of the best so far; the fastest that helps is kept."""
        if axis.setting is BATCH_SIZE:
            self._batch_sizes(axis)
            return
        current = self.best.get(axis.name)
        current = axis.own if current is None else current
        wanted = [value for value in axis.values if value != current]
        if len(wanted) < len(axis.values):
            self._untried(axis.name, [current], "it is the current value")
        changes = [{**axis.brings, axis.name: value} for value in wanted]
        self._try([Trial(self.best.having(each), axis.name) for each in changes])

    def _batch_sizes(self, axis: Axis) -> None:
        """Up from the script's own until it helps no more or fails; if it never helped, down."""
        name = BATCH_SIZE.name
        own = self.best_measured().batch_size or axis.own
        sizes = [int(value) for value in axis.values]
        if own is None:
            self._try([Trial(self.best.having({name: size}), name) for size in sizes])
            return
        self._untried(name, [own] if own in sizes else [], "it is the current value")
        down = [size for size in reversed(sizes) if size < int(own)]
        if self._as_long_as_it_helps([size for size in sizes if size > int(own)]):
            self._untried(name, down, "larger ones helped")
        else:
            self._as_long_as_it_helps(down)

    def _as_long_as_it_helps(self, sizes: Sequence[int]) -> bool:
        name = BATCH_SIZE.name
        for position, size in enumerate(sizes):
            if not self._try([Trial(self.best.having({name: size}), name)]):
                self._untried(name, sizes[position + 1 :], f"{size} did not help")
                return position > 0
        return bool(sizes)

    def _name_what_is_left(self) -> None:
        """Say which listed values were not come to before the end of the budget."""
        for axis in self.axes:
            name = axis.name
            seen = {row.trial.configuration.get(name) for row in self.rows} | {axis.own}
            left = [v for v in axis.values if v not in seen and (name, v) not in self._left_out]
            self._untried(name, left, "the budget was used up")

    def _untried(self, name: str, values: Sequence[Value | None], why: str) -> None:
        """Say why listed values of a setting are left out."""
        self._left_out.update((name, value) for value in values)
        if values:
            said = f"{name} {', '.join(map(str, values))}: not tried: {why}"
            self.untried.append(said)
            self.tell(said)

    def _grid(self) -> list[Configuration]:
        found: list[Configuration] = []
        sets: list[list[Mapping[str, Value]]] = []
        for axis in self.axes:
            wanted = [v for v in axis.values if v != axis.own]
            sets.append([{}, *({axis.name: v} for v in wanted)])
        for parts in itertools.product(*sets):
            made = Configuration.of({name: v for part in parts for name, v in part.items()})
            if made.values and self._holds_together(made):
                found.append(made)
        if len(found) > LARGEST_GRID:
            raise UsageError(
                f"--strategy grid: {len(found)} configurations are more than {LARGEST_GRID}",
                "Give fewer --settings or --batch-sizes, or --strategy one-at-a-time.",
            )
        return found

    def _holds_together(self, configuration: Configuration) -> bool:
        """Every setting has what it needs."""
        return all(
            configuration.get(name) == value
            for axis in self.axes
            if configuration.get(axis.name) is not None
            for name, value in axis.brings.items()
        )

    def _baseline(self) -> None:
        """The script as it is, twice: what two equal runs differ by bounds what can be seen."""
        trial = Trial(Configuration())
        first = self._measured(trial)
        if not first.measured:
            raise RunFailed(
                f"the baseline cannot be measured: {first.reason}",
                f"Its output is in {first.folder or 'the trial folder'}.",
            )
        said = Judgement(BASELINE, "the unchanged script")
        self.rows.append(Row(trial, first, said, Configuration()))
        self._leave_out(first.device)
        noise = self._baseline_again(1, "once more")
        if noise is not None:
            self.judge = replace(self.judge, noise=noise)

    def _baseline_again(self, number: int, when: str) -> Noise | None:
        """The script as it is again: what it differs by from the first time."""
        trial = Trial(Configuration(), again=number)
        made = self._measured(trial)
        noise = noise_of(self.rows[0].outcome, made) if made.measured else None
        apart = made.status if noise is None else f"{noise.time * 100:.1f} % apart"
        said = Judgement(BASELINE, f"the same {when}: {apart}")
        self.rows.append(Row(trial, made, said, Configuration()))
        return noise

    def _leave_out(self, device: str) -> None:
        """Settings that cannot act on the device of the steps: what they seemed to do is noise."""
        self.without_effect = {
            axis.name: f"the steps ran on {device}, this acts on "
            f"{' or '.join(axis.setting.devices.values())} only"
            for axis in self.axes
            if not axis.setting.acts_on(device)
        }
        for name, reason in self.without_effect.items():
            self.tell(f"{name}: not tried: {reason}")
        left = [c for c in self.axes if c.name not in self.without_effect]
        if self.without_effect and not left:
            raise NothingToTry(
                f"there is nothing to try: the steps ran on {device}, where "
                f"{', '.join(self.without_effect)} would have no effect",
                "Run on a machine with the device, or give other --settings.",
            )
        self.axes = left

    def _baseline_at_the_end(self) -> None:
        """The script as it is once more: what drifted in the meantime is no gain."""
        if all(not row.trial.configuration.values for row in self.rows):
            return
        noise = self._baseline_again(2, "at the end")
        if noise is not None and noise.time > self.noise.time:
            first, last = (self.rows[at].outcome.samples_ms for at in (0, -1))
            ratio = ratio_of_medians(first, last)
            if ratio is not None and ratio.real:
                self.drift = noise.time
                self.judge = replace(self.judge, noise=replace(self.noise, time=noise.time))
        self._confirm()

    def _confirm(self) -> None:
        """Recommend only what is faster than all runs of the script as it is together."""
        base, nothing = self.baseline(), Configuration()
        confirmed: list[tuple[float, Configuration]] = []
        for position, row in enumerate(self.rows):
            if row.judgement.verdict == KEPT:
                again = self._held_against(base, nothing, row.trial, row.outcome)
                confirmed += again.gain
                if not again.gain:
                    self.rows[position] = again
        if self.best not in [configuration for _, configuration in confirmed]:
            self.best = _fastest(confirmed) or nothing

    def baseline(self) -> Outcome:
        """The runs of the script as it is, as one."""
        first = self.rows[0].outcome
        samples = [
            ms
            for row in self.rows
            if not row.trial.configuration.values and row.outcome.measured
            for ms in row.outcome.samples_ms
        ]
        return replace(first, samples_ms=tuple(samples))

    def _measured(self, trial: Trial) -> Outcome:
        made = self.trials.measure([trial])[0]
        if made is None:
            raise _BudgetUsed
        return made

    def _try(self, trials: Sequence[Trial]) -> bool:
        """Measure independent settings, judge each, keep the fastest of those that help."""
        if not trials:
            return False
        start, best = self.best, self.best_measured()
        gains: list[tuple[float, Configuration]] = []
        results = self.trials.measure(trials)
        for trial, measured in zip(trials, results, strict=True):
            if measured is not None:
                row = self._held_against(best, start, trial, measured)
                self.rows.append(row)
                gains += row.gain
        self.best = _fastest(gains) or self.best
        if None in results:
            raise _BudgetUsed
        return bool(gains)

    def _held_against(
        self, best: Outcome, against: Configuration, trial: Trial, measured: Outcome
    ) -> Row:
        size = trial.configuration.get(BATCH_SIZE.name)
        reference = self._reference(size)
        by_rate = size != against.get(BATCH_SIZE.name)
        judgement = self.judge.judge(best, measured, reference, by_rate=by_rate)
        return Row(trial, measured, judgement, against)

    def _reference(self, size: Value | None) -> Outcome | None:
        """A run of the same work: the same batch size, no setting that may change the loss."""
        wanted = Configuration() if size is None else Configuration(((BATCH_SIZE.name, size),))
        for row in self.rows:
            if row.trial.configuration == wanted and row.outcome.measured:
                return row.outcome
        return None

    def best_measured(self) -> Outcome:
        """The trial of the best configuration so far."""
        return next(row.outcome for row in self.rows if row.trial.configuration == self.best)


class _BudgetUsed(Exception):
    """No further trial is to be started."""


def _fastest(gains: Sequence[tuple[float, Configuration]]) -> Configuration | None:
    return min(gains, key=lambda each: each[0])[1] if gains else None


def batch_sizes(own: int | None) -> tuple[int, ...]:
    """The sizes of the guide, and beyond them up to four times the script's own."""
    sizes = {int(value) for value in BATCH_SIZE.values}
    size = max(sizes)
    while own is not None and size < _TIMES_OWN * own:
        size *= 2
        sizes.add(size)
    if own is not None and own not in sizes:
        sizes |= {own * 2, own * 4, max(1, own // 2)}
    return tuple(sorted(s for s in sizes if own is None or s <= max(32, _TIMES_OWN * own)))
