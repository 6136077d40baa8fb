"""Whether a copy was kept for the next run: asked at every start, so nothing else is here."""

from __future__ import annotations

import stat
import time
from pathlib import Path

from instrumentor_analysis.shared.files import SETTINGS_BYTES, read_bytes

BOOT = Path("/proc/sys/kernel/random/boot_id")
#: A copy that nothing has used for so long is removed, seconds.
KEPT_S = 7 * 24 * 3600.0


def mark_of(folder: Path) -> Path | None:
    """The file that says what in a slot's copy can be believed; None where none can be.

    It is gone from when a run takes the copy until the copy has been cleared after it. Its name
    has the boot in it: what was not on the disk when the machine went down is not missed.
    """
    try:
        boot = read_bytes(BOOT, SETTINGS_BYTES).decode("ascii", "replace").strip()
    except OSError:
        return None
    return folder / f".kept-{boot}" if boot.replace("-", "").isalnum() else None


def is_kept(folder: Path) -> bool:
    """Whether a slot holds a copy for the next run, and not what a killed run left."""
    mark = mark_of(folder)
    if mark is None:
        return False
    try:
        facts = mark.lstat()
    except OSError:
        return False
    return stat.S_ISREG(facts.st_mode) and abs(time.time() - facts.st_mtime) < KEPT_S
