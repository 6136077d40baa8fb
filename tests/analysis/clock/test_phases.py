"""Extra iterations to the owners of an iteration's time."""

from __future__ import annotations

import pytest

from instrumentor_analysis.clock.phases import Extra, phases
from instrumentor_analysis.model import Iteration


def extra(forward: float, other: float = 10.0, *, own: float = 0.0, **more: object) -> Extra:
    parts = {"forward": forward, "other": other}
    return Extra(ms=forward + other + own, parts=parts, **{"stepped": 1, **more})  # type: ignore[arg-type]


def test_the_middle_half_s_shares_of_the_median_add_up_to_it() -> None:
    found = phases([extra(30), extra(500), extra(30), extra(1)], None)
    assert found is not None
    assert (found.count, found.ms, found.statistic) == (4, 40.0, "median")
    assert [(each.name, each.ms) for each in found.phases] == [("forward", 30), ("other", 10)]
    assert found.percent("forward") == 75 and found.percent("data") == 0
    assert found.unowned_percent == pytest.approx(0) and found.longer_percent is None


def test_what_nobody_owns_is_said() -> None:
    found = phases([extra(30, own=10)], Iteration(5, 40.0, 1.0, 99.0))
    assert found is not None
    assert found.unowned_percent == pytest.approx(20)
    assert sum(each.percent for each in found.phases) == pytest.approx(80)
    assert found.longer_percent == pytest.approx(25)


def test_whole_cycles_without_what_compiled() -> None:
    cycle = [extra(20, stepped=0), extra(40)]
    taken = [extra(9000, compiled=True), *cycle, *cycle, extra(20, stepped=0)]
    found = phases(taken, None)
    assert found is not None
    assert (found.count, found.ms, found.statistic) == (4, 40.0, "mean")
    assert phases(taken[:1], None) is None and phases([], None) is None


def test_memory_is_the_most_at_the_end_of_a_phase() -> None:
    sizes = {"resident": {"forward": 5, "other": None}, "allocated": {"forward": 3}}
    found = phases([extra(30, **sizes), extra(30, resident={"forward": 9})], None)
    assert found is not None
    forward, other = found.phases
    assert (forward.resident_bytes, forward.allocated_bytes) == (9, 3)
    assert (other.resident_bytes, other.allocated_bytes) == (None, None)
