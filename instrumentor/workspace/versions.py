"""Copies of a project that stay as they are while it changes: as it stands, or at a commit.

A run copies its project each time. What is run in turn for minutes needs a copy that nobody edits
in between; and at another commit, the user's checkout, index and refs must not move.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from instrumentor.shared.errors import NotReady, UsageError
from instrumentor.shared.project import Project
from instrumentor.workspace import git, slots
from instrumentor.workspace.copy_plan import plan_shadow
from instrumentor.workspace.copying import fill, refuse_too_large, text_of_link
from instrumentor.workspace.private_git import make_private_git
from instrumentor_analysis.shared.files import appended, opened

_PIECE_BYTES = 1024 * 1024


def _digest(path: Path) -> bytes:
    """Of a file of any size, which is not held whole."""
    found = hashlib.sha256()
    with opened(path) as stream:
        while piece := stream.read(_PIECE_BYTES):
            found.update(piece)
    return found.digest()


class Frozen(Struct, frozen=True):
    """A copy that stands.

    Attributes:
        root: of the copy.
        source: the user's project.
        linked: the user's files and folders that it links to, absolute.
    """

    root: Path
    source: Path
    linked: tuple[Path, ...]

    def counterpart(self, path: Path) -> Path:
        """The path in the copy of a path of the project's; others as they are."""
        for spelling in (Path(os.path.normpath(path)), path.resolve()):
            if spelling.is_relative_to(self.source):
                return self.root / spelling.relative_to(self.source)
        return path

    def digest(self) -> str:
        """The same for copies with the same files; what is linked counts by where it leads."""
        found = hashlib.sha256()
        for folder, below, names in os.walk(self.root):
            below[:] = sorted(set(below) - {".git", "__pycache__"})
            links = [each for each in below if Path(folder, each).is_symlink()]
            for path in (Path(folder, name) for name in sorted([*names, *links])):
                found.update(f"{path.relative_to(self.root)}\0".encode("utf-8", "surrogateescape"))
                if path.is_symlink():
                    found.update(hashlib.sha256(os.fsencode(path.readlink())).digest())
                elif path.is_file():
                    found.update(_digest(path))
        return found.hexdigest()

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """``base`` with PYTHONPATH leading into the copy, and git to its own folder."""
        found = git.clean_environment(base)
        entries = filter(None, found.get("PYTHONPATH", "").split(os.pathsep))
        paths = [
            self.counterpart(Path(entry)) if entry[0] == os.sep else entry for entry in entries
        ]
        if paths:
            found["PYTHONPATH"] = os.pathsep.join(map(str, paths))
        for name in {"PWD", "OLDPWD"} & found.keys():
            found[name] = str(self.counterpart(Path(found[name])))
        return found


@contextmanager
def frozen(
    project: Project,
    script: Path,
    cwd: Path,
    commit: str | None = None,
    *,
    link: Sequence[Path] = (),
    no_link: Sequence[Path] = (),
) -> Iterator[Frozen]:
    """Copy a project as a run would, hold the copy during the body, remove it afterwards.

    Args:
        script: relative to ``cwd``, the user's working folder.
        commit: whose tracked files the copy has; None for those that the user has. Untracked
            files, data that is linked among them, are in the copy either way.

    Raises:
        UsageError: the script is not in that commit.
        NotReady: git failed, or the copy does not fit.
    """
    plan = plan_shadow(project, script, cwd, link=link, no_link=no_link)
    with slots.acquired(project.root) as slot:
        links = fill(plan, slot.tree, {}).links
        if project.git and git.available():
            _with_own_git(project.root, slot.tree)
        if commit is not None:
            _check_out(project.root, slot.tree, commit)
        linked = tuple(project.root / name for name in links)
        made = Frozen(slot.tree, project.root, linked)
        if not made.counterpart((cwd / script).absolute()).is_file():
            raise UsageError(
                f"{script}: not in {commit or 'the copy'}", "Name a commit that has this file."
            )
        yield made


def _check_out(root: Path, tree: Path, commit: str) -> None:
    """The tracked files of a commit in the place of the user's, its links as a copy has them.

    Raises:
        NotReady: git failed, or they do not fit.
    """
    try:
        kept, there = git.kept_at(tree, commit), git.staged(tree)
    except NotReady as error:
        raise _unwritten(root, commit, error) from error
    # A name of some bytes may stand for a file of any size, again and again.
    added = sum(each.size or 0 for each in kept if (each.path, each.object_id) not in there)
    refuse_too_large(added, tree, "Set INSTRUMENT_CACHE to a folder with more room.")
    try:
        git.check_out(tree, commit)
    except NotReady as error:
        raise _unwritten(root, commit, error) from error
    turned = []
    for name in (each.path for each in kept if each.is_link):
        link = tree / name
        with suppress(OSError):  # left out by a sparse checkout, or git makes no links here
            text = os.readlink(link)  # noqa: PTH115 - a Path would tidy it
            leads_to = text_of_link(text, name, str(root), str(tree))
            if leads_to != text:
                link.unlink()
                link.symlink_to(leads_to)
                turned.append(name)
    git.overlook(tree, turned)


def _unwritten(root: Path, commit: str, error: NotReady) -> NotReady:
    """Of the user's repository, where it can be looked into: the copy is gone by then."""
    told = f"commit {commit[:9]} of {root} cannot be written into a copy: {error.message}"
    return NotReady(told, f"Look what it holds: git ls-tree -r -t {commit[:9]}")


def _with_own_git(root: Path, tree: Path) -> None:
    """A git folder in the copy; of a worktree or submodule the settings named the user's files."""
    make_private_git(root, tree / ".git")
    (tree / ".git" / "config.worktree").unlink(missing_ok=True)
    escaped = str(tree).replace("\\", "\\\\").replace('"', '\\"')
    with appended(tree / ".git" / "config") as stream:
        stream.write(os.fsencode(f'\n[core]\n\tworktree = "{escaped}"\n'))
