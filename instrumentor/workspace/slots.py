"""Where shadows stand: one stable slot per project under the cache folder, guarded by a lock.

A slot is ``shadows/<name>-<hash>/`` and holds the marker file, the tree and the private git
folder. Only folders that carry the marker are ever removed. Removal is a rename under the lock,
then a deletion, so that a kill at any moment leaves something the next start recognises.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout
from msgspec import Struct, field

from instrumentor.shared import private
from instrumentor.shared.errors import NotReady
from instrumentor.shared.removal import remove_tree
from instrumentor.workspace.kept_mark import is_kept, mark_of
from instrumentor_analysis.shared.files import created, read_bytes

MARKER = ".instrument-shadow"
SLOT_NAME = re.compile(r"[A-Za-z0-9_.-]+-[0-9a-f]{10}(-\d+)?(\.trash-[0-9a-f]+)?\Z")
MOST_KEPT = 8  # copies for a next run
MAX_SIBLINGS = 64  # runs of one project at a time


class Slot(Struct, frozen=True):
    """One slot: its folder, the root of a shadow inside it, and the lock file that guards it.

    Attributes:
        left: a sentence for what could not be removed at the end.
        record: what was said of a copy that was kept and stands in it; for who takes it.
        opened: descriptor of that very folder while it is held, whatever takes its path.
        stays: said by who leaves a copy for the next run. A mark proves nothing at the end of a
            run: its script can make one.
    """

    folder: Path
    tree: Path
    lock: Path
    left: list[str] = field(default_factory=list)
    record: list[bytes] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)
    stays: list[bool] = field(default_factory=list)

    @property
    def held(self) -> Path | None:
        """The folder itself, to be entered by no link; None where its path leads elsewhere now."""
        with suppress(OSError, IndexError):
            named, really = self.folder.lstat(), os.fstat(self.opened[0])
            if (named.st_dev, named.st_ino) == (really.st_dev, really.st_ino):
                return Path(f"/proc/self/fd/{self.opened[0]}")
        return None

    @property
    def git(self) -> Path:
        """The private git folder; no project's copy has a name that begins with a dot."""
        return self.folder / ".repository"

    @property
    def bytecode(self) -> Path:
        """Where scripts keep their bytecode: shared by all runs, or each compiles torch anew."""
        return _bytecode(self.folder)

    @property
    def scratch(self) -> Path:
        """A folder beside the tree for what a run needs only while it lasts."""
        folder = self.folder / ".scratch"
        folder.mkdir(exist_ok=True)
        return folder


def _bytecode(folder: Path) -> Path:
    return folder.parent.parent / private.BYTECODE


def slot_of(root: Path, number: int = 1) -> Slot:
    """The slot of a project, the first unless other runs of it are alive; writes nothing."""
    # One path for every run of a project: compilers key their caches by path.
    slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", root.name).strip("-.")[:60] or "project"
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:10]
    name = f"{slug}-{digest}" + (f"-{number}" if number > 1 else "")
    cache = private.cache_folder(avoid=root)
    folder = cache / "shadows" / name
    return Slot(folder, folder / slug, cache / "locks" / f"{name}.lock")


@contextmanager
def acquired(root: Path, *, kept: bool = False) -> Iterator[Slot]:
    """Hold the project's first free slot, empty but for its marker; remove it afterwards.

    Args:
        kept: a copy that was kept may stand in it; one that the caller says stays is left behind.

    Raises:
        NotReady: no slot is free, or the cache folder cannot be written.
    """
    for number in range(1, MAX_SIBLINGS + 1):
        slot = slot_of(root, number)
        with _locked(slot.lock) as free:
            if free and _prepare(slot, kept):
                try:
                    with _held(slot):
                        yield slot
                finally:
                    if not slot.stays:
                        _given_up(slot)
                return
    raise NotReady(
        f"{MAX_SIBLINGS} copies of {root} are in use",
        f"End the other runs, or remove {private.cache_folder(avoid=root) / 'shadows'}.",
    )


@contextmanager
def _held(slot: Slot) -> Iterator[None]:
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    slot.opened.append(os.open(slot.folder, flags))
    try:
        yield
    finally:
        os.close(slot.opened.pop())


def _given_up(slot: Slot) -> None:
    mark = mark_of(slot.folder)
    with suppress(OSError):  # of the script's making; what stays is to be swept
        if mark is not None:
            mark.unlink()
    trash = _freed(slot.folder, slot.left.append)
    if trash is not None:
        _remove(trash, slot.left.append)


def _prepare(slot: Slot, kept: bool) -> bool:
    """Empty the slot and mark it as ours; False when what stands there is not ours to remove."""
    try:
        for name in (slot.folder.parent.name, private.BYTECODE):
            private.made(slot.folder.parent.parent, name)
        if os.path.lexists(slot.folder):
            if not _is_ours(slot.folder) or _in_use(slot.folder):
                return False
            if kept and is_kept(slot.folder) and _taken_over(slot):
                return True
            _remove(_to_trash(slot.folder), slot.left.append)
        slot.folder.mkdir(mode=0o700)
        created(slot.folder / MARKER).close()
    except OSError as error:
        raise NotReady(
            f"the cache folder {slot.folder} cannot be written: {error.strerror}",
            "Make room there, or set INSTRUMENT_CACHE to another folder.",
        ) from error
    return True


def _taken_over(slot: Slot) -> bool:
    """Take a kept copy: it has no mark from now on, so what a kill leaves of it is removed."""
    mark = mark_of(slot.folder)
    assert mark is not None
    with suppress(OSError):
        said = read_bytes(mark, follow=False, own=True)
        mark.unlink()
        if cleared(slot, slot.folder):
            slot.record.append(said)
            return True
    return False


def emptied(slot: Slot) -> None:
    """Remove the copy of a slot that is held.

    Raises:
        NotReady: it cannot be removed whole.
    """
    try:
        if os.path.lexists(slot.tree):
            remove_tree(slot.tree)
    except OSError as error:
        raise NotReady(
            f"{slot.tree} {error.strerror}", "Remove it, or set INSTRUMENT_CACHE to another folder."
        ) from error


def cleared(slot: Slot, folder: Path) -> bool:
    """Remove all of a slot but its copy; False where that cannot be done.

    Args:
        folder: the slot's own.
    """
    stay = {MARKER, slot.tree.name, *(mark.name for mark in [mark_of(slot.folder)] if mark)}
    try:
        _drop_bytecode(slot.folder)
        for path in folder.iterdir():
            if path.name not in stay:
                remove_tree(path)
    except OSError:
        return False
    return (folder / MARKER).is_file()


def prune(most: int | None = None) -> tuple[Path, ...]:
    """Remove all copies that were kept but the latest few; gives the removed ones."""
    found = [f for f in private.entries("shadows") if SLOT_NAME.match(f.name) and is_kept(f)]
    most = MOST_KEPT if most is None else most
    found.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
    return tuple(each for each in found[most:] if _is_ours(each) and _sweep_one(each, _say_nothing))


def _say_nothing(text: str) -> None:
    """What cannot be removed now is said at the next start."""


# The lock lies beside the slots, not in one: a slot is renamed and deleted while it is held.
@contextmanager
def _locked(file: Path) -> Iterator[bool]:
    """Hold a lock during the body, if nobody else does; the kernel frees that of a killed run."""
    lock = FileLock(file)
    try:
        private.made(file.parent.parent, file.parent.name)
        lock.acquire(blocking=False)
    except Timeout:
        yield False
        return
    except OSError as error:
        raise NotReady(
            f"the lock {file} cannot be taken: {error.strerror}",
            "Set INSTRUMENT_CACHE to a local folder that you can write.",
        ) from error
    try:
        yield True
    finally:
        lock.release()


def sweep(tell: Callable[[str], None]) -> tuple[Path, ...]:
    """Remove what killed runs left in the cache; called at each start.

    A slot whose run is alive (its lock is held, or a process works in it) is left alone, and so
    is every folder that does not carry our marker, and a copy that was kept.

    Args:
        tell: gets a sentence for what cannot be removed.

    Returns:
        the slots removed.
    """
    found = (folder for folder in private.entries("shadows") if SLOT_NAME.match(folder.name))
    ours = (folder for folder in found if _is_ours(folder) and not is_kept(folder))
    return tuple(folder for folder in ours if _sweep_one(folder, tell))


def _sweep_one(folder: Path, tell: Callable[[str], None]) -> bool:
    if ".trash-" in folder.name:
        return _remove(folder, tell)
    with _locked(folder.parent.parent / "locks" / f"{folder.name}.lock") as free:
        if not free or not folder.exists() or _in_use(folder):
            return False
        trash = _freed(folder, tell)
    return trash is not None and _remove(trash, tell)


def _freed(folder: Path, tell: Callable[[str], None]) -> Path | None:
    """As :func:`_to_trash`; None where that cannot be done, or a process stays in it."""
    try:
        return _to_trash(folder) if fell_silent(folder) else None
    except FileNotFoundError:  # a script has removed it
        return None
    except OSError as error:
        tell(private.not_removed(error.filename, error))
        return None


def _to_trash(folder: Path) -> Path:
    """Free the slot in one step."""
    _drop_bytecode(folder)
    trash = folder.with_name(f"{folder.name}.trash-{uuid.uuid4().hex[:12]}")
    return folder.rename(trash)


def _drop_bytecode(folder: Path) -> None:
    # Python trusts size and mtime in seconds, which two instrumented versions of a file can share.
    bytecode = _bytecode(folder) / str(folder).lstrip("/")
    if bytecode.is_dir():
        remove_tree(bytecode)


def _remove(trash: Path, tell: Callable[[str], None]) -> bool:
    """Delete a slot, its marker last, so that a deletion cut short is recognised."""
    try:
        remove_tree(trash, last=MARKER)
    except FileNotFoundError:
        return False  # another start was faster
    except OSError as error:
        tell(private.not_removed(trash, error))  # the slot itself is free
        return False
    return True


def _is_ours(folder: Path) -> bool:
    """Marked, or still empty: a run was killed between the folder and its marker."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    return (folder / MARKER).is_file() or not any(folder.iterdir())


def fell_silent(folder: Path, patience_s: float = 2.0, *, open_files: bool = False) -> bool:
    """Wait a moment for the script's last processes; False when one stays.

    Args:
        open_files: or has something of the folder open.
    """
    deadline = time.monotonic() + patience_s
    # A profiler's helper may end a little later than the script; its folder would be pulled away.
    while _in_use(folder, open_files):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _in_use(folder: Path, open_files: bool = False) -> bool:
    """Whether a process still works in the slot, for example one left with an open device."""
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) != os.getpid():
            with suppress(OSError):  # another user's process, or one that has just ended
                if (process / "cwd").readlink().is_relative_to(folder):
                    return True
                if open_files and _has_open(process, folder):
                    return True
    return False


def _has_open(process: Path, folder: Path) -> bool:
    """Whether a process can write into a folder by what it has opened or mapped there."""
    start = f"{folder}/"
    if start.encode() in read_bytes(process / "maps"):
        return True
    for each in (process / "fd").iterdir():
        with suppress(OSError):
            if str(each.readlink()).startswith(start):
                return True
    return False
