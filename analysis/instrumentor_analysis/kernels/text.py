"""Lines of a log without colours, and the numbers in them."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_BYTES = re.compile(r"(\d[\d,]*(?:\.\d+)?)\s*(TB|GB|MB|KB|B)\b")
#: A number with more digits than this is damage, not a measurement.
_LONGEST = 24


def clean_lines(text: str) -> list[str]:
    """The lines without escape sequences; of a line that was overwritten, its last state."""
    text = _ANSI.sub("", text.replace("\r\n", "\n"))
    return [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n")]


def integer(text: str) -> int | None:
    """``1,234`` as 1234; None when it is no such number."""
    digits = text.replace(",", "").strip()
    if not digits.isascii() or not digits.isdigit() or len(digits) > _LONGEST:
        return None
    return int(digits)


def decimal(text: str) -> float | None:
    """``1,234.5`` as a float; None when it is no finite number."""
    digits = text.replace(",", "").strip()
    if not re.fullmatch(r"[0-9]{1,24}(?:\.[0-9]{1,24})?", digits):
        return None
    return float(digits)


def size_bytes(text: str) -> int | None:
    """``5.4 MB`` as bytes (units of 1024, as tt-lang prints them)."""
    match = _BYTES.search(text)
    return None if match is None else _size(match)


def sizes(text: str) -> dict[int, int]:
    """``2.0 KBx100, 64 Bx3`` as size in bytes -> count."""
    found: dict[int, int] = {}
    for part in text.split(","):
        amount, _, count = part.strip().rpartition("x")
        size, times = size_bytes(amount), integer(count)
        if size is not None and times is not None:
            found[size] = found.get(size, 0) + times
    return found


def _size(match: re.Match[str]) -> int | None:
    value = decimal(match[1])
    return None if value is None else round(value * _UNITS[match[2]])
