"""The one way to the git program: what a repository configures to be run is not run.

No hook, file system monitor, filter, external diff, pager or transport; no optional lock, so that
the index stays as it is, byte for byte. Only :func:`write` changes something, for runs in place:
objects and refs of our own.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from instrumentor.shared.errors import NotReady

# What `git rev-parse --local-env-vars` lists: git exports it inside hooks and aliases, and it would
# point our calls at another repository.
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
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)

# The first is git 2.36's word for it, the second the one before.
DURABLE = ("-c", "core.fsync=loose-object,reference", "-c", "core.fsyncObjectFiles=true")

# Hooks run at ref updates and index writes, a monitor at every status: neither is asked for.
_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-pager")
_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    # An object that a partial clone lacks is not fetched, by whatever program that would be.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
ANSWER_S = 120.0
#: What git reads of a repository whatever it is asked (gitrepository-layout).
_READ = (
    *("HEAD", "config", "config.worktree", "commondir", "index", "packed-refs", "shallow"),
    *("info/exclude", "info/attributes", "info/grafts", "objects/info/alternates"),
)
_READ_BESIDE = (".gitignore", ".gitattributes", ".gitmodules", ".mailmap")
_LOCKED = re.compile(r"Unable to create '(?P<file>.+\.lock)': File exists")


@cache
def available() -> bool:
    """Whether a git program is on PATH."""
    return shutil.which("git") is not None


def clean_environment(base: Mapping[str, str]) -> dict[str, str]:
    """``base`` without the variables that tie git to one repository."""
    return {key: value for key, value in base.items() if key not in LOCAL_VARIABLES}


def read(root: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Standard output of ``git ARGUMENTS`` in ``root``; NotReady quotes git's message."""
    return _call(root, arguments, stdin, ())


def write(root: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Like :func:`read`, for a command that adds an object or a ref: they survive a power loss."""
    return _call(root, arguments, stdin, DURABLE)


def state(root: Path) -> tuple[str | None, bool | None]:
    """Commit of a working tree, and whether tracked files have changes; None where unknown."""
    commit = dirty = None
    try:
        commit = read(root, "rev-parse", "--verify", "HEAD").decode().strip()
        options = ("--porcelain", "-z", "--untracked-files=no", "--no-renames")
        # A submodule's own tree is not looked into: its filters are not known here.
        status = ("status", *options, "--ignore-submodules=dirty")
        dirty = bool(_call(root, status, b"", _no_filters(root)))
    except (NotReady, OSError):
        pass
    return commit, dirty


def _no_filters(root: Path) -> list[str]:
    """Settings under which files are brought into git's form by no program: by line ends alone."""
    listed = read(root, "config", "--null", "--name-only", "--list").split(b"\0")
    keys = (os.fsdecode(key) for key in listed if key.lower().startswith(b"filter."))
    settings = []
    for name in dict.fromkeys(key.rpartition(".")[0] for key in keys):
        if "=" in name or "\n" in name:  # not to be told apart on a command line
            raise NotReady(f"the git filter {name!r} cannot be switched off", "Rename it.")
        for setting in ("clean=", "smudge=", "process=", "required=false"):
            settings += ["-c", f"{name}.{setting}"]
    return settings


def _call(root: Path, arguments: Sequence[str], stdin: bytes, settings: Sequence[str]) -> bytes:
    _refuse_planted(root)
    try:
        done = subprocess.run(
            ["git", *_SAFE, *settings, *arguments],
            cwd=root,
            env={**clean_environment(os.environ), **_ENVIRONMENT},
            input=stdin,
            capture_output=True,
            check=False,
            timeout=ANSWER_S,
        )
    except subprocess.TimeoutExpired as error:
        raise NotReady(
            f"git {arguments[0]} does not answer in {root} ({ANSWER_S:.0f} s)",
            "Look for pipes in the repository: find . -type p",
        ) from error
    if done.returncode != 0:
        raise _failed(root, arguments[0], done.stderr.decode(errors="replace"))
    return done.stdout


def _refuse_planted(root: Path) -> None:
    """Git waits for a pipe, and reads a device to its end, which an archive can bring."""
    above = (folder for folder in (root, *root.parents) if (folder / ".git").exists())
    folder = next(above, root)
    for path in (*(folder / ".git" / name for name in _READ), *(folder / n for n in _READ_BESIDE)):
        try:
            kind = path.stat().st_mode
        except OSError:
            continue
        if not stat.S_ISREG(kind):
            raise NotReady(f"{path} is not a regular file: git is not asked", "Remove it.")


def _failed(root: Path, command: str, told: str) -> NotReady:
    locked = _LOCKED.search(told)
    if locked:
        return NotReady(
            f"git {command} failed in {root}: {locked['file']} exists",
            "Wait for the git that is running there; if there is none, one was killed: "
            f"rm {shlex.quote(locked['file'])}",
        )
    lines = told.strip().splitlines() or ["no message"]
    fatal = next((line for line in lines if line.startswith("fatal: ")), lines[-1])
    return NotReady(
        f"git {command} failed in {root}: {fatal}",
        "Check that `git status` works there. A folder owned by somebody else needs "
        f"`git config --global --add safe.directory {root}`.",
    )


def common_folder(folder: Path) -> Path | None:
    """Git's folder for a working tree, where worktrees keep their objects and refs, too.

    None outside of a working tree.

    Raises:
        NotReady: git does not accept the repository.
    """
    try:
        inside, common = read(
            folder, "rev-parse", "--is-inside-work-tree", "--git-common-dir"
        ).splitlines()
    except NotReady as error:
        if "not a git repository" not in error.message:
            raise
        return None
    return (folder / os.fsdecode(common)).resolve() if inside == b"true" else None


def names(root: Path, arguments: Sequence[str]) -> list[str]:
    """Paths that ``git ls-files -z ARGUMENTS`` lists, relative to ``root``."""
    listed = read(root, "ls-files", "-z", *arguments)
    return [os.fsdecode(name) for name in listed.split(b"\0") if name]


def commit_of(root: Path, ref: str) -> str:
    """The commit that a branch, tag or other name of one stands for.

    Raises:
        NotReady: there is none of that name.
    """
    found = read(root, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
    return found.decode().strip()


def check_out(tree: Path, commit: str) -> None:
    """Give a copy with a git folder of its own (``tree/.git``) the tracked files of a commit.

    What is not tracked stays. A symbolic link is replaced, never followed.

    Raises:
        NotReady: git failed; an object of the commit may be missing.
    """
    # Of a worktree or submodule the settings name the user's files: ours win over them.
    own = (f"--git-dir={tree / '.git'}", f"--work-tree={tree}")
    settings = (*own, *_no_filters(tree))
    _call(tree, ("read-tree", "--reset", "-u", commit), b"", settings)
    _call(tree, ("update-ref", "--no-deref", "HEAD", commit), b"", settings)
