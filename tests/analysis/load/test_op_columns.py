"""The table of op columns: each name, title and key stands for one column only."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from instrumentor_analysis.load.op_columns import COLUMNS, OnTerminal, OpColumn, in_order
from instrumentor_analysis.load.schema import NUMBERS, TEXT


@pytest.mark.parametrize(
    "said",
    [
        lambda each: each.name,
        lambda each: each.csv,
        lambda each: each.page and (each.page.key or each.name),
        lambda each: each.terminal and each.terminal.heading(each.unit, False),
    ],
)
def test_no_two_columns_say_the_same(said: Callable[[OpColumn], object]) -> None:
    words = [said(each) for each in COLUMNS if said(each)]
    assert len({*words}) == len(words)


def test_what_is_copied_is_read() -> None:
    for each in COLUMNS:
        assert not each.source or each.source in (TEXT if each.digits is None else NUMBERS)


def test_cells_of_an_unknown_column_are_called_as_it_is() -> None:
    assert OpColumn("ideal_time_us", "PM IDEAL [ns]", 1000).cells == "pm_ideal_ns"


def test_a_column_that_no_order_names_stands_behind_the_others() -> None:
    a, b, c = OpColumn("a"), OpColumn("b"), OpColumn("c")
    assert in_order(("c", "a"), (a, b, c)) == (c, a, b)


def test_percent_loses_its_blank_where_the_terminal_is_narrow() -> None:
    use = OnTerminal("FLOPs", narrow="FLOP")
    assert (use.heading("%", False), use.heading("%", True)) == ("FLOPs %", "FLOP%")
    assert OnTerminal("Gap").heading("us", True) == "Gap us"
