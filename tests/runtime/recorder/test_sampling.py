"""How many samples are taken: until so many are steady, and not for ever."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.sampling import Sampling, far_above, precise
from tests.runtime.recorder.tensors import events


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the record."""
    monkeypatch.setenv("INSTRUMENT_RECORD", str(tmp_path / "record.jsonl"))
    return tmp_path


def taken(
    sampling: Sampling, compiling: set[int], device: str = "xla", most: int = 99
) -> list[str]:
    """The kinds of all samples until there are enough."""
    kinds: list[str] = []
    for at in range(99):
        kinds.append(sampling.add("fwd+bwd", f"step_{at}", 10.0 + at / 10, at in compiling))
        if sampling.enough(len(kinds), "xla"):
            break
    return kinds


def test_without_compilations_there_are_as_many_as_were_asked_for(record: Path) -> None:
    kinds = taken(Sampling(5, 2, Records()), {0})
    assert kinds == ["compile", "warmup", "steady", "steady", "steady"]


def test_a_later_compilation_is_made_up_for(record: Path) -> None:
    kinds = taken(Sampling(5, 1, Records()), {0, 1, 4})
    assert kinds == ["compile", "compile", "steady", "steady", "compile", "steady", "steady"]


def test_one_within_the_warm_up_costs_no_steady_sample(record: Path) -> None:
    kinds = taken(Sampling(5, 3, Records()), {0, 1})
    assert kinds == ["compile", "compile", "warmup", "steady", "steady"]


def test_a_script_that_always_compiles_comes_to_an_end(record: Path) -> None:
    kinds = taken(Sampling(5, 1, Records()), set(range(99)))
    assert kinds == ["compile"] * 10
    (warning,) = (event["text"] for event in events(record, "warning"))
    assert warning == "more than 5 later steps compiled: no more than 10 samples are taken"


def test_a_step_far_above_the_others_is_one_once_they_confirm_it(record: Path) -> None:
    sampling = Sampling(4, 1, Records())
    for at, ms in enumerate((90_000.0, 70_000.0, 12.0, 13.0)):
        sampling.add("fwd+bwd", f"step_{at}", ms, False)
    assert not sampling.enough(4, "tt")
    (event,) = events(record, "compiled")
    assert (event["name"], event["why"]) == ("step_1", "far above the others")
    sampling.add("fwd+bwd", "step_4", 12.5, False)
    assert sampling.enough(5, "tt")


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([10.0, 88_000.0, 11.0, 12.0], ["1"]),
        ([88_000.0, 10.0, 70_000.0, 11.0], ["0", "2"]),
        # Nobody confirms: the others do not agree, or are too few.
        ([10.0, 88_000.0, 900.0, 30.0], []),
        ([10.0, 88_000.0], []),
        # A pause: too short to be a compilation, or not far above.
        ([10.0, 300.0, 11.0, 12.0], []),
        ([10_000.0, 30_000.0, 10_000.0, 10_000.0], []),
    ],
)
def test_without_counters_by_a_time_far_above_the_others(
    monkeypatch: pytest.MonkeyPatch, times: list[float], found: list[str]
) -> None:
    monkeypatch.delitem(sys.modules, "torch_xla", raising=False)
    named = [(str(at), ms) for at, ms in enumerate(times)]
    assert far_above(named, "tt") == found
    assert far_above(named, "cpu") == far_above(named, None) == []


def test_where_torch_xla_counts_a_slow_step_is_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = SimpleNamespace(_xla_metric_data=lambda name: None)
    monkeypatch.setitem(sys.modules, "torch_xla", SimpleNamespace(_XLAC=counts))
    assert far_above([("a", 10.0), ("b", 88_000.0), ("c", 11.0), ("d", 12.0)], "xla") == []


def known(
    times: list[float], warmup: int = 1, every_s: float = 0.2, nodes: Sequence[object] = ()
) -> tuple[list[str], Sampling]:
    """The kinds of samples of these milliseconds until there are enough, one each `every_s`."""
    sampling = Sampling(5, warmup, Records(), 30.0)
    kinds: list[str] = []
    for at, ms in enumerate(times):
        name = f"step_{at}"
        graph = nodes[at] if nodes else None
        kinds.append(sampling.add("fwd+bwd", name, ms, at == 0, at * every_s, graph))
        if sampling.enough(len(kinds), "cpu"):
            break
    return kinds, sampling


def test_until_the_median_is_known_after_at_least_twenty_and_three_seconds(record: Path) -> None:
    kinds, sampling = known([900.0, 30.0, 11.0, *[10.0, 10.02] * 300])
    assert sampling.why == "precise"
    assert (kinds.count("compile"), kinds.count("steady")) == (1, 20)
    quick, sampling = known([10.0] * 300, every_s=0.02)
    assert sampling.why == "precise" and quick.count("steady") == 155  # one each 20 ms


def test_the_warm_up_ends_when_steps_get_no_faster_and_is_bounded(record: Path) -> None:
    kinds, _ = known([900.0, 100.0, 60.0, 30.0, 12.0, 10.0, 10.1, 10.2, *[10.0] * 99])
    assert kinds[:9] == ["compile", *["warmup"] * 7, "steady"]
    falling, _ = known([1000.0 * 0.9**at for at in range(60)])
    assert falling.count("warmup") == 10
    longer, _ = known([1000.0 * 0.9**at for at in range(60)], warmup=20)
    assert longer.count("warmup") == 20  # more of it was asked for
    slow, _ = known([9000.0 * 0.9**at for at in range(60)], every_s=9.0)
    assert slow.count("warmup") == 1  # a fifth of the budget has gone by
    asked, _ = known([10.0] * 300, warmup=8)
    assert asked.count("warmup") == 7


def test_steps_that_scatter_end_with_the_budget_or_the_most(record: Path) -> None:
    draw = random.Random(3)
    scattered = [10.0, *[draw.uniform(10, 20) for _ in range(600)]]
    kinds, sampling = known(scattered, every_s=0.5)
    assert sampling.why == "budget" and 55 <= kinds.count("steady") <= 62
    kinds, sampling = known(scattered, every_s=0.05)
    assert sampling.why == "most" and kinds.count("steady") == 200
    long, sampling = known([40_000.0] * 20, every_s=40.0)
    assert sampling.why == "budget" and long.count("steady") == 4


@pytest.mark.parametrize(
    ("every_s", "load", "why", "steady"),
    [
        # Of slow steps the time is up before there are the fewest that others may end.
        (2.0, lambda at_s: at_s * 2.0, "budget", 15),
        # Of 2 CPUs others keep 1 at work: half of the budget's average is then known to be busy.
        (0.2, lambda at_s: at_s * 1.0, "busy", 80),
        (0.2, lambda at_s: at_s * 2.0, "busy", 40),
        # No fewer steps than ever, nor less time; of short steps there are few more to come.
        (1.0, lambda at_s: at_s * 2.0, "busy", 20),
        (0.05, lambda at_s: at_s * 2.0, "busy", 65),
        # A peak of a few seconds, and a load below what counts as busy.
        (0.2, lambda at_s: min(at_s, 6.0) * 2.0, "budget", 150),
        (0.2, lambda at_s: at_s * 0.4, "budget", 150),
        (0.2, lambda at_s: None, "budget", 150),  # the system does not say
    ],
)
def test_on_a_busy_machine_samples_end_once_no_quiet_could_change_that(
    record: Path, every_s: float, load: Callable[[float], float | None], why: str, steady: int
) -> None:
    draw = random.Random(3)
    sampling = Sampling(5, 1, Records(), 30.0)
    times = iter([10.0, *[draw.uniform(10, 20) for _ in range(600)]])
    seen = SimpleNamespace(
        cpus=2, start=lambda: None, used_s=lambda: load(sampling.now_s - (sampling.began_s or 0.0))
    )
    sampling.others = seen  # type: ignore[assignment]
    kinds: list[str] = []
    for at, ms in enumerate(times):
        kinds.append(sampling.add("fwd+bwd", f"step_{at}", ms, at == 0, at * every_s))
        if sampling.enough(len(kinds), "cpu"):
            break
    assert (sampling.why, abs(kinds.count("steady") - steady) <= 5) == (why, True)
    # Certainly disturbed, whatever ended them: over all of them others took a quarter of the CPUs.
    at_s = sampling.now_s - (sampling.began_s or 0.0)
    assert (sampling.other_cpus is not None) == ((load(at_s) or 0.0) >= 0.25 * 2 * at_s)


def test_the_median_of_each_kind_has_to_be_known(record: Path) -> None:
    sampling = Sampling(5, 1, Records(), 30.0)
    draw = [10.0, 10.01]
    for at in range(60):
        kind = at % 2
        ms = draw[at % 4 // 2] if kind == 0 else 40.0 + at % 7
        sampling.add("fwd+bwd", f"step_{at}", ms, at == 0, at * 0.2, nodes=kind)
    assert not sampling.known({})
    assert all(precise(times) == (max(times) < 11) for times in sampling.kinds({}))


@pytest.mark.parametrize("share", [0, 3], ids=["always", "mostly"])
def test_steps_of_rare_kinds_have_to_be_known_together(record: Path, share: int) -> None:
    draw = random.Random(3)
    scattered = [10.0 if at % 10 < share else draw.uniform(10, 20) for at in range(600)]
    kinds = [0 if at % 10 < share else at for at in range(600)]  # packed sequences: ever new graphs
    _, sampling = known(scattered, every_s=0.1, nodes=kinds)
    assert sampling.why == "most" and len(sampling.steady["fwd+bwd"]) == 200
    _, sampling = known([10.0] * 600, nodes=kinds)
    assert sampling.why == "precise"


def test_an_iteration_that_scatters_is_not_known_either(record: Path) -> None:
    sampling = Sampling(5, 1, Records(), 30.0)
    iterations = {}
    for at in range(28):
        sampling.add("fwd+bwd", f"step_{at}", 10.0, at == 0, at * 0.2)
        iterations[f"step_{at}"] = 100.0 + 7 * (at * at % 11), (0,)
    assert sampling.known({}) and not sampling.known(iterations)


def test_where_a_script_ends_early_its_warm_up_has_to_do(record: Path) -> None:
    kinds, sampling = known([90.0, 12.0, 10.0, 10.1])
    assert kinds == ["compile", "warmup", "warmup", "warmup"] or kinds.count("steady") <= 1
    sampling.settle()
    (event,) = events(record, "steady")
    assert event["names"][0] == "step_2"
    exact = Sampling(5, 3, Records())
    for at in range(4):
        exact.add("fwd+bwd", f"step_{at}", 10.0, False)
    exact.settle()
    assert len(events(record, "steady")) == 1


@pytest.mark.parametrize("budget_s", [30.0, None], ids=["until it is known", "a number of steps"])
def test_a_script_that_fails_at_once_has_no_steady_samples(
    record: Path, budget_s: float | None
) -> None:
    """Its summary is of nothing: it must not fail in the place of the script."""
    sampling = Sampling(5, 3, Records(), budget_s)
    for at in range(2):
        sampling.add("fwd+bwd", f"step_{at}", 10.0, at == 0)
    sampling.settle()
    assert not sampling.steady and not events(record, "steady")
