"""`instrument restore`: put back what a run in place left behind when it was killed."""

from __future__ import annotations

from pathlib import Path

from instrumentor.cli import common
from instrumentor.cli.signature import Verb
from instrumentor.shared import console
from instrumentor.shared.errors import Restored, RestoreNeeded

SCHEMA = "instrument-restore/1"


@Verb
def restore(*, shown: common.Json) -> None:
    """Put back files that a killed run in place left instrumented; remove all temporary copies."""
    from instrumentor.shared.private import remove_dead
    from instrumentor.workspace.in_place.restoring import restore as put_back
    from instrumentor.workspace.slots import prune, sweep

    failure: RestoreNeeded | None = None
    done: tuple[Restored, ...] = ()
    try:
        done = put_back(Path.cwd())
    except RestoreNeeded as error:
        # Raised at the end: the other files are back, and copies are swept all the same.
        failure = error
        done = error.restored
    removed = (*sweep(console.warn), *remove_dead(console.warn))
    kept = prune(0)
    if shown.json:
        console.out_json(
            {
                "schema": SCHEMA,
                "files": [each.to_json() for each in done],
                "removed": [str(path) for path in (*removed, *kept)],
            }
        )
    else:
        for each in done:
            console.out(each.text)
        for path in removed:
            console.out(f"removed {path}, of a run that was killed")
        for path in kept:
            console.out(f"removed {path}, a copy that was kept for the next run")
        if not done and not removed and not kept:
            console.out("Nothing to restore")
    if failure is not None:
        raise failure
