"""Which project a script belongs to, and from where it imports."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from instrumentor.rewrite import rewrite
from instrumentor.shared import project
from instrumentor.shared.errors import UsageError
from instrumentor.shared.project import (
    find_project,
    home_folder,
    ignored_mark,
    is_git_root,
    read_toml,
    seen_from_here,
)
from tests.attackers import NOBODY, TWO_USERS, as_another_user, shared_tmp

__all__ = ["shared_tmp"]
pytestmark = pytest.mark.usefixtures("no_hang")

#: A warning of it names a line.
TRAINS = """\
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for n, x in enumerate(loader):
    model(x).sum().backward()
    optimizer.step()
    if n > 5: break
"""
#: More than a file of settings may have.
_LARGE = "#" * (1 << 20)


def _files(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def test_a_script_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"train\.py is not a file"):
        find_project(tmp_path / "train.py")


def test_a_file_is_named_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert seen_from_here(tmp_path / "part/train.py") == "part/train.py"
    assert seen_from_here(tmp_path.parent / "train.py") == "train.py"
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert seen_from_here(gone / "train.py") == "train.py"
    assert rewrite(TRAINS, filename="train.py").plan.warnings[0].place == "train.py:7"


def test_without_any_marker_the_scripts_folder_is_the_project(tmp_path: Path) -> None:
    _files(tmp_path, "a/train.py")
    project = find_project(tmp_path / "a" / "train.py")
    assert project.root == tmp_path / "a"
    assert not project.git
    assert project.import_roots == (tmp_path / "a",)


@pytest.mark.parametrize("marker", ["pyproject.toml", "setup.py", "setup.cfg"])
def test_without_git_the_nearest_packaging_file_marks_the_root(tmp_path: Path, marker: str) -> None:
    _files(tmp_path, "setup.py", f"inner/{marker}", "inner/deep/er/train.py")
    project = find_project(tmp_path / "inner" / "deep" / "er" / "train.py")
    assert project.root == tmp_path / "inner"
    assert project.import_roots == (tmp_path / "inner", tmp_path / "inner" / "deep" / "er")


def test_the_git_root_goes_before_a_nearer_packaging_file(git_repo) -> None:
    repo = git_repo({"packages/a/pyproject.toml": "", "packages/a/scripts/train.py": ""})
    project = find_project(repo / "packages" / "a" / "scripts" / "train.py")
    assert project.git
    assert project.root == repo
    assert project.import_roots == (repo, repo / "packages" / "a", repo / "packages/a/scripts")


def test_worktrees_and_submodules_are_git_roots(git_repo, tmp_path: Path) -> None:
    library = git_repo({"train.py": ""}, name="library")
    repo = git_repo({"train.py": ""})

    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *arguments], cwd=repo, check=True
        )

    git("worktree", "add", "--quiet", str(tmp_path / "tree"))
    git("submodule", "--quiet", "add", str(library), "third_party/library")
    assert find_project(tmp_path / "tree" / "train.py").root == tmp_path / "tree"
    nested = find_project(repo / "third_party" / "library" / "train.py")
    assert nested.root == repo / "third_party" / "library"
    assert nested.git


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo, lambda path: path.write_text("elsewhere")])
def test_a_stray_git_file_is_not_a_repository(tmp_path: Path, make) -> None:
    make(tmp_path / ".git")
    assert not is_git_root(tmp_path)


def test_a_stray_git_folder_is_not_a_repository(tmp_path: Path) -> None:
    _files(tmp_path, "pyproject.toml", "a/train.py")
    (tmp_path / "a" / ".git").mkdir()
    assert find_project(tmp_path / "a" / "train.py").root == tmp_path


def test_a_home_folder_kept_in_git_is_not_a_project(git_repo, monkeypatch) -> None:
    home = git_repo({"train.py": "", "work/train.py": ""}, name="home")
    monkeypatch.setenv("HOME", str(home))
    project = find_project(home / "work" / "train.py")
    assert project.root == home / "work"
    assert not project.git
    (home / "pyproject.toml").write_text("")
    assert find_project(home / "work" / "train.py").root == home


def test_a_linked_script_belongs_to_the_project_it_lies_in(git_repo, tmp_path: Path) -> None:
    repo = git_repo({"a/train.py": ""})
    (tmp_path / "alias.py").symlink_to(repo / "a" / "train.py")
    assert find_project(tmp_path / "alias.py").root == repo


@pytest.mark.parametrize(
    ("file", "text", "folder"),
    [
        ("pyproject.toml", "", "src"),
        ("pyproject.toml", '[tool.setuptools.package-dir]\n"" = "lib"\n', "lib"),
        ("pyproject.toml", '[tool.setuptools.packages.find]\nwhere = ["python"]\n', "python"),
        ("pyproject.toml", '[tool.poetry]\npackages = [{include = "x", from = "lib"}]\n', "lib"),
        ("pyproject.toml", '[tool.hatch.build.targets.wheel]\npackages = ["py/x"]\n', "py"),
        ("setup.cfg", "[options]\npackage_dir =\n    = lib\n", "lib"),
        ("setup.cfg", "[options.packages.find]\nwhere = lib\n", "lib"),
    ],
)
def test_source_folders_are_import_roots(tmp_path: Path, file: str, text: str, folder: str) -> None:
    _files(tmp_path, f"{folder}/x/__init__.py", "scripts/train.py")
    (tmp_path / file).write_text(text)
    roots = find_project(tmp_path / "scripts" / "train.py").import_roots
    assert roots == (tmp_path, tmp_path / folder, tmp_path / "scripts")


def test_settings_that_cannot_be_read_name_no_root(tmp_path: Path) -> None:
    _files(tmp_path, "train.py")
    (tmp_path / "pyproject.toml").write_text('package-dir = "')
    (tmp_path / "setup.cfg").write_text("package_dir")
    assert find_project(tmp_path / "train.py").import_roots == (tmp_path,)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", '[tool.setuptools.packages.find]\nwhere = ["nowhere"]\n'),
        ("pyproject.toml", f'[tool.setuptools.packages.find]\nwhere = ["lib"]\n{_LARGE}'),
        ("pyproject.toml", f"packages = {'[' * 100_000}"),
        ("setup.cfg", f"[options.packages.find]\nwhere = lib\n{_LARGE}"),
        ("setup.cfg", "[options]\npackage_dir =\n    x = lib\n    lib\n\n"),
        ("setup.cfg", "[options]\npackage_dir =\n    = %(lib)s\n"),
    ],
)
def test_settings_that_name_no_folder_of_packages_add_none(
    tmp_path: Path, file: str, text: str
) -> None:
    _files(tmp_path, "lib/x.py", "scripts/train.py")
    (tmp_path / file).write_text(text)
    roots = find_project(tmp_path / "scripts" / "train.py").import_roots
    assert roots == (tmp_path, tmp_path / "scripts")


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.cfg"])
def test_a_pipe_in_the_place_of_settings_is_not_waited_for(tmp_path: Path, name: str) -> None:
    _files(tmp_path, "setup.py", "train.py")
    os.mkfifo(tmp_path / name)
    assert find_project(tmp_path / "train.py").import_roots == (tmp_path,)


def test_toml_of_many_plain_keys_is_read_and_a_deep_one_is_no_toml() -> None:
    assert len(read_toml("".join(f"k{at} = 1.5\n" for at in range(2000)).encode())) == 2000
    for text in ("a." * 2000 + "b = 1", f"a = {'[' * 100_000}"):
        with pytest.raises(ValueError, match=r"nest|deep|recurs"):
            read_toml(text.encode())


def test_a_folder_that_is_a_package_or_a_link_to_the_script_s_is_no_further_root(
    tmp_path: Path,
) -> None:
    _files(tmp_path, "src/__init__.py", "lib/x.py", "scripts/train.py")
    (tmp_path / "link").symlink_to("scripts")
    where = '[tool.setuptools.packages.find]\nwhere = ["link", "lib"]\n'
    (tmp_path / "pyproject.toml").write_text(where)
    roots = find_project(tmp_path / "scripts" / "train.py").import_roots
    assert roots == (tmp_path, tmp_path / "lib", tmp_path / "scripts")


def test_packaging_above_the_repository_is_another_project_s(git_repo) -> None:
    repo = git_repo({"lib/x.py": "", "scripts/train.py": ""})
    where = f'[tool.setuptools.packages.find]\nwhere = ["{repo.name}/lib"]\n'
    (repo.parent / "pyproject.toml").write_text(where)
    roots = find_project(repo / "scripts" / "train.py").import_roots
    assert roots == (repo, repo / "scripts")


def test_a_folder_named_as_a_marker_is_none(tmp_path: Path) -> None:
    _files(tmp_path, "inner/setup.py/x.txt", "inner/train.py", "setup.py")
    assert find_project(tmp_path / "inner" / "train.py").root == tmp_path


def test_the_root_of_the_system_is_nobody_s_project(monkeypatch: pytest.MonkeyPatch) -> None:
    root = frozenset({0})
    assert list(project._candidates(Path("/one/two"), root)) == [Path("/one/two"), Path("/one")]
    monkeypatch.setattr(project, "_is_package", lambda *_: True)
    assert project._import_folder(Path("/usr/bin"), root) == Path("/")


def test_a_user_without_a_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", none)
    assert home_folder() is None


def test_a_source_folder_outside_the_project_is_no_import_root(tmp_path: Path) -> None:
    _files(tmp_path, "elsewhere/x.py", "project/train.py")
    settings = '[tool.setuptools.package-dir]\n"" = "../elsewhere"\n'
    (tmp_path / "project" / "pyproject.toml").write_text(settings)
    roots = find_project(tmp_path / "project" / "train.py").import_roots
    assert roots == (tmp_path / "project",)


@pytest.mark.parametrize(
    ("name", "hides"),
    [
        ("platform.py", True),
        ("json/__init__.py", True),
        ("sitecustomize.py", True),
        ("usercustomize/__init__.py", True),
        ("json/data.txt", False),
        ("json.txt", False),
        ("mine.py", False),
    ],
)
def test_a_root_that_would_hide_the_standard_library_is_no_import_root(
    tmp_path: Path, name: str, hides: bool
) -> None:
    _files(tmp_path, "pyproject.toml", name, "scripts/train.py")
    roots = find_project(tmp_path / "scripts" / "train.py").import_roots
    assert roots == (*(() if hides else (tmp_path,)), tmp_path / "scripts")


def test_a_script_beside_what_hides_the_standard_library_is_on_no_pythonpath(
    tmp_path: Path,
) -> None:
    _files(tmp_path, "pyproject.toml", "scripts/platform.py", "scripts/train.py")
    found = find_project(tmp_path / "scripts" / "train.py")
    assert found.search_path == (tmp_path,)
    assert found.import_roots == (tmp_path, tmp_path / "scripts")


def test_the_user_s_pythonpath_is_read_and_not_joined_again(tmp_path: Path, monkeypatch) -> None:
    _files(tmp_path, "project/train.py", "shared/x.py", "site/torch/__init__.py", "cwd/own/y.py")
    _files(tmp_path, "env/lib/site-packages/z.py", "env/lib/dist-packages/z.py", "one/ttl.py")
    entries = [str(tmp_path / "shared"), "own", "", "/nowhere", str(tmp_path / "site")]
    entries += [str(tmp_path / "env/lib" / name) for name in ("site-packages", "dist-packages")]
    entries += [str(tmp_path / "one"), str(tmp_path / "project")]
    monkeypatch.setenv("PYTHONPATH", ":".join(entries))
    monkeypatch.chdir(tmp_path / "cwd")
    project = find_project(tmp_path / "project" / "train.py")
    assert project.search_path == (tmp_path / "project",)
    expected = (tmp_path / "project", tmp_path / "shared", tmp_path / "cwd" / "own")
    assert project.import_roots == expected


@pytest.mark.parametrize(("folder", "found"), [("sub", ["sub"]), ("", []), ("sub/pkg/b", [])])
def test_the_working_folder_is_read_as_for_a_module_that_is_started_from_it(
    tmp_path: Path, monkeypatch, folder: str, found: list[str]
) -> None:
    _files(tmp_path, "pyproject.toml", "sub/pkg/a/train.py", "sub/pkg/b/x.py")
    monkeypatch.chdir(tmp_path / folder)
    project = find_project(tmp_path / "sub" / "pkg" / "a" / "train.py")
    own = (tmp_path, tmp_path / "sub" / "pkg" / "a")
    assert project.own_roots == own
    assert project.import_roots == (*own, *(tmp_path / each for each in found))


def test_without_a_mark_it_is_where_the_script_s_package_can_be_imported(tmp_path: Path) -> None:
    inner = tmp_path / "work" / "pkg" / "training"
    inner.mkdir(parents=True)
    for folder in (inner, inner.parent):
        (folder / "__init__.py").touch()
    (inner / "train.py").touch()
    assert find_project(inner / "train.py").root == tmp_path / "work"


@TWO_USERS
@pytest.mark.parametrize("marker", ["pyproject.toml", "setup.py", ".git/HEAD"])
def test_a_mark_of_another_user_above_draws_nothing_of_theirs_in(
    shared_tmp: Path, marker: str
) -> None:
    """A run imports from a project's root and its src: their modules would run as this user."""
    _files(shared_tmp, "mine/train.py")
    as_another_user(lambda: _files(shared_tmp, marker, "src/torch.py", "random.py"))
    found = find_project(shared_tmp / "mine" / "train.py")
    assert (found.root, found.git) == (shared_tmp / "mine", False)
    assert found.import_roots == (shared_tmp / "mine",)


@TWO_USERS
@pytest.mark.parametrize(
    ("mark", "at", "not_at"),
    [
        ("pyproject.toml", "mine/pkg", ""),
        ("setup.py", "mine/pkg", ""),
        (".git", "mine/pkg", ""),
        ("mine/setup.cfg", "mine/pkg", "mine"),
        ("mine/pkg/__init__.py", "mine/pkg", "mine"),
    ],
)
@pytest.mark.parametrize("own", ["", "setup.py", ".git/HEAD"])
def test_another_users_mark_is_named_where_the_project_would_be_another_one(
    shared_tmp: Path, mark: str, at: str, not_at: str, own: str
) -> None:
    """Else nobody knows why what is imported from there is not found."""
    script, file = shared_tmp / "mine" / "pkg" / "train.py", shared_tmp / mark
    _files(shared_tmp, "mine/pkg/train.py", f"{mark}/HEAD" if mark == ".git" else mark)
    if own:
        _files(script.parent, own)
    assert ignored_mark(script) == ""
    os.chown(file, NOBODY, NOBODY)
    told = f"{file} belongs to another user ({NOBODY}): it is ignored, so that the project begins"
    said = f"{told} at {shared_tmp / at}, not at {shared_tmp / not_at}"
    other = mark == ".git" and own == "setup.py"
    assert ignored_mark(script) == (said if other or not own else "")


@TWO_USERS
def test_another_users_mark_within_a_repository_is_named(tmp_path: Path) -> None:
    """The root stays; but modules would be imported from that folder, too."""
    _files(tmp_path, ".git/HEAD", "pkg/setup.py", "pkg/deep/train.py")
    os.chown(tmp_path / "pkg" / "setup.py", NOBODY, NOBODY)
    told = ignored_mark(tmp_path / "pkg" / "deep" / "train.py")
    assert told.endswith(f"so that the project begins at {tmp_path}, not at {tmp_path}/pkg")
    assert ignored_mark(tmp_path / "gone.py") == ""


@TWO_USERS
def test_a_link_that_another_user_made_is_no_mark(shared_tmp: Path) -> None:
    _files(shared_tmp, "mine/train.py", "mine/other/setup.py")
    theirs = shared_tmp / "setup.py"
    as_another_user(lambda: theirs.symlink_to(shared_tmp / "mine/other/setup.py"))
    assert find_project(shared_tmp / "mine" / "train.py").root == shared_tmp / "mine"


@TWO_USERS
def test_the_marks_of_the_scripts_owner_count_and_git_is_asked_of_others(tmp_path: Path) -> None:
    """Whoever wrote the script has it run; of a colleague's repository git says who may use it."""
    _files(tmp_path, "theirs/pyproject.toml", "theirs/deep/train.py", "team/.git/HEAD")
    _files(tmp_path, "team/scripts/mine.py")
    for path in (tmp_path / "theirs").rglob("*"):
        os.chown(path, NOBODY, NOBODY)
    os.chown(tmp_path / "team" / ".git", NOBODY, NOBODY)
    assert find_project(tmp_path / "theirs" / "deep" / "train.py").root == tmp_path / "theirs"
    assert find_project(tmp_path / "team" / "scripts" / "mine.py").root == tmp_path / "team"


def test_a_package_in_a_folder_of_all_users_is_a_project_of_its_own(shared_tmp: Path) -> None:
    _files(shared_tmp, "pkg/__init__.py", "pkg/part/__init__.py", "pkg/part/train.py")
    assert find_project(shared_tmp / "pkg" / "part" / "train.py").root == shared_tmp / "pkg"
    shutil.copytree(shared_tmp / "pkg", shared_tmp / "above" / "pkg")
    (shared_tmp / "above").chmod(0o777)  # as every folder of some mounts
    script = shared_tmp / "above" / "pkg" / "part" / "train.py"
    assert find_project(script).root == shared_tmp / "above"
    if os.geteuid() == 0:
        os.chown(shared_tmp / "above", NOBODY, NOBODY)
        assert find_project(script).root == shared_tmp / "above" / "pkg"
