"""The one way to git, through GitPython: what a repository configures to be run is not run.

No hook, file system monitor, filter, external diff or transport, and no pager, since it writes to
no terminal; no optional lock, so that the index stays as it is, byte for byte. Only :func:`write`
changes something, for runs in place: objects and refs of our own.
"""

from __future__ import annotations

import os
import pwd
import re
import resource
import select
import selectors
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from importlib import import_module
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

from instrumentor.shared.errors import NotReady
from instrumentor.workspace import git_files

# What `git rev-parse --local-env-vars` lists: git exports it inside hooks and aliases, and it would
# point our calls at another repository.
LOCAL_VARIABLES = frozenset(
    {
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
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)

# The first is git 2.36's word for it, the second the one before.
DURABLE = ("-c", "core.fsync=loose-object,reference", "-c", "core.fsyncObjectFiles=true")

# Hooks run at ref updates and index writes, a monitor at every status: neither is asked for.
# Submodules are left alone: a copy need not have their repositories.
_SAFE = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "submodule.recurse=false"),
    # Before git 2.45, what is to fetch an object that a partial clone lacks first writes into the
    # repository's settings: it ends at this one, which nothing else reads.
    *("-c", "fetch.parallel=-1"),
)
_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    # An object that a partial clone lacks is not fetched, by whatever program that would be.
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}
#: How long git may take before somebody looks for what it waits for, and in all, seconds.
SOON_S = 2.0
ANSWER_S = 120.0
#: What git may take for itself: a tree of a few objects can stand for any number of files.
DATA_BYTES = 4 << 30
#: What git may say: the names of a million files, or the content of one.
ANSWER_BYTES = 64 << 20
_ERROR_BYTES = 64 << 10  # of its errors, the last
_READ_BYTES = 64 << 10
_MOST_FILES = 20  # of settings
#: Distributions, and the modules that an import of GitPython takes from them.
_GITPYTHON = {"GitPython": "git", "gitdb": "gitdb", "smmap": "smmap"}
_GITPYTHON_VARIABLES = ("GIT_PYTHON_GIT_EXECUTABLE", "GIT_PYTHON_REFRESH")
_LOCKED = re.compile(r"Unable to create '(?P<file>.{1,4096}\.lock)': File exists")


@cache
def available() -> bool:
    """Whether a git program is on PATH."""
    return shutil.which("git") is not None


class _TooLong(Exception):
    """An answer of more than ANSWER_BYTES."""


def clean_environment(base: Mapping[str, str]) -> dict[str, str]:
    """``base`` without the variables that tie git to one repository."""
    return {key: value for key, value in base.items() if key not in LOCAL_VARIABLES}


def read(root: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Standard output of ``git ARGUMENTS`` in ``root``; NotReady quotes git's message."""
    return _call(root, arguments, stdin, ())


def write(root: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Like :func:`read`, for a command that adds an object or a ref: they survive a power loss.

    Nothing is written behind a link that leads out of git's folders. Root writes as the user whom
    the git folder ``root`` belongs to, so that all in it stays that user's.
    """
    git_files.refuse_astray(root)
    return _call(root, arguments, stdin, DURABLE, _owner_of(root))


class _User(Struct, frozen=True):
    """As whom git runs where that is somebody else."""

    user: int
    group: int

    @property
    def named(self) -> str:
        """As `sudo -u` takes it."""
        try:
            return pwd.getpwuid(self.user).pw_name
        except KeyError:  # in a container, where the owner has no account
            return f"#{self.user}"

    def remedy(self, root: Path) -> str:
        """What can be done where git cannot work as this user."""
        return (
            "That user must be able to reach and to write it; what in it is somebody else's shows "
            f"find {shlex.quote(str(root))} '!' -uid {self.user}; a run as that user begins with "
            f"sudo -u {shlex.quote(self.named)}."
        )


def _owner_of(root: Path) -> _User | None:
    """Whom a git folder belongs to, where this is root and that somebody else; else None."""
    if os.geteuid() != 0:
        return None
    try:
        facts = root.lstat()
    except OSError:
        return None  # git says why
    return _User(facts.st_uid, facts.st_gid) if facts.st_uid != 0 else None


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


def has_parent(root: Path) -> bool:
    """Whether a commit before the last one is there: not in a new repository or a shallow clone."""
    try:
        return bool(read(root, "rev-parse", "--verify", "--quiet", "HEAD~1"))
    except (NotReady, OSError):
        return False


def _no_filters(root: Path) -> list[str]:
    """Settings under which files are brought into git's form by no program: by line ends alone."""
    listed = read(root, "config", "--null", "--name-only", "--list").split(b"\0")
    keys = (os.fsdecode(key) for key in listed if key.startswith(b"filter."))
    settings = []
    for name in dict.fromkeys(key.rpartition(".")[0] for key in keys):
        if "=" in name:  # not to be told apart on a command line
            raise NotReady(f"the git filter {name!r} cannot be switched off", "Rename it.")
        for setting in ("clean=", "smudge=", "process=", "required=false"):
            settings += ["-c", f"{name}.{setting}"]
    return settings


def _call(
    root: Path,
    arguments: Sequence[str],
    stdin: bytes,
    settings: Sequence[str],
    user: _User | None = None,
) -> bytes:
    git_files.refuse_endless(root)
    try:
        status, told, error = _answer(
            ["git", "-C", str(root), *_SAFE, *settings, *arguments], stdin, root, user
        )
    except OSError as failed:
        if user is not None:  # no right to become that user, or git is closed to it
            raise NotReady(
                f"git cannot be started as user {user.named}, the owner of {root}: {failed}",
                user.remedy(root),
            ) from None
        raise NotReady(
            f"git cannot be started: {failed}", "Check that `git version` works."
        ) from None
    except _TooLong:
        raise NotReady(
            f"git {_verb(arguments)} says more than {ANSWER_BYTES >> 20} MiB in {root}",
            "No repository that can be worked with is as large; look what it holds: git ls-files",
        ) from None
    if status is None:
        raise NotReady(
            f"git {_verb(arguments)} does not answer in {root} ({ANSWER_S:.0f} s)",
            "Look for pipes in the repository: find . -type p",
        )
    if status != 0:
        raise _failed(root, _verb(arguments), error, user)
    return told


def _verb(arguments: Sequence[str]) -> str:
    """What git is asked for, behind the options that say where; each is one word."""
    return next(word for word in arguments if not word.startswith("-"))


def _answer(
    words: Sequence[str], stdin: bytes, root: Path | None, user: _User | None = None
) -> tuple[int | None, bytes, str]:
    """Exit status (None: no answer in time), standard output, and what was said of errors.

    However it ends, by Ctrl-C too, git has ended before.

    Args:
        root: where a pipe may lie for which git waits; None where nobody looks for one.
        user: as whom git runs; None for this user.
    """
    # GitPython hands on every variable, and can only add to them.
    tied = not LOCAL_VARIABLES.isdisjoint(os.environ)
    start = _by_subprocess if tied or _gitpython() is None else _by_gitpython
    more = {"user": user.user, "group": user.group, "extra_groups": []} if user else {}
    with ExitStack() as lent:
        if user:  # in many containers root may bound no process of another: it has our bounds
            own = resource.prlimit(0, resource.RLIMIT_DATA)
            lent.callback(resource.prlimit, 0, resource.RLIMIT_DATA, own)
            _bound(0)
        started = start(words, **more)  # GitPython's ends git as soon as nothing refers to it
    process: subprocess.Popen[bytes] = getattr(started, "proc", started)
    try:
        if not user:
            _bound(process.pid)
        told, error = _told(process, stdin, root)
    except subprocess.TimeoutExpired:
        return None, b"", ""
    finally:
        _end(process)
    return process.returncode, told, error.decode(errors="replace")


def _bound(pid: int) -> None:
    """Let git take no more memory of its own; what it maps of files does not count.

    Args:
        pid: its process, or 0 for this one, whose limits it then has from its start.
    """
    with suppress(ProcessLookupError):  # it has ended
        soft, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
        if soft == resource.RLIM_INFINITY or soft > DATA_BYTES:
            resource.prlimit(pid, resource.RLIMIT_DATA, (DATA_BYTES, hard))


def _told(process: subprocess.Popen[bytes], stdin: bytes, root: Path | None) -> tuple[bytes, bytes]:
    """All of standard output, and the end of the errors.

    Raises:
        TimeoutExpired: git has not ended in time.
        _TooLong: it goes on and on.
        NotReady: it waits for a pipe in ``root``.
    """
    began, looked = time.monotonic(), root is None
    talk = _Talk(process, stdin)
    while talk.goes_on((ANSWER_S if looked else SOON_S) - (time.monotonic() - began)):
        passed = time.monotonic() - began
        if passed > ANSWER_S:
            raise subprocess.TimeoutExpired(process.args, ANSWER_S)
        if root is not None and not looked and passed > SOON_S:
            git_files.refuse_waited_for(root, _named(root))
            looked = True
    process.wait(ANSWER_S)
    return bytes(talk.told), bytes(talk.error)


class _Talk:
    """What goes to a process and comes from it, at once, so that neither waits for the other.

    Not Popen.communicate(): what it takes in has no limit.
    """

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes) -> None:
        self.told, self.error = bytearray(), bytearray()
        self._process, self._rest = process, memoryview(stdin)
        self._streams = selectors.PollSelector()
        assert process.stdin and process.stdout and process.stderr
        self._streams.register(process.stdin, selectors.EVENT_WRITE, self._give)
        self._streams.register(process.stdout, selectors.EVENT_READ, self._listen)
        self._streams.register(process.stderr, selectors.EVENT_READ, self._listen_to_errors)

    def goes_on(self, patience_s: float) -> bool:
        """Take and give what can be now; whether any stream is open still."""
        for key, _ in self._streams.select(max(patience_s, 0.0)):
            if not key.data(key.fd):
                self._streams.unregister(key.fileobj)
                if key.fileobj is self._process.stdin:
                    self._process.stdin.close()
        return bool(self._streams.get_map())

    def _give(self, stream: int) -> bool:
        try:  # as much as a pipe that is ready takes without making us wait
            given = os.write(stream, self._rest[: select.PIPE_BUF]) if self._rest else 0
        except BrokenPipeError:
            return False
        self._rest = self._rest[given:]
        return bool(self._rest)

    def _listen(self, stream: int) -> bool:
        more = os.read(stream, _READ_BYTES)
        self.told += more
        if len(self.told) > ANSWER_BYTES:
            raise _TooLong
        return bool(more)

    def _listen_to_errors(self, stream: int) -> bool:
        more = os.read(stream, _READ_BYTES)
        self.error += more
        del self.error[:-_ERROR_BYTES]
        return bool(more)


def _named(root: Path) -> Iterator[Path]:
    """What a repository's settings may mean by a path; those of included files count, too."""
    files = [own / "config" for own in git_files.git_folders(root)]
    files += [file.with_name("config.worktree") for file in files]
    for file in files:
        if not file.is_file():
            continue
        # Not from within the repository, whose settings it would read, too.
        words = ("config", "--file", str(file.absolute()), "--null", "--list")
        _, told, _ = _answer(("git", "-C", "/", *words), b"", None)
        for setting in os.fsdecode(told).split("\0"):
            key, _, value = setting.partition("\n")
            yield from (file.parent / value, root / value)
            if key.startswith("include") and len(files) < _MOST_FILES:
                files.append(file.parent / value)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:  # its number, and that of its group, is still its own
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _by_gitpython(words: Sequence[str], **more: Any) -> Any:
    """A git in a session of its own: what a terminal sends to all, this process decides on."""
    git = _gitpython()
    assert git is not None
    try:
        return git.Git().execute(
            words,
            istream=subprocess.PIPE,
            env=_ENVIRONMENT,
            shell=False,
            as_process=True,
            start_new_session=True,
            **more,
        )
    except git.exc.GitCommandNotFound as missing:
        raise FileNotFoundError(str(missing.__cause__)) from None


def _by_subprocess(words: Sequence[str], **more: Any) -> Any:
    """The same, without the variables that would answer for another repository."""
    return subprocess.Popen(
        words,
        env={**clean_environment(os.environ), **_ENVIRONMENT},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        **more,
    )


@cache
def _gitpython() -> ModuleType | None:
    """GitPython as it was installed; a module of the user's may have its name."""
    if not all(_installed(name, module) for name, module in _GITPYTHON.items()):
        return None
    # Its import asks the git of a variable for its version, and fails where there is none.
    before = {name: os.environ.pop(name, None) for name in _GITPYTHON_VARIABLES}
    os.environ["GIT_PYTHON_REFRESH"] = "quiet"
    try:
        return import_module("git")
    except (ImportError, AttributeError, OSError, ValueError):  # plain git does as well
        return None
    finally:
        del os.environ["GIT_PYTHON_REFRESH"]
        os.environ.update({name: value for name, value in before.items() if value is not None})


def _installed(name: str, module: str) -> bool:
    """Whether an import of ``module`` would take the one of an installed distribution."""
    try:
        spec = find_spec(module)
        expected = distribution(name).locate_file(f"{module}/__init__.py")
    except (ImportError, ValueError):
        return False
    found = spec.origin if spec else None
    return found is not None and os.path.realpath(found) == os.path.realpath(str(expected))


def _failed(root: Path, command: str, told: str, user: _User | None) -> NotReady:
    locked = _LOCKED.search(told)
    if locked:
        return NotReady(
            f"git {command} failed in {root}: {locked['file']} exists",
            "Wait for the git that is running there; if there is none, one was killed: "
            f"rm {shlex.quote(locked['file'])}",
        )
    lines = told.strip().splitlines() or ["no message"]
    fatal = next((line for line in lines if line.startswith("fatal: ")), lines[-1])
    if user is not None:
        return NotReady(
            f"git {command} failed in {root} as user {user.named}, its owner: {fatal}",
            user.remedy(root),
        )
    return NotReady(
        f"git {command} failed in {root}: {fatal}",
        "Check that `git status` works there. A folder owned by somebody else needs "
        f"`git config --global --add safe.directory {shlex.quote(str(root))}`.",
    )


def common_folder(folder: Path) -> Path | None:
    """Git's folder for a working tree, where worktrees keep their objects and refs, too.

    None where no repository is, and in a git folder itself.

    Raises:
        NotReady: git does not accept the repository, a damaged one is none to it, or its settings
            say that its working tree is elsewhere.
    """
    try:
        inside = read(folder, "rev-parse", "--is-inside-work-tree")
    except NotReady as error:
        if "not a git repository" not in error.message or any(git_files.git_folders(folder)):
            raise
        return None
    if inside == b"true\n":
        return folder_of(folder, "--git-common-dir")
    own = folder_of(folder, "--git-dir")
    if folder.resolve().is_relative_to(own):
        return None
    raise _elsewhere(folder, own)


def _elsewhere(folder: Path, own: Path) -> NotReady:
    """Why a folder beside a git folder is in no working tree of it."""
    bare = read(folder, "rev-parse", "--is-bare-repository") == b"true\n"
    key = "core.bare" if bare else "core.worktree"
    told = read(folder, "config", "--show-origin", "--null", "--get", key)
    origin, value, _ = os.fsdecode(told).split("\0")
    file = (folder / origin.removeprefix("file:")).resolve()
    return NotReady(
        f"{folder} is in no working tree of {own}: {key} is {value} in {file}",
        f"Take that setting out: {shlex.join(['git', 'config', '-f', str(file), '--unset', key])}",
    )


def folder_of(root: Path, which: str) -> Path:
    """One of git's folders, resolved; asked for alone, since its name may hold line ends.

    Args:
        which: the option of ``git rev-parse`` that tells it.

    Raises:
        NotReady: git does not accept the repository.
    """
    return (root / os.fsdecode(read(root, "rev-parse", which).removesuffix(b"\n"))).resolve()


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


class Kept(Struct, frozen=True):
    """What git keeps under a path: of a submodule a commit, which has no size here."""

    path: str
    object_id: str
    size: int | None
    is_link: bool


def kept_at(root: Path, commit: str) -> list[Kept]:
    """The files, links and submodules of a commit.

    Raises:
        NotReady: git failed, or there are more than anybody can work with.
    """
    found = []
    for line in read(root, "ls-tree", "-r", "-l", "-z", "--full-tree", commit).split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        mode, _, object_id, size = facts.split()
        count = int(size) if size.isdigit() else None
        found.append(Kept(os.fsdecode(path), object_id.decode(), count, mode == b"120000"))
    return found


def staged(root: Path) -> set[tuple[str, str]]:
    """Path and object of each entry of the index."""
    lines = read(root, "ls-files", "--stage", "-z").split(b"\0")[:-1]
    split = (line.partition(b"\t") for line in lines)
    return {(os.fsdecode(path), facts.split()[1].decode()) for facts, _, path in split}


def check_out(tree: Path, commit: str) -> None:
    """Give a copy with a git folder of its own (``tree/.git``) the tracked files of a commit.

    What is not tracked stays. A symbolic link is replaced, never followed.

    Raises:
        NotReady: git failed; an object of the commit may be missing.
    """
    settings = _of_copy(tree)
    _call(tree, ("read-tree", "--reset", "-u", commit), b"", (*settings, *_no_filters(tree)))
    _call(tree, ("update-ref", "--no-deref", "HEAD", commit), b"", settings)


def overlook(tree: Path, names: Sequence[str]) -> None:
    """Let the index of a copy not see what was changed in these files of it."""
    if names:
        stdin = b"".join(os.fsencode(name) + b"\0" for name in names)
        _call(tree, ("update-index", "--assume-unchanged", "-z", "--stdin"), stdin, _of_copy(tree))


def _of_copy(tree: Path) -> tuple[str, ...]:
    # Of a worktree or submodule the settings name the user's files: ours win over them.
    return (f"--git-dir={tree / '.git'}", f"--work-tree={tree}")
