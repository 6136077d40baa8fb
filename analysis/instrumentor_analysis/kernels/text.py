"""Lines of a log without colours, and the numbers in them."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
#: Numbers as tt-lang prints them; one with more digits is damage, not a measurement.
NUMBER = r"[0-9](?:,?[0-9]){0,30}(?!,?[0-9])"
DECIMAL = rf"{NUMBER}(?:\.[0-9]{{1,24}}(?![0-9]))?"
SIZE = rf"{DECIMAL}\s*(?:TB|GB|MB|KB|B)\b"


def clean_lines(text: str) -> list[str]:
    """The lines without escape sequences; of a line that was overwritten, its last state."""
    text = _ANSI.sub("", text.replace("\r\n", "\n"))
    return [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n")]


def count(number: str) -> int:
    """What :data:`NUMBER` matches: ``1,234`` as 1234."""
    return int(number.replace(",", ""))


def decimal(number: str) -> float:
    """What :data:`DECIMAL` matches: ``1,234.5`` as a float."""
    return float(number.replace(",", ""))


def integer(text: str) -> int | None:
    """``1,234`` as 1234; None when it is no such number."""
    return count(text) if re.fullmatch(rf"\s*{NUMBER}\s*", text) else None


def size_bytes(size: str) -> int:
    """What :data:`SIZE` matches: ``5.4 MB`` as bytes (units of 1024, as tt-lang prints them)."""
    number, unit = re.split(r"(?=[A-Z])", size, maxsplit=1)
    return round(decimal(number) * _UNITS[unit])


def sizes(text: str) -> dict[int, int]:
    """``2.0 KBx100, 64 Bx3`` as size in bytes -> count."""
    found: dict[int, int] = {}
    # SIZE without its closing \b: here an x follows the unit directly.
    for size, times in re.findall(rf"({SIZE[:-2]})x({NUMBER})", text):
        found[size_bytes(size)] = found.get(size_bytes(size), 0) + count(times)
    return found
