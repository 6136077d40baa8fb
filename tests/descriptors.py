"""Descriptors of this process that a piece of code leaves open."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def descriptors() -> set[int]:
    """Those open now, without the one that the look itself takes."""
    listed = list(Path("/proc/self/fd").iterdir())
    return {int(path.name) for path in listed if path.is_symlink()}


@contextmanager
def none_left_open() -> Iterator[None]:
    """What earlier code left to the garbage collector is closed first, and not in between."""
    gc.collect()
    before = descriptors()
    yield
    assert not descriptors() - before
