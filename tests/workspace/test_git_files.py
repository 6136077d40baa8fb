"""Whatever git opens by itself: no pipe is waited for, no device is read to its end."""

from __future__ import annotations

import math
import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instrumentor.shared.errors import NotReady
from instrumentor.workspace import git, git_files
from instrumentor.workspace.in_place.disk import Disk
from instrumentor.workspace.in_place.journal import store
from instrumentor.workspace.private_git import make_private_git
from tests.conftest import RepoFactory
from tests.conftest import git as run_git

pytestmark = pytest.mark.usefixtures("no_hang")

IGNORED = ("--others", "--ignored", "--exclude-standard", "--directory")


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.fixture
def repo(git_repo: RepoFactory) -> Path:
    return git_repo({"train.py": "x = 1\n", "pkg/a.py": ""})


def planted(path: Path, make: Callable[[Path], None] = os.mkfifo) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    make(path)
    return path


@pytest.mark.parametrize("make", [os.mkfifo, zeros])
@pytest.mark.parametrize(
    "name",
    [
        ".gitignore", ".gitattributes", ".gitmodules", ".mailmap", ".git/HEAD", ".git/config",
        ".git/packed-refs",
        ".git/index", ".git/info/exclude", ".git/refs/heads/x", ".git/refs/a/b/c",
        ".git/objects/info/commit-graph", ".git/objects/info/commit-graphs/x",
        ".git/objects/pack/pack-x.idx", ".git/objects/info/alternates", ".git/reftable/x",
    ],
)  # fmt: skip
def test_what_git_always_reads_is_looked_at_before(
    repo: Path, name: str, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = planted(repo / name, make)
    monkeypatch.setattr(git, "_answer", lambda *_: pytest.fail("asked"))
    for root in (repo, repo / "pkg", repo / ".git"):
        with pytest.raises(NotReady, match="not a regular file: git is not asked") as caught:
            git.names(root, ())
        assert str(path) in caught.value.message


def waiting(repo: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is said of a repository that git waits in, asked from within it."""
    monkeypatch.chdir(repo)
    monkeypatch.setattr(git, "SOON_S", 0.1)
    with pytest.raises(NotReady, match="is a pipe, not a regular file: git waits for it") as caught:
        git.names(repo, IGNORED)
    return caught.value.message.partition(" is a pipe")[0]


@pytest.mark.parametrize("name", ["pkg/.gitignore", "new/deep/.gitignore", "nested/.git/HEAD"])
def test_what_git_waits_for_in_the_tree_is_named(
    repo: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.startswith("nested"):
        (repo / "nested").mkdir()
        run_git(repo / "nested", "init", "-q")
    path = planted(repo / name)
    os.mkfifo(repo / "pkg" / "theirs")  # git reads none of that name
    assert waiting(repo, monkeypatch) == str(path)


@pytest.mark.parametrize("setting", ["include.path", "core.excludesFile"])
def test_what_a_setting_names_is_found(
    repo: Path, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(repo / "pkg" / "pipe")
    (repo / ".git" / "more").write_text(f"[{setting.replace('.', ']' + chr(10))} = ../pkg/pipe\n")
    if setting == "core.excludesFile":
        (repo / ".git" / "more").write_text("[core]\nexcludesFile = pkg/pipe\n")
    run_git(repo, "config", "include.path", "more")
    assert Path(waiting(repo, monkeypatch)).resolve() == repo / "pkg" / "pipe"


def test_an_object_that_is_a_pipe_is_named(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = run_git(repo, "rev-parse", "HEAD:train.py").strip()
    path = planted(repo / ".git" / "objects" / blob[:2] / blob[2:])
    monkeypatch.setattr(git, "SOON_S", 0.1)
    with pytest.raises(NotReady, match=f"{path} is a pipe"):
        git.read(repo, "cat-file", "blob", blob)


@pytest.mark.parametrize("name", ["info/alternates", "pack/x.idx"])
def test_object_folders_that_are_borrowed_from_are_looked_at(repo: Path, name: str) -> None:
    """Git reads those that a borrowed one names in its turn."""
    objects, one, two = repo / ".git" / "objects", repo / "one", repo / "two"
    planted(two / name)
    (one / "info").mkdir(parents=True)
    (one / "info" / "alternates").write_text(f"{two}\n{one}\n{objects}\n")
    (objects / "info" / "alternates").write_text(f"# none\n{one}\n")
    with pytest.raises(NotReady, match=f"{two / name} is a pipe"):
        git.names(repo, ())


def test_a_borrowed_folder_may_have_any_name(repo: Path) -> None:
    """Git quotes such a name as C does."""
    name = 'a\n\u2028\r"b\\'
    planted(repo / name / "info" / "alternates")
    quoted = 'a\\n\u2028\\015\\"b\\\\'
    (repo / ".git/objects/info/alternates").write_text(f'"{repo}/{quoted}"\n"o\rdd\n')
    objects = repo / ".git" / "objects"
    assert git_files.lenders(objects) == [repo / name, objects / '"o\rdd']
    with pytest.raises(NotReady, match="info/alternates is a pipe"):
        git.names(repo, ())


@pytest.mark.parametrize("name", ["a\nb", "a\u2028b", "a\rb", "a\x0cb"])
def test_a_git_folder_may_have_any_name(git_repo: RepoFactory, tmp_path: Path, name: str) -> None:
    """A file named .git, which may come with an archive, says where it lies."""
    repo, tree = git_repo({"train.py": ""}, name=name), tmp_path / "tree"
    run_git(repo, "worktree", "add", "-q", str(tree))
    assert git.common_folder(tree) == repo / ".git"
    make_private_git(tree, tmp_path / "copy.git")
    head = run_git(tree, "rev-parse", "HEAD")
    assert run_git(tmp_path, "--git-dir=copy.git", "rev-parse", "HEAD^{commit}") == head


@pytest.mark.parametrize("pipe", ["HEAD", "packed-refs", "refs/heads/x"])
def test_a_pipe_behind_a_file_that_names_gits_folder(repo: Path, tmp_path: Path, pipe: str) -> None:
    """Of a worktree, what it shares with others lies in another folder still."""
    tree = tmp_path / "tree"
    run_git(repo, "worktree", "add", "-q", str(tree))
    assert git.names(tree, ("--cached",)) == ["pkg/a.py", "train.py"]
    planted(repo / ".git" / pipe)
    with pytest.raises(NotReady, match=f"{pipe} is a pipe, not a regular file: git is not asked"):
        git.names(tree, ())


def test_a_git_folder_apart_from_its_tree_is_looked_at(repo: Path, tmp_path: Path) -> None:
    apart = tmp_path / "apart.git"
    (repo / ".git").rename(apart)
    planted(apart / "packed-refs")
    with pytest.raises(NotReady, match="git is not asked"):
        git.read(apart, f"--git-dir={apart}", "for-each-ref")


def test_links_of_folders_have_an_end_and_lead_where_git_follows(
    repo: Path, tmp_path: Path
) -> None:
    refs = repo / ".git" / "refs"
    (refs / "round").symlink_to("..")
    (refs / "void").symlink_to("/dev/null")
    assert len(list(git_files._found(refs, math.inf))) <= 2  # not once for each time round
    (refs / "void").unlink()
    assert git.names(repo, ("--cached",)) == ["pkg/a.py", "train.py"]
    run_git(tmp_path, "init", "-q", "other")
    os.mkfifo(tmp_path / "other" / ".git" / "refs" / "pipe")
    (refs / "shared").symlink_to(tmp_path / "other" / ".git" / "refs")
    with pytest.raises(NotReady, match="shared/pipe is a pipe"):
        git.names(repo, ())


@pytest.mark.parametrize("name", ["refs", "refs/heads", "refs/x"])
def test_refs_that_lead_out_of_gits_folders_are_not_read(
    repo: Path, tmp_path: Path, name: str
) -> None:
    """They may lead to a whole disk, which takes its time to be searched."""
    shutil.rmtree(repo / ".git" / name, ignore_errors=True)
    (repo / ".git" / name).symlink_to(tmp_path)
    with pytest.raises(NotReady, match=f"{name} leads to {tmp_path}, which is no part of a git"):
        git.names(repo, ())


@pytest.mark.parametrize("part", ["HEAD", "objects/"])
def test_half_of_a_git_folder_is_none(repo: Path, tmp_path: Path, part: str) -> None:
    half = tmp_path / "half"
    (half / "refs").mkdir(parents=True)
    (half / part).mkdir() if part.endswith("/") else (half / part).touch()
    (repo / ".git" / "refs" / "x").symlink_to(half / "refs")
    with pytest.raises(NotReady, match="which is no part of a git folder"):
        git.names(repo, ())


def test_a_block_device_would_be_read_to_its_end(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, config = os.stat, str(repo / ".git" / "config")

    def stat_of(path: object, **options: Any) -> Any:
        block = SimpleNamespace(st_mode=stat.S_IFBLK | 0o600, st_rdev=os.makedev(7, 0))
        return block if str(path) == config else seen(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(git_files, "_beside", lambda root: [Path(config)])
    monkeypatch.setattr(os, "stat", stat_of)
    with pytest.raises(NotReady, match="config is a device"):
        git_files.refuse_endless(repo)


@pytest.mark.parametrize("name", ["objects", "objects/7a", "logs", "logs/refs"])
def test_nothing_is_written_behind_a_link(repo: Path, tmp_path: Path, name: str) -> None:
    """Git would put the blob of a run in place, or what it notes of its ref, wherever it leads."""
    outside = tmp_path / "outside"
    (repo / ".git" / name).exists() and (repo / ".git" / name).rename(outside)
    outside.mkdir(exist_ok=True)
    (repo / ".git" / name).symlink_to(outside)
    before = sorted(outside.rglob("*"))
    assert git.names(repo, ("--cached",)) == ["pkg/a.py", "train.py"]
    with pytest.raises(NotReady, match=f"{name} leads to {outside}, which is no part of a git"):
        git.write(repo, "hash-object", "-w", "--stdin", stdin=b"new\n")
    assert sorted(outside.rglob("*")) == before


def test_objects_that_another_git_folder_shares_are_written(repo: Path, tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q", "other")
    shared = tmp_path / "other" / ".git" / "objects"
    shutil.rmtree(shared)
    (repo / ".git" / "objects").rename(shared)
    (repo / ".git" / "objects").symlink_to(shared)
    assert store(repo / "train.py", b"new\n", repo / ".git", Disk())


def test_what_git_does_not_wait_for_is_no_reason(repo: Path) -> None:
    """A file system monitor's socket, hooks that lead nowhere, a pipe of the script's."""
    with socket.socket(socket.AF_UNIX) as served:
        served.bind(str(repo / ".git" / "fsmonitor--daemon.ipc"))
        planted(repo / ".git" / "hooks" / "post-commit", zeros)
        planted(repo / "pkg" / "queue")
        assert git.names(repo, ("--cached",)) == ["pkg/a.py", "train.py"]


def test_a_search_has_an_end(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(repo / "pkg" / ".gitignore")
    monkeypatch.setattr(git_files, "LOOK_S", -1.0)
    git_files.refuse_waited_for(repo, ())
    monkeypatch.undo()
    with pytest.raises(NotReady):
        git_files.refuse_waited_for(repo, ())
