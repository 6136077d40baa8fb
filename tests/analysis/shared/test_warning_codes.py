"""Codes of warnings never change their meaning; the page is that of the table."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from instrumentor_analysis.shared.caveats import IGNORED, Caveat, by_weight, without
from instrumentor_analysis.shared.warning_codes import LEVELS, WARNINGS, explained, near
from tests import warnings_page

ROOT = Path(__file__).resolve().parents[3]
PINNED = Path(__file__).with_name("warning_codes.txt")
#: What has no code: sentences of other reports.
_FREE = {"text", "kernel", "comparison", IGNORED}
#: Kinds whose constructor names them by a variable.
_BY_VARIABLE = {
    *("host-read-inside", "save-inside", "fetch-inside", "copy-inside", "validation-inside"),
    *("host-reads-moved", "host-reads-as-written", "validation-stays", "checkpoint-stays"),
    *("validation-between", "checkpoint-between"),
    *("validation-unproven", "checkpoint-unproven"),
    *("graph-break", "fallback", "new-graph", "gradients-dropped"),
    *("breakpoint", "own-profiler", "several-processes", "outlives-stop", "recorder"),
    *("no-programs", "no-torch-ops", "discovered", "different-ops", "busy-machine"),
    "uncalled-test",
}


def _made() -> Iterator[tuple[str, str, bool]]:
    """Every warning that a line of the product makes by name: where, kind, has it a weight."""
    for folder in ("instrumentor", "analysis"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "Caveat" and node.args:
                    kind = node.args[0]
                    weighed = len(node.args) > 2 or any(k.arg == "weight" for k in node.keywords)
                    if isinstance(kind, ast.Constant):
                        yield f"{path.name}:{node.lineno}", str(kind.value), weighed


def test_a_code_never_changes_its_meaning() -> None:
    """Add lines for new warnings; never change or remove one."""
    pinned = [line.split() for line in PINNED.read_text(encoding="utf-8").splitlines()]
    assert [[each.code, each.kind] for each in WARNINGS if [each.code, each.kind] in pinned] == [
        pair for pair in pinned if explained(pair[0]) is not None
    ]
    codes = {code for code, _ in pinned}
    assert {each.code for each in WARNINGS} <= codes, "add the new ones to warning_codes.txt"
    assert len(codes) == len(pinned)


def test_every_warning_has_its_code_and_is_weighed_by_the_table_alone() -> None:
    seen = set()
    for place, kind, weighed in _made():
        if kind in _FREE:
            continue
        found = explained(kind)
        assert found is not None, f"{place}: {kind} has no code"
        assert not weighed, f"{place}: {kind} is weighed by the table"
        assert Caveat(kind, "").weight == found.weight
        seen.add(kind)
    assert {each.kind for each in WARNINGS} == seen | _BY_VARIABLE


@pytest.mark.parametrize("each", WARNINGS, ids=lambda each: each.code)
def test_a_row_is_whole_sentences(each: object) -> None:
    row = explained(getattr(each, "code"))  # noqa: B009
    assert row is not None
    assert row.weight in LEVELS and not row.title.endswith(".") and row.why.endswith(".")
    assert row.remedy


def test_the_page_is_that_of_the_table(request: pytest.FixtureRequest) -> None:
    page = ROOT / "docs" / "warnings.md"
    if request.config.getoption("--update-goldens"):
        page.write_text(warnings_page.text(), encoding="utf-8")
    hint = "pytest tests/analysis/shared/test_warning_codes.py --update-goldens"
    assert page.read_text(encoding="utf-8") == warnings_page.text(), hint


def test_what_is_ignored_is_counted() -> None:
    every = (Caveat("outlier", "one"), Caveat("outlier", "two"), Caveat("scatter", "three"))
    kept = by_weight(without(every, {"W205"}), notes=False)
    assert [str(each) for each in kept] == ["three", "2 warnings ignored: W205"]
    assert without(every, ()) == every


def test_a_warning_ends_with_its_code() -> None:
    assert Caveat("outlier", "Step 2 is an outlier").labelled == "Step 2 is an outlier [W205]"
    assert Caveat("text", "of an old file").labelled == "of an old file"


@pytest.mark.parametrize(
    ("word", "first"),
    [("busy", "W201"), ("BUSY", "W201"), ("random-number", "W017"), ("W2055", "W205")],
)
def test_a_code_or_name_that_there_is_not_has_some_that_may_be_meant(word: str, first: str) -> None:
    assert near(word)[0].code == first


def test_what_is_like_no_warning_has_none() -> None:
    assert not near("W999") and not near("xx") and not near("")
