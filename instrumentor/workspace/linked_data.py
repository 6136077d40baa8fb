# ruff: noqa: PTH110, PTH112, PTH114, PTH116
# (plain strings: a Path object per entry costs more than the look at it)
"""What stands behind the links of a copy is the user's own: noted before a run, compared after.

A fingerprint is every name with size and modification time, not the content: a data folder is too
large to be read. It is bounded, because even names take long on a slow disk; a folder that was
only noted in part is compared in that part, and :attr:`Linked.whole` says so.
"""

from __future__ import annotations

import os
import shlex
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from instrumentor_analysis.shared.documents import listed

MAX_ENTRIES = 200_000  # names that are noted in all
MAX_S = 5.0
"""Limit of the noting, and of the comparison, seconds."""

SHOWN = 3

Facts = tuple[int, int] | None
"""Size and mtime in ns of a file; None for a folder."""

Identity = tuple[int, int]
"""Device and inode."""


class _Folder(Struct):
    """Names in a folder as they were; unless it is ``whole``, there are more."""

    entries: dict[str, Facts] = field(default_factory=dict)
    whole: bool = False


class Linked(Struct):
    """The linked files and folders as they were.

    Attributes:
        root: of the project.
        links: the user's files and folders that a copy links to, absolute.
        whole: everything was noted, and compared as far as :meth:`changed` was asked.
    """

    root: Path
    links: tuple[Path, ...]
    whole: bool = True
    clock: Callable[[], float] = time.monotonic
    _folders: dict[str, _Folder] = field(default_factory=dict)

    @classmethod
    def take(
        cls,
        root: Path,
        links: Iterable[Path],
        apart_from: Iterable[Path] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> Linked:
        """Note what the links lead to.

        Args:
            links: the user's files and folders, absolute.
            apart_from: folders of ours that may lie below, such as the run folder.
            clock: seconds, monotonic.
        """
        found = cls(root, tuple(links), clock=clock)
        found._note({_identity(str(path)) for path in apart_from if path.exists()})
        return found

    @property
    def names(self) -> tuple[Path, ...]:
        """The links, relative to the root."""
        return tuple(map(self._shown, self.links))

    def changed(self) -> tuple[Path, ...]:
        """What is new, changed or gone since, relative to the root."""
        limit = self.clock() + MAX_S
        found: list[str] = []
        for folder, before in self._folders.items():
            if self.clock() > limit:
                self.whole = False
                break
            found += self._differences(folder, before, limit)
        return tuple(self._shown(Path(path)) for path in dict.fromkeys(found))

    def sentence(self, changed: Iterable[Path], *, optional: bool = True) -> str:
        """What to tell about changed files, and where there is one the option that copies them."""
        names = list(changed)
        some = listed(names, SHOWN)
        told = f"your own files changed during the run: {some}; they are linked, not copied"
        if not optional:
            return told
        behind = [link for link in self.names if any(n.is_relative_to(link) for n in names)]
        options = " ".join(f"--no-link {shlex.quote(str(link))}" for link in behind)
        return f"{told}: {options} copies them"

    def _note(self, entered: set[Identity]) -> None:
        limit = self.clock() + MAX_S
        room = MAX_ENTRIES
        waiting: deque[str] = deque()
        for link in map(str, self.links):
            if os.path.isdir(link):
                waiting.append(link)
            else:
                folder, _, name = link.rpartition("/")
                self._folders.setdefault(folder, _Folder()).entries[name] = _facts(link)
        # Breadth first: where the limit cuts in, what lies near the link has been noted.
        while waiting and self.whole:
            folder = waiting.popleft()
            identity = _identity(folder)
            if identity in entered:
                continue
            entered.add(identity)
            noted = self._folders[folder] = self._read(folder, room, limit)
            self.whole = noted.whole
            room -= len(noted.entries)
            inner = (f"{folder}/{name}" for name, facts in noted.entries.items() if facts is None)
            waiting.extend(path for path in inner if not self._leads_around(path))

    def _read(self, folder: str, room: int, limit: float) -> _Folder:
        read = _Folder()
        for entry in _entries(folder):
            if len(read.entries) >= room or self.clock() > limit:
                return read
            read.entries[entry.name] = _facts(entry.path)
        read.whole = True
        return read

    def _differences(self, folder: str, before: _Folder, limit: float) -> list[str]:
        if not os.path.lexists(folder):
            return [folder]
        found: list[str] = []
        for name, facts in before.entries.items():
            if self.clock() > limit:
                self.whole = False
                return found
            if _facts(f"{folder}/{name}") != facts:
                found.append(f"{folder}/{name}")
        if before.whole:
            found += [each.path for each in _entries(folder) if each.name not in before.entries]
        return sorted(found)

    def _leads_around(self, folder: str) -> bool:
        """Whether a symlink in a linked folder leads to where the whole project lies."""
        return os.path.islink(folder) and self.root.is_relative_to(os.path.realpath(folder))

    def _shown(self, path: Path) -> Path:
        return path.relative_to(self.root) if path.is_relative_to(self.root) else path


class UsersFiles(Struct, frozen=True):
    """What became of the user's own files during a run; paths relative to the project.

    Attributes:
        linked: what the copy linked to.
        linked_changed: what changed behind those links.
        linked_whole: all that is behind them was compared.
        originals_changed: the script's own files differ from before.
    """

    linked: tuple[Path, ...] = ()
    linked_changed: tuple[Path, ...] = ()
    linked_whole: bool = True
    originals_changed: bool = False

    def then(self, later: UsersFiles) -> UsersFiles:
        """What became of them over two processes of one run, the later one given."""
        return UsersFiles(
            later.linked,
            tuple(dict.fromkeys((*self.linked_changed, *later.linked_changed))),
            self.linked_whole and later.linked_whole,
            self.originals_changed or later.originals_changed,
        )

    def to_json(self) -> dict[str, Any]:
        """What run.json says of links."""
        return {
            "linked": [str(path) for path in self.linked],
            "linked_changed": [str(path) for path in self.linked_changed],
            "linked_whole": self.linked_whole,
        }

    @property
    def fate(self) -> str:
        """What to say of them at the end of a run in a copy."""
        if self.originals_changed:
            return "your files changed during the run: see above"
        if self.linked_changed:
            return "files in linked folders changed: see above"
        if not self.linked_whole:
            return "your files were not touched, as far as the linked folders could be watched"
        return "your files were not touched"


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """The entries of a folder; none of one that cannot be read: nor can the script read it."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _facts(path: str) -> Facts:
    """Size and mtime, through a symlink, since scripts write through it; (-1, -1) when gone."""
    try:
        facts = os.stat(path) if os.path.exists(path) else os.lstat(path)
    except OSError:
        return -1, -1
    if stat.S_ISDIR(facts.st_mode):
        return None
    return facts.st_size, facts.st_mtime_ns


def _identity(path: str) -> Identity:
    try:
        facts = os.stat(path)
    except OSError:
        return -1, -1
    return facts.st_dev, facts.st_ino
