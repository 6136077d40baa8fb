"""The few ways in which an in-place run changes files; tests put faults between them.

Everything that must survive a kill or a power loss goes through a :class:`Disk`: a file is written
whole, synced, renamed, and its folder synced, so that each name always leads to a whole file.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from pathlib import Path

from instrumentor.workspace import git

# Of fcntl.h and linux/fs.h; Python has no renameat2.
AT_FDCWD = -100
RENAME_EXCHANGE = 2
NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
SWAP_SUFFIX = ".swap"


class Disk:
    """The real one; every method raises OSError as the system does."""

    def write(self, path: Path, data: bytes, mode: int) -> None:
        """Make a new file; one that exists, or a link in its place, is an error."""
        # Private until it gets the mode that was asked for, whatever the umask is.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            os.fchmod(stream.fileno(), mode)

    def sync(self, path: Path) -> None:
        """Bring a file's bytes to the disk."""
        _sync(path)

    def sync_folder(self, folder: Path) -> None:
        """Bring a folder's names to the disk."""
        _sync(folder)

    def rename(self, source: Path, target: Path) -> None:
        """Rename over whatever is there."""
        source.replace(target)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name; one that exists is an error."""
        os.link(source, target)

    def swap(self, one: Path, other: Path) -> None:
        """Exchange two files in one step.

        Where the file system cannot, ``other`` is replaced in one step, or, without hard links,
        is away for a moment; what it was is at ``one`` + ``.swap`` then.
        """
        aside = one.with_name(one.name + SWAP_SUFFIX)
        try:
            exchange(one, other)
            return
        except OSError as error:
            if error.errno not in NO_EXCHANGE:
                raise
        try:
            os.link(other, aside)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            other.rename(aside)
        one.replace(other)
        aside.replace(one)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()

    def stamp(self, path: Path, mode: int, mtime_ns: int) -> None:
        """Set permission bits and modification time; of a link's target, neither."""
        # What stands there may have been exchanged. Its number, as it may be closed to reading.
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        try:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise OSError(errno.EINVAL, "is no regular file any more", str(path))
            itself = Path(f"/proc/self/fd/{descriptor}")
            itself.chmod(mode)
            os.utime(itself, ns=(facts.st_atime_ns, mtime_ns))
        finally:
            os.close(descriptor)

    def git(self, folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
        """Output of a git command that writes.

        Raises:
            NotReady: git failed.
        """
        return git.write(folder, *arguments, stdin=stdin)


def exchange(one: Path, other: Path) -> None:
    """Linux's renameat2 with RENAME_EXCHANGE.

    Raises:
        OSError: ENOSYS or EINVAL where kernel, C library or file system have none.
    """
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    names = os.fsencode(one), os.fsencode(other)
    if function(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))


def _sync(path: Path) -> None:
    # What stands there may have been exchanged: neither a link is followed nor a pipe waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
