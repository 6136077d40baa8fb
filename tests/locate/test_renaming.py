"""A plan hangs on what the code does, not on how its author calls things."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor import Options
from instrumentor.rewrite.prepare import prepare
from instrumentor.shared.errors import InstrumentError
from tests.locate.renaming import WAYS, aliased, new_names, renamed, with_old_names
from tests.plan.passes.goldens import Case, all_cases, selected


def planned(script: Path, options: Options) -> str:
    try:
        prepared = prepare(script, options)
    except InstrumentError as error:
        return f"declined: {error}"
    return selected(prepared.plan.to_json(), prepared.project.root)


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_local_variables_may_have_any_name(case: Case, tmp_path: Path) -> None:
    script = case.copy(tmp_path)
    files = {path: path.read_bytes() for path in script.parent.rglob("*.py")}
    names = new_names(files.values())
    assert names
    for path, data in files.items():
        path.write_bytes(renamed(data, names))
    plan = with_old_names(planned(script, case.options), names)
    assert plan == (case.folder / "explain.json").read_text()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_modules_may_be_imported_in_any_way(case: Case, way: str, tmp_path: Path) -> None:
    script = case.copy(tmp_path)
    names: dict[str, str] = {}
    for path in script.parent.rglob("*.py"):
        data, used = aliased(path.read_bytes(), way)
        path.write_bytes(data)
        names |= used
    plan = with_old_names(planned(script, case.options), names)
    assert plan == (case.folder / "explain.json").read_text()
