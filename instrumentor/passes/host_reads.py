"""Moves host reads of the region behind the barrier, in their own order."""

from __future__ import annotations

from collections.abc import Iterator

from instrumentor.edits import Edit, Kind
from instrumentor.locate.model import Located
from instrumentor.locate.syntax import Source, address
from instrumentor.options import Options
from instrumentor.passes.names import Names

NAME = "host_reads"


def edits(located: Located, names: Names, options: Options) -> Iterator[tuple[Source, Edit]]:
    """Each deferred statement goes behind the end of its region."""
    for deferred in located.deferred:
        region = located.regions[deferred.region]
        yield (
            deferred.source,
            Edit(
                Kind.MOVE_AFTER,
                address(deferred.statement),
                to=address(region.end),
                reason=(
                    "reads a device value: moved after the barrier, so as not to wait inside the "
                    "region"
                ),
            ),
        )
