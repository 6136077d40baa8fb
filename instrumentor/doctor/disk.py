"""Check of the disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from instrumentor.doctor.model import Check, PlannedRun, Status

NEEDED_BYTES = 200 * 2**20
WISHED_BYTES = 2 * 2**30


def space(planned: PlannedRun) -> Iterator[Check]:
    """Room where the run will write."""
    for folder in planned.folders:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(there).free
        text = f"{free / 2**30:.1f} GiB free in {there}"
        remedy = "Make room, or choose other folders with TMPDIR and --output."
        if free < NEEDED_BYTES:
            yield Check("disk", Status.FAILED, text, remedy)
        elif free < WISHED_BYTES:
            yield Check("disk", Status.WARNING, text, remedy)
        else:
            yield Check("disk", Status.OK, text)
