# ruff: noqa: PTH101, PTH106, PTH108
# (plain strings, for wide trees)
"""Deletes a tree without ever following a symbolic link out of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def remove_tree(top: Path, last: str | None = None) -> None:
    """Remove ``top``, a folder of ours; links in it are unlinked, what they lead to is untouched.

    Args:
        top: the folder.
        last: name of a file in it that goes after everything else, so that a removal cut short
            can be recognised.

    Raises:
        OSError: something cannot be removed, for example on a full quota or a mount point.
    """
    if top.is_symlink():
        raise NotADirectoryError(f"{top} is a symbolic link")
    _empty(str(top), last)
    with suppress(FileNotFoundError):  # two starts may sweep the same leftover
        if last is not None:
            (top / last).unlink(missing_ok=True)
        top.rmdir()


def _empty(folder: str, last: str | None = None) -> None:
    try:
        # A script may have closed a folder; ours it is, and it is no link: scandir said so.
        facts = os.lstat(folder)
        if facts.st_mode & 0o700 != 0o700:
            os.chmod(folder, 0o700)
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.name == last:
            continue
        with suppress(FileNotFoundError):
            if entry.is_dir(follow_symlinks=False):
                _empty(entry.path)
                os.rmdir(entry.path)
            else:
                os.unlink(entry.path)
