"""Single cells of an ops CSV to values: text that a table can show, tensor sizes, data types.

A cell is untrusted: one that is not what it should be costs its own figure, never the report.
"""

from __future__ import annotations

import math
import re

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
# Above what any device could hold; a larger cell is corrupt, and its product would overflow.
_MAX_DIMENSION = 1 << 32


def clean(text: object) -> str:
    """Text of a cell without control characters: a newline or an escape would break a table."""
    return _CONTROL.sub("", str(text)) if text is not None else ""


def dimension(cell: object) -> int | None:
    """Padded size of a dimension cell (``32[19]`` is 32), or None when it is not one."""
    if cell is None:
        return None
    text = str(cell)
    if "[" in text and "]" in text:
        text = text.split("[", 1)[0]
    try:
        value = float(text)
    except ValueError:
        return None
    if not math.isfinite(value) or not value.is_integer() or not 0 < value <= _MAX_DIMENSION:
        return None
    return int(value)


def datatype_bytes(datatype: str | None) -> float | None:
    """Bytes of one element: the digits of the type's name over eight (block formats as well)."""
    if datatype is None:
        return None
    # tt-perf-report counts a block format's bytes without the shared exponents, here 1/16 byte
    # each.
    digits = re.search(r"\d+", datatype)
    return int(digits.group()) / 8 if digits else 4.0
