"""Each figure once: every row is of the document, and no two rows say the same."""

from __future__ import annotations

from typing import Any

import pytest

from instrumentor_analysis.model import Summary
from instrumentor_analysis.reports.headline import wall_clock_figures
from instrumentor_analysis.summary.figure_table import FIGURES, value_at
from tests.analysis.reports.summaries import inference, tracy
from tests.analysis.reports.summary_schema import made

_KEYS = [figure.key for figure in FIGURES]


def _properties(node: Any, root: dict[str, Any]) -> dict[str, Any]:
    """The properties of an object in the schema, through references and alternatives."""
    found: dict[str, Any] = {}
    for each in (node, *node.get("anyOf", ())):
        at = root["$defs"][each["$ref"].rpartition("/")[2]] if "$ref" in each else each
        found |= at.get("properties", {})
    return found


@pytest.mark.parametrize("key", _KEYS)
def test_a_key_is_in_the_document(key: str) -> None:
    root = made()
    node: Any = root
    for name in key.split("."):
        properties = _properties(node, root)
        assert name in properties, f"{key}: {name} is none of {sorted(properties)}"
        node = properties[name]


def test_no_figure_is_declared_twice() -> None:
    assert len(set(_KEYS)) == len(FIGURES)


def test_a_value_is_that_of_the_document() -> None:
    summary = tracy()
    assert value_at(summary, "gaps.median_us") == 241.0
    assert value_at(summary, "wall_clock_ms.median") == 410.75
    assert value_at(summary, "memory.resident_bytes") is None
    assert value_at(Summary("wallclock"), "wall_clock_ms.median") is None


def test_what_was_not_measured_has_no_line() -> None:
    lines = [line.name for line in wall_clock_figures(inference())[0].lines]
    assert "iteration" not in lines and "peak memory" not in lines
