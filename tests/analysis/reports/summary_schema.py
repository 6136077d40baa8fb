"""The JSON schema of summary.json, made of the types and docstrings of the model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from inspect import cleandoc
from typing import Any

import msgspec

from instrumentor_analysis import model

_HEAD = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "urn:instrument:summary:1",
    "title": f"summary.json of a measured training step ({model.SCHEMA})",
    "description": "A figure that was not measured is null, never 0. Units stand in the names: "
    "_ms, _us, _percent (0 to 100). Readers should ignore keys that they do not know.",
}
_WALL = {"$ref": "#/$defs/WallClock"}


def made() -> dict[str, Any]:
    """The schema, every key of ours required."""
    _, found = msgspec.json.schema_components([model.Summary], ref_template="#/$defs/{name}")
    types = {name: _described(name, schema) for name, schema in found.items()}
    summary, category = types.pop("Summary"), types["Category"]
    properties: dict[str, Any] = {"schema": {"const": model.SCHEMA}}
    for key, value in summary["properties"].items():
        if key == "wall_clock_ms":  # Without a sample it is there all the same, of nulls.
            value = {**_WALL, "description": "Of the main label; nulls when nothing was timed."}
        elif key == "categories":
            items = value.pop("items")
            value |= {"type": "object", "additionalProperties": items}
        elif key == "verdict_detail":
            names = [*types["Verdict"]["properties"]["name"]["enum"], None]
            properties["verdict"] = {"enum": names, "description": "The name of verdict_detail."}
        properties[key] = value
    del category["properties"]["name"]  # The key that it stands under.
    category["required"].remove("name")
    whole = {"type": "object", "properties": properties, "required": list(properties)}
    return {**_HEAD, **whole, "$defs": types}


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


def _described(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of one class with what its docstring says, under the names of the document."""
    summary, _, attributes = cleandoc(schema["description"]).partition("\n\nAttributes:\n")
    told = _attributes(attributes)
    names: Mapping[str, str] = getattr(getattr(model, name), "JSON_NAMES", {})
    properties: dict[str, Any] = {}
    for field, value in schema["properties"].items():
        value = {key: each for key, each in value.items() if key != "default"}
        if field in told:
            value["description"] = told[field]
        properties[names.get(field, field)] = value
    return {
        "type": "object",
        "description": _in_json(summary),
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
