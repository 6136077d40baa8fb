"""SIGNPOST PROFILE in both layouts: one row an occurrence, or one row a name with statistics."""

from __future__ import annotations

import re
from collections.abc import Sequence

from instrumentor_analysis.kernels.model import SignpostRow
from instrumentor_analysis.kernels.text import NUMBER, count

_ROW = re.compile(
    rf"^\s*(?P<name>\S.*?)\s+(?P<thread>(?=\S*RISC)[^a-z\s]+)"
    rf"(?P<numbers>\s+{NUMBER}|(?:\s+{NUMBER}){{5}})\s*$"
)


def read_signposts(lines: Sequence[str]) -> list[SignpostRow]:
    """The rows; occurrences of one name on one thread are put together."""
    merged: dict[tuple[str, str], SignpostRow] = {}
    for match in filter(None, map(_ROW.match, lines)):
        numbers = [count(number) for number in match["numbers"].split()]
        columns = numbers if len(numbers) > 1 else [1, *numbers * 4]
        key = " ".join(match["name"].split()), match["thread"]
        row = SignpostRow(*key, *columns)
        merged[key] = _together(merged[key], row) if key in merged else row
    return list(merged.values())


def _together(one: SignpostRow, other: SignpostRow) -> SignpostRow:
    times, total = one.count + other.count, one.total + other.total
    least, most = min(one.least, other.least), max(one.most, other.most)
    average = total // times if times else 0
    return SignpostRow(one.name, one.thread, times, total, average, least, most)
