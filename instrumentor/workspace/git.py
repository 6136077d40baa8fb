"""Questions to the git program: no lock is taken, no index refreshed.

Only :func:`write` changes something, for runs in place: objects and refs of our own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from instrumentor.errors import NotReady

# What git exports inside hooks and aliases; it would point our calls at another repository.
LOCAL_VARIABLES = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)

# The first is git 2.36's word for it, the second the one before.
DURABLE = ("-c", "core.fsync=loose-object,reference", "-c", "core.fsyncObjectFiles=true")


@cache
def available() -> bool:
    """Whether a git program is on PATH."""
    return shutil.which("git") is not None


def clean_environment(base: Mapping[str, str]) -> dict[str, str]:
    """``base`` without the variables that tie git to one repository."""
    return {key: value for key, value in base.items() if key not in LOCAL_VARIABLES}


def read(root: Path, *arguments: str, stdin: bytes | None = None) -> bytes:
    """Standard output of ``git ARGUMENTS`` in ``root``.

    Raises:
        NotReady: git failed; its message is quoted.
    """
    return _call(root, arguments, stdin or b"", ())


def _call(root: Path, arguments: Sequence[str], stdin: bytes, settings: Sequence[str]) -> bytes:
    environment = clean_environment(os.environ)
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    environment["LC_ALL"] = "C"
    done = subprocess.run(
        ["git", "-c", "core.fsmonitor=false", *settings, *arguments],
        cwd=root,
        env=environment,
        input=stdin,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise NotReady(
            f"git {arguments[0]} failed in {root}: {words[-1] if words else 'no message'}",
            "See that `git status` works there. A folder owned by somebody else needs "
            f"`git config --global --add safe.directory {root}`.",
        )
    return done.stdout


def write(root: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Like :func:`read`, for a command that adds an object or a ref: they survive a power loss.

    Raises:
        NotReady: git failed; its message is quoted.
    """
    return _call(root, arguments, stdin, DURABLE)


def names(root: Path, arguments: Sequence[str]) -> list[str]:
    """Paths that ``git ls-files -z ARGUMENTS`` lists, relative to ``root``."""
    listed = read(root, "ls-files", "-z", *arguments)
    return [os.fsdecode(name) for name in listed.split(b"\0") if name]
