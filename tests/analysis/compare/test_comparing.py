"""Comparisons as a whole: exact values, batch sizes, regressions, what is said."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from instrumentor_analysis.compare.comparing import compare, compare_all, compare_runs, judge
from instrumentor_analysis.compare.side import Side
from instrumentor_analysis.model import (
    Busy,
    Category,
    Iteration,
    Locations,
    Memory,
    Phase,
    Phases,
    Population,
    SourceLine,
    Step,
    Update,
)
from instrumentor_analysis.reports.comparison.document import console, html, markdown
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.errors import NotComparable
from tests.analysis.compare.sides import side, summary, wall
from tests.analysis.series import KINDS

STEADY = (100.0, 101.0, 99.0, 100.5, 99.5, 100.0)


def scaled(factor: float) -> tuple[float, ...]:
    return tuple(value * factor for value in STEADY)


def test_peaks_of_different_stretches_are_said_to_be() -> None:
    whole, first = Memory(resident_bytes=350), Memory(resident_bytes=360, before_profiled=True)
    profiled = side(STEADY, "new", profiler="torch", memory=first)
    (note,) = [x for x in compare(side(STEADY, memory=whole), profiled).notes if "peaks" in x]
    assert note == (
        "The peaks of memory are not of the same: base of the whole run, new up to the first "
        "profiled step."
    )
    for other in (side(STEADY, profiler="torch", memory=first), side(STEADY)):
        assert not any("peaks" in note for note in compare(other, profiled).notes)


def test_a_faster_run() -> None:
    found = compare(side(STEADY), side(scaled(0.5), "new"))
    timing = found.timing
    assert timing.interval is not None
    assert (timing.base_median_ms, timing.new_median_ms, timing.ratio) == (100.0, 50.0, 0.5)
    assert timing.real and timing.change_percent == -50
    assert timing.statement.startswith("new is 2.00 times as fast (95 % interval ")


@pytest.mark.parametrize(
    ("base", "new", "real", "said"),
    [
        (STEADY, scaled(2.0), True, "new takes 2.00 times as long (95 % interval 1.9"),
        (STEADY, scaled(1.05), True, "new is 5.0 % slower"),
        (STEADY, scaled(0.95), True, "new is 5.0 % faster"),
        (STEADY, scaled(1.001), False, "steady steps on each side"),
        (
            [1.0, 1.1, 1.3, 1.2, 1.05],
            [2.0, 2.1, 2.3, 2.2, 2.05],
            True,
            "new takes 1.91 times as long (too few independent steps for an interval)",
        ),
        ([1.0, 2.0], [3.0, 4.0, 5.0], False, "No conclusion from 2 and 3 steady steps"),
    ],
)
def test_the_statement(base: Sequence[float], new: Sequence[float], real: bool, said: str) -> None:
    timing = compare(side(base), side(new, "new")).timing
    assert timing.real is real and said in timing.statement
    assert (timing.interval is None) == (len(base) < 6)


def test_other_batch_sizes_are_compared_per_sample() -> None:
    # Twice the batch in 1.5 times the time: slower by the step, faster by the sample.
    found = compare(side(STEADY, batch_size=32), side(scaled(1.5), "new", batch_size=64))
    timing = found.timing
    assert found.basis == timing.basis == "sample"
    assert timing.ratio == pytest.approx(0.75)
    assert timing.base_rate == pytest.approx(320.0)
    assert timing.new_rate == pytest.approx(64 / 0.150)
    assert timing.base_median_ms == pytest.approx(100 / 32)


def test_device_times_are_per_sample_too_but_not_counts_and_shares() -> None:
    base = side(STEADY, batch_size=1, device_time_ms=8.0, op_count=10, overhead_percent=92.0)
    new = side(STEADY, "new", batch_size=4, device_time_ms=16.0, op_count=10, overhead_percent=84.0)
    found = compare(base, new)
    by_key = {each.key: each for each in found.figures}
    keys = ("device_time_ms", "op_count", "overhead_percent")
    device, count, overhead = (by_key[key] for key in keys)
    assert (device.base, device.new, device.unit) == (8.0, 4.0, "ms/sample")
    assert device.change_percent == -50
    assert (count.base, count.new) == (10, 10)
    assert overhead.change_percent == -8


def test_the_same_batch_size_gives_rates_beside_step_times() -> None:
    timing = compare(side(STEADY, batch_size=50), side(STEADY, "new", batch_size=50)).timing
    assert timing.basis == "step" and timing.base_rate == 500


@pytest.mark.parametrize(("count", "told"), [(5, False), (6, True)])
def test_no_interval_of_few_independent_steps_is_shown(count: int, told: bool) -> None:
    found = compare(side(STEADY[:count]), side(scaled(2.0), "new"))
    assert found.timing is not None and found.timing.real and found.timing.told is told
    (of_json,) = found.to_json()["timings"]
    assert (of_json["told"], of_json["interval"] is not None) == (told, told)
    assert judge(found, 5).outcome == "regression"  # decided by the same as ever
    rows = [line for line in markdown([found]).splitlines() if line.startswith("|")]
    assert any("too few independent" in row for row in rows) is not told


def test_device_time_of_several_steps_has_an_interval() -> None:
    def steps(ms: float) -> tuple[Step, ...]:
        return tuple(
            Step(f"step_steady_{at}", "steady", "fwd+bwd", 100.0, True, 5, ms + at / 100)
            for at in range(5)
        )

    found = compare(
        side(STEADY, profiler="tracy", steps=steps(10)),
        side(STEADY, "new", profiler="tracy", steps=steps(5)),
    )
    assert found.device.real
    assert found.device.ratio == pytest.approx(5.02 / 10.02)


def traced(name: str, factor: float, untraced: float | None) -> Side:
    """A run under Tracy, with the clock of one without it before."""
    made = side(scaled(factor), name, profiler="tracy")
    if untraced is None:
        return made
    return replace(made, summary=replace(made.summary, untraced=wall(scaled(untraced))))


def test_a_clock_without_tracy_is_taken_where_both_sides_have_one() -> None:
    both = compare(traced("base", 1.2, 1.0), traced("new", 1.2, 0.5)).timing
    assert both.ratio == 0.5
    mixed = compare(traced("base", 1.2, 1.0), side(scaled(0.5), "new"))
    assert mixed.timing.ratio == 0.5
    assert any("without Tracy" in note for note in mixed.notes)
    one = compare(traced("base", 1.2, 1.0), traced("new", 1.2, None)).timing
    assert one.ratio == 1
    with pytest.raises(NotComparable):
        compare(traced("base", 1.2, None), side(STEADY, "new"))


def test_categories_and_source_lines_side_by_side() -> None:
    def made(name: str, matmul: float, line: int) -> dict[str, object]:
        return {
            "name": name,
            "categories": (Category("Compute", matmul, 100.0, 3),),
            "locations": Locations((SourceLine("train.py", line, matmul, 100.0, 3),)),
        }

    old, now = made("base", 4.0, 7), made("new", 3.0, 9)
    found = compare(side(STEADY, **old), side(STEADY, **now))  # type: ignore[arg-type]
    assert [(s.name, s.base_ms, s.new_ms) for s in found.categories] == [("Compute", 4.0, 3.0)]
    assert [(s.name, s.base_ms, s.new_ms) for s in found.lines] == [
        ("train.py:7", 4.0, None),
        ("train.py:9", None, 3.0),
    ]


def test_what_a_line_does_once_is_not_held_against_what_it_does_in_each_step() -> None:
    once = SourceLine("train.py", 7, 2.0, None, 3, const_eval=True)
    lines = Locations((SourceLine("train.py", 7, 4.0, 100.0, 3), once))
    found = compare(side(STEADY, locations=lines), side(STEADY, "new", locations=lines))
    assert [(s.name, s.base_ms) for s in found.lines] == [
        ("train.py:7", 4.0),
        ("train.py:7 (once)", 2.0),
    ]


@pytest.mark.parametrize("commits", [("aaa", "bbb"), ("aaa", "aaa"), ("aaa", None)])
def test_lines_of_other_commits_may_have_moved(commits: tuple[str, str | None]) -> None:
    lines = Locations((SourceLine("train.py", 7, 4.0, 100.0, 3),))
    found = compare(
        *(
            side(
                STEADY, name, locations=lines, environment={"git_commit": commit} if commit else {}
            )
            for name, commit in zip(("base", "new"), commits, strict=True)
        )
    )
    told = any(note.startswith("The commits differ") for note in found.notes)
    assert told is (commits == ("aaa", "bbb"))


def test_every_label_that_both_have_the_main_one_first() -> None:
    labels = {"fwd+bwd": wall(STEADY), "optimizer": wall(scaled(0.1), "optimizer")}
    both = replace(side(STEADY), summary=replace(summary(STEADY), wall_clock_by_label=labels))
    found = compare(both, replace(both, name="new"))
    assert [timing.label for timing in found.timings] == ["fwd+bwd", "optimizer"]
    alone = compare(both, side(STEADY, "new"))
    assert [timing.label for timing in alone.timings] == ["fwd+bwd"]
    assert "optimizer was timed in base only." in alone.notes


def told(samples: Sequence[float], kind: str, name: str = "base", **more: Any) -> Side:
    """A run whose own report says that of its steps."""
    return side(samples, name, warnings=(Caveat(kind, f"Said of {name}."),), **more)


def test_a_drift_is_doubted_as_the_run_itself_says() -> None:
    drifting = told([100.0 + 0.3 * at + 3 * (-1) ** at for at in range(40)], "not-steady")
    found = compare(drifting, side([100.0 + 3 * (-1) ** at for at in range(40)], "new"))
    assert "base: Said of base. [W204]" in found.notes
    assert any("interval is widened" in note for note in found.notes)
    # What the run does not say itself is not judged a second time.
    unsaid = replace(drifting, summary=replace(drifting.summary, warnings=()))
    assert not any("W204" in note for note in compare(unsaid, side(STEADY, "new")).notes)


def test_two_runs_of_one_name_are_told_apart_in_what_is_doubted() -> None:
    drifting = told(STEADY, "not-steady")
    found = compare(replace(drifting, source="a/out"), replace(drifting, source="b/out"))
    assert {"a/out: Said of base. [W204]", "b/out: Said of base. [W204]"} <= {*found.notes}


def test_no_interval_that_is_not_shown_is_said_to_be_widened() -> None:
    found = compare(told([100.0 + 3 * at for at in range(5)], "not-steady"), side(STEADY, "new"))
    assert found.timing is not None and not found.timing.told
    assert "base: Said of base. [W204]" in found.notes
    assert not any("interval" in note for note in found.notes)


def test_a_drift_is_doubted_where_no_clock_is_compared() -> None:
    drifting = told([130.0 - 3 * at for at in range(8)], "not-steady", device_time_ms=2.0)
    found = compare(drifting, side([], "new", device_time_ms=1.0))
    assert found.main is None and "base: Said of base. [W204]" in found.notes
    assert not any("interval" in note for note in found.notes)


def test_of_many_drifting_runs_the_worst_is_quoted() -> None:
    runs = [
        told([100.0 + step * at for at in range(8)], "not-steady", name)
        for name, step in (("a", 1.0), ("b", 3.0), ("c", 2.0))
    ]
    notes = compare_runs(runs, [side(STEADY, "new")]).notes
    assert "3 of 4 runs, such as b: Said of b. [W204]" in notes


def test_outliers_are_told_as_the_run_itself_says() -> None:
    found = compare(told([*[100.0] * 8, 900.0], "outlier"), side([100.0] * 8, "new"))
    assert "base: Said of base. [W205]" in found.notes


def test_runs_without_a_clock_are_compared_by_their_device_time() -> None:
    sides = [side([], name, device_time_ms=ms) for name, ms in (("base", 2.0), ("new", 1.0))]
    found = compare(*sides)
    assert found.main is None
    (device,) = (each for each in found.figures if each.key == "device_time_ms")
    assert (device.base, device.new) == (2.0, 1.0)


@pytest.mark.parametrize("empty", [0, 1])
def test_a_side_without_a_run_is_refused(empty: int) -> None:
    groups = [[side(STEADY)], [side(STEADY, "new")]]
    groups[empty] = []
    with pytest.raises(NotComparable, match="one side has no run"):
        compare_runs(*groups)


def test_names_that_are_alike_are_told_apart() -> None:
    one = side(STEADY)
    found = compare(one, one)
    assert (found.base.name, found.new.name) == ("base (base)", "base (new)")
    found = compare(one, replace(one, source="other/summary.json"))
    assert (found.base.name, found.new.name) == ("base/summary.json", "other/summary.json")


def test_each_further_run_is_compared_with_the_first() -> None:
    found = compare_all([side(STEADY), side(scaled(0.5), "a"), side(scaled(2), "b")])
    assert [(each.base.name, each.new.name) for each in found] == [("base", "a"), ("base", "b")]
    with pytest.raises(NotComparable):
        compare_all([side(STEADY)])


def test_no_regression_is_decided_without_a_wall_clock() -> None:
    found = replace(compare(side(STEADY), side(STEADY, "new")), timings=())
    with pytest.raises(NotComparable, match="base and new have no wall clock in common"):
        judge(found, 5)


def runs(*factors: float, name: str = "base", batch_size: int | None = None) -> list[Side]:
    """Repeats whose medians are these."""
    return [
        side(scaled(factor), f"{name}{at}", batch_size=batch_size)
        for at, factor in enumerate(factors)
    ]


def test_several_runs_are_compared_by_their_medians() -> None:
    found = compare_runs(runs(0.99, 1.0, 1.01), runs(1.09, 1.1, 1.11, name="new"))
    timing = found.timing
    assert timing is not None and timing.interval is not None and timing.between is not None
    assert timing.ratio == pytest.approx(1.1, rel=1e-3)
    # The t of four degrees of freedom, by hand.
    logs = (
        [math.log(value) for value in (0.99, 1.0, 1.01)],
        [math.log(v) for v in (1.09, 1.1, 1.11)],
    )
    deviation = math.sqrt(statistics.fmean(statistics.variance(each) for each in logs))
    reached = 2.776445 * deviation * math.sqrt(2 / 3)
    assert timing.interval.low == pytest.approx(timing.ratio * math.exp(-reached), rel=1e-5)
    assert timing.interval.high == pytest.approx(timing.ratio * math.exp(reached), rel=1e-5)
    assert timing.real
    assert timing.statement.startswith("new0 (3 runs) takes 1.10 times as long (95 % interval ")
    assert "3 and 3 runs, which differ by 0.96 %" in timing.statement
    assert (found.base.name, found.base.runs) == ("base0 (3 runs)", ("base0", "base1", "base2"))


def test_runs_that_differ_more_than_the_sides_are_inconclusive() -> None:
    timing = compare_runs(runs(0.95, 1.0, 1.05), runs(1.0, 1.07, 1.14, name="new")).timing
    assert timing is not None and not timing.real and timing.needed <= 20
    assert timing.statement.startswith("No conclusion. ")
    assert f"Run both sides {timing.needed} times" in timing.statement


def test_runs_do_not_differ_by_less_than_their_steps_allow() -> None:
    draw = random.Random(4)
    steps = [draw.lognormvariate(0, 0.1) for _ in range(20)]
    sides = [side(steps, name) for name in "abcd"]
    timing = compare_runs(sides[:2], sides[2:]).timing
    assert timing.between.noise.deviation == timing.between.noise.within > 0.01


def test_the_history_tells_how_runs_differ_where_there_is_one_on_a_side() -> None:
    pair = runs(1.0), runs(1.2, name="new")
    alone, known = (
        compare_runs(*pair).timing,
        compare_runs(*pair, {"fwd+bwd": [[9.9, 10.0, 10.1]]}).timing,
    )
    assert alone.between is None
    assert known is not None and known.between is not None and known.interval is not None
    assert (known.between.noise.freedom, known.between.noise.history) == (2, 3)
    assert known.real and "1 and 1 runs and 3 of the history" in known.statement


def test_one_run_on_each_side_cannot_know_the_noise() -> None:
    found = compare(side(STEADY), side(scaled(2), "new"))
    assert any(note.startswith("There is only one run on each side") for note in found.notes)
    several = compare_runs(runs(0.99, 1.0), runs(1.0, 1.01, name="new"))
    assert not any(note.startswith("There is only one run on each side") for note in several.notes)


def test_runs_of_one_side_that_are_not_alike_are_no_repeats() -> None:
    mixed = [
        side(STEADY, "a", run={"arguments": ["--wide"]}),
        side(STEADY, "b", run={"arguments": []}),
    ]
    found = compare_runs(mixed, runs(1.0, 1.0, name="new"))
    assert any("The runs on the side of a differ (arguments)" in note for note in found.notes)


@pytest.mark.parametrize(
    ("base", "new", "outcome"),
    [
        ((1.0, 1.001, 0.999), (1.2, 1.201, 1.199), "regression"),
        ((1.0, 1.001, 0.999), (1.0, 1.001, 0.999), "none"),
        ((1.0, 1.001, 0.999), (0.5, 0.501, 0.499), "none"),
        ((1.0, 1.1, 0.9), (1.2, 1.5, 1.3), "undecided"),
        # One run each: only what no noise explains.
        ((1.0,), (1.676,), "undecided"),
        ((1.0,), (5.0,), "regression"),
        ((1.0,), (0.5,), "none"),
    ],
)
def test_the_gate(base: tuple[float, ...], new: tuple[float, ...], outcome: str) -> None:
    gate = judge(compare_runs(runs(*base), runs(*new, name="new")), 2)
    assert gate.outcome == outcome
    assert (gate.runs is not None) == (outcome == "undecided")
    assert gate.assumed == (len(base) == 1)


@pytest.mark.parametrize("kind", ["correlated 0.6", "drifting", "outliers"])
@pytest.mark.parametrize("steps", [3, 8, 20])
def test_of_one_run_each_the_gate_tells_what_the_comparison_tells(kind: str, steps: int) -> None:
    draw, told = random.Random(f"{kind} {steps}"), 0
    for factor in (0.4, 1.3, 1.7, 3.0) * 5:
        base, new = (KINDS[kind](draw, steps) for _ in range(2))
        found = compare(side(base), side([factor * ms for ms in new], "new"))
        gate = judge(found, 2)
        assert found.timing.real or gate.outcome == "undecided", (found.timing.statement, gate)
        told += gate.outcome != "undecided"
    # Alike their neighbours or not, steps that take thrice as long do.
    assert told == 0 if steps < 4 else told >= 8


def test_with_the_runs_that_the_gate_asks_for_it_is_decided() -> None:
    draw = random.Random(8)
    base, new = ([draw.lognormvariate(0, 0.02) for _ in range(3)] for _ in range(2))
    asked = judge(compare_runs(runs(*base), runs(*new, name="new")), 0).runs
    assert asked is not None and asked > 3
    spread = [0.98, 1.02] * asked
    more = compare_runs(runs(*spread[:asked]), runs(*spread[:asked], name="new"))
    assert judge(more, 0).outcome == "none"


def test_the_document_is_plain_json() -> None:
    document = compare(side(STEADY), side(scaled(2), "new", op_count=3)).to_json()
    assert document["schema"] == "instrument-comparison/1"
    assert document["timings"][0]["change_percent"] == pytest.approx(100)
    assert document["figures"][-1] == {
        "key": "op_count",
        "name": "ops",
        "unit": "",
        "base": None,
        "new": 3.0,
        "better": "lower",
        "change_percent": None,
    }
    json.dumps(document, allow_nan=False)


BUSY = {"machine": {"cpus": 2, "other_cpus": 1.1}}


def test_nothing_is_concluded_from_a_run_on_a_busy_machine() -> None:
    calm, loaded = side([10.0, 10.1, 9.9, 10.0] * 5), side([20.0, 20.1, 19.9] * 5, "new", run=BUSY)
    found = compare(calm, loaded)
    assert found.timing is not None and not found.timing.real
    assert found.timing.statement == (
        "No conclusion, because the machine was busy in new [W201]. By the medians alone new "
        "takes 2.00 times as long. Measure again when it is quiet."
    )
    assert not any("busy" in note for note in found.notes)  # it is told once
    slower = {
        "machine": {**BUSY["machine"], "frequency_mhz_before": 3000, "frequency_mhz_after": 900}
    }
    (told,) = (n for n in compare(calm, side([20.0] * 5, "new", run=slower)).notes if "MHz" in n)
    assert told.startswith("new: The CPU's clock fell from 3,000 to 900 MHz")
    assert judge(found, 5.0).outcome == "undecided"
    quiet = compare(calm, side([20.0, 20.1, 19.9] * 5, "new"))
    assert quiet.timing is not None and quiet.timing.real


def around(found: Side, iteration: Iteration) -> Side:
    main = found.summary.wall_clock
    assert main is not None
    return replace(
        found, summary=replace(found.summary, wall_clock=replace(main, iteration=iteration))
    )


def iterations(values_ms: Sequence[float], **more: Any) -> Iteration:
    whole = tuple(values_ms)
    return Iteration(len(whole), statistics.median(whole), min(whole), max(whole),
                     values_ms=whole, **more)  # fmt: skip


def test_what_lies_around_the_region_is_compared_first() -> None:
    """A change of the data loader is in no region."""
    alike = [10.0, 10.1, 9.9, 10.0, 10.2] * 4
    waits, reads = (around(side(alike, name), iterations([ms + wait for ms in alike]))
                    for name, wait in (("base", 30.0), ("new", 2.0)))  # fmt: skip
    found = compare(waits, reads)
    assert found.iteration is not None and found.iteration.real
    assert found.iteration.statement.startswith("new is 3.33 times as fast (95 % interval ")
    assert found.timing is not None and not found.timing.real
    document = found.to_json()
    assert document["iteration"]["label"] == "iteration" and len(document["timings"]) == 1
    kinds = (Population(10, 12.0, 12.0, 12.0, kind="with update"),)
    turns = around(side(alike, "new"), iterations(alike, populations=kinds))
    # A gate judges what is concluded from; the region on demand.
    assert judge(compare(reads, waits), 5).outcome == "regression"
    region = compare_runs([reads], [waits], of_region=True)
    assert region.main is region.timing and region.iteration is None
    assert judge(region, 5).outcome == "undecided"
    assert compare(waits, turns).iteration is None
    assert compare(waits, side(alike, "new")).iteration is None


def of_kinds(name: str, ms: float) -> Side:
    """A side whose steps are of two kinds: every third takes twice as long."""
    values = [ms, ms, 2 * ms] * 4
    every = tuple(range(12))
    kinds = tuple(
        Population(len(own), long, long, long, steps=own, kind=f"{nodes} nodes")
        for own, long, nodes in ((every[::3] + every[1::3], ms, 28), (every[2::3], 2 * ms, 46))
    )
    found = around(side(values, name), iterations(values, populations=kinds))
    main = found.summary.wall_clock
    assert main is not None and main.iteration is not None
    whole = replace(main.iteration, median_ms=ms * 4 / 3)
    main = replace(main, populations=kinds, iteration=whole)
    by_label = {main.label: main}
    told = Caveat("several-kinds", "Steps of 2 kinds take turns.")
    summary = replace(
        found.summary, wall_clock=main, wall_clock_by_label=by_label, warnings=(told,)
    )
    return replace(found, summary=summary)


def test_no_sentence_and_no_row_is_made_of_a_mixture_s_median() -> None:
    base, new = of_kinds("base", 300.0), of_kinds("new", 600.0)
    for other in (new, around(side([10.0] * 12, "new"), iterations([10.0] * 12))):
        found = compare(base, other)
        assert found.main is None and found.timings == ()
        assert found.mixed == tuple(s.name for s in (base, other) if s.mixed("fwd+bwd"))
        assert any("base: Steps of 2 kinds take turns. [W208]" in note for note in found.notes)
    found = compare(base, new)
    text = " ".join(console([found]).split())
    assert (
        "iteration: No conclusion, because steps of several kinds take turns in base and new "
        "[W208]. The iteration, the mean of the kinds' medians, takes 400.0 ms in base and 800.0 "
        "ms in new." in text
    )
    assert "times as long" not in text and "wall clock of" not in text
    for render in (html, markdown):
        assert "several kinds take turns" in render([found, found])
    with pytest.raises(NotComparable, match="steps of several kinds take turns in base and new"):
        judge(found, 5)
    # Of several runs the one in the middle is shown, by what its kinds take together.
    found = compare_runs(
        [of_kinds(name, ms) for name, ms in zip("abc", (1, 3, 2), strict=True)], [new] * 3
    )
    assert found.base.source.startswith("c/")


def test_the_history_tells_how_much_iterations_differ() -> None:
    alike = [10.0, 10.1, 9.9, 10.0, 10.2] * 4
    pair = [[around(side(alike, name), iterations(alike))] for name in ("base", "new")]
    found = compare_runs(*pair, {"iteration": [[9.9, 10.0, 10.1]]})
    assert found.iteration is not None and found.iteration.between is not None
    assert found.timing is not None and found.timing.between is None


def test_of_micro_steps_the_update_is_compared() -> None:
    alike = [10.0, 10.1, 9.9, 10.0, 10.2] * 4

    def made(name: str, ms: float, steps: int, batch: int | None = None) -> Side:
        sums = tuple(ms * each / 10 for each in alike)
        update = Update(steps, len(sums), ms, values_ms=sums)
        return around(side(alike, name, batch_size=batch), iterations(alike, update=update))

    found = compare(made("base", 80.0, 4), made("new", 40.0, 4))
    assert found.iteration is not None
    assert (found.iteration.label, found.iteration.ratio) == ("update of 4 micro-steps", 0.5)
    assert compare(made("base", 80.0, 4), made("new", 40.0, 8)).iteration is None
    by_sample = compare(made("base", 80.0, 4, 16), made("new", 80.0, 4, 32)).iteration
    assert by_sample is not None and by_sample.base_median_ms == pytest.approx(80 / (4 * 16))


def test_iterations_of_other_batch_sizes_are_compared_per_sample() -> None:
    alike = [10.0] * 8
    old, now = (around(side(alike, name, batch_size=size), iterations([ms] * 8))
                for name, size, ms in (("base", 16, 40.0), ("new", 32, 60.0)))  # fmt: skip
    found = compare(old, now)
    assert found.iteration is not None and found.main == found.iteration
    assert (found.iteration.base_median_ms, found.iteration.new_median_ms) == (40 / 16, 60 / 32)
    assert compare_runs([old], [now], of_region=True).iteration is None


def test_why_there_is_no_conclusion_is_said_once() -> None:
    alike = [10.0, 10.1, 9.9, 10.0] * 5
    calm, loaded = (around(side(alike, name, run=run), iterations(alike))
                    for name, run in (("base", {}), ("new", BUSY)))  # fmt: skip
    found = compare(calm, loaded)
    assert found.iteration is not None and "[W201]" in found.iteration.statement
    assert found.timing is not None
    assert found.timing.statement == "No conclusion; by the medians alone new is exactly as fast."


def test_more_than_twenty_runs_are_never_asked_for() -> None:
    base, new = ([side([ms] * 6, name) for ms in runs] for name, runs in
                 (("a", (10.0, 14.0, 7.0)), ("b", (10.2, 14.1, 7.2))))  # fmt: skip
    found = compare_runs(base, new)
    assert found.timing is not None and not found.timing.real
    assert found.timing.statement.startswith("No conclusion. b (3 runs) is ")
    assert "This machine is too noisy" in found.timing.statement
    assert "Run both sides" not in found.timing.statement


def test_owners_share_what_both_runs_say() -> None:
    steps = Phases(4, 9.0, (Phase("forward", 9.0, 100.0),), 0.0)
    micro = replace(steps, word="micro-step")
    sides = {word: side([9.0] * 8, phases=each) for word, each in (("i", steps), ("m", micro))}
    words = [compare(sides[a], sides[b]).owners_of for a, b in ("ii", "mm", "im")]
    assert words == ["iteration", "micro-step", "iteration"]


def test_phases_of_a_disturbed_side_have_no_change() -> None:
    steps = Phases(4, 9.0, (Phase("forward", 9.0, 100.0),), 0.0)
    busy = replace(steps, busy=Busy(1.3, 2))
    calm, loaded = (side([9.0] * 8, name, phases=x) for name, x in (("a", steps), ("b", busy)))
    assert compare(calm, calm).owners_busy == ()
    found = compare(calm, loaded)
    assert found.owners_busy == ("b",)
    text = console([found])
    assert "phases have no change here, because the machine was busy in b" in text


def test_runs_that_vary_too_much_have_no_interval_and_ask_for_more_than_there_are() -> None:
    base, new = runs(1.0), runs(0.03, 0.15, name="new")
    found = compare_runs(base, new)
    assert found.timing is not None and found.timing.between is not None
    assert not found.timing.real and found.timing.needed is not None and found.timing.needed > 2
    said = found.timing.statement
    assert said.startswith("No conclusion. By the medians alone new0 (2 runs) is ")
    assert "too much for an interval. Run both sides " in said and " .. " not in said
