"""Proof that a run left the user's files as they were: bytes, mode and mtime."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from instrumentor.shared.project import Project
from instrumentor.workspace import git
from instrumentor_analysis.shared.files import read_bytes


class Fingerprint(Struct, frozen=True):
    """A file before the run; ``blob`` is git's object id of its content when it was clean."""

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
        """Fingerprint the files that :meth:`verify` compares: the replaced ones, the script."""
        real = dict.fromkeys((project.root / path).resolve() for path in files)
        with_git = project.git and git.available()
        return cls(project.root, tuple(_fingerprint(path, with_git) for path in real))

    def verify(self) -> tuple[str, ...]:
        """Differences from before the run, one sentence each; empty when there is none."""
        return tuple(text for before in self.files for text in self._differences(before))

    def _differences(self, before: Fingerprint) -> list[str]:
        path = before.path
        name = path.relative_to(self.root) if path.is_relative_to(self.root) else path
        if not os.path.lexists(path):
            return [f"{name} is gone"]
        if not stat.S_ISREG(path.lstat().st_mode):
            return [f"{name} is no longer a regular file"]
        now = _fingerprint(path)
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


def _fingerprint(path: Path, with_git: bool = False) -> Fingerprint:
    facts, data = path.stat(), read_bytes(path)
    blob = _clean_blob(path, data) if with_git else None
    return Fingerprint(path, _digest("sha256", data), facts.st_mode, facts.st_mtime_ns, blob)


def _clean_blob(path: Path, data: bytes) -> str | None:
    """Git's object id of a file whose content is git's: as it is, or in git's line ends."""
    listed = git.names(path.parent, ["--stage", f":(literal){path.name}"])
    blob = listed[0].split(" ")[1] if listed else ""
    # Computed here: `git hash-object` would run the filters that the repository configures.
    kind = "sha1" if len(blob) == 40 else "sha256"
    texts = data, data.replace(b"\r\n", b"\n")
    known = (_digest(kind, b"blob %d\0" % len(each) + each) for each in texts)
    return blob if blob in known else None


def _digest(kind: str, data: bytes) -> str:
    # Some machines allow SHA-1 for nothing else.
    return hashlib.new(kind, data, usedforsecurity=False).hexdigest()
