"""tt-train: training on ttnn with an autograd of its own."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library

LIBRARY = Library(
    packages=("ttml", "tt_train"),
    runtime="foreign-runtime",
    why="{library} runs its own autograd",
)
