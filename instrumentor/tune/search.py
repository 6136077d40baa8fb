"""Which settings are tried, in which order, and what is kept.

The order depends on outcomes alone, so a search that is begun again and given the outcomes of its
journal comes to where it was.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from instrumentor.errors import InstrumentError, RunFailed, UsageError
from instrumentor.tune.judge import BASELINE, KEPT, Judge, Judgement, Measured, Noise, noise_of
from instrumentor.tune.levers import BATCH_SIZE, Lever, Setting, Value
from instrumentor_analysis.comparison.ratio import ratio_of_medians

STRATEGIES = ("one-at-a-time", "grid")
#: Settings of a grid above which it is refused: that is a week, not a grid.
LARGEST_GRID = 500
#: How far above the script's own batch size is looked.
_TIMES_OWN = 4


class NothingToTry(InstrumentError):
    """No lever can act on this script where it runs."""

    exit_code = 3


@dataclass(frozen=True)
class Ask:
    """A trial that is wanted.

    Attributes:
        lever: what is being tried; '' for the script as it is.
        again: repetition of the same setting, from 0.
    """

    setting: Setting
    lever: str = ""
    again: int = 0

    @property
    def key(self) -> str:
        """Names the trial in the journal."""
        return f"{self.setting} #{self.again}" if self.again else str(self.setting)


@dataclass(frozen=True)
class Row:
    """A trial with what it is worth, and the setting it was held against."""

    ask: Ask
    measured: Measured
    judgement: Judgement
    against: Setting

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.ask.setting}{('', ' again', ' at the end')[self.ask.again]}"


class Trials(Protocol):
    """Whoever runs trials."""

    def measure(self, asks: Sequence[Ask]) -> list[Measured | None]:
        """Run them, or take their outcomes from the journal; None when the budget is used up."""
        ...

    def expect(self, trials: int) -> None:
        """At most so many trials are still to come."""
        ...


@dataclass(frozen=True)
class Choice:
    """A lever as it can be used on this script.

    Attributes:
        own: the value that the script has itself; None when unknown.
        brings: levers it has to be tried with, because the script is not that by itself.
    """

    lever: Lever
    own: Value | None
    values: tuple[Value, ...]
    brings: Mapping[str, Value] = field(default_factory=dict)


@dataclass
class Search:
    """A search under way, and afterwards its result.

    Attributes:
        rows: the trials, in the order in which they were judged.
        best: the setting that is recommended; of no value when it is the script as it is.
        out_of_budget: the search ended before its time.
        without_effect: lever -> why it was not tried, known from the first run of the script.
        untried: values that were listed and not tried, each with why.
        drift: what the first and the last run of the script as it is differ by, as a fraction,
            where that exceeds the interval and what two runs in a row differ by; else 0.
        tell: hears what is decided on the way.
    """

    trials: Trials
    choices: Sequence[Choice]
    judge: Judge
    rows: list[Row] = field(default_factory=list)
    best: Setting = field(default_factory=Setting)
    noise: Noise = field(default_factory=Noise)
    out_of_budget: bool = False
    without_effect: dict[str, str] = field(default_factory=dict)
    untried: list[str] = field(default_factory=list)
    drift: float = 0.0
    _left_out: set[tuple[str, Value | None]] = field(default_factory=set)
    tell: Callable[[str], None] = lambda text: None

    def run(self, strategy: str) -> None:
        """All of it.

        Raises:
            UsageError: no such strategy, or too large a grid.
            RunFailed: the baseline cannot be measured.
            NothingToTry: no lever can act where its steps ran.
        """
        check_strategy(strategy)
        grid = self._grid() if strategy == "grid" else []
        self.trials.expect(3 + (len(grid) or sum(len(c.values) for c in self.choices)))
        try:
            self._baseline()
            if strategy == "grid":
                self._try([Ask(setting, "grid") for setting in self._grid()])
            else:
                for position, choice in enumerate(self.choices):
                    left = self.choices[position:]
                    self.trials.expect(1 + sum(len(c.values) for c in left))
                    self._one(choice)
            self._baseline_at_the_end()
        except _BudgetUsed:
            self.out_of_budget = True
            self._name_what_is_left()
        self.trials.expect(0)

    def _one(self, choice: Choice) -> None:
        """The values of one lever on top of the best so far; the fastest that helps is kept."""
        if choice.lever.name == BATCH_SIZE.name:
            self._batch_sizes(choice)
            return
        current = self.best.get(choice.lever.name)
        current = choice.own if current is None else current
        wanted = [value for value in choice.values if value != current]
        if len(wanted) < len(choice.values):
            self._untried(choice.lever.name, [current], "it is the current value")
        changes = [{**choice.brings, choice.lever.name: value} for value in wanted]
        self._try([Ask(self.best.having(each), choice.lever.name) for each in changes])

    def _batch_sizes(self, choice: Choice) -> None:
        """Up from the script's own until it helps no more or fails; if it never helped, down."""
        name = BATCH_SIZE.name
        own = self.best_measured().batch_size or choice.own
        sizes = [int(value) for value in choice.values]
        if own is None:
            self._try([Ask(self.best.having({name: size}), name) for size in sizes])
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
            if not self._try([Ask(self.best.having({name: size}), name)]):
                self._untried(name, sizes[position + 1 :], f"{size} did not help")
                return position > 0
        return bool(sizes)

    def _name_what_is_left(self) -> None:
        """Say which listed values were not come to before the end of the budget."""
        for choice in self.choices:
            name = choice.lever.name
            seen = {row.ask.setting.get(name) for row in self.rows} | {choice.own}
            left = [v for v in choice.values if v not in seen and (name, v) not in self._left_out]
            self._untried(name, left, "the budget was used up")

    def _untried(self, name: str, values: Sequence[Value | None], why: str) -> None:
        """Say why listed values of a lever are left out."""
        self._left_out.update((name, value) for value in values)
        if values:
            said = f"{name} {', '.join(map(str, values))}: not tried: {why}"
            self.untried.append(said)
            self.tell(said)

    def _grid(self) -> list[Setting]:
        found: list[Setting] = []
        axes: list[list[Mapping[str, Value]]] = []
        for choice in self.choices:
            wanted = [v for v in choice.values if v != choice.own]
            axes.append([{}, *({choice.lever.name: v} for v in wanted)])
        for parts in itertools.product(*axes):
            setting = Setting.of({name: v for part in parts for name, v in part.items()})
            if setting.values and self._holds_together(setting):
                found.append(setting)
        if len(found) > LARGEST_GRID:
            raise UsageError(
                f"--strategy grid: {len(found)} settings are more than {LARGEST_GRID}",
                "Give fewer --settings or --batch-sizes, or --strategy one-at-a-time.",
            )
        return found

    def _holds_together(self, setting: Setting) -> bool:
        """Every lever has what it needs."""
        return all(
            setting.get(name) == value
            for choice in self.choices
            if setting.get(choice.lever.name) is not None
            for name, value in choice.brings.items()
        )

    def _baseline(self) -> None:
        """The script as it is, twice: what two equal runs differ by bounds what can be seen."""
        asks = [Ask(Setting()), Ask(Setting(), again=1)]
        first = self._measured(asks[0])
        if not first.outcome.measured:
            raise RunFailed(
                f"the baseline cannot be measured: {first.outcome.reason}",
                f"Its output is in {first.outcome.folder or 'the trial folder'}.",
            )
        words = Judgement(BASELINE, "the unchanged script")
        self.rows.append(Row(asks[0], first, words, Setting()))
        self._leave_out(first.outcome.device)
        again = self._measured(asks[1])
        if again.outcome.measured:
            self.noise = noise_of(first, again)
            self.judge = Judge(self.noise, self.judge.loss_tolerance)
            text = f"the same once more: {self.noise.time * 100:.1f} % apart"
        else:
            text = f"the same once more: {again.outcome.status}"
        self.rows.append(Row(asks[1], again, Judgement(BASELINE, text), Setting()))

    def _leave_out(self, device: str) -> None:
        """Levers that cannot act on the device of the steps: what they seemed to do is noise."""
        self.without_effect = {
            choice.lever.name: f"the steps ran on {device}, this acts on {choice.lever.where} only"
            for choice in self.choices
            if not choice.lever.acts_on(device)
        }
        for name, reason in self.without_effect.items():
            self.tell(f"{name}: not tried: {reason}")
        left = [c for c in self.choices if c.lever.name not in self.without_effect]
        if self.without_effect and not left:
            raise NothingToTry(
                f"there is nothing to try: the steps ran on {device}, where "
                f"{', '.join(self.without_effect)} would have no effect",
                "Run on a machine with the device, or give other --settings.",
            )
        self.choices = left

    def _baseline_at_the_end(self) -> None:
        """The script as it is once more: what drifted in the meantime is no gain."""
        if all(not row.ask.setting.values for row in self.rows):
            return
        ask = Ask(Setting(), again=2)
        last, first = self._measured(ask), self.rows[0].measured
        text = f"the same at the end: {last.outcome.status}"
        if last.outcome.measured:
            apart = noise_of(first, last).time
            text = f"the same at the end: {apart * 100:.1f} % apart"
            ratio = ratio_of_medians(first.outcome.samples_ms, last.outcome.samples_ms)
            if ratio is not None and ratio.real and apart > self.noise.time:
                self.drift = apart
                self.noise = replace(self.noise, time=apart)
                self.judge = replace(self.judge, noise=self.noise)
        self.rows.append(Row(ask, last, Judgement(BASELINE, text), Setting()))
        self._confirm()

    def _confirm(self) -> None:
        """Recommend only what is faster than all runs of the script as it is together."""
        base = self.baseline()
        confirmed: list[tuple[float, Setting]] = []
        for position, row in enumerate(self.rows):
            setting = row.ask.setting
            if row.judgement.verdict != KEPT:
                continue
            by_rate = setting.get(BATCH_SIZE.name) is not None
            again = self.judge.judge(base, row.measured, self._reference(setting), by_rate=by_rate)
            if again.verdict == KEPT and again.ratio is not None:
                confirmed.append((again.ratio.value, setting))
            else:
                self.rows[position] = replace(row, judgement=again, against=Setting())
        if self.best not in [setting for _, setting in confirmed]:
            self.best = min(confirmed, key=lambda each: each[0])[1] if confirmed else Setting()

    def baseline(self) -> Measured:
        """The runs of the script as it is, as one."""
        first = self.rows[0].measured
        samples = [
            ms
            for row in self.rows
            if not row.ask.setting.values and row.measured.outcome.measured
            for ms in row.measured.outcome.samples_ms
        ]
        return replace(first, outcome=replace(first.outcome, samples_ms=tuple(samples)))

    def _measured(self, ask: Ask) -> Measured:
        made = self.trials.measure([ask])[0]
        if made is None:
            raise _BudgetUsed
        return made

    def _try(self, asks: Sequence[Ask]) -> bool:
        """Measure independent settings, judge each, keep the fastest of those that help."""
        if not asks:
            return False
        start, against = self.best, self.best_measured()
        kept: list[tuple[float, Setting]] = []
        results = self.trials.measure(asks)
        for ask, measured in zip(asks, results, strict=True):
            if measured is None:
                continue
            by_rate = ask.setting.get(BATCH_SIZE.name) != start.get(BATCH_SIZE.name)
            judgement = self.judge.judge(
                against, measured, self._reference(ask.setting), by_rate=by_rate
            )
            self.rows.append(Row(ask, measured, judgement, start))
            if judgement.verdict == KEPT and judgement.ratio is not None:
                kept.append((judgement.ratio.value, ask.setting))
        if kept:
            self.best = min(kept, key=lambda each: each[0])[1]
        if None in results:
            raise _BudgetUsed
        return bool(kept)

    def _reference(self, setting: Setting) -> Measured | None:
        """A run of the same work: the same batch size, none of the levers that change the loss."""
        size = setting.get(BATCH_SIZE.name)
        wanted = Setting() if size is None else Setting(((BATCH_SIZE.name, size),))
        for row in self.rows:
            if row.ask.setting == wanted and row.measured.outcome.measured:
                return row.measured
        return None

    def best_measured(self) -> Measured:
        """The trial of the best setting so far."""
        return next(row.measured for row in self.rows if row.ask.setting == self.best)


class _BudgetUsed(Exception):
    """No further trial is to be started."""


def check_strategy(strategy: str) -> None:
    """Refuse what is none.

    Raises:
        UsageError: no such strategy.
    """
    if strategy not in STRATEGIES:
        raise UsageError(f"--strategy {strategy}: must be one of {', '.join(STRATEGIES)}")


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
