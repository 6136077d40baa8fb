"""Frozen types as documents of JSON's own types, and the documents that the package holds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert
from msgspec.structs import fields as struct_fields

from instrumentor_analysis.shared.files import read_text

T = TypeVar("T", bound=Struct)


def plain(value: Any) -> Any:
    """A value in JSON's own types: classes to objects, tuples to lists, NaN to None.

    The properties named by ``JSON_PROPERTIES`` of a class come last.
    """
    if isinstance(value, float):
        # np.float64 is a float as well: float() makes it one of JSON's own.
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Struct):
        names = dict(zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True))
        names |= {name: name for name in getattr(value, "JSON_PROPERTIES", ())}
        return {key: plain(getattr(value, name)) for key, name in names.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def fitted(document: Mapping[str, Any], kind: type[T]) -> T:
    """What a document says of a class; what is missing or of another type has its default."""
    # As a whole, which is nearly always possible; else field by field, to lose only what is wrong.
    with suppress(ValidationError):
        return convert(document, kind)
    known: dict[str, Any] = {}
    for each in struct_fields(kind):
        with suppress(KeyError, ValidationError):
            known[each.name] = convert(document[each.encode_name], each.type)
    return kind(**known)


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
    return json.loads(read_text(path))
