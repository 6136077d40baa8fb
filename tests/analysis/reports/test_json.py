"""summary.json against its published schema."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

from instrumentor_analysis.model import SlowOp
from instrumentor_analysis.reports import json as report
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.documents import kept as kept_document
from instrumentor_analysis.summary.summarise import summarise
from tests.analysis.reports.summaries import ALL, run_folder, torch_folder, tracy
from tests.analysis.reports.summary_schema import made
from tests.schemas import kept

SCHEMA = kept_document("summary.schema")


def test_the_schema_is_that_of_the_types(request: pytest.FixtureRequest) -> None:
    path = Path(report.__file__).parent.parent / "data" / "summary.schema.json"
    update = request.config.getoption("--update-goldens")
    assert kept(path, made(), update=update), "pytest --update-goldens makes it anew"


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", ALL)
def test_constructed_summaries_fit_and_have_no_other_key(name: str) -> None:
    document = json.loads(report.render(ALL[name]()))
    jsonschema.validate(document, _closed(SCHEMA))
    assert list(document) == list(SCHEMA["properties"])


def test_real_summaries_fit(tmp_path: Path) -> None:
    for folder in (run_folder(tmp_path / "tracy"), torch_folder(tmp_path / "torch")):
        jsonschema.validate(json.loads(report.render(summarise(folder))), SCHEMA)


def _closed(schema: Any) -> Any:
    """The schema with unknown keys forbidden: one that is added belongs in it as well."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "required" in schema:
        closed["additionalProperties"] = False
    return closed


def test_figures_that_are_none_are_null() -> None:
    odd = replace(
        tracy(), device_time_ms=math.nan, slow_ops=(SlowOp("a", 1, math.inf, None, None),)
    )
    document = json.loads(report.render(odd))
    assert document["device_time_ms"] is None
    assert document["slow_ops"][0]["device_time_ms"] is None
    jsonschema.validate(document, SCHEMA)


def test_a_wrong_document_does_not_fit() -> None:
    document = tracy().to_json() | {"device_time_ms": "63.2"}
    with pytest.raises(jsonschema.ValidationError, match=r"63\.2"):
        jsonschema.validate(document, SCHEMA)


def test_text_is_readable() -> None:
    text = report.render(replace(tracy(), warnings=(Caveat("x", "Größe 立"),)))
    assert "Größe 立" in text and text.endswith("}\n") and text.startswith('{\n  "schema"')
