"""SIGNPOST PROFILE in both layouts."""

from __future__ import annotations

from instrumentor_analysis.kernels.log import parse_log
from instrumentor_analysis.kernels.model import SignpostRow
from instrumentor_analysis.kernels.signposts import read_signposts
from tests.analysis.kernels.printed import SIGNPOSTS_NEW, SIGNPOSTS_OLD


def test_one_row_an_occurrence_is_put_together() -> None:
    assert parse_log(SIGNPOSTS_OLD).signposts == (
        SignpostRow("load block", "TRISC_0", 2, 1400, 700, 600, 800),
        SignpostRow("math", "TRISC_1", 1, 2232, 2232, 2232, 2232),
    )


def test_rows_with_statistics() -> None:
    assert parse_log(SIGNPOSTS_NEW).signposts == (
        SignpostRow("store", "TRISC_0", 31, 616, 19, 18, 28),
        SignpostRow("broadcast", "TRISC_1", 31, 24436, 788, 719, 2535),
    )


def test_other_lines_are_passed_over() -> None:
    assert read_signposts(["epoch 3 loss 5", "x TRISC_0 abc", "TRISC_0 5", ""]) == []
