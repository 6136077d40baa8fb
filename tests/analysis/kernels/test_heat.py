"""Cycles over the source."""

from __future__ import annotations

from instrumentor_analysis.kernels.heat import heat_map
from instrumentor_analysis.kernels.model import LineCycles, Operation

ROWS = (
    LineCycles("NCRISC", "r", 2, "printed", 100, 50.0, operations=(Operation("cb_wait", 40),)),
    LineCycles("BRISC", "w", 2, "printed", 60, 80.0),
    LineCycles("BRISC", "w", 4, "last", 15, 20.0),
)


def test_lines_of_several_threads_are_one_row_with_those_between() -> None:
    first, between, last = heat_map(ROWS, ["one", "two", "three", "four"])
    assert (first.line, first.text, first.total, first.share, first.waits) == (
        2,
        "two",
        160,
        0.8,
        40,
    )
    assert (between.line, between.text, between.cycles) == (3, "three", ())
    assert last.text == "four"


def test_without_the_source_the_printed_text_stands() -> None:
    assert heat_map(ROWS, [])[0].text == "printed"


def test_a_damaged_line_number_does_not_fill_the_page() -> None:
    rows = (*ROWS, LineCycles("BRISC", "w", 999_999_999, "", 1, 1.0))
    assert [line.line for line in heat_map(rows, [])] == [2, 4, 999_999_999]


def test_nothing_measured_is_no_map() -> None:
    assert heat_map((), ["x"]) == ()
