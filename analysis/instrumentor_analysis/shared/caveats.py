"""Warnings as data: what a reader has to know beside the figures, and how much it weighs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from instrumentor_analysis.shared.documents import plain
from instrumentor_analysis.shared.warning_codes import LEVELS, Weight, code_of, weight_of

#: What says that others are ignored: shown always.
IGNORED = "ignored"
#: Of one record.
MOST = 100
#: Of a loop in tests that the script itself does not call.
UNCALLED_TEST = "uncalled-test"
_WEIGHTS: tuple[Weight, ...] = tuple(LEVELS)


#: What is planned for a script that can run on XLA, and true of it there alone.
OF_XLA = ("host-reads-moved", "host-reads-as-written", "sync-inserted")


class Caveat(Struct, frozen=True):
    """One warning about a measurement.

    Attributes:
        kind: a stable name for programs, such as ``busy-machine``.
        message: one sentence.
        weight: ``wrong``: figures may be wrong; ``caution``: they mean less, or something else,
            than a reader would think; ``note``: true of nearly every run, no figure depends on it.
            What has a code weighs what the table of warnings says.
        place: ``file:line`` of the script, or empty.
        hint: what to do about it, or empty.
    """

    kind: str
    message: str
    weight: Weight = "caution"
    place: str = ""
    hint: str = ""

    JSON_PROPERTIES: ClassVar[tuple[str, ...]] = ("code",)

    def __post_init__(self) -> None:
        force_setattr(self, "weight", weight_of(self.kind) or self.weight)

    @property
    def code(self) -> str:
        """Its stable code, such as ``W201``; empty for what has none."""
        return code_of(self.kind)

    @property
    def labelled(self) -> str:
        """As text, with its code at the end."""
        return f"{self} [{self.code}]" if self.code else str(self)

    def __str__(self) -> str:
        """As text: place, message and hint on one line."""
        place = f"{self.place}: " if self.place else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.message}{hint}"

    def to_json(self) -> dict[str, Any]:
        """An entry of ``warnings`` in the documents."""
        entry: dict[str, Any] = plain(self)
        return entry


def by_weight(caveats: Iterable[Caveat], *, notes: bool = True) -> tuple[Caveat, ...]:
    """Each once, the heaviest first; without those of weight ``note`` on demand."""
    every = dict.fromkeys(caveats)
    kept = [each for each in every if notes or each.weight != "note" or each.kind == IGNORED]
    return tuple(sorted(kept, key=lambda each: _WEIGHTS.index(each.weight)))


def together(caveats: Iterable[Caveat]) -> tuple[Caveat, ...]:
    """As they are shown: what is true of several places is said once, with all of them."""
    alike: dict[Caveat, list[str]] = {}
    for each in caveats:
        places = alike.setdefault(replace(each, place=""), [])
        places += [each.place] if each.place and each.place not in places else []
    return tuple(replace(each, place=_listed(places)) for each, places in alike.items())


def _listed(places: Sequence[str]) -> str:
    """``train.py:14, 15, data.py:3``: a file is named once for its lines in a row."""
    found, last = list[str](), ""
    for place in places:
        file, colon, line = place.rpartition(":")
        found.append(line if colon and file == last and line.isdigit() else place)
        last = file
    return ", ".join(found)


def without(caveats: Iterable[Caveat], codes: Collection[str]) -> tuple[Caveat, ...]:
    """Those that are not ignored, and one that says which were."""
    every = tuple(caveats)
    ignored = [each for each in every if each.code and each.code in codes]
    if not ignored:
        return every
    named = ", ".join(dict.fromkeys(each.code for each in ignored))
    text = f"{len(ignored)} warning{'' if len(ignored) == 1 else 's'} ignored: {named}"
    return (*(each for each in every if each not in ignored), Caveat(IGNORED, text, "note"))


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


def few(caveats: Iterable[Caveat]) -> tuple[Caveat, ...]:
    """The first of what a record warns of or is blamed for, each once: it may be full of them."""
    kept: dict[Caveat, None] = {}
    more = 0
    for each in caveats:
        if len(kept) < MOST:
            kept[each] = None
        elif each not in kept:
            more += 1
    told = f"Further warnings of the record are left out: {more:,}."
    return (*kept, Caveat("damaged-record", told)) if more else tuple(kept)


def recorded(event: Mapping[str, Any]) -> Caveat:
    """What the recorder warned of, out of its record."""
    return Caveat(str(event.get("kind") or "recorder"), str(event.get("text", "")))
