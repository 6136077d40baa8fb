"""Numbers and lines as tt-lang prints them."""

from __future__ import annotations

import re

import pytest

from instrumentor_analysis.kernels.text import (
    DECIMAL,
    NUMBER,
    SIZE,
    clean_lines,
    decimal,
    integer,
    size_bytes,
    sizes,
)


def test_colours_links_and_overwritten_lines_are_gone() -> None:
    text = "\x1b[91mred\x1b[0m\r\n 10%\r 100%\n\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n"
    assert clean_lines(text) == ["red", " 100%", "link", ""]


@pytest.mark.parametrize(
    ("text", "value"),
    [("1,234", 1234), (" 7 ", 7), ("", None), ("1.5", None), ("-3", None), ("٣", None)],
)
def test_integer(text: str, value: int | None) -> None:
    assert integer(text) == value


@pytest.mark.parametrize("pattern", [NUMBER, DECIMAL])
def test_a_number_of_absurd_length_is_none(pattern: str) -> None:
    assert integer("9" * 5000) is None
    assert re.match(pattern, "9" * 5000) is None
    assert re.fullmatch(pattern, "1,234,567")


@pytest.mark.parametrize(("text", "value"), [("1.5", 1.5), ("2,000", 2000.0), ("1,234.5", 1234.5)])
def test_decimal(text: str, value: float) -> None:
    assert re.fullmatch(DECIMAL, text) and decimal(text) == value


@pytest.mark.parametrize("text", ["nan", "1e5", ".", "1.2.3", "-1"])
def test_no_decimal(text: str) -> None:
    assert re.fullmatch(DECIMAL, text) is None


@pytest.mark.parametrize(("text", "value"), [("2.0 KB", 2048), ("512 B", 512), ("5.4MB", 5662310)])
def test_size_bytes_counts_in_powers_of_1024(text: str, value: int) -> None:
    assert re.fullmatch(SIZE, text) and size_bytes(text) == value


def test_sizes_with_their_counts() -> None:
    assert sizes("64 Bx3, 2.0 KBx5369, 64 Bx1, broken") == {64: 4, 2048: 5369}
