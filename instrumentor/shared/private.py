"""The folders in which this tool keeps what is its own: the user's, and nobody else's.

The user's cache folder, or, where its path cannot be used, a folder in the temporary ones. There
anybody can prepare a folder or a link of our name, so each is looked at without following links
before anything in it is read, written or removed: it has to be a folder, of this user, closed to
all others, below folders of this user or root alone. What passes cannot be exchanged by another
user afterwards.

Not XDG_RUNTIME_DIR: it is emptied at logout, and a copy or a journal has to outlive that.
Asked at every start, so nothing is imported that takes time.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from instrumentor.shared.errors import NotReady
from instrumentor.shared.project import home_folder
from instrumentor.shared.removal import remove_tree

#: Bytecode: what others could have written to is not run.
BYTECODE = "pycache"
OTHERS_WRITE = 0o022  # group or everyone
# Tracy's wrapper hands the script's path to a shell, and PYTHONPATH is split at colons.
SAFE_PATH = re.compile(r"[A-Za-z0-9_./+@=-]+\Z")


def own_cache() -> Path | None:
    """``INSTRUMENT_CACHE``, else ``$XDG_CACHE_HOME/instrumentor``, else ``~/.cache/instrumentor``.

    None for a user without a home folder.
    """
    named = os.environ.get("INSTRUMENT_CACHE")
    if named:
        return Path(named).resolve()
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if Path(xdg).is_absolute():
        return Path(xdg, "instrumentor").resolve()
    home = home_folder()
    return None if home is None else (home / ".cache" / "instrumentor").resolve()


def bases() -> tuple[Path, ...]:
    """Every folder that a run of this user may have used, the preferred one first."""
    # All of them: TMPDIR may have been another one when a run was killed.
    temporary = [os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")]
    folders = [Path(base).resolve() for base in (*temporary, "/tmp", "/var/tmp") if base]
    mine = f"instrumentor-{os.getuid()}"
    every = (own_cache(), *(folder / mine for folder in folders))
    return tuple(dict.fromkeys(path for path in every if path is not None))


def cache_folder(avoid: Path | None = None) -> Path:
    """The first of :func:`bases` that can be used.

    One whose path a shell would split, that lies inside ``avoid``, or that is not this user's own
    is passed over.

    Raises:
        NotReady: INSTRUMENT_CACHE is not this user's own, or none is.
    """
    safe = (base for base in bases() if SAFE_PATH.match(str(base)))
    usable = [base for base in safe if avoid is None or not base.is_relative_to(avoid)]
    if not usable:
        raise NotReady(
            f"no folder for a copy of {avoid} lies outside of it",
            "Put the script into a folder of its own.",
        )
    found = next((base for base in usable if not refusal(base)), None)
    if found is None or (is_named(usable[0]) and found != usable[0]):
        raise NotReady(
            f"the cache folder {usable[0]} {refusal(usable[0])}",
            "Set INSTRUMENT_CACHE to a folder of your own, its path without spaces.",
        )
    return found


def refusal(base: Path) -> str:
    """What is wrong with a base that exists; empty when it is this user's own.

    One that we made is closed to others, if it was not; a folder that the user named may be open
    to readers: what we make in it is closed.
    """
    with suppress(OSError):
        return _refusal(base)
    return ""


def _refusal(base: Path) -> str:
    """As :func:`refusal`; what is not there, or was exchanged meanwhile, is an OSError."""
    return exchangeable(base) or _fault(base, tighten=not is_named(base))


def exchangeable(path: Path, *, named: bool = False) -> str:
    """Which folder above lets another user put something else in a place; empty for none.

    Asked before it exists, too: what is made there would not stay this user's.

    Args:
        path: resolved.
        named: the user chose it, perhaps among colleagues: only what lies open to everyone counts.
    """
    # The owner of / can exchange everything: root, whatever its number is in a container.
    trusted = {os.getuid(), 0, Path("/").lstat().st_uid}
    for folder in path.parents:
        try:
            facts = folder.lstat()
        except FileNotFoundError:  # made by us, closed
            continue
        if facts.st_uid not in trusted and not named:
            return f"lies in {folder}, which belongs to another user ({facts.st_uid})"
        open_to = facts.st_mode & stat.S_IWOTH or (
            facts.st_mode & stat.S_IWGRP and not named and not _is_own_group(folder, facts.st_gid)
        )
        if open_to and not facts.st_mode & stat.S_ISVTX:
            return (
                f"lies in {folder}, where other users can replace it "
                f"(chmod go-w {shlex.quote(str(folder))} forbids that)"
            )
    return ""


def _is_own_group(folder: Path, gid: int) -> bool:
    """Whether a folder's group is this user's private one, as the umask 002 of many systems has it.

    One of the user's name, that nobody else is in. An access control list may let others in.
    """
    import grp
    import pwd

    try:
        me, group = pwd.getpwuid(os.getuid()), grp.getgrgid(gid)
        listed = hasattr(os, "listxattr") and "system.posix_acl_access" in os.listxattr(folder)
    except (KeyError, OSError):
        return False
    mine = gid == me.pw_gid and group.gr_name == me.pw_name and {*group.gr_mem} <= {me.pw_name}
    others = (user for user in pwd.getpwall() if user.pw_uid != me.pw_uid)
    return mine and not listed and all(user.pw_gid != gid for user in others)


def refused() -> tuple[str, ...]:
    """One sentence for each base that is there and is not used."""
    found = ((base, refusal(base)) for base in bases() if not is_named(base))
    return tuple(f"{base} {fault}: it is not used" for base, fault in found if fault)


def is_named(base: Path) -> bool:
    """Whether the user chose this base, with INSTRUMENT_CACHE."""
    return bool(os.environ.get("INSTRUMENT_CACHE")) and base == own_cache()


def _fault(folder: Path, *, tighten: bool) -> str:
    """Looked at through one descriptor, so that nothing can be exchanged between two looks."""
    facts = folder.lstat()
    if stat.S_ISLNK(facts.st_mode):
        return "is a symbolic link"
    if not stat.S_ISDIR(facts.st_mode):
        return "is not a folder"
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        facts = os.fstat(descriptor)
        if facts.st_uid != os.getuid():
            return f"belongs to another user ({facts.st_uid})"
        if not tighten:
            open_to_all = facts.st_mode & stat.S_IWOTH and not facts.st_mode & stat.S_ISVTX
            return "can be written to by every user" if open_to_all else ""
        if facts.st_mode & 0o077:
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)
    bytecode = folder / BYTECODE
    if facts.st_mode & OTHERS_WRITE and os.path.lexists(bytecode):
        try:
            remove_tree(bytecode)
        except OSError as error:
            return f"holds bytecode that others could write to: {error}"
    return ""


def made(base: Path, name: str) -> Path:
    """The folder ``name`` in a base, made where it is missing; both are this user's, mode 0700.

    Raises:
        NotReady: one of them is a link, belongs to somebody else, or others can exchange it.
        OSError: it cannot be made.
    """
    folder = base / name
    make_closed(base)
    fault = _refusal(base)
    if not fault:
        make_closed(folder)
        fault = _fault(folder, tighten=True)
    if fault:
        raise NotReady(
            f"{base if refusal(base) else folder} {fault}: it is not used",
            "Set INSTRUMENT_CACHE to a folder of your own, its path without spaces.",
        )
    return folder


def make_closed(folder: Path) -> None:
    """Make a folder where there is none, with its parents: of mode 0700 whatever the umask says.

    Raises:
        OSError: it cannot be made.
    """
    if os.path.lexists(folder):
        return
    make_closed(folder.parent)
    with suppress(FileExistsError):  # another start was faster
        folder.mkdir(mode=0o700)


def entries(name: str) -> Iterator[Path]:
    """What stands in the folder ``name`` of every base: this user's own, no links."""
    for base in bases():
        folder = base / name
        try:
            if _refusal(base) or _fault(folder, tighten=True):
                continue
            with os.scandir(folder) as found:
                listed = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in listed:
            with suppress(OSError):
                own = entry.stat(follow_symlinks=False).st_uid == os.getuid()
                if own and not entry.is_symlink():
                    yield Path(entry.path)


@contextmanager
def throwaway() -> Iterator[Path]:
    """An empty folder for as long as the body runs; a killed process's goes at the next start.

    Raises:
        NotReady, OSError: it cannot be made.
    """
    folder = made(cache_folder(), "asked") / f"{os.getpid()}-{os.urandom(4).hex()}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        with suppress(OSError):  # said at the next start, which tries again
            remove_tree(folder)


def not_removed(path: Path | str, error: OSError) -> str:
    """The sentence for what an earlier run left and nobody can remove now."""
    reason = error.strerror or type(error).__name__
    return (
        f"Could not remove {path}, which a run left: {reason}. The next start tries again; "
        "no figure depends on it."
    )


def remove_dead(tell: Callable[[str], None]) -> tuple[Path, ...]:
    """Remove throwaway folders of processes that are gone; gives the removed ones.

    Args:
        tell: gets a sentence for each that cannot be removed.
    """
    dead = []
    for folder in entries("asked"):
        pid = folder.name.partition("-")[0]
        # A reused pid only delays the removal.
        if pid.isdigit() and not Path("/proc", pid).exists():
            try:
                remove_tree(folder)
            except OSError as error:
                tell(not_removed(folder, error))
            else:
                dead.append(folder)
    return tuple(dead)
