"""A git folder of the shadow's own: history can be read, nothing written reaches the user's.

It holds copies of HEAD, refs, index and settings; objects are borrowed by ``alternates``, and
what the script adds, commits or stashes stays in it and is thrown away with the shadow.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from instrumentor.shared import git_quotes
from instrumentor.shared.errors import NotReady
from instrumentor.workspace import git, git_files
from instrumentor_analysis.shared.files import appended, copy, write_whole

# What git keeps for each work tree, and what all work trees of a repository share
# (gitrepository-layout).
PRIVATE = ("HEAD", "index", "config.worktree", "refs/bisect", "refs/worktree", "refs/rewritten")
SHARED = ("config", "packed-refs", "shallow", "reftable", "refs", "info")


def make_private_git(root: Path, target: Path) -> None:
    """Write the private git folder for the working tree at ``root`` into ``target``.

    Raises:
        NotReady: git does not accept the repository, or it cannot be read.
    """
    try:
        _make(root, target)
    except OSError as error:
        raise NotReady(
            f"the git folder of {root} cannot be read: {error}",
            "Check that `git status` works there.",
        ) from error


def _make(root: Path, target: Path) -> None:
    own, common = (git.folder_of(root, which) for which in ("--git-dir", "--git-common-dir"))
    target.mkdir(mode=0o700)
    for name in SHARED:
        _copy(common, name, target)
    for name in PRIVATE:
        _copy(own, name, target)
    for part in own.glob("sharedindex.*"):  # `git update-index --split-index`
        _copy(own, part.name, target)
    (target / "refs").mkdir(exist_ok=True)
    _borrow_objects(common / "objects", target / "objects")
    with appended(target / "config") as stream:
        # The work tree comes from GIT_WORK_TREE, and a monitor would watch the user's tree. Behind
        # an empty line: the last one may end in a backslash, which takes the next one in.
        stream.write(b"\n\n[core]\n\tbare = false\n\tfsmonitor = false\n\thooksPath = /dev/null\n")


def _borrow_objects(objects: Path, target: Path) -> None:
    (target / "info").mkdir(parents=True)
    (target / "pack").mkdir()
    # relative alternates of a borrowed store are not followed by git
    borrowed = [str(objects), *map(os.path.normpath, git_files.lenders(objects))]
    text = b"".join(_line(os.fsencode(path)) + b"\n" for path in borrowed)
    write_whole(target / "info" / "alternates", text)


def _line(path: bytes) -> bytes:
    """A path as a line of `alternates`, where # begins a comment."""
    plain = not any(c in path for c in b'"\n\\') and not path.startswith(b"#")
    return path if plain else git_quotes.quoted(path)


def _copy(base: Path, name: str, into: Path) -> None:
    source, target = base / name, into / name
    if source.is_dir():
        _refuse_astray(source, Path(name))
        shutil.copytree(
            source, target, ignore=_linked_folders, copy_function=_copy_file, dirs_exist_ok=True
        )
    elif source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy_file(source, target)


def _refuse_astray(source: Path, name: Path) -> None:
    """A folder may be a link into another git folder, as some tools share them, and no other."""
    place = source.resolve()
    root = place.parents[len(name.parts) - 1]
    if place != source and (root / name != place or not (root / "HEAD").is_file()):
        raise NotReady(
            f"{source} leads to {place}, which is no part of a git folder",
            "Put a folder in the link's place; git needs none there.",
        )


def _copy_file(source: Path | str, target: Path | str) -> None:
    """With its times, by which git tells whether the index knows a file."""
    copy(source, Path(target))
    shutil.copystat(source, target)


def _linked_folders(folder: str, names: list[str]) -> list[str]:
    """Links to folders, which git makes none of and which may have no end."""
    paths = (Path(folder, name) for name in names)
    return [path.name for path in paths if path.is_symlink() and path.is_dir()]
