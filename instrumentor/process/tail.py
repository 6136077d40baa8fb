"""Reading files while they grow: the log, and the record file of JSON lines."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Tail:
    """Complete lines of a growing file; a file that is not there yet gives none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.rest = b""

    def lines(self, *, final: bool = False) -> Iterator[str]:
        """Lines that came since the last call; ``final`` also gives an unfinished one."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as stream:
            stream.seek(self.offset)
            data = stream.read()
            self.offset += len(data)
            *whole, self.rest = (self.rest + data).split(b"\n")
            for line in whole:
                yield line.decode("utf-8", "replace").rstrip("\r")
        if final and self.rest:
            line, self.rest = self.rest, b""
            yield line.decode("utf-8", "replace")


def record_of(line: str) -> dict[str, Any] | None:
    """The object on a line of the record file; None when the line is no whole one."""
    try:
        entry = json.loads(line)
    except ValueError:  # a killed writer leaves half a line
        return None
    return entry if isinstance(entry, dict) else None
