"""Accelerate: wraps model and optimizer, and runs the backward."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library, rows
from instrumentor.locate.meaning.roles import Effect, Kind

LIBRARY = Library(
    packages=("accelerate",),
    makes=(
        (Kind.LOGGER, ("accelerate.logging.*",)),
        (Kind.ACCELERATOR, ("accelerate.*Accelerator",)),
    ),
    effects=((Effect.LOADS, rows("accelerate.", "load_*")),),
)
