"""Defaults of `[tool.instrument]`: which file counts, what it may hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from instrumentor.cli.app import _defaults
from instrumentor.cli.config import find_defaults
from instrumentor.shared.errors import UsageError
from tests.attackers import NOBODY, TWO_USERS, as_another_user, shared_tmp
from tests.conftest import RunCli

__all__ = ["shared_tmp"]


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pyproject.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_no_file_no_defaults(tmp_path: Path) -> None:
    assert find_defaults(tmp_path) == ({}, None, ())


def test_the_nearest_table_counts(tmp_path: Path) -> None:
    write(tmp_path, "[tool.instrument]\nsteps = 7\n")
    near = write(tmp_path / "a", "[tool.instrument]\nkeep-validation = true\n")
    assert find_defaults(tmp_path / "a" / "b") == ({"keep_validation": True}, near, ())


def test_a_file_without_the_table_is_passed_over(tmp_path: Path) -> None:
    far = write(tmp_path, "[tool]\ninstrument.steps = 7\n")
    write(tmp_path / "a", "[tool.other]\nsteps = 1\n")
    assert find_defaults(tmp_path / "a") == ({"steps": 7}, far, ())


def test_a_broken_file_of_somebody_else_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, "not [ toml")
    assert find_defaults(tmp_path) == ({}, None, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.instrument]\nsteps = \n", "not TOML"),
        ("[tool]\ninstrument = 3\n", "must be a table"),
    ],
)
def test_a_broken_table_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, text)
    with pytest.raises(UsageError, match=message):
        find_defaults(tmp_path)


def test_the_search_ends_at_the_repositorys_root(tmp_path: Path, git_repo) -> None:
    write(tmp_path, '[tool.instrument]\npython = "/tmp/theirs"\n')
    repo = git_repo({"train.py": "x = 1\n"})
    assert repo.is_relative_to(tmp_path)
    assert find_defaults(repo) == find_defaults(repo / "deep") == ({}, None, ())


@TWO_USERS
def test_a_file_of_another_user_is_ignored_and_named(shared_tmp: Path) -> None:
    """Whoever may write in a parent folder would choose the interpreter that a run starts."""
    theirs = shared_tmp / "pyproject.toml"
    as_another_user(lambda: theirs.write_text('[tool.instrument]\npython = "/tmp/theirs"\n'))
    found = find_defaults(shared_tmp / "mine")
    assert found.table == {} and found.path is None
    assert found.ignored == (f"{theirs} belongs to another user (65534): it is ignored",)


@TWO_USERS
@pytest.mark.parametrize("verb", ["explain", "preview", "run", "apply", "tune", "doctor"])
def test_a_mark_of_another_user_that_a_project_is_without_is_named(
    shared_tmp: Path, run_cli: RunCli, verb: str
) -> None:
    """Where the script is declined as well: what is missed may lie there."""
    theirs, script = shared_tmp / "setup.py", shared_tmp / "mine" / "train.py"
    write(script.parent, "").replace(script)
    theirs.write_text("")
    os.chown(theirs, NOBODY, NOBODY)
    more = ["-o", str(shared_tmp / "copy.py")] if verb == "apply" else []
    done = run_cli(verb, *more, str(script), cwd=script.parent)
    assert f"{theirs} belongs to another user ({NOBODY}): it is ignored" in done.stderr


def test_a_link_to_a_file_of_ones_own_counts(tmp_path: Path) -> None:
    real = write(tmp_path / "elsewhere", "[tool.instrument]\nsteps = 7\n")
    (tmp_path / "pyproject.toml").symlink_to(real)
    assert find_defaults(tmp_path).table == {"steps": 7}


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_has_no_end_is_not_waited_for_and_named(
    tmp_path: Path, make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "pyproject.toml")
    monkeypatch.chdir(tmp_path)
    (said,) = find_defaults(tmp_path).ignored
    assert "not a regular file: it is ignored" in said
    assert _defaults()[1] == {}
    assert "pyproject.toml is " in (err := capsys.readouterr().err) and "it is ignored" in err


def test_one_that_is_too_large_or_too_deep(tmp_path: Path) -> None:
    path = write(tmp_path, "[tool.instrument]\n" + "#" * 2**20)
    (said,) = find_defaults(tmp_path).ignored
    assert said == f"{path} is larger than 1 MiB: it is ignored"
    write(tmp_path, "[tool.instrument]\nsteps = " + "[" * 100_000)
    with pytest.raises(UsageError, match="not TOML: nested too deeply"):
        find_defaults(tmp_path)
    write(tmp_path, "[tool.instrument]\n" + "a." * 10_000 + "b = 1\n")
    with pytest.raises(UsageError, match="not TOML: nested too deeply"):
        find_defaults(tmp_path)
    write(tmp_path, "tool = 5  # [tool]\n")
    with pytest.raises(UsageError, match="must be a table"):
        find_defaults(tmp_path)


@pytest.mark.parametrize("key", ["output", "history"])
@pytest.mark.parametrize("place", ["../victim", "link/x", "/victim"])
def test_a_file_chooses_no_place_outside_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, place: str
) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path / "p")
    write(tmp_path / "p", f'[tool.instrument]\n{key} = "{place}"\n')
    with pytest.raises(UsageError, match=f"{key}: {place} lies outside of the project"):
        _defaults()
    write(tmp_path / "p", f'[tool.instrument]\n{key} = "runs/x"\n')
    assert _defaults()[1]["run"] == {key: "runs/x"}
