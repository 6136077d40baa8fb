"""How folders of ours are removed, whatever a script made of them.

A name from a root can be longer than the kernel takes, a tree deeper than any stack, a folder
closed, exchanged for a link, or the place where another file system is mounted. So each folder is
first moved up into the one that is removed, and entered there by its descriptor: two folders are
open at a time, nothing is named by more than one step, and what cannot be moved is not entered.

Asked at every start, so nothing is imported that takes time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NAMED = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LeftOver(OSError):
    """Something could not be removed; all else is gone."""


def remove_tree(path: Path, last: str = "") -> None:
    """Remove a file or folder of ours; links are unlinked, what they lead to is untouched.

    Args:
        last: name of the entry that goes after all others.

    Raises:
        LeftOver: some of it is still there; says what, and why.
        OSError: it is not there.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    faults: list[OSError] = []
    with _entered(str(path)) as top:
        _empty(top, last, faults)
        if last and not faults:
            with suppress(FileNotFoundError):
                os.unlink(last, dir_fd=top)
    if faults:
        first = f"{faults[0].filename}: {faults[0].strerror}"
        raise LeftOver(faults[0].errno, f"cannot be removed whole ({first})", str(path))
    path.rmdir()


def _empty(top: int, last: str, faults: list[OSError]) -> None:
    waiting = _flattened(top, top, last, faults)
    while waiting:
        name = waiting.pop()
        try:
            with _entered(name, top) as folder:
                waiting += _flattened(folder, top, "", faults)
            os.rmdir(name, dir_fd=top)
        except OSError as error:
            _note(error, faults)


@contextmanager
def _entered(name: str, above: int | None = None) -> Iterator[int]:
    with _named(name, above) as named:
        # Not by its name once more: something else may stand there by now.
        descriptor = os.open(".", os.O_RDONLY, dir_fd=named)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _named(name: str, above: int | None) -> Iterator[int]:
    """That very folder, and no link's, its owner let in where the script had closed it."""
    descriptor = os.open(name, _NAMED, dir_fd=above)
    try:
        if os.fstat(descriptor).st_mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{descriptor}", 0o700)  # noqa: PTH101
        yield descriptor
    finally:
        os.close(descriptor)


def _flattened(folder: int, top: int, keep: str, faults: list[OSError]) -> list[str]:
    """Remove the files of a folder and move its folders up; their names there."""
    with os.scandir(folder) as listed:
        found = [(e.name, e.is_dir(follow_symlinks=False)) for e in listed if e.name != keep]
    moved = []
    for name, is_folder in found:
        try:
            if is_folder:
                moved.append(_moved(name, folder, top))
            else:
                os.unlink(name, dir_fd=folder)
        except OSError as error:
            _note(error, faults)
    return moved


def _moved(name: str, folder: int, top: int) -> str:
    """Also out of the folder itself: what something is mounted on cannot be moved."""
    new = f".{os.urandom(8).hex()}"
    with _named(name, folder):
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
    return new


def _note(error: OSError, faults: list[OSError]) -> None:
    if not isinstance(error, FileNotFoundError):  # somebody else was faster
        faults.append(error)
