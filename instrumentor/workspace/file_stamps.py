"""By what a file is known that has not changed since."""

from __future__ import annotations

import os

Stamp = tuple[int, int, int, int, int, int]
"""Mode, size, mtime and ctime in ns, inode, device."""


def stamp(facts: os.stat_result) -> Stamp:
    """What of a file's facts tells every change of it."""
    return (
        facts.st_mode,
        facts.st_size,
        facts.st_mtime_ns,
        facts.st_ctime_ns,
        facts.st_ino,
        facts.st_dev,
    )
