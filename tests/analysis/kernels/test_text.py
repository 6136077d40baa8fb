"""Numbers and lines as tt-lang prints them."""

from __future__ import annotations

import pytest

from instrumentor_analysis.kernels.text import clean_lines, decimal, integer, size_bytes, sizes


def test_colours_links_and_overwritten_lines_are_gone() -> None:
    text = "\x1b[91mred\x1b[0m\r\n 10%\r 100%\n\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n"
    assert clean_lines(text) == ["red", " 100%", "link", ""]


@pytest.mark.parametrize(
    ("text", "value"),
    [("1,234", 1234), (" 7 ", 7), ("", None), ("1.5", None), ("-3", None), ("٣", None)],
)
def test_integer(text: str, value: int | None) -> None:
    assert integer(text) == value


def test_a_number_of_absurd_length_is_none() -> None:
    assert integer("9" * 5000) is None
    assert decimal("9" * 5000) is None


@pytest.mark.parametrize(
    ("text", "value"), [("1.5", 1.5), ("2,000", 2000.0), ("nan", None), ("1e5", None), (".", None)]
)
def test_decimal(text: str, value: float | None) -> None:
    assert decimal(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("2.0 KB (uniform)", 2048), ("512 B", 512), ("5.4 MB", 5662310), ("none", None)],
)
def test_size_bytes_counts_in_powers_of_1024(text: str, value: int | None) -> None:
    assert size_bytes(text) == value


def test_sizes_with_their_counts() -> None:
    assert sizes("64 Bx3, 2.0 KBx5369, 64 Bx1, broken") == {64: 4, 2048: 5369}
