"""summary.json: the document of a summary; its schema is data/summary.schema.json."""

from __future__ import annotations

import json

from instrumentor_analysis.model import Summary


def render(summary: Summary) -> str:
    """The document as text: two spaces of indentation, UTF-8 as it is, a newline at the end."""
    return json.dumps(summary.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
