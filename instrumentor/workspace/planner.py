"""Sorts a project's files into copies, links and what is left out.

Real copies are the rule, because scripts prune, truncate and overwrite through links. A link is
made only for data that would cost a download or a large copy, and every one of them is listed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from instrumentor.errors import NotReady, UsageError
from instrumentor.workspace import names
from instrumentor.workspace.listing import Listing
from instrumentor.workspace.names import LARGE_BYTES, Role

MAX_FILES = 300_000
SMALL_FOLDER_FILES = 2_000
SMALL_FOLDER_BYTES = LARGE_BYTES


@dataclass
class Planner:
    """Sorts the paths of one project, all relative to ``root``, into the fields below.

    ``anchors`` (the script, replaced files, the working folder) and what the options name are
    never hidden by the role of an enclosing folder.
    """

    root: Path
    anchors: frozenset[str]
    link: frozenset[str]
    no_link: frozenset[str]
    copies: dict[str, int] = field(default_factory=dict)
    symlinks: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    left_out: dict[str, str] = field(default_factory=dict)
    real_folders: dict[str, bool] = field(default_factory=dict)

    def check(self, anchors: Iterable[str]) -> None:
        """Refuse options that contradict the run."""
        for name in anchors:
            inside = next((folder for folder in self.link if _within(name, folder)), None)
            if inside is not None:
                raise UsageError(
                    f"--link {inside} holds {name}, which has to be a copy",
                    "Link a folder that holds data only.",
                )

    def add_listing(self, listing: Listing) -> None:
        """Sort what git listed."""
        for name in listing.tracked:
            self._file(name, tracked=True)
        hidden = self._hidden(listing.untracked - listing.tracked)
        for name in listing.untracked - listing.tracked:
            if hidden.isdisjoint(_parents(name)):
                self._file(name, tracked=False)
        for name in listing.ignored:
            if name.endswith("/"):
                self._ignored_folder(name.rstrip("/"))
            else:
                self._ignored_file(name)
        self.folders |= listing.folders
        self.links |= self.link
        for name in self.no_link:
            self._forced(name)
        self._open_links()

    def _open_links(self) -> None:
        """Link the content of a folder, not the folder, where part of it has to be a copy."""
        holding = {parent for name in (*self.copies, *self.symlinks) for parent in _parents(name)}
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

    def _hidden(self, untracked: Iterable[str]) -> set[str]:
        """Untracked folders that hold no input: environments, tool caches, our earlier runs."""
        reasons: dict[str, str] = {}
        for name in untracked:
            folder, _, last = name.rpartition("/")
            for parent in _parents(name):
                if names.role_of_name(parent.rpartition("/")[2]) is Role.TOOL:
                    reasons[parent] = "cache of a tool"
                    break
            if last == "pyvenv.cfg" or "conda-meta" in folder.split("/"):
                reasons[folder.partition("conda-meta")[0].rstrip("/")] = "environment"
            elif last in names.OUR_RECORDS and folder and names.is_our_run(self.root / folder):
                reasons[folder] = "output of an earlier run"
        kept = {f: r for f, r in reasons.items() if f and not self._forced_or_anchor(f)}
        self.left_out.update((f, r) for f, r in kept.items() if not f.endswith("__pycache__"))
        return set(kept)

    def _forced_or_anchor(self, folder: str) -> bool:
        return folder in self.no_link or any(_within(a, folder) for a in self.anchors)

    def _below_option(self, name: str) -> bool:
        return any(_within(name, option) for option in self.link | self.no_link)

    def _file(self, name: str, *, tracked: bool) -> None:
        if self._below_option(name) or not self._is_real(name.rpartition("/")[0]):
            return
        facts = self._facts(name)
        if facts is None or stat.S_ISDIR(facts.st_mode):
            return  # deleted on disk, or a folder now stands in its place
        if stat.S_ISLNK(facts.st_mode):
            self._symlink(name)
        elif not stat.S_ISREG(facts.st_mode):
            self.left_out[name] = "not a regular file"
        elif facts.st_size <= LARGE_BYTES or names.is_source(name) or name in self.anchors:
            self._copy(name, facts.st_size)
        elif not names.is_written(name):
            self.links.add(name)
        elif not tracked and names.outer_role(name) is Role.OUTPUT:
            self.left_out[name] = "large file in an output folder"
        elif not tracked and names.outer_role(name) is Role.DATA:
            self.links.add(name)
        else:
            self._copy(name, facts.st_size)

    def _ignored_file(self, name: str) -> None:
        outer = names.outer_role(name)
        if outer is Role.TOOL or name.endswith((".pyc", ".pyo")):
            return
        facts = self._facts(name)
        if facts is None or self._below_option(name):
            return
        large = facts.st_size > LARGE_BYTES and not names.is_source(name)
        if name in self.anchors:
            self._copy(name, facts.st_size)
        elif outer is Role.OUTPUT:
            self.left_out[name] = "ignored, in an output folder"
        elif large and names.is_written(name) and outer is not Role.DATA:
            self.left_out[name] = "ignored and large"
        else:
            self._file(name, tracked=False)

    def _ignored_folder(self, name: str) -> None:
        if self._below_option(name):
            return
        role = names.role_of_folder(self.root / name)
        wanted = (*self.anchors, *self.link, *self.no_link)
        if role is not Role.ENVIRONMENT and any(_within(w, name) for w in wanted):
            self.walk(name, bounded=False)
        elif role is Role.PLAIN and name.rpartition("/")[2].lower() in names.ENVIRONMENTS:
            self.left_out[name] = "environment"
        else:
            self._folder(name, role, bounded=True)

    def _folder(self, name: str, role: Role, *, bounded: bool) -> None:
        if role is Role.PLAIN:
            self.walk(name, bounded=bounded)
        elif role is Role.DATA:
            self.links.add(name)
        elif role is Role.OUTPUT:
            self.left_out[name] = "output folder"
            self.folders.add(name)
        elif role is Role.OUR_RUN:
            self.left_out[name] = "output of an earlier run"
        elif not name.endswith("__pycache__"):
            self.left_out[name] = "environment" if role is Role.ENVIRONMENT else "cache of a tool"

    def walk(self, top: str, *, bounded: bool) -> None:
        """Take a folder that git says nothing about, judging what is in it by name.

        Bounded: a folder that is not small is left out as a whole, because nothing tells whether
        it is an input, and a copy of it would cost time on each run.
        """
        inner = Planner(self.root, self.anchors, self.link, self.no_link)
        inner.real_folders = self.real_folders
        for folder in inner._descend(top):
            if bounded and (
                len(inner.copies) > SMALL_FOLDER_FILES
                or sum(inner.copies.values()) > SMALL_FOLDER_BYTES
            ):
                self.left_out[top] = "ignored by git, and neither small nor known as data"
                return
            inner.folders.add(folder)
        self.copies.update(inner.copies)
        self.symlinks |= inner.symlinks
        self.links |= inner.links
        self.folders |= inner.folders
        self.left_out.update(inner.left_out)

    def _descend(self, top: str) -> Iterator[str]:
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            with os.scandir(self.root / folder) as entries:
                found = sorted(entries, key=lambda e: e.name)
            for entry in found:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if name in self.link:
                    self.links.add(name)
                elif name in self.no_link:
                    self._forced(name)
                elif not entry.is_dir(follow_symlinks=False):
                    self._walked_file(name)
                elif self._enters(name):
                    waiting.append(name)
            if folder:
                yield folder

    def _enters(self, name: str) -> bool:
        """Whether the walk goes into the folder; if not, what it is for decides."""
        role = names.role_of_folder(self.root / name)
        if role is Role.PLAIN:
            return True
        wanted = (*self.anchors, *self.link, *self.no_link)
        if role is not Role.ENVIRONMENT and any(_within(w, name) for w in wanted):
            return True
        self._folder(name, role, bounded=False)
        return False

    def _walked_file(self, name: str) -> None:
        # a work tree's or submodule's .git file would lead git to the user's repository
        if not name.endswith((".pyc", ".pyo")) and name.rpartition("/")[2] != ".git":
            self._file(name, tracked=False)

    def _forced(self, name: str) -> None:
        """``--no-link``: real copies of everything below, large files too."""
        path = self.root / name
        if path.is_dir():
            for folder, below, files in os.walk(path):
                relative = os.path.relpath(folder, self.root).replace(os.sep, "/")
                self.folders.add(relative)
                for file in (*files, *below):
                    self._forced_file(f"{relative}/{file}")
                below[:] = [b for b in below if names.role_of_name(b) is not Role.TOOL]
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
            self._copy(name, facts.st_size)

    def _symlink(self, name: str) -> None:
        """A link inside the project is made again.

        Through one that leads out of it the script can write: it counts as linked, so that it is
        named and watched; or it is left out, when it is named like an output folder.
        """
        if Path(os.path.realpath(self.root / name)).is_relative_to(self.root):
            self.symlinks.add(name)
        elif names.role_of_name(name.rpartition("/")[2]) is Role.OUTPUT:
            self.left_out[name] = "output folder, a link out of the project"
            self.folders.add(name)
        else:
            self.links.add(name)

    def _copy(self, name: str, size: int) -> None:
        if not os.access(self.root / name, os.R_OK):
            self.left_out[name] = "not readable"
            return
        self.copies[name] = size
        if len(self.copies) > MAX_FILES:
            raise NotReady(
                f"{self.root} holds more than {MAX_FILES:,} files: too many for a temporary copy",
                "Link the folder with most of them (--link DIR), or put the script into a project "
                "folder of its own (git init there).",
            )

    def _facts(self, name: str) -> os.stat_result | None:
        try:
            return os.lstat(f"{self.root}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _is_real(self, folder: str) -> bool:
        """Whether no part of the folder's path has become a symbolic link on disk."""
        if not folder:
            return True
        known = self.real_folders.get(folder)
        if known is None:
            known = not (self.root / folder).is_symlink() and self._is_real(
                folder.rpartition("/")[0]
            )
            self.real_folders[folder] = known
        return known


def _within(name: str, folder: str) -> bool:
    return name == folder or name.startswith(folder + "/")


def _parents(name: str) -> Iterator[str]:
    end = name.find("/")
    while end != -1:
        yield name[:end]
        end = name.find("/", end + 1)
