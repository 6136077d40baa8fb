"""Which files a project holds, as git sees them: tracked, untracked, ignored, empty folders.

Nested repositories (submodules, clones inside the tree) are asked in turn, each with its own
ignore rules.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from instrumentor.workspace import git

SUBMODULE = "160000"


@dataclass
class Listing:
    """Paths relative to the project's root, with forward slashes; ignored folders end in one."""

    tracked: set[str] = field(default_factory=set)
    untracked: set[str] = field(default_factory=set)
    ignored: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)


def list_with_git(root: Path) -> Listing:
    """List a git working tree and the repositories nested in it.

    Raises:
        NotReady: git failed.
    """
    listing = Listing()
    _list(root, "", listing)
    return listing


def _list(root: Path, prefix: str, into: Listing) -> None:
    staged = git.names(root, ["--cached", "--stage"])
    others = git.names(root, ["--others", "--exclude-standard"])
    collapsed = git.names(root, ["--others", "--exclude-standard", "--directory"])
    ignored = git.names(root, ["--others", "--ignored", "--exclude-standard", "--directory"])
    for entry in staged:
        facts, _, name = entry.partition("\t")
        if facts.startswith(SUBMODULE):
            _nested(root / name, f"{prefix}{name}/", into)
        else:
            into.tracked.add(prefix + name)
    for name in others:
        if name.endswith("/"):
            _nested(root / name, prefix + name, into)
        else:
            into.untracked.add(prefix + name)
    # For the pattern `data/*` git names the folder and each thing in it: the folder says it all.
    hidden = frozenset(name for name in ignored if name.endswith("/"))
    outermost = (n for n in ignored if not any(p in hidden for p in _parents(n) if p != n))
    into.ignored.update(prefix + name for name in outermost)
    holding = {parent for name in others for parent in _parents(name)}
    for name in collapsed:
        if name.endswith("/") and name not in holding:
            below = _folders_below(root, name, hidden)
            into.folders.update(prefix + folder for folder in below)


def _nested(folder: Path, prefix: str, into: Listing) -> None:
    if (folder / ".git").exists():
        _list(folder, prefix, into)
    else:
        into.folders.add(prefix.rstrip("/"))  # a submodule that was never fetched


def _parents(name: str) -> list[str]:
    parts = name.rstrip("/").split("/")
    ends = [name] if name.endswith("/") else []
    return ends + ["/".join(parts[:n]) + "/" for n in range(1, len(parts))]


def _folders_below(root: Path, name: str, ignored: frozenset[str]) -> list[str]:
    """Folders that hold no file git would list: kept, since a script may write into them."""
    found = []
    waiting = [name]
    while waiting:
        folder = waiting.pop()
        found.append(folder.rstrip("/"))
        with os.scandir(root / folder) as entries:
            below = [f"{folder}{e.name}/" for e in entries if e.is_dir(follow_symlinks=False)]
        waiting += [b for b in below if b not in ignored and not b.endswith("/.git/")]
    return found
