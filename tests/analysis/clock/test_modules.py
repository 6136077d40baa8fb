"""Trees of modules out of records of extra steps."""

from __future__ import annotations

from instrumentor_analysis.clock.modules import Called, Row, alike, modules


def timed(whole: float, *layers: float) -> Called:
    rows: list[Row] = [(-1, "Net", "Net", 1, whole, 0)]
    rows += [(0, f"layers.{n}", "Linear", 1, ms, 0) for n, ms in enumerate(layers)]
    return Called("time", tuple(rows))


def test_own_times_are_medians_and_all_else_their_sum() -> None:
    found = modules([timed(10, 3, 4), timed(90, 3, 80), timed(11, 4, 5)])
    assert found is not None and found.steps == 3
    net, first, second = found.modules
    assert (first.self_ms, second.self_ms, net.self_ms) == (3, 5, 3)
    assert net.ms == found.ms == 11 and net.percent == 100
    assert (net.parent, first.parent) == (None, 0)


def test_flops_come_from_the_step_that_counted_them() -> None:
    counting = Called(
        "flops", ((-1, "Net", "Net", 1, 99.0, 30), (0, "layers.0", "Linear", 1, 9.0, 20))
    )
    found = modules([counting, timed(10, 3, 4)])
    assert found is not None
    assert [each.flops for each in found.modules] == [30, 20, None]


def test_layers_of_one_kind_are_one_row_in_short() -> None:
    found = modules([timed(10, 3, 4)])
    assert found is not None
    top, net = alike(found)
    assert (top.name, top.calls, top.self_ms, top.percent) == ("layers.*", 2, 7, 70)
    assert net.name == "Net" and net.self_ms == 3


def test_a_number_within_a_word_is_no_layer() -> None:
    found = modules(
        [Called("time", ((-1, "Net", "Net", 1, 2.0, 0), (0, "conv1", "Conv2d", 1, 1.0, 0)))]
    )
    assert found is not None
    assert {each.name for each in alike(found)} == {"Net", "conv1"}


def test_a_damaged_row_costs_no_report() -> None:
    found = modules([Called("time", ((7, "a", "A", 1, 2.0, 0), (1, "b", "B", 1, 1.0, 0)))])
    assert found is not None and len(found.modules) == 2


def test_nothing_without_a_timed_step() -> None:
    assert modules([]) is None
    assert modules([Called("flops", ((-1, "Net", "Net", 1, 1.0, 5),))]) is None
