"""Ends the run after enough samples, behind a whole optimizer step, out of every loop."""

from __future__ import annotations

from collections.abc import Iterator

from instrumentor.edits import Edit, Kind
from instrumentor.locate.model import Located
from instrumentor.locate.syntax import Source, address
from instrumentor.options import Options
from instrumentor.passes.names import Names

NAME = "early_stop"


def edits(located: Located, names: Names, options: Options) -> Iterator[tuple[Source, Edit]]:
    """A `return` where that leaves everything and nobody misses the value, else SystemExit(0)."""
    for stop in located.stops:
        leave = "return" if stop.strategy == "return" else "raise SystemExit(0)"
        yield (
            stop.source,
            Edit(
                Kind.INSERT_AFTER,
                address(stop.after),
                f"if {names.recorder}.finished({stop.condition}):\n    {leave}",
                reason=(
                    "stop early: after the optimizer step, before logging, validation and "
                    "checkpoints"
                ),
            ),
        )
