"""Proof that a run left the user's files as they were: bytes, mode and mtime."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from instrumentor.errors import NotReady
from instrumentor.project import Project
from instrumentor.workspace import git


class Fingerprint(Struct, frozen=True):
    """A file before the run.

    Attributes:
        path: absolute.
        sha256: of its bytes.
        mode: permission bits and file type.
        mtime_ns: modification time, ns.
        blob: git's object id of the content when the file was clean, else None.
    """

    path: Path
    sha256: str
    mode: int
    mtime_ns: int
    blob: str | None


class Originals(Struct, frozen=True):
    """Fingerprints of the user's files, taken before the run."""

    root: Path
    files: tuple[Fingerprint, ...]

    @classmethod
    def take(cls, project: Project, files: Iterable[Path]) -> Originals:
        """Fingerprint files before the run.

        Args:
            project: their project.
            files: compared in full by :meth:`verify`: the replaced ones, the script.
        """
        real = tuple(dict.fromkeys((project.root / path).resolve() for path in files))
        blobs = _clean_blobs(real) if project.git and git.available() else {}
        prints = tuple(_fingerprint(path, blobs.get(path)) for path in real)
        return cls(project.root, prints)

    def verify(self) -> tuple[str, ...]:
        """Differences from before the run, one sentence each; empty when there is none."""
        return tuple(text for before in self.files for text in self._differences(before))

    def _differences(self, before: Fingerprint) -> list[str]:
        name = _shown(before.path, self.root)
        if not os.path.lexists(before.path):
            return [f"{name} is gone"]
        if not stat.S_ISREG(before.path.lstat().st_mode):
            return [f"{name} is no longer a regular file"]
        now = _fingerprint(before.path, None)
        found = []
        if now.sha256 != before.sha256:
            known = f"git's blob {before.blob[:12]}" if before.blob else "its uncommitted content"
            found.append(f"{name} differs from {known}, which it held before the run")
        if now.mode != before.mode:
            modes = f"{stat.S_IMODE(before.mode):04o} to {stat.S_IMODE(now.mode):04o}"
            found.append(f"{name}: mode changed from {modes}")
        if now.mtime_ns != before.mtime_ns:
            found.append(f"{name}: mtime changed from {before.mtime_ns} to {now.mtime_ns} ns")
        return found


def _fingerprint(path: Path, blob: str | None) -> Fingerprint:
    facts = path.stat()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Fingerprint(path, digest, facts.st_mode, facts.st_mtime_ns, blob)


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _clean_blobs(paths: Iterable[Path]) -> dict[Path, str]:
    """Blob ids of the files whose content is git's: as it is, or in git's line ends."""
    found: dict[Path, str] = {}
    for path in paths:
        listed = git.names(path.parent, ["--stage", "--", f":(literal){path.name}"])
        blob = listed[0].split(" ")[1] if listed else ""
        if blob and _is_of(path, blob):
            found[path] = blob
    return found


def _is_of(path: Path, blob: str) -> bool:
    as_it_is = git.read(path.parent, "hash-object", "--no-filters", "--", path.name)
    if as_it_is.decode().strip() == blob:
        return True
    # Unlike `git diff`, it leaves the index of the user's repository alone.
    options = ("status", "--porcelain", "--untracked-files=no", "--no-renames")
    try:
        told = git.converted(path.parent, *options, "--", f":(literal){path.name}")
    except NotReady:
        return False
    return told[1:2] in (b"", b" ")
