"""Which settings are tried: played through with a script whose times are known exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from instrumentor.errors import RunFailed, UsageError
from instrumentor.tune import judge as j
from instrumentor.tune.judge import Judge, Measured
from instrumentor.tune.levers import LEVERS, Setting, lever
from instrumentor.tune.outcome import OUT_OF_MEMORY, Outcome
from instrumentor.tune.search import Ask, Choice, Search, batch_sizes

Model = Callable[[Setting], "float | Outcome"]


class Lab:
    """Measures by a formula; counts."""

    def __init__(self, model: Model, budget: int = 100) -> None:
        self.model = model
        self.budget = budget
        self.asked: list[str] = []
        self.expected: list[int] = []

    def expect(self, trials: int) -> None:
        self.expected.append(trials)

    def measure(self, asks: Sequence[Ask]) -> list[Measured | None]:
        return [self._one(ask) for ask in asks]

    def _one(self, ask: Ask) -> Measured | None:
        if len(self.asked) >= self.budget:
            return None
        self.asked.append(ask.key)
        made = self.model(ask.setting)
        batch = int(ask.setting.get("batch_size") or 4)
        if isinstance(made, Outcome):
            return Measured(made, batch)
        samples = tuple(made * (1 + 0.001 * i) for i in range(10))
        loss = 1.1 if ask.setting.get("bfp8") else 1.0
        return Measured(
            Outcome("measured", label="step", samples_ms=samples, losses=(loss,) * 10), batch
        )


def choices(*names: str) -> list[Choice]:
    """Levers on a script with float32 and batch size 4."""
    own = {"optimization_level": 0, "dtype": "float32", "batch_size": 4}
    return [
        Choice(one, own.get(one.name), one.values, one.needs) for one in LEVERS if one.name in names
    ]


def times(setting: Setting) -> float | Outcome:
    """Level 2 slower than 1; bfloat16 helps; bfp8 changes the loss; memory ends above 16."""
    batch = int(setting.get("batch_size") or 4)
    if batch > 16:
        return Outcome(OUT_OF_MEMORY, "too large")
    ms = (2 + batch) * {0: 1.0, 1: 0.5, 2: 0.8}[int(setting.get("optimization_level") or 0)]
    ms *= 0.7 if setting.get("dtype") else 1
    return ms * (0.5 if setting.get("bfp8") else 1)


def searched(model: Model, *names: str, strategy: str = "one-at-a-time", budget: int = 100,
             ) -> tuple[Search, Lab]:  # fmt: skip
    lab = Lab(model, budget)
    search = Search(lab, choices(*names), Judge())
    search.run(strategy)
    return search, lab


def test_one_change_at_a_time_on_top_of_the_best() -> None:
    search, lab = searched(times, "optimization_level", "dtype", "bfp8", "batch_size")
    assert lab.asked == [
        "as it is",
        "as it is #1",
        "optimization_level 1",
        "optimization_level 2",
        "optimization_level 1, dtype bfloat16",
        "optimization_level 1, dtype bfloat16, bfp8",
        "optimization_level 1, dtype bfloat16, batch_size 8",
        "optimization_level 1, dtype bfloat16, batch_size 16",
        "optimization_level 1, dtype bfloat16, batch_size 32",
    ]
    assert str(search.best) == "optimization_level 1, dtype bfloat16, batch_size 16"
    assert [row.judgement.verdict for row in search.rows] == [
        j.BASELINE, j.BASELINE, j.KEPT, j.KEPT, j.KEPT, j.CHANGES_LOSS, j.KEPT, j.KEPT,
        OUT_OF_MEMORY,
    ]  # fmt: skip


def test_every_row_says_what_it_was_held_against() -> None:
    search, _ = searched(times, "optimization_level", "dtype")
    assert [str(row.against) for row in search.rows[2:]] == [
        "as it is",
        "as it is",
        "optimization_level 1",
    ]


def test_batch_sizes_go_down_where_up_does_not_help() -> None:
    def small_is_fast(setting: Setting) -> float:
        batch = int(setting.get("batch_size") or 4)
        return batch**2 + 1.0

    search, lab = searched(small_is_fast, "batch_size")
    assert lab.asked[2:] == ["batch_size 8", "batch_size 2", "batch_size 1"]
    assert search.best == Setting.of({"batch_size": 1})


def test_the_plateau_ends_the_way_up() -> None:
    _, lab = searched(lambda s: float(s.get("batch_size") or 4), "batch_size")
    assert lab.asked[2:] == ["batch_size 8", "batch_size 2"]


def test_nothing_helps() -> None:
    search, _ = searched(lambda setting: 5.0, "optimization_level", "dtype")
    assert not search.best.values


def test_bfp8_brings_bfloat16_where_that_did_not_help_by_itself() -> None:
    def model(setting: Setting) -> float:
        return 12.0 if setting.get("dtype") else 10.0

    _, lab = searched(model, "dtype", "bfp8")
    assert lab.asked[2:] == ["dtype bfloat16", "dtype bfloat16, bfp8"]


def test_a_grid_holds_what_belongs_together() -> None:
    search, lab = searched(times, "optimization_level", "dtype", "bfp8", strategy="grid")
    assert len(lab.asked) == 2 + 3 * 3 - 1
    assert not any("bfp8" in key and "dtype" not in key for key in lab.asked)
    assert str(search.best) == "optimization_level 1, dtype bfloat16"
    assert lab.expected[0] == len(lab.asked)


def test_too_large_a_grid_is_refused_before_anything_runs() -> None:
    lab = Lab(times)
    many = [Choice(lever("batch_size"), 4, tuple(range(1, 600)))]
    with pytest.raises(UsageError, match="more than 500"):
        Search(lab, many, Judge()).run("grid")
    assert lab.asked == []


def test_a_used_up_budget_keeps_what_was_found() -> None:
    search, _ = searched(times, "optimization_level", "dtype", budget=4)
    assert search.out_of_budget
    assert str(search.best) == "optimization_level 1"


def test_a_script_that_cannot_be_measured_ends_it() -> None:
    with pytest.raises(RunFailed, match="too large"):
        searched(lambda setting: Outcome(OUT_OF_MEMORY, "too large"), "dtype")


def test_an_unknown_strategy() -> None:
    with pytest.raises(UsageError, match="one-at-a-time, grid"):
        searched(times, strategy="random")


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
