"""summary.json: the document of :meth:`.model.Summary.to_json`, and its schema."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from instrumentor_analysis.model import Summary


def render(summary: Summary) -> str:
    """The document as text: two spaces of indentation, UTF-8 as it is, a newline at the end."""
    return json.dumps(summary.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def schema() -> dict[str, Any]:
    """The published JSON schema (draft 2020-12) of the document."""
    text = (
        resources.files("instrumentor_analysis")
        .joinpath("data/summary.schema.json")
        .read_text("utf-8")
    )
    document: dict[str, Any] = json.loads(text)
    return document
