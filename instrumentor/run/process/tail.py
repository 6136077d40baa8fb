"""Reading files while they grow: the log, and the record file of JSON lines."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from instrumentor_analysis.shared.files import opened

#: Read in one go: a script that prints without end must not keep the tool from its other work.
CHUNK_BYTES = 1 << 20  # also the longest line that is handed on whole
CHUNKS = 16  # in one call
#: Of a longer log, what is looked at for an explanation.
HEAD_BYTES, END_BYTES = 4 << 20, 16 << 20


class Tail:
    """Complete lines of a growing file; one that is not there yet, or no file at all, gives none.

    A line longer than ``CHUNK_BYTES`` comes in pieces.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.offset = 0
        self.rest = b""

    def lines(self, *, final: bool = False) -> Iterator[str]:
        """Lines that came since the last call, not more than some MB of them.

        ``final`` gives all, an unfinished one too.
        """
        if self.path is None:
            return
        with contextlib.suppress(FileNotFoundError), opened(self.path) as stream:
            stream.seek(self.offset)
            for number in itertools.count():
                data = stream.read(CHUNK_BYTES) if final or number < CHUNKS else b""
                if not data:
                    break
                self.offset += len(data)
                *whole, self.rest = (self.rest + data).split(b"\n")
                if len(self.rest) > CHUNK_BYTES:
                    whole.append(self.rest)
                    self.rest = b""
                for line in whole:
                    yield line.decode("utf-8", "replace").rstrip("\r")
        if final and self.rest:
            line, self.rest = self.rest, b""
            yield line.decode("utf-8", "replace")


def excerpt(log: Path) -> str:
    """A log as text; of a very long one its beginning and its end. Empty when there is none."""
    try:
        with opened(log) as stream:
            data = stream.read(HEAD_BYTES)
            length = stream.seek(0, os.SEEK_END)
            if length > HEAD_BYTES + END_BYTES:
                data += b"\n[%d bytes left out]\n" % (length - HEAD_BYTES - END_BYTES)
            stream.seek(max(HEAD_BYTES, length - END_BYTES))
            data += stream.read()
    except FileNotFoundError:
        return ""
    return data.decode("utf-8", "replace")


_NEEDED: dict[str, dict[str, type | tuple[type, ...]]] = {
    "sample": {"label": str, "kind": str, "ms": (int, float)},
    "profiled": {"ms": (int, float)},
    "warning": {"text": str},
}


def record_of(line: str) -> dict[str, Any] | None:
    """The object on a line of the record file; None when the line is no whole one.

    The script can write there, too: a sample without what every sample has is none.
    """
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):  # a killed writer leaves half a line
        return None
    if not isinstance(entry, dict):
        return None
    needed = _NEEDED.get(str(entry.get("event")), {})
    return entry if all(isinstance(entry.get(key), kind) for key, kind in needed.items()) else None
