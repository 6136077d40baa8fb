"""Modules as tables."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from instrumentor_analysis.model import (
    ModuleOps,
    ModuleTime,
    ModuleTree,
    OpsByModule,
    Phase,
    Phases,
)
from instrumentor_analysis.reports.modules import NO_MODULE, ops, section
from instrumentor_analysis.reports.terminal import painter, table_lines

TREE = ModuleTree(
    3,
    10.0,
    (
        ModuleTime("Net", "Net", None, 1, 10.0, 3.0, 100.0, 2_000_000),
        ModuleTime("layers.0", "Linear", 0, 1, 3.0, 3.0, 30.0, 1_000_000),
        ModuleTime("layers.1", "Linear", 0, 1, 4.0, 4.0, 40.0, 1_000_000),
    ),
)


def test_the_costliest_first_and_the_tree_on_demand() -> None:
    short, tree = section(TREE, 10, rows=10).tables
    assert short.columns[0].texts == ["layers.1", "Net", "layers.0"]
    assert [column.title for column in short.columns][-2:] == ["FLOPs", "rate"]
    assert tree.folded and tree.columns[0].texts == ["Net", "layers.0", "layers.1"]


def test_a_star_is_explained_where_one_is_shown() -> None:
    assert "*: several layers" not in section(TREE, 10).tables[0].note
    alike = tuple(ModuleTime(f"{at}", "Linear", 0, 1, 4.0, 4.0, 40.0) for at in range(2))
    several = replace(TREE, modules=(TREE.modules[0], *alike))
    assert ("*" in "".join(section(several, 10).tables[0].columns[0].texts)) is (
        "*: several layers" in section(several, 10).tables[0].note
    )


def test_the_other_forward_of_a_report_is_told_apart() -> None:
    above = Phases(20, 31.0, (Phase("forward", 15.4, 50.0),), 1.0, statistic="mean")
    note = section(TREE, 10, phases=above).tables[0].note
    assert "The forward above includes the loss and is a mean of other iterations." in note


def test_what_is_not_shown_is_said() -> None:
    assert "2 more rows" in section(TREE, 1).tables[0].note
    assert "2 more modules" in section(TREE, 1, rows=1).tables[1].note


def test_flops_that_were_not_counted_have_no_column() -> None:
    bare = replace(TREE, modules=tuple(replace(x, flops=None) for x in TREE.modules))
    titles = [column.title for column in section(bare, 10).tables[0].columns]
    assert "FLOPs" not in titles
    assert "FLOPs" not in section(bare, 10).tables[0].said()
    counted = section(TREE, 10).tables[0]
    assert "Self time: without inner modules." in counted.said()
    assert "FLOPs: with those of inner modules." in counted.said()
    narrow = " ".join(" ".join(table_lines(counted, 60, painter(color=False))).split())
    assert "Total time" not in narrow and "FLOPs: with those of inner" in narrow


def test_ops_without_a_formula_are_named() -> None:
    assert "aten::foo" in section(replace(TREE, uncounted=("aten::foo",)), 10).tables[0].note


def test_nothing_where_no_module_was_followed() -> None:
    assert section(None, 10).tables == ()


def test_ops_of_layers_of_one_class_and_size_are_one_row() -> None:
    rows = (
        ModuleOps("layers.0", 9, 2.0, 1.0, 30.0, "Linear 8x8"),
        ModuleOps(None, 1, 0.5, 0.5, 10.0),
        ModuleOps("layers.1", 9, 2.0, 2.5, 45.0, "Linear 8x8"),
        ModuleOps("layers.2", 9, 0.2, 0.5, 7.0, "Linear 4x8"),
    )
    (table,) = ops(OpsByModule(10.0, True, 8.0, rows), 10).tables
    module, count, forward, backward, *_ = table.columns
    assert list(module.texts) == ["layers.*", NO_MODULE, "layers.2"]
    assert list(count.texts) == ["18", "1", "9"]
    assert (forward.texts[0], backward.texts[0]) == ("4.000 ms", "3.500 ms")
    # The script names modules, and what belongs to none is our word.
    assert (module.is_foreign(0), module.is_foreign(1)) == (True, False)
    assert "Device time of the ops" in table.note and "Of 8" in table.note


@pytest.mark.parametrize("width", [40, 50, 60, 120])
def test_layers_of_a_sequence_are_told_apart_at_every_width(width: int) -> None:
    kinds = ("Conv2d 32x3x3x3", "ReLU", "Conv2d 64x32x3x3", "ReLU", "Linear 10x64")
    rows = tuple(ModuleOps(str(n), 9, 2.0, 1.0, 20.0, kind) for n, kind in enumerate(kinds))
    (table,) = ops(OpsByModule(10.0, False, 0.0, rows), 10).tables
    told = [line.split() for line in table_lines(table, width, painter(color=False))]
    firsts = [" ".join(words[:2]) for words in told if words and words[0] in {*"024*"}]
    assert len(set(firsts)) == 4 and any("ReLU" in each for each in firsts)


def test_where_no_class_is_told_nothing_is_one() -> None:
    rows = tuple(ModuleOps(f"layers.{n}", 9, 2.0, 1.0, 30.0) for n in range(3))
    (table,) = ops(OpsByModule(10.0, True, 10.0, rows), 10).tables
    assert list(table.columns[0].texts) == ["layers.0", "layers.1", "layers.2"]


def test_no_ops_where_no_step_told_their_modules() -> None:
    assert ops(None, 10).tables == ()
