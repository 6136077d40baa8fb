"""Warnings as data: what a reader has to know beside the figures, and how much it weighs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

Weight = Literal["wrong", "caution", "note"]
_WEIGHTS: tuple[Weight, ...] = ("wrong", "caution", "note")


class Caveat(Struct, frozen=True):
    """One warning about a measurement.

    Attributes:
        kind: a stable name for programs, such as ``busy-machine``.
        message: one sentence.
        weight: ``wrong``: figures may be wrong; ``caution``: they mean less, or something else,
            than a reader would think; ``note``: true of nearly every run, no figure depends on it.
        place: ``file:line`` of the script, or empty.
        hint: what to do about it, or empty.
    """

    kind: str
    message: str
    weight: Weight = "caution"
    place: str = ""
    hint: str = ""

    def __str__(self) -> str:
        """As text: place, message and hint on one line."""
        place = f"{self.place}: " if self.place else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.message}{hint}"

    def to_json(self) -> dict[str, str]:
        """An entry of ``warnings`` in the documents."""
        return asdict(self)


def by_weight(caveats: Iterable[Caveat], *, notes: bool = True) -> tuple[Caveat, ...]:
    """Each once, the heaviest first; without those of weight ``note`` on demand."""
    kept = [each for each in dict.fromkeys(caveats) if notes or each.weight != "note"]
    return tuple(sorted(kept, key=lambda each: _WEIGHTS.index(each.weight)))


def read_caveats(value: Any) -> tuple[Caveat, ...]:
    """``warnings`` of a document; a bare text, as older documents have it, is a caution."""
    entries = value if isinstance(value, list) else []
    return tuple(_read(each) for each in entries)


def _read(entry: Any) -> Caveat:
    if not isinstance(entry, dict):
        return Caveat("text", str(entry))
    kind, message, place, hint = (
        str(entry.get(key) or "") for key in ("kind", "message", "place", "hint")
    )
    known: Iterable[Weight] = (each for each in _WEIGHTS if each == entry.get("weight"))
    weight: Weight = next(iter(known), "caution")
    return Caveat(kind, message, weight, place, hint)


def recorded(event: Mapping[str, Any]) -> Caveat:
    """What the recorder warned of, out of its record."""
    return Caveat(str(event.get("kind") or "recorder"), str(event.get("text", "")))
