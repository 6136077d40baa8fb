"""Skips checkpoints inside the measured steps."""

from __future__ import annotations

from collections.abc import Iterator

from instrumentor.edits import Edit
from instrumentor.locate.model import Located
from instrumentor.locate.syntax import Source
from instrumentor.options import Options
from instrumentor.passes.names import Names
from instrumentor.passes.validation import disable

NAME = "checkpoints"


def edits(located: Located, names: Names, options: Options) -> Iterator[tuple[Source, Edit]]:
    """Saves in the loops are disabled."""
    for skipped in located.skipped:
        if skipped.what == "checkpoint":
            yield from disable(skipped, names)
