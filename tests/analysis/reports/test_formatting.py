"""Figures and foreign text as a reader sees them."""

from __future__ import annotations

import pytest

from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.document import Column, Table
from instrumentor_analysis.reports.terminal import indented, painter, table_lines
from instrumentor_analysis.shared.units import types_in_words


def test_a_text_without_an_end_is_shown_by_its_beginning() -> None:
    most = formatting.LONGEST
    for end in ("", "\n"):
        shown = formatting.visible("x" * most + "y" * 4_000_000 + end)
        assert shown == "x" * most + f"… ({most + 4_000_000 + len(end):,} characters)"
    assert formatting.visible("x" * most) == "x" * most
    assert formatting.visible("x\n" * most, keep="\n") == "x\n" * most  # a whole report


def test_visible_shows_what_a_terminal_would_obey() -> None:
    assert formatting.visible("a\x1b[2Jb\n\u202e\u200b") == r"a\x1b[2Jb\n\u202e\u200b"
    assert formatting.visible("a\tb\n\x9b2J", keep="\n\t") == "a\tb\n\\x9b2J"
    assert formatting.visible("立方体 é\xa0") == "立方体 é\xa0"


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("立方", 4), ("e\u0301", 1), ("", 0)])
def test_width(text: str, width: int) -> None:
    assert formatting.width(text) == width


@pytest.mark.parametrize("columns", range(1, 30))
@pytest.mark.parametrize("text", ["MinimalMatmulOp 32 x 1280 x 5120", "立方体" * 9, "ab"])
def test_clip_never_exceeds_its_room(text: str, columns: int) -> None:
    clipped = formatting.clip(text, columns)
    assert formatting.width(clipped) <= columns
    assert clipped == text or "…" in clipped


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (23, "native_batch_norm_back…"),
        (32, "native_batch_norm_backward…8, 32"),
        (99, "native_batch_norm_backward 128x32x8, 32"),
    ],
)
def test_of_an_op_and_its_shapes_the_shapes_are_cut_first(columns: int, shown: str) -> None:
    text = "native_batch_norm_backward 128x32x8, 32"
    assert formatting.clip(text, columns, named=True) == shown
    column = Column("op", [text], right=False, named=True, least=columns)
    assert shown in "".join(table_lines(Table((column,)), columns, painter(False)))


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ('["float","ScalarList","","Scalar"]', "float"),
        ('["long int","float"]', "long int, float"),
        ("BFLOAT16", "BFLOAT16"),
    ],
)
def test_types_are_words_and_those_of_tensors(told: str, shown: str) -> None:
    assert formatting.tensors(types_in_words(told)) == shown


@pytest.mark.parametrize(
    ("share", "bar"),
    [(0.0, ""), (None, ""), (100.0, "████"), (50.0, "██"), (3.2, "▏"), (140, "████")],
)
def test_bar(share: float | None, bar: str) -> None:
    assert formatting.bar(share, 4) == bar


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("step 2.1 ms (95 %: 1 to 2)", ["step 2.1 ms", "(95 %: 1 to 2)"]),
        ("more than 54 % of it", ["more than", "54 % of it"]),
        ("a (long bracket of many words) b", ["a (long", "bracket of", "many words) b"]),
    ],
)
def test_a_figure_stays_with_its_percent_sign_and_a_short_bracket_whole(
    text: str, lines: list[str]
) -> None:
    assert formatting.wrap(text, 14 if "95" in text else 13) == lines


def test_wrap_keeps_every_word() -> None:
    text = "one two three averyveryverylongword four"
    lines = formatting.wrap(text, 9)
    assert " ".join(lines) == text
    assert all(len(line) <= 9 for line in lines if " " in line)


def test_a_command_is_not_broken_over_lines() -> None:
    command = "instrument compare --refs HEAD~1..HEAD train.py --lr 0.1"
    said = f"in turn, so that other programs meet both alike: {command}"
    assert indented(said, 60, "  1. ") == [
        "  1. in turn, so that other programs meet both alike:",
        f"     {command}",
    ]
    assert indented(said, 120, "") == [said]
