"""Comparisons as a whole: exact values, batch sizes, regressions, what is said."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instrumentor_analysis.compare import Side, compare, compare_all, regressed
from instrumentor_analysis.errors import NotComparable, TooFewSamples
from instrumentor_analysis.model import Category, Locations, SourceLine, Step
from tests.analysis.comparison.sides import side, summary, wall

STEADY = (100.0, 101.0, 99.0, 100.5, 99.5, 100.0)


def scaled(factor: float) -> tuple[float, ...]:
    return tuple(value * factor for value in STEADY)


def test_a_faster_run() -> None:
    found = compare(side(STEADY), side(scaled(0.5), "new"))
    timing = found.timing
    assert timing is not None and timing.interval is not None
    assert (timing.base_median_ms, timing.new_median_ms, timing.ratio) == (100.0, 50.0, 0.5)
    assert timing.real and timing.change_percent == -50
    assert timing.statement.startswith("new is 2.00 times as fast (95 % interval ")


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (2.0, "new takes 2.00 times as long"),
        (1.05, "new is 5.0 % slower"),
        (0.95, "new is 5.0 % faster"),
    ],
)
def test_the_statement_of_a_real_difference(factor: float, said: str) -> None:
    timing = compare(side(STEADY), side(scaled(factor), "new")).timing
    assert timing is not None and timing.statement.startswith(said)


def test_a_difference_that_is_none_says_what_it_would_take() -> None:
    timing = compare(side(STEADY), side(scaled(1.001), "new")).timing
    assert timing is not None and not timing.real
    assert f"takes about {timing.needed:,} steady steps on each side" in timing.statement


def test_too_few_samples_say_so() -> None:
    timing = compare(side([1.0, 2.0]), side([3.0, 4.0, 5.0], "new")).timing
    assert timing is not None and timing.interval is None
    assert timing.statement.startswith("too few samples: 2 and 3 steady steps")


def test_other_batch_sizes_are_compared_per_sample() -> None:
    # Twice the batch in 1.5 times the time: slower by the step, faster by the sample.
    found = compare(side(STEADY, batch_size=32), side(scaled(1.5), "new", batch_size=64))
    timing = found.timing
    assert timing is not None and found.basis == timing.basis == "sample"
    assert timing.ratio == pytest.approx(0.75)
    assert timing.base_rate == pytest.approx(320.0)
    assert timing.new_rate == pytest.approx(64 / 0.150)
    assert timing.base_median_ms == pytest.approx(100 / 32)


def test_device_times_are_per_sample_too_but_not_counts_and_shares() -> None:
    base = side(STEADY, batch_size=1, device_time_ms=8.0, op_count=10, overhead_percent=92.0)
    new = side(STEADY, "new", batch_size=4, device_time_ms=16.0, op_count=10, overhead_percent=84.0)
    found = compare(base, new)
    device, count, overhead = (
        found.figure(key) for key in ("device_time_ms", "op_count", "overhead_percent")
    )
    assert device is not None and count is not None and overhead is not None
    assert (device.base, device.new, device.unit) == (8.0, 4.0, "ms/sample")
    assert device.change_percent == -50
    assert (count.base, count.new) == (10, 10)
    assert overhead.change_percent == -8


def test_the_same_batch_size_gives_rates_beside_step_times() -> None:
    timing = compare(side(STEADY, batch_size=50), side(STEADY, "new", batch_size=50)).timing
    assert timing is not None and timing.basis == "step" and timing.base_rate == 500


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
    assert found.device is not None and found.device.real
    assert found.device.ratio == pytest.approx(5.02 / 10.02)


def traced(name: str, factor: float, untraced: float | None) -> Side:
    """A run under Tracy, with the clock of one without it before."""
    made = side(scaled(factor), name, profiler="tracy")
    if untraced is None:
        return made
    clock = wall(scaled(untraced)).to_json()
    return replace(made, document={**made.document, "untraced_wall_clock_ms": clock})


def test_a_clock_without_tracy_is_taken_where_both_sides_have_one() -> None:
    both = compare(traced("base", 1.2, 1.0), traced("new", 1.2, 0.5)).timing
    assert both is not None and both.ratio == 0.5
    mixed = compare(traced("base", 1.2, 1.0), side(scaled(0.5), "new"))
    assert mixed.timing is not None and mixed.timing.ratio == 0.5
    assert any("without Tracy" in note for note in mixed.notes)
    one = compare(traced("base", 1.2, 1.0), traced("new", 1.2, None)).timing
    assert one is not None and one.ratio == 1
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


def test_every_label_that_both_have_the_main_one_first() -> None:
    labels = {"fwd+bwd": wall(STEADY), "optimizer": wall(scaled(0.1), "optimizer")}
    document = replace(summary(STEADY), wall_clock_by_label=labels).to_json()
    both = replace(side(STEADY), document=document)
    found = compare(both, replace(both, name="new"))
    assert [timing.label for timing in found.timings] == ["fwd+bwd", "optimizer"]
    alone = compare(both, side(STEADY, "new"))
    assert [timing.label for timing in alone.timings] == ["fwd+bwd"]
    assert "optimizer was timed in base only" in alone.notes


def test_a_drift_is_doubted() -> None:
    found = compare(side([100.0 + 3 * at for at in range(8)]), side([100.0] * 8, "new"))
    assert any("base has not reached steady state" in note for note in found.notes)


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


def test_a_regression_is_decided_by_the_interval() -> None:
    draw = random.Random(3)
    noisy = [100 * draw.uniform(0.9, 1.1) for _ in range(10)]
    slower = [value * 1.2 for value in noisy]
    found = compare(side(noisy), side(slower, "new"))
    timing = found.timing
    assert timing is not None and timing.interval is not None and timing.ratio > 1.1
    low = (timing.interval.low - 1) * 100
    assert timing.real and 0 < low < 15
    assert regressed(found, low - 0.1)
    assert not regressed(found, low + 0.1)
    # By the point it would be one.
    assert timing.change_percent > low + 0.1


def test_a_faster_run_is_no_regression() -> None:
    assert not regressed(compare(side(STEADY), side(scaled(0.5), "new")), 0)


def test_too_few_samples_decide_nothing() -> None:
    found = compare(side([1.0, 1.0, 1.0]), side([9.0, 9.0, 9.0], "new"))
    with pytest.raises(TooFewSamples) as error:
        regressed(found, 5)
    assert "--steps 9" in error.value.hint


samples = st.lists(st.floats(0.1, 1000), min_size=1, max_size=8)


@given(samples, samples)
@settings(max_examples=20, deadline=None)
def test_swapping_the_sides_inverts_the_ratio(base: list[float], new: list[float]) -> None:
    there = compare(side(base), side(new, "new")).timing
    back = compare(side(new, "new"), side(base)).timing
    assert there is not None and back is not None
    assert there.ratio * back.ratio == pytest.approx(1)
    assert (there.real, there.needed) == (back.real, back.needed)


@given(samples)
@settings(max_examples=20, deadline=None)
def test_a_run_against_itself_is_never_real(values: list[float]) -> None:
    found = compare(side(values), side(values, "new"))
    assert found.timing is not None and not found.timing.real
    assert found.differences == ()
    assert found.timing.enough is False or not regressed(found, 0)


def test_the_document_is_plain_json() -> None:
    document = compare(side(STEADY), side(scaled(2), "new", op_count=3)).to_json()
    assert document["schema"] == "instrument-comparison/1"
    assert document["timings"][0]["change_percent"] == pytest.approx(100)
    assert document["figures"][0] == {
        "key": "op_count",
        "name": "ops",
        "unit": "",
        "base": None,
        "new": 3.0,
        "better": "lower",
        "change_percent": None,
    }
    json.dumps(document, allow_nan=False)
