"""Sorts a project's files into copies, links and what is left out.

Real copies are the rule, because scripts prune, truncate and overwrite through links. A link is
made only for data that would cost a download or a large copy, and every one of them is listed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from instrumentor.shared.errors import NotReady, UsageError
from instrumentor.workspace import folder_roles
from instrumentor.workspace.file_stamps import Stamp, stamp
from instrumentor.workspace.folder_roles import LARGE_BYTES, Role
from instrumentor.workspace.git_listing import Listing, list_with_git, parents

MAX_FILES = 300_000  # of a copy; more is a home folder or a data set, no project
# An ignored folder of unknown purpose is copied up to this size.
SMALL_FOLDER_FILES = 2_000
SMALL_FOLDER_BYTES = LARGE_BYTES
#: Roles of folders whose files are no input, unless they are tracked.
HIDDEN = (Role.TOOL, Role.ENVIRONMENT, Role.OUR_RUN)
LEFT_OUT = {
    Role.TOOL: "cache of a tool",
    Role.ENVIRONMENT: "environment",
    Role.OUR_RUN: "output of an earlier run",
}


class _TooLarge(Exception):
    """There is more to copy than a planner was allowed."""


class Planner(Struct):
    """Sorts the paths of one project, all relative to ``root``, into the fields below ``small``.

    One walk over the disk; what git says of a path, where it is asked, and the name of a folder
    decide together. ``anchors`` (the script, replaced files, the working folder) and what the
    options name are never hidden by the role of an enclosing folder. A ``small`` one gives up soon.
    """

    root: Path
    anchors: frozenset[str]
    link: frozenset[str]
    no_link: frozenset[str]
    small: bool = False
    copies: dict[str, int] = field(default_factory=dict)
    symlinks: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    left_out: dict[str, str] = field(default_factory=dict)
    stamps: dict[str, Stamp] = field(default_factory=dict)
    copied_bytes: int = 0

    def run(self, listing: Listing | None) -> None:
        """Sort everything.

        Args:
            listing: what git says; None where names alone decide.

        Raises:
            UsageError: a folder that is to be linked holds a file that has to be a copy.
            NotReady: git failed, or there are more files than a copy can be made of.
        """
        # The instrumented text of a file behind a link would be written into the user's own.
        for name, folder in product(sorted(self.anchors), self.link):
            if _within(name, folder):
                raise UsageError(
                    f"--link {folder} holds {name}, which has to be a copy",
                    "Link a folder that holds data only.",
                )
        try:
            self._walk("", listing)
            self.links |= self.link
            for name in self.no_link:
                self._forced(name)
        except _TooLarge as error:
            raise NotReady(
                f"{self.root} holds more than {MAX_FILES:,} files: too many for a temporary copy",
                "Link the folder with most of them (--link DIR), or put the script into a project "
                "folder of its own (git init there).",
            ) from error
        self._open_links()

    def _walk(self, top: str, listing: Listing | None) -> None:
        """Sort what is in a folder: its files, then the folders in it."""
        if top:
            self.folders.add(top)
        below = []
        found = self._entries(top)
        if top and listing is not None and any(entry.name == ".git" for entry in found):
            listing = list_with_git(self.root, top)  # a repository inside has its own rules
        for entry in found:
            name = f"{top}/{entry.name}" if top else entry.name
            if name in self.link or name in self.no_link:
                continue
            if entry.is_dir(follow_symlinks=False):
                below.append(name)
            else:
                with suppress(FileNotFoundError):
                    self._file(name, entry.stat(follow_symlinks=False), listing)
        for name in below:
            self._folder(name, listing)

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        """The entries of a folder, by name; none where it is gone or cannot be read."""
        try:
            with os.scandir(self.root / folder) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            self.folders.discard(folder)
        except PermissionError:
            self.left_out[folder] = "not readable"
        return []

    def _folder(self, name: str, listing: Listing | None) -> None:
        """Walk into a folder, or do with it what it is for."""
        role = folder_roles.role_of_folder(f"{self.root}/{name}")
        if listing is None:
            self._by_name(name, role)
        elif f"{name}/" in listing.ignored:
            self._ignored(name, role)
        elif name.endswith("/.git") or name == ".git":
            return  # a copy has a git folder of its own, see private_git.py
        elif not listing.tracked_only and (role not in HIDDEN or self._holds(name, self.anchors)):
            self._walk(name, listing)
        else:
            if name in listing.holding:
                self._walk(name, replace(listing, tracked_only=True))
            if not listing.tracked_only:
                self._leave(name, role)

    def _ignored(self, name: str, role: Role) -> None:
        """One that git ignores: a plain one is taken when it is small.

        Nothing tells whether it is an input, and a copy of it would cost time on each run.
        """
        if role is not Role.PLAIN or self._is_wanted(name):
            self._by_name(name, role)
            return
        if name.rpartition("/")[2].lower() in folder_roles.ENVIRONMENTS:
            self.left_out[name] = "environment"
            return
        inner = Planner(self.root, self.anchors, self.link, self.no_link, small=True)
        try:
            inner._walk(name, None)
        except _TooLarge:
            self.left_out[name] = "ignored by git, and neither small nor known as data"
            return
        self.copies.update(inner.copies)
        self.stamps.update(inner.stamps)
        self.symlinks |= inner.symlinks
        self.links |= inner.links
        self.folders |= inner.folders
        self.left_out.update(inner.left_out)

    def _by_name(self, name: str, role: Role) -> None:
        """One of which git says nothing."""
        if role is Role.PLAIN or (role is not Role.ENVIRONMENT and self._is_wanted(name)):
            self._walk(name, None)
        else:
            self._leave(name, role)

    def _leave(self, name: str, role: Role) -> None:
        """Link a folder, or leave it out with the reason."""
        if role is Role.DATA:
            self.links.add(name)
        elif role is Role.OUTPUT:
            self.left_out[name] = "output folder"
            self.folders.add(name)  # empty: scripts write into it without making it
        elif not name.endswith("__pycache__"):
            self.left_out[name] = LEFT_OUT[role]

    def _is_wanted(self, folder: str) -> bool:
        return any(self._holds(folder, each) for each in (self.anchors, self.link, self.no_link))

    @staticmethod
    def _holds(folder: str, wanted: Iterable[str]) -> bool:
        return any(_within(name, folder) for name in wanted)

    def _file(self, name: str, facts: os.stat_result, listing: Listing | None) -> None:
        tracked = listing is not None and name in listing.tracked
        ignored = listing is not None and name in listing.ignored
        if not tracked and self._is_nothing(name, ignored, listing):
            return
        reason = self._refused(name, facts.st_size) if ignored else ""
        if reason or not (stat.S_ISREG(facts.st_mode) or stat.S_ISLNK(facts.st_mode)):
            self.left_out[name] = reason or "not a regular file"
        elif stat.S_ISLNK(facts.st_mode):
            self._symlink(name)
        elif facts.st_size <= LARGE_BYTES or folder_roles.is_source(name) or name in self.anchors:
            self._copy(name, facts.st_size, facts)
        else:
            self._large(name, facts, tracked)

    def _is_nothing(self, name: str, ignored: bool, listing: Listing | None) -> bool:
        """Whether a file that is not tracked is not even worth a word."""
        if listing is not None and listing.tracked_only:
            return True
        if name.endswith((".pyc", ".pyo")) or (
            ignored and folder_roles.outer_role(name) is Role.TOOL
        ):
            return True
        # a work tree's or submodule's .git file would lead git to the user's repository
        return name.rpartition("/")[2] == ".git"

    def _refused(self, name: str, size: int) -> str:
        """Why an ignored file is left out; empty when it is not."""
        outer = folder_roles.outer_role(name)
        large = size > LARGE_BYTES and not folder_roles.is_source(name)
        if name in self.anchors:
            return ""
        if outer is Role.OUTPUT:
            return "ignored, in an output folder"
        written = large and folder_roles.is_written(name) and outer is not Role.DATA
        return "ignored and large" if written else ""

    def _large(self, name: str, facts: os.stat_result, tracked: bool) -> None:
        # What git tracks is an input, whatever its folder is called.
        outer = Role.PLAIN if tracked else folder_roles.outer_role(name)
        if not folder_roles.is_written(name) or outer is Role.DATA:
            self.links.add(name)
        elif outer is Role.OUTPUT:
            self.left_out[name] = "large file in an output folder"
        else:
            self._copy(name, facts.st_size, facts)

    def _open_links(self) -> None:
        """Link the content of a folder, not the folder, where part of it has to be a copy."""
        if not self.links:
            return
        holding = {parent for name in (*self.copies, *self.symlinks) for parent in parents(name)}
        waiting = [name for name in self.links if name in holding]
        while waiting:
            folder = waiting.pop()
            self.links.discard(folder)
            for child in (self.root / folder).iterdir():
                name = f"{folder}/{child.name}"
                if name in holding:
                    waiting.append(name)
                elif name not in self.copies and name not in self.symlinks:
                    self.links.add(name)

    def _forced(self, name: str) -> None:
        """``--no-link``: real copies of everything below, large files too."""
        path = self.root / name
        if path.is_dir():
            for folder, below, files in os.walk(path):
                relative = os.path.relpath(folder, self.root).replace(os.sep, "/")
                self.folders.add(relative)
                for file in (*files, *below):
                    self._forced_file(f"{relative}/{file}")
                below[:] = [b for b in below if folder_roles.role_of_name(b) is not Role.TOOL]
        elif path.is_file() and path.is_symlink():
            self._copy(name, path.stat().st_size)
        else:
            self._forced_file(name)

    def _forced_file(self, name: str) -> None:
        facts = self._facts(name)
        if facts is None or name.rpartition("/")[2] == ".git":
            return
        if stat.S_ISLNK(facts.st_mode):
            self._symlink(name)
        elif stat.S_ISREG(facts.st_mode):
            self._copy(name, facts.st_size, facts)

    def _symlink(self, name: str) -> None:
        """A link inside the project is made again.

        Through one that leads out of it the script can write: it counts as linked, so that it is
        named and watched; or it is left out, when it is named like an output folder.
        """
        if Path(os.path.realpath(self.root / name)).is_relative_to(self.root):
            self.symlinks.add(name)
        elif folder_roles.role_of_name(name.rpartition("/")[2]) is Role.OUTPUT:
            self.left_out[name] = "output folder, a link out of the project"
            self.folders.add(name)
        else:
            self.links.add(name)

    def _copy(self, name: str, size: int, facts: os.stat_result | None = None) -> None:
        mine = facts is not None and facts.st_uid == os.geteuid() and facts.st_mode & stat.S_IRUSR
        if not mine and not os.access(f"{self.root}/{name}", os.R_OK):
            self.left_out[name] = "not readable"
            return
        self.copies[name] = size
        if facts is not None:
            self.stamps[name] = stamp(facts)
        self.copied_bytes += size
        most = SMALL_FOLDER_FILES if self.small else MAX_FILES
        if len(self.copies) > most or (self.small and self.copied_bytes > SMALL_FOLDER_BYTES):
            raise _TooLarge

    def _facts(self, name: str) -> os.stat_result | None:
        try:
            return os.lstat(f"{self.root}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            return None


def _within(name: str, folder: str) -> bool:
    return name == folder or name.startswith(folder + "/")
