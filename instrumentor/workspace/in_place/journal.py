"""What an in-place run writes down before it changes anything, so that any later start can undo it.

A journal is one file in the cache folder, written whole and synced; the same text stands in git,
in a tree that ``refs/instrumentor/<id>`` leads to together with the originals, so that it is found
from the repository when the cache is gone. The kernel gives the journal's lock back when the run
ends, however it ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal

import msgspec
from msgspec.structs import replace

from instrumentor.shared import private
from instrumentor.shared.errors import NotReady, RestoreNeeded
from instrumentor.workspace import git
from instrumentor.workspace.in_place.disk import SWAP_SUFFIX, Disk

SCHEMA: Final = "instrument-journal/1"
REFS = "refs/instrumentor"
TEXT = "journal.json"
_PART = re.compile(r"[0-9a-f]{12}\.json\.(?P<pid>\d+)\.part\Z")


class Entry(msgspec.Struct, frozen=True):
    """A file that is swapped; hashes, mode and time are the original's unless they say otherwise.

    Attributes:
        path: absolute, symlinks resolved.
        repository: git's common folder that holds the blob.
        blob: git's object id of the original's bytes, unfiltered.
        stem: beginning of the names of our own files beside it.
    """

    path: Path
    repository: Path
    blob: str
    sha256: str
    instrumented_sha256: str
    mode: int
    mtime_ns: int
    stem: Annotated[str, msgspec.Meta(pattern=r"^\.instrument-[^/]*\Z")]

    @property
    def part(self) -> Path:
        """A file being written: never anything but ours."""
        return self.path.with_name(f"{self.stem}.part")

    @property
    def side(self) -> Path:
        """A whole file: what goes into the path, or what came out of it."""
        return self.path.with_name(f"{self.stem}.side")

    @property
    def aside(self) -> Path:
        """Where :meth:`Disk.swap` puts the path's file on simple file systems."""
        return self.side.with_name(self.side.name + SWAP_SUFFIX)


class Journal(msgspec.Struct, frozen=True):
    """An in-place run: what it swaps, its journal file, and its process (start in Unix seconds)."""

    id: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{12}\Z")]
    entries: tuple[Entry, ...]
    location: Path
    host: str
    pid: int
    process_started: float
    schema: Literal["instrument-journal/1"]

    @property
    def ref(self) -> str:
        """What keeps the originals in git."""
        return f"{REFS}/{self.id}"

    @property
    def repositories(self) -> tuple[Path, ...]:
        """The git folders that hold an original, each once."""
        return tuple(dict.fromkeys(entry.repository for entry in self.entries))

    def text(self) -> bytes:
        """The document ``instrument-journal/1``."""
        # Not by msgspec.json, which has no word for a name that is no UTF-8.
        plain = msgspec.to_builtins(self, enc_hook=str)
        return (json.dumps(plain, indent=2) + "\n").encode()


def new(entries: tuple[Entry, ...], root: Path) -> Journal:
    """A journal of this process, not yet written; the entries get their names."""
    name = uuid.uuid4().hex[:12]
    named = tuple(
        replace(entry, stem=f".instrument-{name}-{number}") for number, entry in enumerate(entries)
    )
    location = private.cache_folder(avoid=root) / "journal" / f"{name}.json"
    pid = os.getpid()
    return Journal(name, named, location, platform.node(), pid, _started(pid), SCHEMA)


def parse(text: bytes) -> Journal:
    """A journal from its text.

    Raises:
        RestoreNeeded: it is damaged, or of a version that this one does not know.
    """
    try:
        read = json.loads(text)
        return msgspec.convert(read, Journal, dec_hook=lambda kind, value: kind(value))
    except (msgspec.MsgspecError, ValueError) as error:
        raise RestoreNeeded(f"a journal cannot be read: {error}") from error


@contextmanager
def written(journal: Journal, disk: Disk) -> Iterator[None]:
    """Write the journal and hold its lock during the body; removing it is :func:`close`'s.

    Raises:
        NotReady: the cache folder cannot be written.
    """
    folder = journal.location.parent
    part = folder / f"{journal.location.name}.{journal.pid}.part"
    with ExitStack() as held:
        try:
            private.made(folder.parent, folder.name)
            disk.write(part, journal.text(), 0o600)
            descriptor = os.open(part, os.O_RDONLY)
            held.callback(os.close, descriptor)
            # Before it has its name: another start never sees a journal that nobody holds.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            disk.sync(part)
            disk.rename(part, journal.location)
            disk.sync_folder(folder)
            # A new folder's own name; the cache folder above it may be new as well.
            disk.sync_folder(folder.parent)
        except OSError as error:
            with suppress(OSError):
                disk.remove(part)
            raise NotReady(
                f"the journal {journal.location} cannot be written: {error.strerror}",
                "Make room there, or set INSTRUMENT_CACHE to another folder.",
            ) from error
        yield


@contextmanager
def taken(location: Path) -> Iterator[Journal | None]:
    """Hold a journal whose run is gone; None when the run is alive or somebody else is at it."""
    try:
        stream = open(location, "rb", opener=_warily)  # noqa: SIM115
    except OSError:
        yield None
        return
    with stream:
        yield replace(parse(stream.read()), location=location) if _is_held(stream) else None


def _warily(path: str, flags: int) -> int:
    """Open without following a link, and without waiting for the writer of a planted pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _is_held(stream: BinaryIO) -> bool:
    """Whether the lock of a journal is ours now, and the file still one that we wrote."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    facts = os.fstat(stream.fileno())
    # No name: fulfilled meanwhile. Two names: not one that we wrote.
    own = facts.st_nlink == 1 and facts.st_uid == os.getuid()
    return own and stat.S_ISREG(facts.st_mode)


def pending() -> tuple[Path, ...]:
    """Journal files in the cache, of living runs too."""
    found = []
    for path in private.entries("journal"):
        part = _PART.match(path.name)
        if path.name.endswith(".json"):
            found.append(path)
        elif part and not Path("/proc", part["pid"]).exists():
            with suppress(OSError):  # half-written by a killed run: nothing was swapped yet
                path.unlink()
    return tuple(found)


def hold(journal: Journal, disk: Disk) -> None:
    """Let a ref in each repository keep the originals, with the journal beside them."""
    for repository in journal.repositories:
        # A tree, because a ref can lead to one object only, and `git gc` prunes all others.
        text = _git(disk, repository, "hash-object", *STORE, stdin=journal.text())
        lines = [f"100644 blob {text}\t{TEXT}"]
        lines += [
            f"100644 blob {entry.blob}\t{number}"
            for number, entry in enumerate(journal.entries)
            if entry.repository == repository
        ]
        tree = _git(disk, repository, "mktree", stdin="\n".join(lines).encode())
        _git(disk, repository, "update-ref", journal.ref, tree)


STORE = ("-w", "--no-filters", "--stdin")


def store(path: Path, data: bytes, repository: Path, disk: Disk) -> str:
    """Put bytes into git's object database, synced, and read them back; gives the object's id.

    Args:
        path: the file that holds them, for a message.
        repository: git's common folder.

    Raises:
        NotReady: git cannot write or gives other bytes back.
    """
    blob = _git(disk, repository, "hash-object", *STORE, stdin=data)
    # git syncs the object itself; of the new name in its folder not every version is so careful.
    loose = repository / "objects" / blob[:2]
    if loose.is_dir():
        disk.sync_folder(loose)
        disk.sync_folder(loose.parent)
    if load(blob, repository) != data:
        raise NotReady(
            f"git does not give back the bytes of {path}",
            "See `git fsck` in its repository; a run in place needs a sound one.",
        )
    return blob


def load(blob: str, repository: Path) -> bytes:
    """Bytes of a blob; NotReady where git has no such object."""
    return git.read(repository, "--git-dir", str(repository), "cat-file", "blob", blob)


def in_repository(folder: Path) -> tuple[Journal, ...]:
    """Journals that the repository around a folder keeps, in its refs; none without one."""
    try:
        if not git.available() or git.common_folder(folder) is None:
            return ()
    except (NotReady, OSError):
        return ()
    listed = git.read(folder, "for-each-ref", "--format=%(refname)", REFS).decode().split()
    found = (parse(git.read(folder, "cat-file", "blob", f"{ref}:{TEXT}")) for ref in listed)
    return tuple(journal for journal, ref in zip(found, listed, strict=True) if journal.ref == ref)


def foreign(entry: Entry) -> str:
    """Why a file is not one of the repository named beside it; empty when it is.

    A journal in a repository's refs may have come with the repository, from anybody.
    """
    folder = entry.path.parent
    if not entry.path.is_absolute() or os.path.normpath(entry.path) != str(entry.path):
        return "is not a plain path"
    if os.path.realpath(folder) != str(folder):
        return f"is named through a link: its folder is {os.path.realpath(folder)}"
    if ".git" in entry.path.parts:
        return "lies in a git folder"
    if not entry.repository.is_dir():  # removed since: the original may stand beside the file
        outside = not entry.path.is_relative_to(entry.repository.parent)
    else:
        outside = git.common_folder(folder) != entry.repository
    return f"does not lie in the repository of {entry.repository}" if outside else ""


def run_is_alive(journal: Journal) -> bool:
    """Whether the process of a journal without a file still runs on this machine."""
    return journal.host == platform.node() and (
        abs(_started(journal.pid) - journal.process_started) < 1.0
    )


def close(journal: Journal, disk: Disk) -> None:
    """Forget a journal that is fulfilled: refs first, so that it can be found until the end."""
    for repository in journal.repositories:
        if repository.is_dir():
            _unlock(repository, journal.ref)
            _git(disk, repository, "update-ref", "-d", journal.ref)
    if journal.location.exists():
        disk.remove(journal.location)
        disk.sync_folder(journal.location.parent)


def _unlock(repository: Path, ref: str) -> None:
    """A git that was killed leaves the lock of its ref behind; no other run takes this one."""
    with suppress(FileNotFoundError):
        (repository / f"{ref}.lock").unlink()


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _git(disk: Disk, repository: Path, *arguments: str, stdin: bytes = b"") -> str:
    told = disk.git(repository, "--git-dir", str(repository), *arguments, stdin=stdin)
    return told.decode().strip()


def _started(pid: int) -> float:
    import psutil

    # A process number alone comes round again.
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return -time.time()  # no process started then
