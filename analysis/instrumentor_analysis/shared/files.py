"""The one door to files: what is opened is a regular file, and what is written is whole.

A name may lead to anything: a pipe that nobody writes to, a device without an end, a link of
somebody else. So a file is looked at before it is opened, since opening a device can act on it;
opened so that nothing is waited for; and looked at again through its descriptor, where nobody can
exchange it any more. A reader never sees half of what is written here.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

#: Of a file that is read as a whole, in bytes: far more than a record of a long run has.
LIMIT_BYTES = 256 * 1024 * 1024
#: Of a record of a run: the smallest lines that fill it take minutes, and no run writes as many.
LIMIT_LINES = 1_000_000
#: Of a configuration file.
SETTINGS_BYTES = 1024 * 1024

#: Of one line of a file of any length.
LINE_BYTES = 16 * 1024 * 1024

_MORE_BYTES = 1024 * 1024  # at a time, of what is longer than the system said

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_WARILY = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
#: Words for what is no regular file, by its kind.
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}


_LINK = "is a symbolic link, behind which nothing is written"
_HERE = Path()

#: Where runs are kept, in the folder in which they were started.
RUNS_FOLDER = "instrument-runs"


class Unfit(OSError):
    """A file that is there and is not what may be read or written at its place."""

    def __init__(self, path: Path | str, fault: str) -> None:
        super().__init__(errno.EINVAL, fault, str(path))


def opened(
    path: Path | str, *, follow: bool = True, own: bool = False, single: bool = False
) -> BinaryIO:
    """A regular file, open for reading.

    Args:
        follow: it may be reached through a link in its last place.
        own: it has to belong to this user or to root.
        single: it has to have this one name.

    Raises:
        Unfit: it is something else than that.
        OSError: it cannot be opened.
    """
    descriptor = _descriptor(path, os.O_RDONLY, follow, own, single)
    # Not os.fdopen(): errors of a stream are to name the file.
    return open(path, "rb", opener=lambda *_: descriptor)


def opened_text(
    path: Path | str, errors: str = "strict", *, encoding: str = "utf-8", newline: str | None = None
) -> TextIO:
    """As :func:`opened`, its text; going through its lines ends with an error at an endless one."""
    return _Lines(opened(path), encoding=encoding, errors=errors, newline=newline)


class _Lines(io.TextIOWrapper):
    def __next__(self) -> str:  # type: ignore[override]  # of bytes, says typeshed of its base
        line = self.readline(LINE_BYTES + 1)
        if not line:
            raise StopIteration
        if len(line) > LINE_BYTES:
            raise _too_long(self.name)
        return line


def lines_of(stream: BinaryIO) -> Iterator[bytes]:
    """The rest of a file's lines, each with its end.

    Raises:
        Unfit: one is longer than any.
    """
    while line := stream.readline(LINE_BYTES + 1):
        if len(line) > LINE_BYTES:
            raise _too_long(stream.name)
        yield line


def _too_long(name: object) -> Unfit:
    return Unfit(str(name), f"has a line of more than {LINE_BYTES >> 20} MiB")


def appended(path: Path | str) -> BinaryIO:
    """A file of this user's own, open for adding to its end; made where there is none.

    Raises:
        Unfit: a link, a file of two names, of somebody else, or no file stands there.
        OSError: it cannot be opened.
    """
    flags = os.O_WRONLY | os.O_APPEND
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL | _WARILY, 0o666)
    except FileExistsError:
        descriptor = _descriptor(path, flags, follow=False, own=True, single=True)
    return os.fdopen(descriptor, "ab")


def created(path: Path | str) -> BinaryIO:
    """A new file, open for writing.

    Raises:
        OSError: it cannot be made, or its name is taken, by a link that leads nowhere as well.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o666), "wb")


def _descriptor(path: Path | str, flags: int, follow: bool, own: bool, single: bool) -> int:
    _check(path, os.stat(path, follow_symlinks=follow), own, single)  # noqa: PTH116
    descriptor = os.open(path, flags | _WARILY | (0 if follow else os.O_NOFOLLOW))
    try:
        _check(path, os.fstat(descriptor), own, single)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check(path: Path | str, facts: os.stat_result, own: bool, single: bool) -> None:
    kind = stat.S_IFMT(facts.st_mode)
    if kind == stat.S_IFDIR:  # as the system has it, for whom that is no surprise
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind != stat.S_IFREG:
        raise Unfit(path, f"is {KINDS.get(kind, 'no file')}, not a regular file")
    if own and facts.st_uid not in (os.geteuid(), 0):
        raise Unfit(path, f"belongs to another user ({facts.st_uid})")
    if single and facts.st_nlink != 1:
        raise Unfit(path, f"has {facts.st_nlink} names (hard links)")


def read_bytes(path: Path | str, limit: int = LIMIT_BYTES, **wanted: bool) -> bytes:
    """All of a regular file.

    Args:
        limit: how many bytes it may have.
        wanted: as :func:`opened` has it.

    Raises:
        Unfit: it is no such file, or larger.
        OSError: it cannot be read.
    """
    with opened(path, **wanted) as stream:
        # Not limit + 1 at once: memory of that size would be taken for the smallest file.
        expected = min(os.fstat(stream.fileno()).st_size, limit)
        data = stream.read(expected + 1)
        # It grew, or is one of /proc, which tell no size.
        while expected < len(data) <= limit and (more := stream.read(_MORE_BYTES)):
            data += more
    if len(data) > limit:
        raise Unfit(path, f"is larger than {limit / 2**20:,.0f} MiB")
    return data


def read_text(
    path: Path | str, errors: str = "strict", *, limit: int = LIMIT_BYTES, encoding: str = "utf-8"
) -> str:
    """As :func:`read_bytes`, its text; every line ends with a newline character alone.

    Raises:
        UnicodeDecodeError: it holds something else than text.
    """
    data = io.BytesIO(read_bytes(path, limit))
    return io.TextIOWrapper(data, encoding=encoding, errors=errors).read()


def copy(source: Path | str, target: Path) -> None:
    """Copy the bytes of a regular file to a name that is free, or a file that is replaced whole.

    Raises:
        Unfit: the source is no regular file.
        OSError: it cannot be read, or the target cannot be written.
    """
    import shutil

    with opened(source) as old, becoming(target) as temporary, created(temporary) as new:
        shutil.copyfileobj(old, new, 1 << 20)


def refuse_links(folder: Path, target: Path) -> None:
    """Refuse a place below a folder that a link on the way would lead out of it.

    The last name may be a link: what is written whole takes its place, and follows it nowhere.

    Raises:
        Unfit: a folder on the way is a link.
        ValueError: the target is not below the folder.
    """
    way = target.relative_to(folder).parents
    for path in (folder / each for each in way if each.name):
        if path.is_symlink():
            raise Unfit(path, _LINK)


@contextmanager
def held(folder: Path, inside: Path = _HERE, *, make: bool = False) -> Iterator[Path]:
    """A folder in another one, by a path that leads to that very one while the body runs.

    Who owns a folder on the way can put a link in its place at any moment, after any look: so each
    is opened from the one around it.

    Args:
        folder: the user's own word, which may be a link.
        inside: relative to it.
        make: what is not there.

    Raises:
        Unfit: a folder on the way below the first is a link.
        OSError: it cannot be opened, or made.
    """
    descriptor = os.open(folder, _FOLDER)
    try:
        for at, step in enumerate(inside.parts, 1):
            path = folder.joinpath(*inside.parts[:at])
            inner = _inner(descriptor, step, path, make)
            os.close(descriptor)
            descriptor = inner
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _inner(above: int, step: str, path: Path, make: bool) -> int:
    try:
        if make:
            with suppress(FileExistsError):
                os.mkdir(step, dir_fd=above)
        return os.open(step, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
    except OSError as error:
        if isinstance(error, NotADirectoryError) and path.is_symlink():
            raise Unfit(path, _LINK) from error
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_below(folder: Path, target: Path, content: bytes) -> None:
    """As :func:`write_whole`, below a folder that may be somebody else's; behind no link there.

    Raises:
        OSError: as it, and as :func:`held`.
    """
    with held(folder, target.relative_to(folder).parent, make=True) as place:
        try:
            write_whole(place / target.name, content)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(target)) from error


def write_whole(
    target: Path, content: bytes, *, replace: bool = True, mode: int | None = None
) -> None:
    """Put a file in place at once; a failure leaves what was there, and names the target.

    Args:
        mode: its permission bits; None for those of any new file.

    Raises:
        FileExistsError: something is there, which must not be replaced.
        OSError: it cannot be written.
    """
    # Opened as any file is, not by tempfile: its 0600 would hide a report from colleagues.
    with becoming(target, replace=replace) as temporary, created(temporary) as file:
        file.write(content)
        file.flush()
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


@contextmanager
def becoming(target: Path, *, replace: bool = True) -> Iterator[Path]:
    """A new file beside a target, put in its place at the end; errors name the target."""
    temporary = target.with_name(f".{os.urandom(6).hex()}.tmp")
    try:
        yield temporary
        if replace:
            temporary.replace(target)
        else:
            os.link(temporary, target)  # unlike a rename, fails when the file appeared meanwhile
    except OSError as error:
        if error.filename not in (None, str(temporary), temporary):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        with suppress(OSError):
            temporary.unlink()
