"""The proof that the copy is what ran."""

from __future__ import annotations

import os
import venv
from pathlib import Path

import pytest

from instrumentor.shared.errors import RunFailed
from instrumentor.shared.project import find_project
from instrumentor.workspace.loaded_proof import check_loaded
from instrumentor.workspace.shadow import shadow


@pytest.fixture
def workspace(git_repo):
    repo = git_repo({"scripts/train.py": "", "pkg/__init__.py": "", "pkg/loop.py": ""})
    script = repo / "scripts" / "train.py"
    replacements = {script: b"1", repo / "pkg" / "loop.py": b"2"}
    with shadow(find_project(script), script, repo, replacements) as opened:
        yield opened


def load(path: Path | str) -> dict[str, object]:
    return {"event": "load", "pid": 1, "file": str(path), "time": 0.0}


def test_all_reported_from_the_shadow(workspace) -> None:
    records = [
        load("scripts/train.py"),
        load(workspace.root / "pkg" / "loop.py"),
        {"event": "sample"},
    ]
    check_loaded(records, workspace, workspace.replaced)
    check_loaded(records, workspace, [workspace.counterpart(p) for p in workspace.replaced])


def test_another_copy_reported(workspace) -> None:
    records = [load(workspace.script), load("/site-packages/pkg/loop.py")]
    with pytest.raises(RunFailed) as caught:
        check_loaded(records, workspace, workspace.replaced)
    assert "pkg/loop.py was instrumented" in caught.value.message
    assert "/site-packages/pkg/loop.py was imported instead" in caught.value.message
    assert "goes first on the import path" in caught.value.hint


def test_never_reported_and_nobody_to_ask(workspace) -> None:
    with pytest.raises(RunFailed, match=r"its copy never ran$") as caught:
        check_loaded([load(workspace.script)], workspace, workspace.replaced)
    assert "--in-place" in caught.value.hint


EDITABLE_HOOK = """
import sys
from importlib.machinery import PathFinder
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, [{root!r}]) if name == "pkg" else None
sys.meta_path.insert(0, Finder)
"""


def test_an_editable_install_with_a_hook_is_named_with_its_remedy(
    workspace, tmp_path: Path
) -> None:
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (site / "_editable.py").write_text(EDITABLE_HOOK.format(root=str(workspace.project.root)))
    (site / "_editable.pth").write_text("import _editable\n")
    with pytest.raises(RunFailed) as caught:
        check_loaded(
            [load(workspace.script)],
            workspace,
            workspace.replaced,
            python=python,
            environment=workspace.environment(os.environ),
        )
    original = workspace.project.root / "pkg" / "loop.py"
    assert f"{original} was imported instead" in caught.value.message
    assert "editable" in caught.value.hint
