"""Figures and foreign text as a reader sees them."""

from __future__ import annotations

import math

import pytest

from instrumentor_analysis.reports import formatting


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not measured"),
        (math.nan, "not measured"),
        (math.inf, "not measured"),
        (0.0, "0.0 ms"),
        (35_210.44, "35,210.4 ms"),
        (12.05, "12.1 ms"),
        (9.456, "9.46 ms"),
        (0.2864, "0.286 ms"),
        (0.00042, "0.00042 ms"),
        (-3.5, "-3.50 ms"),
    ],
)
def test_ms(value: float | None, text: str) -> None:
    assert formatting.ms(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not measured"),
        (0.656, "0.656 us"),
        (812.7, "812.7 us"),
        (7_730.0, "7.73 ms"),
        (8_000_123.0, "8.00 s"),
    ],
)
def test_readable_us(value: float | None, text: str) -> None:
    assert formatting.readable_us(value) == text


def test_a_column_has_the_decimals_of_its_largest_figure() -> None:
    assert formatting.column([120.0, 0.5, None], "ms") == ["120.0 ms", "0.5 ms", "-"]
    assert formatting.column([7.7269, 0.99], "ms") == ["7.727 ms", "0.990 ms"]
    assert formatting.column([], "ms") == []


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
    ("share", "bar"),
    [(0.0, ""), (None, ""), (100.0, "████"), (50.0, "██"), (3.2, "▏"), (140, "████")],
)
def test_bar(share: float | None, bar: str) -> None:
    assert formatting.bar(share, 4) == bar


def test_wrap_keeps_every_word() -> None:
    text = "one two three averyveryverylongword four"
    lines = formatting.wrap(text, 9)
    assert " ".join(lines) == text
    assert all(len(line) <= 9 for line in lines if " " in line)
