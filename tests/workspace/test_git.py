"""A repository's own settings run nothing, and its index stays as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from instrumentor.shared.errors import NotReady
from instrumentor.shared.project import find_project
from instrumentor.workspace import git
from instrumentor.workspace.copy_plan import plan_shadow
from instrumentor.workspace.originals_proof import Originals
from tests.conftest import git as run_git


@pytest.fixture
def hostile(git_repo, tmp_path: Path) -> Path:
    """A repository in which every program that git could run leaves a file ``ran-...``."""
    repo = git_repo({"train.py": "x = 1\n", ".gitattributes": "*.py filter=evil diff=evil\n"})

    def program(name: str) -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran-{name}'\ncat\n")
        path.chmod(0o755)
        return str(path)

    for key, name in {
        "core.fsmonitor": "monitor",
        "filter.evil.clean": "clean",
        "filter.evil.smudge": "smudge",
        "filter.evil.process": "process",
        "diff.external": "external",
        "diff.evil.command": "command",
        "diff.evil.textconv": "textconv",
        "core.pager": "pager",
        "core.sshCommand": "ssh",
        "remote.origin.uploadpack": "upload",
    }.items():
        run_git(repo, "config", key, program(name))
    run_git(repo, "config", "filter.evil.required", "true")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("post-index-change", "reference-transaction", "pre-commit"):
        (hooks / name).symlink_to(program(name))
    run_git(repo, "config", "core.hooksPath", str(hooks))
    return repo


def ran(repo: Path) -> list[str]:
    return sorted(path.name for path in repo.parent.glob("ran-*"))


def touched(path: Path) -> None:
    """Other times, so that git has to look at the content."""
    os.utime(path, ns=(1, 1))


def test_nothing_that_a_repository_configures_is_run(hostile: Path) -> None:
    index = (hostile / ".git" / "index").read_bytes()
    touched(hostile / "train.py")
    script = hostile / "train.py"
    project = find_project(script)
    commit, dirty = git.state(hostile)
    assert commit == run_git(hostile, "rev-parse", "HEAD").strip() and dirty is False
    originals = Originals.take(project, [script])
    plan_shadow(project, script, hostile, [script])
    assert originals.verify() == ()
    git.write(hostile, "update-ref", "refs/instrumentor/x", commit)
    git.write(hostile, "update-ref", "-d", "refs/instrumentor/x")
    (hostile / "train.py").write_text("x = 2\n")
    assert git.state(hostile) == (commit, True)
    assert ran(hostile) == []
    assert (hostile / ".git" / "index").read_bytes() == index


def test_an_object_that_is_missing_is_not_fetched(hostile: Path) -> None:
    """A partial clone gets what it lacks by whatever program the repository names."""
    run_git(hostile, "config", "remote.origin.url", str(hostile))
    run_git(hostile, "config", "remote.origin.promisor", "true")
    run_git(hostile, "config", "extensions.partialClone", "origin")
    run_git(hostile, "config", "core.repositoryFormatVersion", "1")
    with pytest.raises(NotReady):
        git.read(hostile, "cat-file", "blob", "0123456789012345678901234567890123456789")
    assert ran(hostile) == []


def test_a_filter_that_cannot_be_switched_off_leaves_the_state_open(hostile: Path) -> None:
    run_git(hostile, "config", "filter.a=b.clean", "touch ran-odd")
    touched(hostile / "train.py")
    commit, dirty = git.state(hostile)
    assert commit and dirty is None
    assert Originals.take(find_project(hostile / "train.py"), [hostile / "train.py"]).files[0].blob
    assert ran(hostile) == []


def test_the_state_of_a_tree(git_repo, tmp_path: Path) -> None:
    repo = git_repo({"a.py": "a\n", "b.py": "b\r\n"})
    commit = run_git(repo, "rev-parse", "HEAD").strip()
    run_git(repo, "config", "core.autocrlf", "input")
    touched(repo / "b.py")
    (repo / "new.py").touch()
    assert git.state(repo) == (commit, False)
    run_git(repo, "rm", "-q", "--cached", "a.py")
    assert git.state(repo) == (commit, True)
    assert git.state(git_repo({}, name="empty", commit=False))[0] is None
    assert git.state(tmp_path) == (None, None)


def test_the_working_tree_may_not_be_where_the_settings_say(git_repo, tmp_path: Path) -> None:
    repo = git_repo({"a.py": "a\n"})
    (tmp_path / "home").mkdir()
    run_git(repo, "config", "core.worktree", str(tmp_path / "home"))
    assert git.common_folder(repo) is None
    assert git.common_folder(tmp_path / "home") is None


def test_a_lock_is_named_with_what_to_do(git_repo) -> None:
    repo = git_repo({"a.py": "a\n"})
    (repo / ".git" / "refs" / "instrumentor").mkdir()
    lock = repo / ".git" / "refs" / "instrumentor" / "x.lock"
    lock.touch()
    with pytest.raises(NotReady, match=str(lock)) as caught:
        git.write(repo, "update-ref", "refs/instrumentor/x", "HEAD")
    assert caught.value.hint.endswith(f"rm {lock}")


def test_a_repository_that_git_does_not_accept_is_no_folder_without_one(
    git_repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = git_repo({"a.py": "a\n"})
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(NotReady, match="ownership"):
        git.common_folder(repo)
