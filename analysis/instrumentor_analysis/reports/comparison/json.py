"""Comparisons as JSON: one ``instrument-comparison/1``, several in ``instrument-comparisons/1``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from instrumentor_analysis.comparison.model import Comparison

SCHEMA = "instrument-comparisons/1"


def document(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """The document of one comparison, or of several with the same base."""
    if len(comparisons) == 1:
        return comparisons[0].to_json()
    return {"schema": SCHEMA, "comparisons": [each.to_json() for each in comparisons]}


def render(comparisons: Sequence[Comparison]) -> str:
    """The document as text, ending in a newline."""
    text = json.dumps(document(comparisons), indent=2, ensure_ascii=False, allow_nan=False)
    return text + "\n"
