"""What git says of the files of one repository: which are tracked, and which are ignored."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from instrumentor.workspace import git


class Listing(Struct, frozen=True, dict=True):
    """Paths with forward slashes, relative to the project's root.

    Attributes:
        tracked: files, and the folders of submodules.
        ignored: what is ignored as a whole; folders end in a slash.
        tracked_only: nothing else below is of interest.
    """

    tracked: frozenset[str]
    ignored: frozenset[str]
    tracked_only: bool = False

    @cached_property
    def holding(self) -> frozenset[str]:
        """Folders with something tracked in them."""
        return self.tracked | {parent for name in self.tracked for parent in parents(name)}


def list_with_git(root: Path, folder: str = "") -> Listing:
    """Ask the repository in a folder of the project; one inside of another has its own rules."""

    def named(*options: str) -> frozenset[str]:
        names = git.names(root / folder, options)
        return frozenset(f"{folder}/{name}" if folder else name for name in names)

    ignored = named("--others", "--ignored", "--exclude-standard", "--directory")
    return Listing(named("--cached"), ignored)


def parents(name: str) -> Iterator[str]:
    """The folders around a path, the outermost first."""
    end = name.find("/")
    while end != -1:
        yield name[:end]
        end = name.find("/", end + 1)
