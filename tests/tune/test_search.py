"""Which settings are tried: played through with a script whose times are known exactly."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from instrumentor.shared.errors import RunFailed, UsageError
from instrumentor.tune import judge as j
from instrumentor.tune.judge import Judge
from instrumentor.tune.outcome import OUT_OF_MEMORY, Outcome
from instrumentor.tune.search import Axis, NothingToTry, Search, Trial, batch_sizes
from instrumentor.tune.settings import SETTINGS, Configuration, setting
from instrumentor_analysis.shared.units import quantity

Model = Callable[[Configuration], "float | Outcome"]


class ByFormula:
    """Measures by a formula; counts."""

    def __init__(self, model: Model, budget: int = 100, device: str = "") -> None:
        self.model = model
        self.device = device
        self.slower = 1.0  # than by the formula, the script as it is at the end
        self.budget = budget
        self.asked: list[str] = []
        self.expected: list[int] = []

    def expect(self, trials: int) -> None:
        self.expected.append(trials)

    def measure(self, trials: Sequence[Trial]) -> list[Outcome | None]:
        return [self._one(trial) for trial in trials]

    def _one(self, trial: Trial) -> Outcome | None:
        if len(self.asked) >= self.budget:
            return None
        self.asked.append(trial.key)
        made = self.model(trial.configuration)
        batch = int(trial.configuration.get("batch_size") or 4)
        if isinstance(made, Outcome):
            return replace(made, batch_size=batch)
        made *= self.slower if trial.again == 2 else 1.0
        samples = tuple(made * (1 + 0.001 * i) for i in range(10))
        loss = 1.1 if trial.configuration.get("bfp8") else 1.0
        return Outcome(
            "measured",
            label="step",
            samples_ms=samples,
            losses=(loss,) * 10,
            device=self.device,
            batch_size=batch,
        )


def axes(*names: str) -> list[Axis]:
    """Settings on a script with float32 and batch size 4."""
    own = {"optimization_level": 0, "dtype": "float32", "batch_size": 4}
    return [
        Axis(one, own.get(one.name), one.values, one.needs) for one in SETTINGS if one.name in names
    ]


def times(configuration: Configuration) -> float | Outcome:
    """Level 2 slower than 1; bfloat16 helps; bfp8 changes the loss; memory ends above 16."""
    batch = int(configuration.get("batch_size") or 4)
    if batch > 16:
        return Outcome(OUT_OF_MEMORY, "too large")
    ms = (2 + batch) * {0: 1.0, 1: 0.5, 2: 0.8}[int(configuration.get("optimization_level") or 0)]
    ms *= 0.7 if configuration.get("dtype") else 1
    return ms * (0.5 if configuration.get("bfp8") else 1)


def searched(model: Model, *names: str, strategy: str = "one-at-a-time", budget: int = 100,
             ) -> tuple[Search, ByFormula]:  # fmt: skip
    trials = ByFormula(model, budget)
    search = Search(trials, axes(*names), Judge())
    search.run(strategy)
    return search, trials


def test_one_change_at_a_time_on_top_of_the_best() -> None:
    search, trials = searched(times, "optimization_level", "dtype", "bfp8", "batch_size")
    assert trials.asked == [
        "baseline",
        "baseline #1",
        "optimization_level 1",
        "optimization_level 2",
        "optimization_level 1, dtype bfloat16",
        "optimization_level 1, dtype bfloat16, bfp8",
        "optimization_level 1, dtype bfloat16, batch_size 8",
        "optimization_level 1, dtype bfloat16, batch_size 16",
        "optimization_level 1, dtype bfloat16, batch_size 32",
        "baseline #2",
    ]
    assert str(search.best) == "optimization_level 1, dtype bfloat16, batch_size 16"
    assert search.untried[0] == "optimization_level 0: not tried: it is the current value"
    assert search.untried[-1] == "batch_size 2, 1: not tried: larger ones helped"
    assert [row.judgement.verdict for row in search.rows] == [
        j.BASELINE, j.BASELINE, j.KEPT, j.KEPT, j.KEPT, j.CHANGES_LOSS, j.KEPT, j.KEPT,
        OUT_OF_MEMORY, j.BASELINE,
    ]  # fmt: skip
    against = [str(row.against) for row in search.rows[2:5]]
    assert against == ["baseline", "baseline", "optimization_level 1"]
    assert (search.drift, search.without_effect) == (0, {})
    assert search.rows[-1].judgement.text == "0.0 % apart"


@pytest.mark.parametrize(
    ("ms", "asked", "best"),
    [
        (lambda size: size**2 + 1.0, [8, 2, 1], {"batch_size": 1}),
        (float, [8, 2], {}),  # a sample takes the same whatever the size: a plateau
    ],
)
def test_batch_sizes_go_down_where_up_does_not_help(
    ms: Callable[[int], float], asked: list[int], best: dict[str, int]
) -> None:
    search, trials = searched(lambda s: ms(int(s.get("batch_size") or 4)), "batch_size")
    assert trials.asked[2:-1] == [f"batch_size {size}" for size in asked]
    assert search.best == Configuration.of(dict(best))
    assert search.untried[:2] == [
        "batch_size 4: not tried: it is the current value",
        "batch_size 16, 32: not tried: 8 did not help",
    ]


def test_nothing_helps() -> None:
    search, _ = searched(lambda configuration: 5.0, "optimization_level", "dtype")
    assert not search.best.values


def test_bfp8_brings_bfloat16_where_that_did_not_help_by_itself() -> None:
    def model(configuration: Configuration) -> float:
        return 12.0 if configuration.get("dtype") else 10.0

    _, trials = searched(model, "dtype", "bfp8")
    assert trials.asked[2:-1] == ["dtype bfloat16", "dtype bfloat16, bfp8"]


def test_a_grid_holds_what_belongs_together() -> None:
    search, trials = searched(times, "optimization_level", "dtype", "bfp8", strategy="grid")
    assert len(trials.asked) == 3 + 3 * 3 - 1
    assert not any("bfp8" in key and "dtype" not in key for key in trials.asked)
    assert str(search.best) == "optimization_level 1, dtype bfloat16"
    assert trials.expected[0] == len(trials.asked)


@pytest.mark.parametrize("strategy", ["one-at-a-time", "grid"])
def test_what_cannot_act_on_the_device_is_not_tried(strategy: str) -> None:
    trials = ByFormula(times, device="cpu")
    told: list[str] = []
    tried: list[str] = []
    names = "optimization_level", "dtype", "bfp8", "trace"
    search = Search(trials, axes(*names), Judge(), tell=told.append, settled=tried.extend)
    search.run(strategy)
    assert trials.asked == ["baseline", "baseline #1", "dtype bfloat16", "baseline #2"]
    reason = "the steps ran on cpu, this acts on an XLA device"
    either = f"{reason} or tt-crank's device only"
    assert search.without_effect == {
        "optimization_level": either,
        "bfp8": f"{reason} only",
        "trace": either,
    }
    assert told[0] == "Not applicable on cpu: optimization_level, bfp8, trace"
    assert tried == ["dtype"]


def test_nothing_can_act_on_the_device() -> None:
    trials = ByFormula(times, device="cpu")
    with pytest.raises(NothingToTry, match="where optimization_level, trace would have no effect"):
        Search(trials, axes("optimization_level", "trace"), Judge()).run("one-at-a-time")
    assert trials.asked == ["baseline"]
    assert NothingToTry.exit_code == 3


def test_a_gain_of_a_machine_that_drifted_is_none() -> None:
    def model(configuration: Configuration) -> float:
        return 9.0 if configuration.get("dtype") else 10.0

    trials = ByFormula(model)
    trials.slower = 0.85  # what slowed the first runs down is over
    search = Search(trials, axes("dtype"), Judge())
    search.run("one-at-a-time")
    assert search.drift == pytest.approx(1 / 0.85 - 1)
    assert not search.best.values
    assert [row.judgement.verdict for row in search.rows][2] == j.NO_GAIN


_TOLD = re.compile(r"x([\d.,]+) (?:\(.*\) )?against ([\d.,]+) (ms|samples/s)")


@pytest.mark.parametrize("slower", [0.45, 0.85, 1.0, 1.1])
def test_every_ratio_of_the_table_can_be_computed_from_it(slower: float) -> None:
    trials = ByFormula(times)
    trials.slower = slower
    search = Search(trials, axes("optimization_level", "dtype", "bfp8", "batch_size"), Judge())
    search.run("one-at-a-time")
    told = [(row, _TOLD.search(row.judgement.text)) for row in search.rows]
    assert sum(found is not None for _, found in told) >= 6
    for row, found in told:
        assert (found is None) is (row.judgement.ratio is None)
        if found is None:
            continue
        times_as_fast, reference = (float(each.replace(",", "")) for each in found.groups()[:2])
        own_ms, own_rate = row.outcome.median_ms, row.outcome.samples_per_s
        assert own_ms is not None and own_rate is not None
        computed = reference / own_ms if found[3] == "ms" else own_rate / reference
        assert times_as_fast == pytest.approx(computed, rel=0.02)


def test_what_was_built_on_a_gain_that_fell_is_held_against_the_script_as_it_is() -> None:
    def model(configuration: Configuration) -> float:
        ms = 9.0 if configuration.get("optimization_level") == 1 else 10.0
        return ms * (0.9 if configuration.get("dtype") else 1.0)

    trials = ByFormula(model)
    trials.slower = 0.86  # what slowed the first runs down is over
    search = Search(trials, axes("optimization_level", "dtype"), Judge())
    search.run("one-at-a-time")
    rows = {str(row.trial.configuration): row for row in search.rows}
    fell, built = rows["optimization_level 1"], rows["optimization_level 1, dtype bfloat16"]
    assert fell.judgement.verdict == j.NO_GAIN and not fell.kept
    assert fell.judgement.text.endswith("; kept until the script as it is was measured once more")
    assert built.against == Configuration()
    assert built.judgement.against_ms == search.baseline().median_ms
    proven = {row.trial.configuration for row in search.rows if row.kept} | {Configuration()}
    assert all(row.against in proven for row in search.rows)
    assert search.best in proven


def test_a_gain_beyond_the_drift_stays() -> None:
    trials = ByFormula(times)
    trials.slower = 1.1
    search = Search(trials, axes("optimization_level", "dtype"), Judge())
    search.run("one-at-a-time")
    assert search.drift == pytest.approx(0.1)
    assert str(search.best) == "optimization_level 1, dtype bfloat16"
    assert len(search.baseline().samples_ms) == 30


def test_too_large_a_grid_is_refused_before_anything_runs() -> None:
    trials = ByFormula(times)
    many = [Axis(setting("batch_size"), 4, tuple(range(1, 600)))]
    with pytest.raises(UsageError, match="more than 500"):
        Search(trials, many, Judge()).run("grid")
    assert trials.asked == []


def test_without_the_third_baseline_nothing_is_recommended() -> None:
    search, _ = searched(times, "optimization_level", "dtype", budget=4)
    assert search.out_of_budget and search.rows[-2].kept
    assert not search.best.values
    assert search.withheld == "the budget ended before the third run of the unchanged script"
    assert search.untried == [
        "optimization_level 0: not tried: it is the current value",
        "dtype bfloat16: not tried: the budget was used up",
    ]


class Noisy(ByFormula):
    """The second run of the script as it is takes longer; all others do not."""

    def _one(self, trial: Trial) -> Outcome | None:
        made = super()._one(trial)
        if made is None or trial.again != 1:
            return made
        return replace(made, samples_ms=tuple(1.25 * ms for ms in made.samples_ms))


def test_baselines_that_differ_by_a_fifth_end_it() -> None:
    trials = Noisy(times)
    search = Search(trials, axes("optimization_level", "dtype"), Judge())
    search.run("one-at-a-time")
    assert trials.asked == ["baseline", "baseline #1"]
    assert search.promising() == ("optimization_level", 1)  # the script's own is 0
    assert search.withheld.startswith("two runs of the unchanged script differ by 25 %, so no sett")
    assert "--allow-busy" in search.withheld and search.too_noisy
    assert search.rows[1].judgement.text == "25.0 % apart: too noisy"
    trials = Noisy(times)
    search = Search(trials, axes("optimization_level", "dtype"), Judge(), allow_busy=True)
    search.run("one-at-a-time")
    assert len(trials.asked) > 3 and not search.withheld


def test_settings_that_were_tried_before_it_got_noisy_are_said_to_be_in_the_table() -> None:
    class Drifting(ByFormula):
        def _one(self, trial: Trial) -> Outcome | None:
            made = super()._one(trial)
            slower = 1.9 if trial.again == 2 else 1.0
            return made and replace(made, samples_ms=tuple(slower * ms for ms in made.samples_ms))

    search = Search(Drifting(times), axes("dtype"), Judge())
    search.run("one-at-a-time")
    assert search.too_noisy and not search.best.values
    assert "so no setting was tried" not in search.withheld
    first, last = (quantity(search.rows[at].outcome.median_ms or 0.0, "ms") for at in (0, -1))
    assert search.withheld == (
        f"the unchanged script took {first} first and {last} at the end. The setting tried is in "
        "the table; measure again when the machine is quiet"
    )


@pytest.mark.parametrize("allowed", [False, True])
def test_a_busy_machine_gives_no_conclusion(allowed: bool) -> None:
    class Busy(ByFormula):
        def _one(self, trial: Trial) -> Outcome | None:
            made = super()._one(trial)
            return made and replace(made, busy=trial.again == 2)

    search = Search(Busy(times), axes("dtype"), Judge(), allow_busy=allowed)
    search.run("one-at-a-time")
    assert bool(search.best.values) is allowed
    assert bool(search.withheld) is not allowed
    assert allowed or "busy in 1 of the trials" in search.withheld


def test_what_seemed_to_help_on_a_busy_machine_is_worth_pairs() -> None:
    class Busy(ByFormula):
        def _one(self, trial: Trial) -> Outcome | None:
            made = super()._one(trial)
            return made and replace(made, busy=True)

    search = Search(Busy(times), axes("optimization_level", "dtype", "bfp8"), Judge())
    search.run("one-at-a-time")
    assert search.withheld and search.promising() == ("optimization_level", 1)


def test_a_script_that_cannot_be_measured_ends_it() -> None:
    with pytest.raises(RunFailed, match="too large"):
        searched(lambda configuration: Outcome(OUT_OF_MEMORY, "too large"), "dtype")


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (None, (1, 2, 4, 8, 16, 32)),
        (4, (1, 2, 4, 8, 16, 32)),
        (64, (1, 2, 4, 8, 16, 32, 64, 128, 256)),
        (24, (1, 2, 4, 8, 12, 16, 32, 48, 64, 96)),
    ],
)
def test_which_batch_sizes(own: int | None, expected: tuple[int, ...]) -> None:
    assert batch_sizes(own) == expected


def of_torch(*names: str) -> list[Axis]:
    """Settings on a script that has none of them on."""
    own = {"num_workers": 0}
    return [Axis(one, own.get(one.name), one.values) for one in SETTINGS if one.name in names]


@pytest.mark.parametrize(
    ("helps_up_to", "asked", "best"),
    [(0, [2], {}), (2, [2, 4], {"num_workers": 2}), (8, [2, 4, 8], {"num_workers": 8})],
)
def test_more_workers_as_long_as_they_help(
    helps_up_to: int, asked: list[int], best: dict[str, int]
) -> None:
    def model(chosen: Configuration) -> float:
        return 20.0 - min(int(chosen.get("num_workers") or 0), helps_up_to)

    trials = ByFormula(model)
    search = Search(trials, of_torch("num_workers"), Judge())
    search.run("one-at-a-time")
    assert trials.asked[2:-1] == [f"num_workers {count}" for count in asked]
    assert search.best == Configuration.of(dict(best))


def test_of_two_ways_to_do_the_same_only_one_is_in_effect() -> None:
    trials = ByFormula(lambda chosen: 5.0 if chosen.get("amp") else 10.0)
    search = Search(trials, of_torch("amp", "dtype"), Judge())
    search.run("one-at-a-time")
    assert trials.asked[2:-1] == ["amp bfloat16"]
    assert search.untried[-1] == "dtype bfloat16: not tried: amp is in effect"
    trials = ByFormula(lambda chosen: 10.0)
    Search(trials, of_torch("amp", "dtype"), Judge()).run("grid")
    assert trials.asked[2:-1] == ["dtype bfloat16", "amp bfloat16"]


@pytest.mark.parametrize(("shape", "tried"), [((4, 8), False), ((4, 3, 8, 8), True), ((), True)])
def test_channels_last_is_for_batches_of_images(shape: tuple[int, ...], tried: bool) -> None:
    trials = ByFormula(lambda chosen: replace(measured(9.0), batch_shape=shape), device="cpu")
    search = Search(trials, of_torch("channels_last", "amp"), Judge())
    search.run("one-at-a-time")
    assert ("channels_last" in trials.asked) == tried
    if not tried:
        assert search.without_effect["channels_last"].startswith("a batch has 2 axes")


def measured(ms: float) -> Outcome:
    """A trial of this step time."""
    return Outcome("measured", label="iteration", samples_ms=(ms,) * 10, losses=(1.0,) * 10)
