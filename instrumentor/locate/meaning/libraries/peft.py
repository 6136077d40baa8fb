"""PEFT: adapters in a frozen model."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library
from instrumentor.locate.meaning.roles import Kind

LIBRARY = Library(
    packages=("peft",),
    makes=(
        (Kind.DATA, ("peft.*Config.from_pretrained",)),
        (Kind.MODEL, ("peft.*from_pretrained",)),
    ),
)
