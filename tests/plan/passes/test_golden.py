"""Every shape of a training loop: its whole rewriting and its explanation, as files to be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.rewrite.engine import strip
from tests.plan.passes.goldens import Case, all_cases, selected


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_golden(case: Case, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    prepared = case.prepare(tmp_path)
    produced = {
        "after.diff": prepared.diff,
        "explain.json": selected(prepared.plan.to_json(), prepared.project.root),
    }
    for name, text in produced.items():
        golden = case.folder / name
        if request.config.getoption("--update-goldens"):
            golden.write_bytes(text.encode())
        assert golden.is_file(), f"no {golden}: read it after pytest --update-goldens"
        assert text.encode() == golden.read_bytes()
    for path, code in prepared.replacements.items():
        assert strip(code) == prepared.originals[path]
