"""What a killed run left behind is undone at the next start, whatever command that is.

Asked at every start, so nothing is imported until something is found.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from instrumentor.errors import InstrumentError
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
    if not any(_entries("journal")) and not any(_entries("shadows")):
        return
    from instrumentor.workspace import restore, sweep

    try:
        restored = restore()
    except InstrumentError as error:
        restored = getattr(error, "restored", ())
        warn(f"{error.message}\n{error.hint}")
    for each in restored:
        if each.action == "restored":
            say(f"{each.text} (an earlier run in place was ended)")
    sweep()


def _entries(name: str) -> Iterator[str]:
    temporary = [os.environ.get(variable) for variable in ("TMPDIR", "TEMP", "TMP")]
    mine = f"instrumentor-{os.getuid()}"
    caches = [own_cache(), *(Path(base, mine) for base in (*temporary, "/tmp", "/var/tmp") if base)]
    for cache in filter(None, caches):
        try:
            yield from os.listdir(cache / name)  # noqa: PTH208
        except OSError:
            continue
