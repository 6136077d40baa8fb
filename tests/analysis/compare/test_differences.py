"""What is refused, and which environments are called different."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from instrumentor_analysis.compare.differences import differences, refuse
from instrumentor_analysis.compare.figures import figures
from instrumentor_analysis.compare.side import Side
from instrumentor_analysis.model import RankRow, Ranks
from instrumentor_analysis.shared.errors import NotComparable
from tests.analysis.compare.sides import side


def test_alike_runs_are_not_refused_and_differ_in_nothing() -> None:
    base, new = side([1.0, 2.0]), side([1.0, 2.0], "new")
    refuse(base, new)
    assert differences(base, new) == ()


@pytest.mark.parametrize(
    ("new", "said", "hint"),
    [
        (
            side([1.0], "new", profiler="tracy"),
            "new was measured under Tracy and base was not",
            "Measure new again with --untraced",
        ),
        (side([1.0], "new", label="fwd+bwd+optimizer"), "different parts of a step", "--scope"),
        (side([], "new"), "new holds no steady step", "--steps 10"),
    ],
)
def test_what_would_be_meaningless_is_refused_with_a_way_out(
    new: Side, said: str, hint: str
) -> None:
    with pytest.raises(NotComparable, match=said) as error:
        refuse(side([1.0]), new)
    assert hint in error.value.hint


def test_the_traced_side_is_named_whichever_it_is() -> None:
    with pytest.raises(NotComparable, match="base was measured under Tracy and new was not") as no:
        refuse(side([1.0], profiler="tracy"), side([1.0], "new"))
    assert "Measure base again with --untraced" in no.value.hint


def test_torch_and_timers_are_comparable() -> None:
    base, new = side([1.0]), side([1.0], "new", profiler="torch")
    refuse(base, new)
    assert [each.what for each in differences(base, new)] == ["profiler"]


def test_device_times_alone_are_comparable() -> None:
    refuse(
        side([], profiler="tracy", device_time_ms=1.0),
        side([1.0], "new", profiler="tracy", device_time_ms=2.0),
    )


@pytest.mark.parametrize(
    ("old", "now", "found"),
    [
        ({"environment": {"host": "a"}}, {"environment": {"host": "b"}}, ("host", "b", "doubt")),
        # What one side did not record is no difference, but for the batch size.
        ({"environment": {"host": "a"}}, {}, None),
        (
            {"environment": {"torch_threads": 2}},
            {"environment": {"torch_threads": 1}},
            ("torch threads", "1", "doubt"),
        ),
        ({"batch_size": 32}, {}, ("batch size", "unknown", "doubt")),
        (
            {"environment": {"torch_version": "2.9.0"}},
            {"environment": {"torch_version": "2.13.0"}},
            ("torch", "2.13.0", "doubt"),
        ),
        (
            {"environment": {"git_commit": "aaa"}},
            {"environment": {"git_commit": "bbb"}},
            ("commit", "bbb", "note"),
        ),
        *(
            ({"environment": {"packages": was}}, {"environment": {"packages": {"ttnn": "2"}}},
             ("ttnn", "2", "doubt"))
            for was in ({"ttnn": "1"}, {})
        ),
        ({}, {"interrupted": True}, ("completed", "interrupted", "doubt")),
    ],
)  # fmt: skip
def test_what_differs(
    old: dict[str, Any], now: dict[str, Any], found: tuple[str, str, str] | None
) -> None:
    every = differences(side([1.0], **old), side([1.0], **now))
    assert [(each.what, each.new, each.weight) for each in every] == ([found] if found else [])


def test_what_may_explain_a_difference_comes_first() -> None:
    base = side([1.0], run={"arguments": ["--x"], "warmup": 1}, architecture="wormhole")
    new = side([1.0], run={"arguments": [], "warmup": 3}, architecture="blackhole")
    assert [each.what for each in differences(base, new)] == [
        "architecture",
        "warm-up steps",
        "arguments",
    ]


def test_several_ranks_are_a_difference_and_their_throughput_is_that_of_all() -> None:
    base, new = side([1.0, 2.0]), side([1.0, 2.0], "new")
    ranks = Ranks(2, (RankRow(0, 2, 1.5), RankRow(1, 2, 1.5)), samples_per_s=24_384.0)
    new = replace(new, summary=replace(new.summary, ranks=ranks))
    (told,) = differences(base, new)
    assert (told.what, told.base, told.new, told.weight) == ("processes", "1", "2", "doubt")
    rates = {each.name: each.new for each in figures(base, new, "step", (1, 1))}
    assert rates["throughput"] == 24_384.0
