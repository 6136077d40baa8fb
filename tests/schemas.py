"""JSON schemas of documents, made of their types and docstrings; kept as files in the packages."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Any, get_type_hints

import msgspec


def kept(path: Path, schema: Mapping[str, Any], *, update: bool) -> bool:
    """The file holds that schema; ``update`` writes it."""
    if update:
        path.write_text(text(schema), encoding="utf-8")
    return path.read_text("utf-8") == text(schema)


def text(schema: Mapping[str, Any]) -> str:
    """The schema as a file: a line per key of a document, so that differences can be read."""
    return "{\n" + ",\n".join(_lines(schema, 1)) + "\n}\n"


def _lines(schema: Mapping[str, Any], depth: int) -> list[str]:
    found: list[str] = []
    for key, value in schema.items():
        start = f"{'  ' * depth}{json.dumps(key)}: "
        if ("properties" in (key, *value) and isinstance(value, dict)) or key == "$defs":
            inner = ",\n".join(_lines(value, depth + 1))
            found.append(f"{start}{{\n{inner}\n{'  ' * depth}}}")
        else:
            found.append(start + json.dumps(value, ensure_ascii=False))
    return found


def described(
    kinds: Sequence[type[Any]],
) -> dict[str, dict[str, Any]]:
    """The schema of each class and of those that it is made of, by name."""
    _, found = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    reached = {kind.__name__: kind for kind in _reached(kinds)}
    for name, schema in found.items():
        if name in reached:
            schema["properties"] |= _computed(reached[name])
    names = {name: _fields(kind) for name, kind in reached.items()}
    return {name: _described(schema, names.get(name, {})) for name, schema in found.items()}


def _computed(kind: type[Any]) -> dict[str, Any]:
    """The properties of a class that its document has as well."""
    made: dict[str, Any] = {}
    for name in getattr(kind, "JSON_PROPERTIES", ()):
        getter = getattr(kind, name).fget
        kept = msgspec.json.schema(get_type_hints(getter)["return"])
        made[name] = {**kept, "description": _in_json(cleandoc(getter.__doc__))}
    return made


def _fields(kind: type[Any]) -> dict[str, str]:
    """Of a struct: the name of its field by that in the document."""
    if not issubclass(kind, msgspec.Struct):
        return {}
    return dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))


def _reached(kinds: Sequence[type[Any]]) -> list[type[Any]]:
    """The classes, and all others of their modules that one may be made of."""
    modules = [sys.modules[kind.__module__] for kind in kinds]
    return [each for module in modules for each in vars(module).values() if isinstance(each, type)]


def _described(schema: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The schema of one class with what its docstring says, under the names of the document."""
    summary, _, attributes = cleandoc(schema.get("description", "")).partition("\n\nAttributes:\n")
    told = _attributes(attributes)
    properties: dict[str, Any] = {}
    for name, value in schema["properties"].items():
        value = {key: each for key, each in value.items() if key != "default"}
        field = names.get(name, name)
        if field in told:
            value["description"] = told[field]
        properties[name] = value
    return {
        "type": "object",
        **({"description": _in_json(summary)} if summary else {}),
        "properties": properties,
        "required": list(properties),
    }


def _attributes(lines: str) -> dict[str, str]:
    """``name, other: what it is`` with its further lines, by name."""
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=    \w)", f"\n{lines}")[1:]:
        fields, _, meaning = entry.partition(": ")
        found |= dict.fromkeys(fields.strip().split(", "), _in_json(meaning))
    return found


def _in_json(words: str) -> str:
    """A docstring's words for readers of JSON: null, no references to code, one line."""
    plain = re.sub(r"\s*\(:\w+:`[^`]*`\)", "", " ".join(words.split()))
    plain = re.sub(r"\bNone\b", "null", plain)
    return (plain[:1].upper() + plain[1:]).replace("``", "")
