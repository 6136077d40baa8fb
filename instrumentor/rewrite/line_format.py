"""The line format of instrumented files, and the way back to the original from the text alone.

Every physical line of an instrumented file is one of

* an original line, untouched;
* an original line switched off: ``<blank># [instrument] off| <rest>``, where blank + rest is the
  original line;
* a line of ours: it ends with ``# [instrument]``, or stands between the lines
  ``# [instrument] begin`` and ``# [instrument] end``.

Originals that hold the marker anywhere are refused, so no line can be taken for another kind. The
functions work on bytes: every encoding that Python sources can have writes the marker in ASCII.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from enum import Enum

MARKER = "# [instrument]"
BEGIN = MARKER + " begin"
END = MARKER + " end"
OFF = MARKER + " off| "

_MARKER = MARKER.encode()
_BEGIN = BEGIN.encode()
_END = END.encode()
_OFF = OFF.encode()
_BLANK = b" \t\f"


class Line(Enum):
    """Where a physical line of an instrumented file comes from."""

    ORIGINAL = "original"
    OFF = "off"
    OURS = "ours"


def classify(lines: Iterable[bytes]) -> Iterator[tuple[Line, bytes]]:
    """Pair each physical line (with or without its newline) with the kind it is of."""
    depth = 0
    for line in lines:
        if _MARKER not in line:
            yield (Line.OURS if depth else Line.ORIGINAL), line
            continue
        text = line.strip()
        if text == _BEGIN:
            depth += 1
        elif text == _END:
            depth = max(depth - 1, 0)
        elif line.lstrip(_BLANK).startswith(_OFF):
            yield Line.OFF, line
            continue
        yield Line.OURS, line


def switch_off(line: str) -> str:
    """Turn an original physical line into a comment that :func:`strip` can read back."""
    rest = line.lstrip(" \t\f")
    return line[: len(line) - len(rest)] + OFF + rest


def strip(instrumented: bytes) -> bytes:
    """Give back the original of an instrumented file, byte for byte, from its text alone.

    A file without our marker comes back as it is.
    """
    bom = BOM_UTF8 if instrumented.startswith(BOM_UTF8) else b""
    kept = []
    ours_last = False
    for kind, line in classify(instrumented[len(bom) :].splitlines(keepends=True)):
        ours_last = kind is Line.OURS
        if not ours_last:
            kept.append(line.replace(_OFF, b"", 1))  # an untouched line holds no marker
    if ours_last and kept and not instrumented.endswith((b"\n", b"\r")):
        # The instrumented file ends as the original did: without a newline.
        kept[-1] = kept[-1].rstrip(b"\r\n")
    return bom + b"".join(kept)
