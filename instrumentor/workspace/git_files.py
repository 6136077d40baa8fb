"""What git reads of a repository by itself: it waits for a pipe, and reads a device to its end.

Either can come with an archive, or be made by a script, under any name that git opens. What git
reads whatever it is asked is looked at before; all else once git has not answered for a moment.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from instrumentor.shared import git_quotes
from instrumentor.shared.errors import NotReady
from instrumentor_analysis.shared.files import KINDS, SETTINGS_BYTES, read_bytes

#: How long one search for them may take, seconds: a link may lead to a whole disk.
LOOK_S = 5.0
_READ_BESIDE = (".gitignore", ".gitattributes", ".gitmodules", ".mailmap")
#: Folders of git's (gitrepository-layout) whose files it opens by what it finds in them, by names
#: that nobody foresees; refs lie in folders of any depth.
_LISTED = (".", "info", "objects/info", "objects/info/commit-graphs", "objects/pack", "reftable")
_WAITED_FOR = (stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK)
_MOST_ALTERNATES = 100


def refuse_endless(root: Path) -> None:
    """Refuse a repository in which git would wait, or read without end, whatever it is asked.

    Raises:
        NotReady: names the first pipe or device.
    """
    late = time.monotonic() + LOOK_S
    paths = [str(path) for path in _beside(root)]
    for folder in git_folders(root):
        listed = (folder / name for name in _LISTED)
        paths += [path for each in listed for path in _found(each, late, deep=False)]
        refs = [str(folder / "refs"), *_found(folder / "refs", late)]
        _refuse_links(refs)
        paths += refs
        for objects in _alternates(folder / "objects"):
            paths += _found(objects / "info", late, deep=False)
            paths += _found(objects / "pack", late, deep=False)
    _refuse(paths, "git is not asked")


def refuse_astray(root: Path) -> None:
    """Refuse a repository in which git would write outside of git folders, behind a link.

    Raises:
        NotReady: names the link.
    """
    late = time.monotonic() + LOOK_S
    for folder in git_folders(root):
        for name in ("objects", "refs", "logs"):
            _refuse_links([str(folder / name)])
            _refuse_links(_found(folder / name, late, deep=name != "objects"))


def refuse_waited_for(root: Path, named: Iterable[Path]) -> None:
    """Refuse what git waits for, wherever it lies.

    Args:
        named: what git's settings may mean by a path.

    Raises:
        NotReady: names the first pipe or device; where there is none, git is slow.
    """
    late = time.monotonic() + LOOK_S
    paths = [str(path) for path in named]
    for folder in git_folders(root):
        paths += _found(folder, late)
        paths += [path for each in _alternates(folder / "objects") for path in _found(each, late)]
    top = _working_tree(root)
    if top is not None:
        paths += _found(top, late, inside=False)
    _refuse(paths, "git waits for it")


def git_folders(root: Path) -> Iterator[Path]:
    """Git's folder, also where a file names it, and the one that a worktree shares with others."""
    top = _working_tree(root)
    if top is not None:
        yield from _with_shared(_named_in(top / ".git", b"gitdir:") or top / ".git")
    if (root / "objects").is_dir() and os.path.lexists(root / "HEAD"):
        yield from _with_shared(root)


def _working_tree(root: Path) -> Path | None:
    return next((path for path in (root, *root.parents) if os.path.lexists(path / ".git")), None)


def _with_shared(own: Path) -> Iterator[Path]:
    yield own
    shared = _named_in(own / "commondir", b"")
    if shared:
        yield shared


def _beside(root: Path) -> Iterator[Path]:
    folder = _working_tree(root) or root
    return (folder / name for name in _READ_BESIDE)


def _named_in(path: Path, label: bytes) -> Path | None:
    try:
        text = read_bytes(path, SETTINGS_BYTES)
    except (OSError, ValueError):
        return None  # git says why
    named = text.removeprefix(label).strip()
    return path.parent / os.fsdecode(named) if named and text.startswith(label) else None


def _alternates(objects: Path) -> list[Path]:
    """Object folders that this one borrows from, and those that they borrow from."""
    found = [objects]
    for folder in found:
        new = [path for path in lenders(folder) if path not in found]
        found += new[: _MOST_ALTERNATES - len(found)]
    return found[1:]


def lenders(objects: Path) -> list[Path]:
    """Object folders that this one itself names to borrow from."""
    try:
        text = read_bytes(objects / "info" / "alternates", SETTINGS_BYTES)
    except (OSError, ValueError):
        return []
    lines = (line for line in text.split(b"\n") if line and not line.startswith(b"#"))
    return [objects / os.fsdecode(git_quotes.unquoted(line)) for line in lines]


def _found(top: Path, late: float, *, deep: bool = True, inside: bool = True) -> Iterator[str]:
    """What is neither a folder nor a regular file, and links to folders that are not git's.

    Args:
        late: when the search ends, on the monotonic clock.
        deep: look into the folders below; each link to another one of git's is followed once.
        inside: all that lies here is git's; else what has a name that git reads.
    """
    waiting, seen = [(str(top), inside)], set()
    while waiting and time.monotonic() < late:
        folder, gits = waiting.pop()
        for entry in _entries(folder):
            own = gits or entry.name.startswith(".git")
            if not _is_folder(entry, follow=own):
                if own and not entry.is_file(follow_symlinks=False):
                    yield entry.path
            elif entry.is_symlink() and not _in_git(entry.path):
                yield entry.path
            elif deep and (key := os.path.realpath(entry.path)) not in seen:
                seen.add(key)
                waiting.append((entry.path, own))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (OSError, ValueError):
        return []


def _is_folder(entry: os.DirEntry[str], *, follow: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:
        return False


def _in_git(path: str) -> bool:
    """Whether a link leads into a git folder; as some tools share parts of them."""
    target = Path(os.path.realpath(path))
    around = (target, *target.parents)
    return any((each / "HEAD").is_file() and (each / "objects").is_dir() for each in around)


def _refuse_links(paths: Iterable[str]) -> None:
    for path in paths:
        if os.path.islink(path) and os.path.isdir(path) and not _in_git(path):  # noqa: PTH112, PTH114
            raise NotReady(
                f"{path} leads to {os.path.realpath(path)}, which is no part of a git folder",
                "Put a folder in the link's place; git needs none there.",
            )


def _refuse(paths: Iterable[str], so: str) -> None:
    for path in paths:
        try:
            facts = os.stat(path)  # noqa: PTH116
        except (OSError, ValueError):
            continue
        kind = stat.S_IFMT(facts.st_mode)
        # The null device ends at once, and is what settings name to have nothing.
        if kind in _WAITED_FOR and facts.st_rdev != os.stat(os.devnull).st_rdev:  # noqa: PTH116
            raise NotReady(f"{path} is {KINDS[kind]}, not a regular file: {so}", "Remove it.")
