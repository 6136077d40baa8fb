"""One small module per kind of edit, in an explicit order.

A pass has a NAME and `edits(located, names, options)`, which yields (source, edit). It decides
nothing: what is to be done was found by :mod:`instrumentor.locate`. It knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from instrumentor.edits import Edit
from instrumentor.locate.model import Located
from instrumentor.locate.syntax import Source
from instrumentor.options import Options
from instrumentor.passes import (
    cache_clears,
    checkpoints,
    early_stop,
    host_reads,
    recorder,
    region,
    validation,
)
from instrumentor.passes.names import Names

__all__ = ["PASSES", "Names", "Pass"]


class Pass(Protocol):
    """The shape of a pass module."""

    NAME: str

    def edits(
        self, located: Located, names: Names, options: Options
    ) -> Iterator[tuple[Source, Edit]]:
        """The edits of this pass, in order."""
        ...


#: Edits at one place take effect in this order: the clock is read before reads move behind it.
PASSES: tuple[Pass, ...] = (
    recorder,
    region,
    host_reads,
    early_stop,
    validation,
    checkpoints,
    cache_clears,
)
