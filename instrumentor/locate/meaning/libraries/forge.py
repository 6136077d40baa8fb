"""tt-forge and PyBuda: a compiled model runs its own backward."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library

LIBRARY = Library(
    packages=("forge", "pybuda"),
    runtime="foreign-runtime",
    why="a compiled model of {library} runs its own backward",
)
