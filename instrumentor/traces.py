"""Newer versions of Tracy leave a copy of each trace below the working folder: taken away again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FOLDER = Path("build/profiler/build_wasm/traces")


@contextmanager
def tidied(cwd: Path) -> Iterator[None]:
    """Remove what appears in Tracy's trace folder during the body, and folders made for it."""
    folder = cwd / FOLDER
    there = set(folder.glob("*"))
    made = [path for path in (folder, *folder.parents[:3]) if not path.exists()]
    try:
        yield
    finally:
        for path in set(folder.glob("*.tracy")) - there:
            with suppress(OSError):
                path.unlink()
        for path in made:
            with suppress(OSError):  # not empty: somebody else uses it
                path.rmdir()
