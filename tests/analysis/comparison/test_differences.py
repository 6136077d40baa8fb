"""What is refused, and which environments are called different."""

from __future__ import annotations

from typing import Any

import pytest

from instrumentor_analysis.comparison.differences import differences, refuse
from instrumentor_analysis.errors import NotComparable
from tests.analysis.comparison.sides import side


def test_alike_runs_are_not_refused_and_differ_in_nothing() -> None:
    base, new = side([1.0, 2.0]), side([1.0, 2.0], "new")
    refuse(base, new)
    assert differences(base, new) == ()


def test_tracy_on_one_side_is_refused_with_a_way_out() -> None:
    with pytest.raises(NotComparable, match=r"new was measured under Tracy and base was not") as e:
        refuse(side([1.0]), side([1.0], "new", profiler="tracy"))
    assert "Measure new again with --untraced" in e.value.hint


def test_torch_and_timers_are_comparable() -> None:
    base, new = side([1.0]), side([1.0], "new", profiler="torch")
    refuse(base, new)
    assert [each.what for each in differences(base, new)] == ["profiler"]


def test_other_parts_of_a_step_are_refused() -> None:
    with pytest.raises(NotComparable, match="different parts of a step") as error:
        refuse(side([1.0]), side([1.0], "new", label="fwd+bwd+optimizer"))
    assert "--scope" in error.value.hint


def test_a_run_without_a_steady_step_is_refused() -> None:
    with pytest.raises(NotComparable, match="new holds no steady step"):
        refuse(side([1.0]), side([], "new"))


def test_device_times_alone_are_comparable() -> None:
    refuse(
        side([], profiler="tracy", device_time_ms=1.0),
        side([1.0], "new", profiler="tracy", device_time_ms=2.0),
    )


@pytest.mark.parametrize(
    ("key", "old", "now", "what", "weight"),
    [
        ("host", "a", "b", "host", "doubt"),
        ("torch_version", "2.9.0", "2.13.0", "torch", "doubt"),
        ("git_commit", "aaa", "bbb", "commit", "note"),
        ("packages", {"ttnn": "1"}, {"ttnn": "2"}, "ttnn", "doubt"),
        ("packages", {}, {"ttnn": "2"}, "ttnn", "doubt"),
    ],
)
def test_environments(key: str, old: Any, now: Any, what: str, weight: str) -> None:
    base, new = side([1.0], environment={key: old}), side([1.0], environment={key: now})
    found = differences(base, new)
    assert [(each.what, each.weight) for each in found] == [(what, weight)]


def test_what_one_side_did_not_record_is_no_difference() -> None:
    assert differences(side([1.0], environment={"host": "a"}), side([1.0])) == ()


def test_what_may_explain_a_difference_comes_first() -> None:
    base = side([1.0], run={"arguments": ["--x"], "warmup": 1}, architecture="wormhole")
    new = side([1.0], run={"arguments": [], "warmup": 3}, architecture="blackhole")
    assert [each.what for each in differences(base, new)] == [
        "architecture",
        "warm-up steps",
        "arguments",
    ]


def test_one_unknown_batch_size_is_in_doubt() -> None:
    found = differences(side([1.0], batch_size=32), side([1.0]))
    assert [(each.what, each.base, each.new, each.weight) for each in found] == [
        ("batch size", "32", "unknown", "doubt")
    ]


def test_a_partial_run_is_in_doubt() -> None:
    found = differences(side([1.0]), side([1.0], interrupted=True))
    assert [(each.what, each.new) for each in found] == [("came to its end", "interrupted")]
