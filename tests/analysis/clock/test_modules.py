"""Trees of modules out of records of extra steps."""

from __future__ import annotations

from instrumentor_analysis.clock.modules import Called, Row, alike, modules
from instrumentor_analysis.model import ModuleTime, ModuleTree

MLP = (("Linear", 30), ("GELU", 0), ("Linear", 40))


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


def tree(*layers: tuple[str, str, int]) -> ModuleTree:
    """One model, and layers that it calls: name, class and FLOPs, of one millisecond each."""
    net = ModuleTime("Net", "Net", None, 1, 1.0 + len(layers), 1.0, 100.0, None)
    called = (ModuleTime(name, kind, 0, 1, 1.0, 1.0, 10.0, flops) for name, kind, flops in layers)
    return ModuleTree(3, net.ms, (net, *called))


def test_layers_of_one_class_and_size_are_one_row() -> None:
    every = [(f"blocks.{n}.mlp.{m}", *layer) for n in range(3) for m, layer in enumerate(MLP)]
    names = {(each.name, each.kind): each.calls for each in alike(tree(*every))}
    assert names == {
        ("Net", "Net"): 1,
        ("blocks.*.mlp.0", "Linear"): 3,
        ("blocks.*.mlp.1", "GELU"): 3,
        ("blocks.*.mlp.2", "Linear"): 3,
    }


def test_layers_of_a_sequence_are_told_apart() -> None:
    layers = [("0", "Conv2d", 9), ("1", "ReLU", 0), ("2", "Conv2d", 99), ("3", "ReLU", 0)]
    names = {(each.name, each.kind) for each in alike(tree(*layers))}
    assert names == {("Net", "Net"), ("0", "Conv2d"), ("*", "ReLU"), ("2", "Conv2d")}


def test_what_calls_other_layers_is_another_row() -> None:
    found = tree(("0", "Block", 9), ("1", "Block", 9), ("2", "Norm", 9))
    inner = ModuleTime("1.fc", "Linear", 2, 1, 1.0, 1.0, 10.0, 9)
    rows = alike(ModuleTree(3, found.ms, (*found.modules, inner)))
    assert {"0", "1", "1.fc", "2"} <= {each.name for each in rows}


def test_a_single_row_is_none() -> None:
    found = modules([timed(10, 3, 4)])
    assert found is not None
    assert {each.name for each in alike(found)} == {"Net", "layers.0", "layers.1"}


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
