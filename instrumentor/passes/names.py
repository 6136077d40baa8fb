"""The names that the copy adds to a module, fresh in every scope of it."""

from __future__ import annotations

from msgspec import Struct


class Names(Struct, frozen=True):
    """recorder: the object used at the inserted places; factory: the function that makes it."""

    recorder: str
    factory: str

    @property
    def all(self) -> tuple[str, ...]:
        return (self.recorder, self.factory)
