"""Frozen types as documents of JSON's own types, and the documents that the package holds."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert
from msgspec.structs import fields as struct_fields

from instrumentor_analysis.shared.files import LIMIT_BYTES, read_bytes

S = TypeVar("S", bound=Struct)
T = TypeVar("T")
F = TypeVar("F", int, float, int | float)

#: A number that may be wider than 64 bits, or no figure.
_WIDE = re.compile(r"\d{19}|[eE][-+]?\d\d")
#: What is larger is no figure of anything, and what is smaller is zero: what is made of such ones
#: (a ratio, a square) would be infinite, or nothing to divide by.
_MOST, _LEAST = 1e100, 1e-30
#: No path holds a null character, no text half of one; other halves are bytes of a name that is
#: no UTF-8.
_NONE = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")


#: Of a document, in characters, and objects and lists of a larger one: they take a hundred times
#: the memory of their text.
_LARGE, MOST_PARTS = 16 << 20, 4_000_000
#: Of one text of a report, in characters: a name, a note, a command.
LONGEST = 10_000


def parsed(text: str | bytes, *, infinite: bool = False) -> Any:
    """JSON of whatever origin, in values that every reader can handle.

    Whole numbers wider than 64 bits are floats; null characters and halves of one are replaced.
    What is too large for a figure is infinite, and what is too small for one is 0.

    Args:
        infinite: NaN and infinity stay what they are; else they are None, as we write them.

    Raises:
        ValueError: it is none, or nested deeper or of more parts than any document of ours.
    """
    if isinstance(text, bytes):
        text = text.decode()  # json.loads() would take halves of characters
    if len(text) > _LARGE and text.count("[") + text.count("{") > MOST_PARTS:
        raise ValueError(f"it has more than {MOST_PARTS:,} parts")
    beyond = math.inf if infinite else None
    wide = bool(_WIDE.search(text))
    try:
        value = json.loads(
            text,
            parse_int=(lambda digits: _figure(_whole(digits), beyond)) if wide else None,
            parse_float=(lambda digits: _figure(float(digits), beyond)) if wide else None,
            parse_constant=float if infinite else _nothing,
        )
        return _of_characters(value) if "\\u" in text or _NONE.search(text) else value
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _whole(digits: str) -> int | float:
    made = int(digits) if len(digits) < 21 else 0
    return made if 0 < abs(made) < 2**63 or len(digits) < 19 else float(digits)


def _figure(value: F, beyond: float | None) -> F | float | None:
    """A number, where it is one that anything can have; ``beyond`` for what is larger."""
    if abs(value) > _MOST:
        return beyond and math.copysign(beyond, value)
    return value if abs(value) >= _LEAST else 0 * value


def _nothing(name: str) -> None:
    """In the place of NaN and infinity."""


def _of_characters(value: Any) -> Any:
    if isinstance(value, str):
        return _NONE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_of_characters(each) for each in value]
    if isinstance(value, dict):
        return {_of_characters(k): _of_characters(v) for k, v in value.items()}
    return value


def read(path: Path, limit: int = LIMIT_BYTES) -> Any:
    """As :func:`parsed`, of a file.

    Raises:
        OSError, ValueError: it cannot be read, or is no JSON.
    """
    return parsed(read_bytes(path, limit))


def object_in(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty where there is none."""
    try:
        found = read(path)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def converted(value: Any, kind: type[T], *, strict: bool = True) -> T:
    """A value as one of a type.

    Raises:
        ValidationError: it is none; says where.
    """
    try:
        return convert(value, kind, strict=strict)
    except UnicodeError:  # of a name that is no UTF-8, where it wants something else than a text
        raise ValidationError("a text stands where there is none") from None


def bounded(text: str) -> str:
    """A text as long as anybody reads one; of a longer one the beginning, and how long it is."""
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}… ({len(text):,} characters)"


def listed(names: Iterable[object], most: int = 4) -> str:
    """The first few, and how many more there are: ``a, b and 1,234 more``."""
    first = [*map(str, names)]
    more = f" and {len(first) - most:,} more" if len(first) > most else ""
    return ", ".join(first[:most]) + more


def plain(value: Any) -> Any:
    """A value in JSON's own types: classes to objects, tuples to lists, NaN to None.

    Texts are bounded. The properties named by ``JSON_PROPERTIES`` of a class come last.
    """
    if isinstance(value, float):
        # np.float64 is a float as well: float() makes it one of JSON's own.
        return float(value) if math.isfinite(value) else None
    if type(value) is str:
        return bounded(value)
    if isinstance(value, Struct):
        names = dict(zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True))
        names |= {name: name for name in getattr(value, "JSON_PROPERTIES", ())}
        return {key: plain(getattr(value, name)) for key, name in names.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {bounded(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def fitted(document: Mapping[str, Any], kind: type[S], /, **usual: Any) -> S:
    """What a document says of a class; what is missing or of another type has its default.

    Args:
        usual: defaults of fields that have none.
    """
    # As a whole, which is nearly always possible; else field by field, to lose only what is wrong.
    with suppress(ValidationError):
        return converted({**usual, **document}, kind)
    known = dict(usual)
    for each in struct_fields(kind):
        with suppress(KeyError, ValidationError):
            known[each.name] = converted(document[each.encode_name], each.type)
    return kind(**known)


def sound(document: Mapping[str, Any], shapes: Mapping[str, Any]) -> dict[str, Any]:
    """A document without the values that are not of the type that their key has in ``shapes``."""
    return {key: value for key, value in document.items() if _fits(value, shapes.get(key, Any))}


def _fits(value: Any, shape: Any) -> bool:
    try:
        converted(value, shape)
    except ValidationError:
        return False
    return True


def number(value: Any) -> float | None:
    """A finite figure out of a document; None for anything else."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if known and math.isfinite(value) else None


def in_words(value: Any) -> str:
    """A recorded fact as a reader sees it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " ".join(str(item) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


@cache
def kept(name: str) -> Any:
    """The document of that name in the package's data; not to be changed."""
    path = Path(__file__).parents[1] / "data" / f"{name}.json"
    return read(path)
