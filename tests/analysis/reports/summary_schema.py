"""The JSON schema of summary.json, made of the types and docstrings of the model."""

from __future__ import annotations

from typing import Any

from instrumentor_analysis import model
from tests.schemas import described

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
    types = described([model.Summary])
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
