"""SIGNPOST PROFILE in both layouts: one row an occurrence, or one row a name with statistics."""

from __future__ import annotations

from collections.abc import Sequence

from instrumentor_analysis.kernels.model import SignpostRow
from instrumentor_analysis.kernels.text import integer


def read_signposts(lines: Sequence[str]) -> list[SignpostRow]:
    """The rows; occurrences of one name on one thread are put together."""
    found: list[SignpostRow] = []
    for line in lines:
        parts = line.split()
        columns = _columns(parts)
        if columns is None:
            continue
        thread, numbers = parts[-len(columns) - 1], columns
        name = " ".join(parts[: -len(columns) - 1])
        if len(numbers) == 1:
            found.append(SignpostRow(name, thread, 1, *numbers * 4))
        else:
            found.append(SignpostRow(name, thread, *numbers))
    return _together(found)


def _columns(parts: Sequence[str]) -> list[int] | None:
    """The numbers that end a row: five behind name and thread, else one; None for no row."""
    for count in (5, 1):
        if len(parts) < count + 2:
            continue
        numbers = [integer(part) for part in parts[-count:]]
        thread = parts[-count - 1]
        known = [number for number in numbers if number is not None]
        if len(known) == count and "RISC" in thread and thread.isupper():
            return known
    return None


def _together(rows: Sequence[SignpostRow]) -> list[SignpostRow]:
    merged: dict[tuple[str, str], SignpostRow] = {}
    for row in rows:
        before = merged.get((row.name, row.thread))
        if before is None:
            merged[row.name, row.thread] = row
            continue
        count, total = before.count + row.count, before.total + row.total
        merged[row.name, row.thread] = SignpostRow(
            row.name,
            row.thread,
            count,
            total,
            total // count if count else 0,
            min(before.least, row.least),
            max(before.most, row.most),
        )
    return list(merged.values())
