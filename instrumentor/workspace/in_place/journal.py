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
import shlex
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal

import msgspec
from msgspec.structs import replace

from instrumentor.shared import private
from instrumentor.shared.errors import NotReady, RestoreNeeded
from instrumentor.workspace import git
from instrumentor.workspace.in_place.disk import SWAP_SUFFIX, Disk
from instrumentor_analysis.shared.files import opened, read_bytes

SCHEMA: Final = "instrument-journal/1"
REFS = "refs/instrumentor"
TEXT = "journal.json"
LIMIT_BYTES = 1024 * 1024
_Id = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{12}\Z")]
_Object = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})\Z")]
_Unkept = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})?\Z")]
_Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Stem = Annotated[str, msgspec.Meta(pattern=r"^\.instrument-[0-9a-f]{12}-[0-9]{1,9}\Z")]
_Mode = Annotated[int, msgspec.Meta(ge=0, le=0o7777)]
_Process = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
_Nanoseconds = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
_REF = re.compile(re.escape(REFS) + r"/[0-9a-f]{12}\Z")
_PART = re.compile(r"[0-9a-f]{12}\.json\.(?P<pid>\d+)\.part\Z")


class Entry(msgspec.Struct, frozen=True):
    """A file that is swapped; hashes, mode and time are the original's unless they say otherwise.

    Attributes:
        path: absolute, symlinks resolved.
        repository: git's common folder that holds the blob.
        blob: git's object id of the original's bytes, unfiltered.
        stem: beginning of the names of our own files beside it.
        instrumented_blob: the id that the instrumented bytes would have in git; '' where git had
            them before.
    """

    path: Path
    repository: Path
    blob: _Object
    sha256: _Digest
    instrumented_sha256: _Digest
    mode: _Mode
    mtime_ns: _Nanoseconds
    stem: _Stem
    instrumented_blob: _Unkept = ""

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

    id: _Id
    entries: tuple[Entry, ...]
    location: Path
    host: str
    pid: _Process
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
        return msgspec.convert(json.loads(text), Journal, dec_hook=_path)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RestoreNeeded(f"a journal cannot be read: {error}") from error


def _path(kind: type, value: Any) -> Path:
    """A path that the system can be asked for."""
    if b"\0" in os.fsencode(str(value)):
        raise ValueError("a path holds a null character")
    return Path(value)


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
            stream = held.enter_context(opened(part, follow=False, own=True))
            # Before it has its name: another start never sees a journal that nobody holds.
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
        stream = opened(location, follow=False, own=True)
    except OSError:
        yield None
        return
    with stream:
        held = _is_held(stream)
        yield replace(parse(stream.read(LIMIT_BYTES)), location=location) if held else None


def _is_held(stream: BinaryIO) -> bool:
    """Whether the lock of a journal is ours now, and the file still one that we wrote."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    # No name: fulfilled meanwhile. Two names: not one that we wrote.
    return os.fstat(stream.fileno()).st_nlink == 1


def read(location: Path) -> Journal:
    """A journal that another process may hold.

    Raises:
        RestoreNeeded: it is damaged.
        OSError: it is gone, or no file of ours.
    """
    return parse(read_bytes(location, LIMIT_BYTES, follow=False, own=True))


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
        _git(disk, repository, "update-ref", "--no-deref", journal.ref, tree)


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
    loose = (repository / "objects" / blob[:2]).resolve()  # some tools share the folder by a link
    if loose.is_dir():
        disk.sync_folder(loose)
        disk.sync_folder(loose.parent)
    if load(blob, repository) != data:
        raise NotReady(
            f"git does not give back the bytes of {path}",
            "See `git fsck` in its repository; a run in place needs a sound one.",
        )
    return blob


def name_of(data: bytes, repository: Path) -> str:
    """The object id under which git would keep bytes, unfiltered; '' of some that it has."""
    blob = _read(repository, "hash-object", *STORE[1:], stdin=data).decode().strip()
    return "" if holds(blob, repository) else blob


def holds(blob: str, repository: Path) -> bool:
    """Whether git's object database has an object, whoever put it there."""
    try:
        _read(repository, "cat-file", "-e", blob)
    except NotReady:
        return False
    return True


def load(blob: str, repository: Path) -> bytes:
    """Bytes of a blob; NotReady where git has no such object."""
    return _read(repository, "cat-file", "blob", blob)


def shown_by(entry: Entry) -> str:
    """The command that shows the original as git keeps it."""
    itself = ["git", "--no-replace-objects", "--git-dir", str(entry.repository)]
    return shlex.join([*itself, "cat-file", "blob", entry.blob])


def repository_around(folder: Path) -> Path | None:
    """Git's common folder for a folder; None where no repository is.

    Raises:
        NotReady: git does not accept the one that is there.
    """
    return git.common_folder(folder) if git.available() else None


def refs(repository: Path) -> list[str]:
    """The refs of a repository that say they keep a journal."""
    told = _read(repository, "for-each-ref", "--format=%(refname)", REFS)
    # By newlines alone, which no name holds: a name may hold any other character, or no text.
    return [os.fsdecode(name) for name in told.split(b"\n") if name]


def damaged(repository: Path) -> list[Path]:
    """Files in the places of our refs that git passes over: it reads no object's name in them.

    A power loss may leave an empty one. None leads to anything.
    """
    known = set(refs(repository))
    try:
        found = sorted((repository / REFS).iterdir())
    except OSError:  # none, or a repository that keeps its refs in another way
        return []
    beside = (path for path in found if path.suffix != ".lock" and not path.is_dir())
    return [path for path in beside if f"{REFS}/{path.name}" not in known]


def kept(repository: Path, ref: str) -> Journal:
    """The journal that a ref keeps; anybody may have written it, and made the repository.

    Raises:
        RestoreNeeded: it is damaged, not this ref's, or the ref leads to another one.
        NotReady: there is none.
    """
    if not _REF.match(ref):
        raise RestoreNeeded("no run gives a ref such a name")
    leads_to = _read(repository, "for-each-ref", "--format=%(symref)", ref).strip()
    if leads_to:
        raise RestoreNeeded(f"it is no journal, but leads to {os.fsdecode(leads_to)!a}")
    name = f"{ref}:{TEXT}"
    if int(_read(repository, "cat-file", "-s", name)) > LIMIT_BYTES:
        raise RestoreNeeded("a journal cannot be read: it is too large")
    found = parse(_read(repository, "cat-file", "blob", name))
    if found.ref != ref:
        raise RestoreNeeded(f"it keeps the journal of {found.ref}")
    return found


def _read(repository: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    # Each object as it is, whatever `git replace` puts in its place.
    itself = ("--no-replace-objects", f"--git-dir={repository}")
    return git.read(repository, *itself, *arguments, stdin=stdin)


def foreign(entry: Entry) -> str:
    """Why a file is not one of the repository named beside it; empty when it is."""
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


def unfounded(entry: Entry, repository: Path) -> str:
    """Why a journal from a repository's refs does not count for a file; empty when it does.

    It may have come with the repository, from anybody: so it counts only for what git tracks in
    the repository that it was read from, never in another one that it names.
    """
    if entry.repository != repository:
        return f"does not lie in this repository, but in that of {entry.repository}"
    if not entry.path.parent.is_dir():
        return "lies in a folder that is gone"
    why = foreign(entry)
    if not why and not git.names(entry.path.parent, ("--", f":(literal){entry.path.name}")):
        why = "is not tracked by git"
    return why


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
            _forget(repository, journal.ref, disk)
    if journal.location.exists():
        disk.remove(journal.location)
        disk.sync_folder(journal.location.parent)


def _forget(repository: Path, ref: str, disk: Disk) -> None:
    # Else a ref that leads to a branch would take the branch with it.
    command = ("update-ref", "--no-deref", "-d", ref)
    try:
        _git(disk, repository, *command)
    except NotReady:
        path = repository / ref
        if path not in damaged(repository):
            raise
        # git removes none that it cannot read, and nothing else is lost with this one.
        disk.remove(path)
        _git(disk, repository, *command)


def _unlock(repository: Path, ref: str) -> None:
    """A git that was killed leaves the lock of its ref behind; no other run takes this one."""
    with suppress(FileNotFoundError):
        (repository / f"{ref}.lock").unlink()


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _git(disk: Disk, repository: Path, *arguments: str, stdin: bytes = b"") -> str:
    told = disk.git(repository, f"--git-dir={repository}", *arguments, stdin=stdin)
    return told.decode().strip()


def _started(pid: int) -> float:
    import psutil

    # A process number alone comes round again.
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return -time.time()  # no process started then
