"""What a killed run left behind is undone at the next start, whatever command that is.

Asked at every start, so nothing is imported until something is found.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from instrumentor.errors import InstrumentError, RestoreNeeded
from instrumentor.project import home_folder


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


def undo(say: Callable[[str], None], warn: Callable[[str], None]) -> None:
    """Put back files that a killed run in place left instrumented, remove copies of killed runs.

    Args:
        say: gets what was done.
        warn: gets what needs the user; `instrument restore` says it again.
    """
    remove_dead()
    if not any(_entries("journal")) and not any(_entries("shadows")):
        return
    from instrumentor.workspace import restore, sweep

    try:
        restored = restore()
    except InstrumentError as error:
        restored = error.restored if isinstance(error, RestoreNeeded) else ()
        warn(f"{error.message}\n{error.hint}")
    for each in restored:
        if each.action == "restored":
            say(f"{each.text} (an earlier run in place was ended)")
    sweep()


@contextmanager
def throwaway() -> Iterator[Path]:
    """An empty folder for as long as the body runs; a killed process's goes at the next start.

    Raises:
        OSError: the cache folder cannot be written.
    """
    base = own_cache() or Path("/tmp", f"instrumentor-{os.getuid()}")
    folder = base / "asked" / f"{os.getpid()}-{os.urandom(4).hex()}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        _remove(folder)


def remove_dead() -> tuple[Path, ...]:
    """Remove throwaway folders of processes that are gone; gives the removed ones."""
    dead = []
    for folder in _entries("asked"):
        pid = folder.name.partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            _remove(folder)
            dead.append(folder)
    return tuple(dead)


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _entries(name: str) -> Iterator[Path]:
    temporary = [os.environ.get(variable) for variable in ("TMPDIR", "TEMP", "TMP")]
    mine = f"instrumentor-{os.getuid()}"
    caches = [own_cache(), *(Path(base, mine) for base in (*temporary, "/tmp", "/var/tmp") if base)]
    for cache in filter(None, caches):
        try:
            # another user could have prepared a folder in /tmp
            if (cache / name).stat().st_uid == os.getuid():
                yield from (cache / name).iterdir()
        except OSError:
            continue
