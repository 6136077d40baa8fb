# ruff: noqa: PTH101, PTH102, PTH108, PTH112, PTH113, PTH115, PTH116, PTH117, PTH118, PTH120, PTH123, PTH211
# (plain strings: a Path object per call costs more than the copy of a file)
"""Fills a shadow from its plan: real copies, links, symlinks made again, folder times."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct, field

from instrumentor.errors import NotReady
from instrumentor.workspace.plan import ShadowPlan

FICLONE = 0x40049409
SPARE_BYTES = 64 * 1024 * 1024

Stamp = tuple[int, int, int]
"""Size, mtime in ns and inode of a file as we wrote it."""


class Filled(Struct):
    """What was put into the shadow: stamps of files by relative path, what is a link."""

    stamps: dict[str, Stamp] = field(default_factory=dict)
    symlinks: dict[str, str] = field(default_factory=dict)
    links: list[str] = field(default_factory=list)
    copied_files: int = 0
    copied_bytes: int = 0


def fill(plan: ShadowPlan, tree: Path, replacements: Mapping[str, bytes]) -> Filled:
    """Write the shadow of a plan under ``tree``, an empty place.

    Raises:
        NotReady: the copy does not fit, or a file cannot be read or written.
    """
    check_space(plan, tree.parent)
    try:
        return _Filler(plan, tree).run(replacements)
    except OSError as error:
        raise NotReady(
            f"the temporary copy of {plan.project.root} failed: {error}",
            _space_hint(plan)
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "Check that the file can be read, or set INSTRUMENT_CACHE to another folder.",
        ) from error


def check_space(plan: ShadowPlan, folder: Path) -> None:
    """Raise NotReady, with the numbers, when the copy would not fit beside ``folder``."""
    free = shutil.disk_usage(folder).free
    if plan.copied_bytes + SPARE_BYTES > free:
        raise NotReady(
            f"the temporary copy needs {_size(plan.copied_bytes)} in {folder}, "
            f"{_size(free)} are free",
            _space_hint(plan),
        )


def _space_hint(plan: ShadowPlan) -> str:
    largest = plan.largest_folders()
    hint = "Set INSTRUMENT_CACHE to a folder with more room"
    if largest:
        listed = ", ".join(f"{name} ({_size(size)})" for name, size in largest)
        hint += f", or link instead of copying: --link {largest[0][0]}. Largest: {listed}"
    return hint + "."


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


class _Filler(Struct):
    plan: ShadowPlan
    tree: Path
    clones: bool = True
    made: set[str] = field(default_factory=set)
    filled: Filled = field(default_factory=Filled)

    def run(self, replacements: Mapping[str, bytes]) -> Filled:
        self.tree.mkdir(mode=0o700)
        self.made.add("")
        for name in self.plan.folders:
            self._folder(name)
        for name in self.plan.copies:
            if name not in replacements:
                self._copy(name)
        for name, content in replacements.items():
            self._replace(name, content)
        for name in self.plan.symlinks:
            self._symlink(name)
        for name in self.plan.links:
            self._link(name)
        self._folder_times()
        return self.filled

    def _source(self, name: str) -> str:
        return f"{self.plan.project.root}/{name}"

    def _target(self, name: str) -> str:
        return f"{self.tree}/{name}"

    def _folder(self, name: str) -> None:
        if name in self.made:
            return
        self._folder(name.rpartition("/")[0])
        try:
            mode = stat.S_IMODE(os.stat(self._source(name)).st_mode)
        except OSError:
            mode = 0o755
        os.mkdir(self._target(name))
        os.chmod(self._target(name), mode & 0o777 | 0o700)
        self.made.add(name)

    def _copy(self, name: str) -> None:
        self._folder(name.rpartition("/")[0])
        try:
            facts = self._bytes(self._source(name), self._target(name))
        except FileNotFoundError:
            return  # deleted since it was listed
        self._finish(name, facts)

    def _bytes(self, source: str, target: str) -> os.stat_result:
        with open(source, "rb", buffering=0) as old, open(target, "xb", buffering=0) as new:
            facts = os.fstat(old.fileno())
            if not self._cloned(old.fileno(), new.fileno()):
                shutil.copyfileobj(old, new, 1 << 20)
        return facts

    def _cloned(self, old: int, new: int) -> bool:
        """Share the blocks where the file system can; a later write does not reach the source."""
        if self.clones:
            try:
                fcntl.ioctl(new, FICLONE, old)
            except OSError:
                self.clones = False
        return self.clones

    def _finish(self, name: str, facts: os.stat_result | None) -> None:
        target = self._target(name)
        if facts is not None:
            os.chmod(target, stat.S_IMODE(facts.st_mode) & 0o777)
            os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        written = os.lstat(target)
        self.filled.stamps[name] = stamp(written)
        self.filled.copied_files += 1
        self.filled.copied_bytes += written.st_size

    def _replace(self, name: str, content: bytes) -> None:
        self._folder(name.rpartition("/")[0])
        with open(self._target(name), "xb") as stream:
            stream.write(content)
        try:
            facts = os.stat(self._source(name))
        except FileNotFoundError:
            facts = None  # a helper file that only the shadow has
        self._finish(name, facts)

    def _link(self, name: str) -> None:
        """Link to the user's file or folder; a clone is better where the file system has them."""
        self._folder(name.rpartition("/")[0])
        source, target = self._source(name), self._target(name)
        if self.clones and os.path.isfile(source) and os.access(source, os.R_OK):
            with open(source, "rb") as old, open(target, "xb") as new:
                cloned = self._cloned(old.fileno(), new.fileno())
                facts = os.fstat(old.fileno())
            if cloned:
                self._finish(name, facts)
                return
            os.unlink(target)
        os.symlink(source, target)
        self.filled.symlinks[name] = source
        self.filled.links.append(name)

    def _symlink(self, name: str) -> None:
        self._folder(name.rpartition("/")[0])
        text = self._text_of_link(name)
        os.symlink(text, self._target(name))
        self.filled.symlinks[name] = text

    def _text_of_link(self, name: str) -> str:
        """Inside the project a link leads to the shadow's counterpart, else where it led."""
        text = os.readlink(self._source(name))
        root = str(self.plan.project.root)
        parent = os.path.dirname(self._source(name))
        plain = os.path.normpath(os.path.join(parent, text))
        if not os.path.isabs(text) and _inside(plain, root):
            return text
        real = os.path.realpath(os.path.join(parent, text))
        if _inside(plain, root) or _inside(real, root):
            inner = os.path.relpath(plain if _inside(plain, root) else real, root)
            return os.path.normpath(self._target(inner))
        return text if os.path.isabs(text) else plain

    def _folder_times(self) -> None:
        for name in sorted(self.made, key=len, reverse=True):
            try:
                facts = os.stat(self._source(name))
            except FileNotFoundError:
                continue
            os.utime(self._target(name), ns=(facts.st_atime_ns, facts.st_mtime_ns))


def stamp(facts: os.stat_result) -> Stamp:
    """What tells whether a file of the shadow was written since."""
    return facts.st_size, facts.st_mtime_ns, facts.st_ino


def written_since(tree: Path, filled: Filled) -> list[str]:
    """Files and links in the shadow that are new or changed, relative; links are not entered."""
    found: list[str] = []
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        for entry in _entries(f"{tree}/{folder}"):
            name = f"{folder}{entry.name}"
            if entry.is_symlink():
                if filled.symlinks.get(name) != os.readlink(entry.path):
                    found.append(name)
            elif entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    waiting.append(f"{name}/")
            elif entry.is_file(follow_symlinks=False):
                facts = entry.stat(follow_symlinks=False)
                if filled.stamps.get(name) != stamp(facts):
                    found.append(name)
    return sorted(found)


def _entries(folder: str) -> Iterable[os.DirEntry[str]]:
    if not os.path.isdir(folder):
        return ()
    if not os.access(folder, os.R_OK | os.X_OK):
        os.chmod(folder, 0o700)  # closed by the script; it lies in the shadow and is no link
    with os.scandir(folder) as entries:
        return list(entries)


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
