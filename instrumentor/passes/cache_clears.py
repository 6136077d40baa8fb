"""Disables `xr.clear_computation_cache()`: it recompiles every step and may run out of memory."""

from __future__ import annotations

from collections.abc import Iterator

from instrumentor.edits import Edit, Kind
from instrumentor.locate.model import Located
from instrumentor.locate.syntax import Source, address
from instrumentor.options import Options
from instrumentor.passes.names import Names

NAME = "cache_clears"


def edits(located: Located, names: Names, options: Options) -> Iterator[tuple[Source, Edit]]:
    """Every clear in the modules of the loop."""
    for source, statement in located.cache_clears:
        yield (
            source,
            Edit(Kind.DISABLE, address(statement), reason="recompiles the graph every step"),
        )
