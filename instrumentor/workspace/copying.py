# ruff: noqa: PTH101, PTH102, PTH108, PTH112, PTH113, PTH115, PTH116, PTH117, PTH118, PTH120, PTH211
# (plain strings: a Path object per call costs more than the copy of a file)
"""Fills a shadow from its plan: real copies, links, symlinks made again, folder times."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from msgspec import Struct, field

from instrumentor.shared.errors import NotReady
from instrumentor.workspace import slots
from instrumentor.workspace.copy_plan import ShadowPlan
from instrumentor.workspace.file_stamps import Stamp, stamp
from instrumentor_analysis.shared.files import created, opened

FICLONE = 0x40049409  # of linux/fs.h; Python has no name for it
SPARE_BYTES = 64 * 1024 * 1024  # that have to stay free for what the run writes

Mark = tuple[int, int, int] | str
"""Size, mtime in ns and inode of a file; the text of a symbolic link."""

Pair = tuple[Stamp, Stamp]
"""Of the user's file when it was copied, and of the copy."""


class Filled(Struct, frozen=True):
    """What stands in a copy; paths relative to its root.

    Attributes:
        links: what of the user's it links to.
        files: every real copy.
        began_ns: when the first of them was made, in ns of the epoch.
    """

    links: list[str]
    files: dict[str, Pair]
    began_ns: int

    def marks(self, tree: Path, others: Iterable[str]) -> dict[str, Mark]:
        """As :func:`snapshot`, of a copy in which nothing was written since.

        Args:
            others: the files and links in it that are no real copies.
        """
        found: dict[str, Mark] = {name: (c[1], c[2], c[4]) for name, (_, c) in self.files.items()}
        for name in (*self.links, *others):
            facts = os.lstat(f"{tree}/{name}")
            linked = stat.S_ISLNK(facts.st_mode)
            mark = facts.st_size, facts.st_mtime_ns, facts.st_ino
            found[name] = os.readlink(f"{tree}/{name}") if linked else mark
        return found


class Present(Struct, frozen=True):
    """What of a plan stands in a copy already, as it should be; paths relative to its root."""

    files: dict[str, Pair] = field(default_factory=dict)
    links: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)


NOTHING = Present()


def fill(
    plan: ShadowPlan, tree: Path, replacements: Mapping[str, bytes], present: Present = NOTHING
) -> Filled:
    """Write the shadow of a plan under ``tree``, an empty place but for what is present.

    Raises:
        NotReady: the copy does not fit, or a file cannot be read or written.
    """
    check_space(plan, tree.parent, sum(plan.copies.get(name, 0) for name in present.files))
    filler = _Filler(plan, tree, made=set(present.folders), files=dict(present.files))
    try:
        began_ns = time.time_ns()
        filler.run(replacements, present.links)
        return Filled(filler.links, filler.files, began_ns)
    except OSError as error:
        raise NotReady(
            f"the temporary copy of {plan.project.root} failed: {error}",
            _space_hint(plan)
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "Check that the file can be read, or set INSTRUMENT_CACHE to another folder.",
        ) from error


def check_space(plan: ShadowPlan, folder: Path, present_bytes: int = 0) -> None:
    """Raise NotReady, with the numbers, when the copy would not fit beside ``folder``."""
    refuse_too_large(plan.copied_bytes - present_bytes, folder, _space_hint(plan))


def refuse_too_large(count: int, folder: Path, hint: str) -> None:
    """Raise NotReady, with the numbers, when so many bytes do not fit beside ``folder``."""
    if count + SPARE_BYTES > shutil.disk_usage(folder).free:
        slots.prune(0)
    free = shutil.disk_usage(folder).free
    if count + SPARE_BYTES > free:
        needed = f"the temporary copy needs {_size(count)} in {folder}"
        raise NotReady(f"{needed}, {_size(free)} are free", hint)


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
    links: list[str] = field(default_factory=list)
    files: dict[str, Pair] = field(default_factory=dict)

    def run(self, replacements: Mapping[str, bytes], present: Collection[str]) -> None:
        self.tree.mkdir(mode=0o700, exist_ok=True)
        self.made.add("")
        for name in self.plan.folders:
            self._folder(name)
        for name in self.plan.copies:
            if name not in replacements and name not in self.files:
                self._copy(name)
        for name, content in replacements.items():
            self._replace(name, content)
        for name in self.plan.symlinks:
            if name not in present:
                self._make_again(name)
        for name in self.plan.links:
            if name in present:
                self.links.append(name)
            elif name not in self.files:
                self._link(name)
        # After their files: what is made in a folder changes its time.
        for name in self.made:
            self._take_after(name, 0o700)  # or a copy of a closed folder could not be removed

    def _source(self, name: str) -> str:
        return f"{self.plan.project.root}/{name}"

    def _target(self, name: str) -> str:
        return f"{self.tree}/{name}"

    def _new(self, name: str) -> str:
        """Where a name goes; its folder is there."""
        self._folder(name.rpartition("/")[0])
        return self._target(name)

    def _folder(self, name: str) -> None:
        if name not in self.made:
            os.mkdir(self._new(name), 0o700)
            self.made.add(name)

    def _copy(self, name: str, share_only: bool = False) -> bool:
        """Copy a file; False when it is gone, or cannot share the user's blocks and has to."""
        target = self._new(name)
        try:
            with opened(self._source(name)) as old, created(target) as new:
                # Before it is read: what is written meanwhile makes it another one.
                facts = os.fstat(old.fileno())
                if not self._cloned(old.fileno(), new.fileno()):
                    if share_only:
                        os.unlink(target)
                        return False
                    shutil.copyfileobj(old, new, 1 << 20)
                    new.flush()
                os.fchmod(new.fileno(), facts.st_mode & 0o777)
                os.utime(new.fileno(), ns=(facts.st_atime_ns, facts.st_mtime_ns))
                self.files[name] = stamp(facts), stamp(os.fstat(new.fileno()))
        except FileNotFoundError:
            return False  # deleted since it was listed
        return True

    def _cloned(self, old: int, new: int) -> bool:
        """Share the blocks where the file system can; a later write does not reach the source."""
        if self.clones:
            try:
                fcntl.ioctl(new, FICLONE, old)
            except OSError:
                self.clones = False
        return self.clones

    def _take_after(self, name: str, also: int = 0) -> None:
        """Give a copy the permissions and times of its source; a helper of ours has none."""
        try:
            facts = os.stat(self._source(name))
        except FileNotFoundError:
            return
        os.chmod(self._target(name), facts.st_mode & 0o777 | also)
        os.utime(self._target(name), ns=(facts.st_atime_ns, facts.st_mtime_ns))

    def _replace(self, name: str, content: bytes) -> None:
        with created(self._new(name)) as stream:
            stream.write(content)
        self._take_after(name)

    def _link(self, name: str) -> None:
        """Link to the user's file or folder; a clone is better where the file system has them."""
        source = self._source(name)
        plain = self.clones and os.path.isfile(source) and os.access(source, os.R_OK)
        if not (plain and self._copy(name, share_only=True)):
            os.symlink(source, self._new(name))
            self.links.append(name)

    def _make_again(self, name: str) -> None:
        text = os.readlink(self._source(name))
        root, tree = str(self.plan.project.root), str(self.tree)
        os.symlink(text_of_link(text, name, root, tree), self._new(name))


def text_of_link(text: str, name: str, root: str, tree: str) -> str:
    """What a link of a copy says: inside the project its counterpart, else where it led.

    Args:
        text: of the project's link ``name``.
        root: of the project, ``tree`` that of its copy.
    """
    parent = os.path.dirname(f"{root}/{name}")
    plain = os.path.normpath(os.path.join(parent, text))
    # Relative and inside: the same text leads to the counterpart.
    if not os.path.isabs(text) and _inside(plain, root):
        return text
    real = os.path.realpath(os.path.join(parent, text))
    if _inside(plain, root) or _inside(real, root):
        inner = os.path.relpath(plain if _inside(plain, root) else real, root)
        return os.path.normpath(f"{tree}/{inner}")
    return text if os.path.isabs(text) else plain


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def snapshot(tree: Path) -> dict[str, Mark]:
    """What tells whether a file or link below ``tree`` was written since; links are not entered."""
    found: dict[str, Mark] = {}
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        if not os.path.isdir(f"{tree}/{folder}"):
            continue  # a script may remove even its working folder
        if not os.access(f"{tree}/{folder}", os.R_OK | os.X_OK):
            os.chmod(f"{tree}/{folder}", 0o700)  # closed by the script; it is ours, and no link
        with os.scandir(f"{tree}/{folder}") as listed:
            entries = list(listed)
        for entry in entries:
            if entry.is_symlink():
                found[folder + entry.name] = os.readlink(entry.path)
            elif entry.is_file(follow_symlinks=False):
                facts = entry.stat(follow_symlinks=False)
                found[folder + entry.name] = facts.st_size, facts.st_mtime_ns, facts.st_ino
            elif entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                waiting.append(f"{folder}{entry.name}/")
    return found
