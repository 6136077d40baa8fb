"""What a killed run left behind is undone at the next start, whatever command that is.

Asked at every start, so nothing is imported until something is found.
"""

from __future__ import annotations

from collections.abc import Callable

from instrumentor.shared import private
from instrumentor.shared.errors import InstrumentError, RestoreNeeded
from instrumentor.workspace.kept_mark import is_kept

_warned: set[str] = set()  # at this process's last start of anything


def recover(say: Callable[[str], None], warn: Callable[[str], None]) -> None:
    """Put back files that a killed run in place left instrumented, remove copies of killed runs.

    A command recovers at its start, and each run of it again: what still needs the user then was
    said before.

    Args:
        say: gets what was done.
        warn: gets what needs the user; `instrument restore` says it again.
    """
    before = frozenset(_warned)
    _warned.clear()

    def warn_once(text: str) -> None:
        _warned.add(text)
        if text not in before:
            warn(text)

    for text in private.refused():
        warn_once(text)
    private.remove_dead(warn_once)
    shadows = (folder for folder in private.entries("shadows") if not is_kept(folder))
    if not any(private.entries("journal")) and not any(shadows):
        return
    from instrumentor.workspace.in_place.restoring import restore
    from instrumentor.workspace.slots import sweep

    try:
        restored = restore()
    except InstrumentError as error:
        restored = error.restored if isinstance(error, RestoreNeeded) else ()
        warn_once(f"{error.message}\n{error.hint}")
    for each in restored:
        if each.action == "restored":
            say(f"{each.text} (an earlier run in place was ended)")
    sweep(warn_once)
