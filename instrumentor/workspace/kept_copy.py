# ruff: noqa: PTH116
# (plain strings and descriptors: asked of every file of a project)
"""A copy that stays for the next run, which brings it up to date; nothing in it is believed.

A file of it counts when two stamps are as they were: that of the user's file when it was copied,
and that of the copy before the script ran. A stamp has the time of the last change (ctime), which
no program can set, so whatever was written, replaced, linked or given other rights has another.
All else in the copy is removed, at the end of a run and at the start of the next.

A time tells a change only from another tick of the file system's clock (git calls an index that
forgets this racy). So a user's file that had changed within a minute of being copied is copied
again: by then what is written through mapped memory is on the disk, and the next write marks a
time once more. And no copy counts before the clock of its file system has moved beyond it. File
systems of other machines, whose times are another clock's, and those of whose times nothing is
known are copied each time.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field

from instrumentor.shared.removal import remove_tree
from instrumentor.workspace import slots
from instrumentor.workspace.copy_plan import ShadowPlan
from instrumentor.workspace.copying import NOTHING, Filled, Pair, Present, text_of_link
from instrumentor.workspace.file_stamps import stamp
from instrumentor.workspace.kept_mark import mark_of
from instrumentor_analysis.shared.files import becoming, created, read_bytes

#: What is smaller is copied as fast as it is compared.
WORTH_FILES, WORTH_BYTES = 1_000, 64 << 20
#: Of a copy that is kept; more is too much to leave on somebody's disk.
MOST_BYTES = 4 << 30
#: How long a user's file must have been as it is when it is copied.
QUIET_NS = 60 * 10**9
#: How long the clock of a file system may take to move on, seconds.
TICK_S = 0.05
#: File systems that mark every change, with the time of this machine.
MARKING = frozenset(["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "overlay"])

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BIN = ".discarded"
# Of linux/fs.h: what chattr sets, of which nothing is written, added or moved, for example.
_GET_FLAGS, _SETTABLE_FLAGS = 0x80086601, 0x008380FF
_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")


class _Record(Struct, frozen=True, array_like=True):
    names: bytes  # with a zero byte between two
    stamps: list[Pair]


def is_worth(plan: ShadowPlan, slot: slots.Slot) -> bool:
    """Whether a copy is kept: it is large enough, its project's first, and can be proven."""
    root, size = plan.project.root, plan.copied_bytes
    return (
        (len(plan.copies) > WORTH_FILES or size > WORTH_BYTES)
        and size <= MOST_BYTES
        and slot.folder == slots.slot_of(root).folder
        and not root.is_relative_to(slot.folder.parent.parent)
        and _file_system(root) in MARKING
        and _file_system(slot.folder) in MARKING
    )


def taken(slot: slots.Slot, plan: ShadowPlan, replaced: Collection[str]) -> Present:
    """What of a kept copy is as this plan wants it; all else in it is removed.

    Raises:
        NotReady: what was kept cannot be removed.
    """
    if not slot.record:
        return NOTHING
    found = None
    with suppress(msgspec.DecodeError, ValueError, OSError):
        record: _Record = msgspec.msgpack.decode(slot.record.pop(), type=_Record)
        known = dict(zip(os.fsdecode(record.names).split("\0"), record.stamps, strict=True))
        found = _sifted(slot, plan, _unchanged(plan, known, replaced))
    if found is None:
        slots.emptied(slot)
    return found or NOTHING


def _unchanged(
    plan: ShadowPlan, known: Mapping[str, Pair], replaced: Collection[str]
) -> dict[str, Pair]:
    """The files of a record whose sources are still what was copied."""
    now = dict(plan.stamps)
    for name in known.keys() & set(plan.links):  # clones
        with suppress(OSError):
            now[name] = stamp(os.lstat(f"{plan.project.root}/{name}"))
    return {
        name: pair
        for name, pair in known.items()
        if now.get(name) == pair[0] and name not in replaced
    }


def settled(slot: slots.Slot, filled: Filled) -> bool:
    """Wait until whatever changes in a copy gets a later time than all that stands in it."""
    newest = max((copy[3] for _, copy in filled.files.values()), default=0)
    late = time.monotonic() + TICK_S
    marker = slot.folder / slots.MARKER
    while time.monotonic() < late:
        os.utime(marker)
        if os.lstat(marker).st_ctime_ns > newest:
            return True
        time.sleep(0.001)
    return False


def keep(slot: slots.Slot, plan: ShadowPlan, filled: Filled) -> None:
    """Leave the copy to the next run, without what the script made or changed in it.

    Not while a process has a file of it open; the copy is removed then, as it is whenever this
    does not come to its end.
    """
    folder = slot.held
    mark = folder and mark_of(folder)
    if not (folder and mark and slots.fell_silent(slot.folder, open_files=True)):
        return
    with suppress(OSError):
        device = os.stat(plan.project.root).st_dev  # of another one below, the kind is not known
        late = filled.began_ns - QUIET_NS
        old = {n: p for n, p in filled.files.items() if p[0][3] < late and p[0][5] == device}
        present = _sifted(slot, plan, old)
        if not (present and present.files and slots.cleared(slot, folder)):
            return
        names = os.fsencode("\0".join(present.files))
        record = _Record(names, list(present.files.values()))
        with becoming(mark) as temporary, created(temporary) as stream:
            stream.write(msgspec.msgpack.encode(record))
        slot.stays.append(True)
        slots.prune()


def _sifted(slot: slots.Slot, plan: ShadowPlan, files: Mapping[str, Pair]) -> Present | None:
    """Remove from a copy what is not one of these files, or a link or folder of the plan.

    None where it is not the folder that it was.

    Raises:
        OSError: something cannot be moved out of it.
    """
    folder = slot.held
    if folder is None or _is_mounted_below(slot.folder):
        return None
    discarded = folder / _BIN
    discarded.mkdir(mode=0o700)
    try:
        with _opened(str(folder / slot.tree.name)) as top, _opened(str(discarded)) as away:
            new = _Look.of(away)
            if _Look.of(top) != new:
                return None
            sieve = _Sieve(files, _links(plan, slot.tree), _folders(plan), away, new)
            sieve.sift(top, "")
    finally:
        remove_tree(discarded)
    return sieve.present


def _is_mounted_below(folder: Path) -> bool:
    """Whether a file system, or a part of one, was mounted in a folder."""
    return any(place != folder and place.is_relative_to(folder) for place, _ in _mounts())


def _links(plan: ShadowPlan, tree: Path) -> dict[str, str]:
    root = plan.project.root
    found = {name: f"{root}/{name}" for name in plan.links}
    for name in plan.symlinks:
        with suppress(OSError):
            text = os.readlink(f"{root}/{name}")  # noqa: PTH115 - a Path would tidy it
            found[name] = text_of_link(text, name, str(root), str(tree))
    return found


def _folders(plan: ShadowPlan) -> set[str]:
    """Every folder of a copy, those around others included."""
    names = (*plan.copies, *plan.symlinks, *plan.links)
    waiting = {*plan.folders, *(name.rpartition("/")[0] for name in names)}
    found: set[str] = set()
    for name in waiting:
        while name and name not in found:
            found.add(name)
            name = name.rpartition("/")[0]
    return found


class _Look(Struct, frozen=True):
    """What a folder and all that is made in it has from its making: no mode or time, set later."""

    device: int
    owner: int
    group: int
    attributes: dict[str, bytes]  # access control lists are some
    flags: int

    @classmethod
    def of(cls, folder: int) -> _Look:
        facts = os.fstat(folder)
        attributes = {name: os.getxattr(folder, name) for name in os.listxattr(folder)}
        return cls(facts.st_dev, facts.st_uid, facts.st_gid, attributes, _flags(folder))


def _flags(folder: int) -> int:
    try:
        found = fcntl.ioctl(folder, _GET_FLAGS, bytes(8))
    except OSError:  # of a file system that has none
        return 0
    return int.from_bytes(found[:4], sys.byteorder) & _SETTABLE_FLAGS


class _Sieve(Struct):
    """Goes through a copy by the descriptors of its folders: no link in it leads it elsewhere."""

    files: Mapping[str, Pair]
    links: Mapping[str, str]
    folders: Collection[str]
    away: int
    new: _Look
    present: Present = field(default_factory=Present)

    def sift(self, folder: int, inside: str) -> None:
        """Move out of a folder, and those in it, what does not belong there."""
        with os.scandir(folder) as listed:
            entries = list(listed)
        for entry in entries:
            if not self._stays(entry, inside + entry.name, folder):
                new = os.urandom(8).hex()
                os.rename(entry.name, new, src_dir_fd=folder, dst_dir_fd=self.away)

    def _stays(self, entry: os.DirEntry[str], name: str, folder: int) -> bool:
        facts = entry.stat(follow_symlinks=False)
        kind = stat.S_IFMT(facts.st_mode)
        if kind == stat.S_IFREG:
            pair = self.files.get(name)
            if pair is None or stamp(facts) != pair[1]:
                return False
            self.present.files[name] = pair
            return True
        if kind == stat.S_IFLNK:
            wanted = self.links.get(name)
            owned = (facts.st_uid, facts.st_gid) == (self.new.owner, self.new.group)
            if not owned or os.readlink(entry.name, dir_fd=folder) != wanted:
                return False
            self.present.links.add(name)
            return True
        if kind != stat.S_IFDIR or name not in self.folders:
            return False
        with _opened(entry.name, folder) as inner:
            if _Look.of(inner) != self.new:
                return False
            self.sift(inner, f"{name}/")
        self.present.folders.add(name)
        return True


@contextmanager
def _opened(folder: str, above: int | None = None) -> Iterator[int]:
    descriptor = os.open(folder, _FOLDER, dir_fd=above)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _file_system(path: Path) -> str:
    """The kind of file system that a path lies on, as the kernel calls it; empty where unknown."""
    found, longest = "", -1
    with suppress(OSError):
        for place, kind in _mounts():
            if len(str(place)) >= longest and path.is_relative_to(place):
                found, longest = kind, len(str(place))
    return found


def _mounts() -> Iterator[tuple[Path, str]]:
    """Where file systems are mounted, and of what kind each is."""
    for line in read_bytes("/proc/self/mountinfo").splitlines():
        words, _, kind = line.partition(b" - ")
        escaped = words.split(b" ")[4]
        place = os.fsdecode(_OCTAL.sub(lambda code: bytes([int(code[1], 8)]), escaped))
        yield Path(place), kind.split(b" ")[0].decode(errors="replace")
