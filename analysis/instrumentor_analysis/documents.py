"""Dataclasses as documents of JSON's own types."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def plain(value: Any) -> Any:
    """A value in JSON's own types: dataclasses to objects, tuples to lists, NaN to None.

    Fields go by the names that ``JSON_NAMES`` of their class gives them; the properties of its
    ``JSON_PROPERTIES`` come last.
    """
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        names: Mapping[str, str] = getattr(value, "JSON_NAMES", {})
        keys = [field.name for field in fields(value)]
        keys += getattr(value, "JSON_PROPERTIES", ())
        return {names.get(key, key): plain(getattr(value, key)) for key in keys}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
