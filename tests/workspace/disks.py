"""Disks that fail: killed at a given operation, out of space, or losing what was not synced."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from instrumentor.workspace.in_place.disk import Disk

OPERATIONS = (
    "write", "sync", "sync_folder", "rename", "link", "swap", "remove", "stamp", "git",
)  # fmt: skip


class Killed(BaseException):
    """The process is gone: nothing that it still tries has any effect."""


class FaultyDisk(Disk):
    """Fails at operation ``at`` (from 0).

    Args:
        error: an errno for this one operation; None ends the process there and then.
        torn: a write that is cut short has written half.
    """

    def __init__(self, at: int = -1, error: int | None = None, torn: bool = True) -> None:
        self.at = at
        self.error = error
        self.torn = torn
        self.count = 0
        self.done: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in OPERATIONS:
            return found
        return lambda *values, **named: self._call(name, found, values, named)

    def _call(self, name: str, real: Callable[..., Any], values: Any, named: Any) -> Any:
        number, self.count = self.count, self.count + 1
        if number == self.at and self.error is not None:
            self._tear(name, values)
            raise OSError(self.error, os.strerror(self.error), str(values[0]))
        if number == self.at:
            self._tear(name, values)
            self.stopped()
        if self.error is None and 0 <= self.at <= number:
            raise Killed
        self.done.append(name)
        self.before(name, values)
        return real(*values, **named)

    def _tear(self, name: str, values: Any) -> None:
        if name == "write" and self.torn:
            path, data, mode = values
            self.before(name, values)
            super().__getattribute__(name)(path, data[: len(data) // 2], mode)

    def before(self, name: str, values: Any) -> None:
        """An operation is about to happen."""

    def stopped(self) -> None:
        """The moment of the kill."""


class LossyDisk(FaultyDisk):
    """Loses at the kill what no sync has brought to the disk: bytes, and names in a folder."""

    def __init__(self, graveyard: Path, at: int = -1) -> None:
        super().__init__(at)
        self.graveyard = graveyard
        self.volatile: set[Path] = set()
        self.durable: dict[Path, dict[str, Path]] = {}

    def before(self, name: str, values: Any) -> None:
        """Keep what a folder durably holds, before its first change since the last sync."""
        if name == "write":
            self._remember(values[0].parent)
            self.volatile.add(values[0])
        elif name in ("rename", "link", "swap"):
            self._remember(values[0].parent)
            if name == "rename" and values[0] in self.volatile:
                self.volatile.discard(values[0])
                self.volatile.add(values[1])
        elif name == "remove":
            self._remember(values[0].parent)
        elif name == "sync":
            self.volatile.discard(values[0])
        elif name == "sync_folder":
            self.durable.pop(values[0], None)

    def _remember(self, folder: Path) -> None:
        if folder in self.durable:
            return
        kept = self.graveyard / f"{len(list(self.graveyard.iterdir()))}"
        kept.mkdir()
        names = {}
        for path in folder.iterdir():
            if path.is_file() and not path.is_symlink():
                os.link(path, kept / path.name)
                names[path.name] = kept / path.name
        self.durable[folder] = names

    def stopped(self) -> None:
        """The power is gone."""
        for path in self.volatile:
            if path.exists():
                os.truncate(path, 0)
        for folder, names in self.durable.items():
            for path in list(folder.iterdir()):
                if path.is_file() and not path.is_symlink():
                    path.unlink()
            for name, kept in names.items():
                os.link(kept, folder / name)
