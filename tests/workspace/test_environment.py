"""The environment of a script in its shadow."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from instrumentor.shared.project import find_project
from instrumentor.workspace.shadow import shadow


def test_shadow_roots_then_extra_then_the_users_own_mapped(git_repo, tmp_path: Path) -> None:
    files = {"src/pkg/x.py": "", "scripts/train.py": "", "tools/t.py": "", ".gitignore": "env/\n"}
    repo = git_repo(files)
    (repo / "env" / "lib").mkdir(parents=True)
    (repo / "env" / "pyvenv.cfg").write_text("")
    own = [str(repo / "tools"), "tools", "", str(repo / "env" / "lib"), "/elsewhere", str(repo)]
    script = repo / "scripts" / "train.py"
    with shadow(find_project(script), script, repo, {}) as workspace:
        base = {"PYTHONPATH": os.pathsep.join(own), "PWD": str(repo / "scripts"), "KEPT": "1"}
        environment = workspace.environment(base, [tmp_path / "python_package"])
        root = workspace.root
        assert environment["PYTHONPATH"].split(os.pathsep) == [
            str(root),
            str(root / "src"),
            str(root / "scripts"),
            str(tmp_path / "python_package"),
            str(root / "tools"),
            str(repo / "env" / "lib"),
            "/elsewhere",
        ]
        assert environment["PWD"] == str(root / "scripts")
        assert environment["KEPT"] == "1"
        assert environment["WANDB_MODE"] == "disabled"
        assert base["PWD"] == str(repo / "scripts")
        planned = workspace.plan.environment(base, [tmp_path / "python_package"])
        assert planned == environment


def test_git_reads_a_private_folder_and_variables_of_a_hook_do_not_leak(git_repo) -> None:
    repo = git_repo({"train.py": ""})
    with shadow(find_project(repo / "train.py"), repo / "train.py", repo, {}) as workspace:
        hook = {"GIT_DIR": str(repo / ".git"), "GIT_INDEX_FILE": "index", "GIT_AUTHOR_NAME": "A"}
        environment = workspace.environment(hook)
    assert not environment["GIT_DIR"].startswith(str(repo))
    assert environment["GIT_WORK_TREE"] == str(workspace.root)
    assert environment["GIT_OPTIONAL_LOCKS"] == "0"
    assert "GIT_INDEX_FILE" not in environment
    assert environment["GIT_AUTHOR_NAME"] == "A"


def test_a_hook_s_variables_do_not_mislead_the_listing(git_repo, monkeypatch) -> None:
    other = git_repo({"x.py": ""}, name="other")
    repo = git_repo({"train.py": ""})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    with shadow(find_project(repo / "train.py"), repo / "train.py", repo, {}) as workspace:
        assert [p.name for p in workspace.root.iterdir()] == ["train.py"]


def test_bytecode_that_is_there_is_used_where_none_is_written(git_repo) -> None:
    """With nothing to write, a folder of ours would only hide what is installed."""
    repo = git_repo({"train.py": ""})
    project = find_project(repo / "train.py")
    with shadow(project, repo / "train.py", repo, {}) as workspace:
        assert "PYTHONPYCACHEPREFIX" in workspace.environment({})
        plain = workspace.environment({"PYTHONDONTWRITEBYTECODE": "1"})
    assert "PYTHONPYCACHEPREFIX" not in plain and plain["WANDB_MODE"] == "disabled"


@pytest.mark.parametrize("name", ["json.py", "sitecustomize.py", "email/__init__.py"])
def test_a_folder_that_hides_the_standard_library_is_not_on_the_path(git_repo, name: str) -> None:
    repo = git_repo({"exp/train.py": "", f"exp/{name}": "", "exp/helper.py": ""})
    project = find_project(repo / "exp" / "train.py")
    assert repo / "exp" in project.import_roots and repo / "exp" not in project.search_path
