"""Which interpreter is the script's, and what it would import; nothing of the project runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from instrumentor.machine.environment import examine
from instrumentor.machine.interpreter import (
    Interpreter,
    Package,
    _pythons,
    ask,
    find_interpreter,
    look,
)
from instrumentor.shared.errors import NotReady, UsageError
from tests.attackers import TWO_USERS, as_another_user, shared_tmp

__all__ = ["shared_tmp"]
pytestmark = pytest.mark.usefixtures("no_hang")

THIS = Path(sys.executable)
VERSION = ".".join(map(str, sys.version_info[:3]))


def make_python(folder: Path, *, body: str = "") -> Path:
    """An environment's interpreter that starts the one of the tests."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(body or f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return python


def package(folder: Path, name: str, version: str | None = None) -> Path:
    """A package that ends whoever imports it."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text("raise SystemExit('imported')")
    if version:
        info = folder / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder / name


def grow(path: Path) -> None:
    """A file without content, and larger than the machine's memory."""
    path.touch()
    os.truncate(path, 1 << 42)


def find(
    project: Path, asked: Path | str | None, env: Mapping[str, str], *, configured: bool = False
) -> Interpreter:
    """The interpreter where each has what the script needs."""
    return find_interpreter(project, asked, env, lambda _: True, configured=configured)


def test_interpreter_in_order(tmp_path: Path) -> None:
    project = tmp_path / "project"
    asked, active, conda = (make_python(tmp_path / name) for name in ("asked", "venv", "conda"))
    env = {"VIRTUAL_ENV": str(tmp_path / "venv"), "CONDA_PREFIX": str(tmp_path / "conda")}
    assert find(project, asked, env) == Interpreter(asked, "--python")
    assert find(project, tmp_path / "asked", env).path == asked
    assert find(project, None, env) == Interpreter(active, "VIRTUAL_ENV")
    del env["VIRTUAL_ENV"]
    assert find(project, None, env) == Interpreter(conda, "CONDA_PREFIX")
    assert find(project, None, {}) == Interpreter(THIS, "this interpreter")
    own = make_python(project / "env" / "xla_env")
    assert find(project, None, {}) == Interpreter(own, "env/xla_env", of_project=True)
    crank = make_python(project / "env" / "crank_env")
    found = find(project, None, {})
    assert (found.path, found.source, found.of_project) == (crank, "env/crank_env", True)
    assert found.notes == ("env/xla_env exists beside env/crank_env, and was skipped",)
    configured = find(project, asked, env, configured=True)
    assert configured == Interpreter(asked, "pyproject.toml", of_project=True)


def test_an_interpreter_by_name_is_looked_for_on_path(tmp_path: Path) -> None:
    python = make_python(tmp_path)
    env = {"PATH": str(python.parent)}
    assert find(tmp_path, "python", env).path == python


def test_without_an_environment_the_first_python_with_torch_on_path_is_taken(
    tmp_path: Path,
) -> None:
    """As in a container: no environment is active, and this program has one of its own."""
    without, first, second = (make_python(tmp_path / name) for name in ("none", "first", "second"))
    folders = (without.parent, Path("relative"), first.parent, second.parent)
    env = {"PATH": os.pathsep.join(map(str, folders))}

    def on_path(*suitable: Path) -> Interpreter:
        return find_interpreter(tmp_path / "project", None, env, lambda path: path in suitable)

    assert on_path(first, second) == Interpreter(first, "PATH")
    assert on_path(THIS, first) == Interpreter(THIS, "this interpreter")
    none = on_path()
    looked_at = ", ".join(map(str, (THIS, without, first, second)))
    assert none.path == THIS and none.notes[0].endswith(f"(looked at {looked_at})")
    inside = find_interpreter(tmp_path, None, env, lambda path: path == second)
    assert inside.of_project


def test_a_preview_starts_no_python_that_lies_in_the_project(tmp_path: Path) -> None:
    python = make_python(tmp_path, body=f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    examine(tmp_path, env={"PATH": str(python.parent)}, preview=True, needs="none of the packages")
    assert not (tmp_path / "ran").exists()


@TWO_USERS
def test_a_folder_on_path_that_others_may_not_enter_is_passed_over(shared_tmp: Path) -> None:
    (shared_tmp / "closed").mkdir(0o700)
    environment = {"PATH": f"{shared_tmp / 'closed'}{os.pathsep}{shared_tmp / 'none'}"}

    def others_look() -> None:
        assert list(_pythons(environment)) == []

    as_another_user(others_look)


def test_a_missing_interpreter_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such interpreter"):
        find(tmp_path, tmp_path / "nothing", {})


def test_an_empty_environment_is_passed_over_with_a_note(tmp_path: Path) -> None:
    found = find(tmp_path, None, {"VIRTUAL_ENV": "/gone"})
    assert found.source == "this interpreter"
    assert "VIRTUAL_ENV=/gone" in found.notes[0]


def test_packages_are_found_not_imported(tmp_path: Path) -> None:
    package(tmp_path, "torch")
    package(tmp_path, "ttnn", "0.81.1")
    version, packages = ask(THIS, dict(os.environ), [tmp_path])
    assert version == VERSION
    assert packages["ttnn"] == Package("ttnn", "0.81.1", (tmp_path / "ttnn",))
    assert packages["torch"].folders == (tmp_path / "torch",)
    assert "pjrt_plugin_tt" not in packages


def test_a_folder_that_is_no_package_does_not_hide_one(tmp_path: Path) -> None:
    (tmp_path / "first" / "ttnn").mkdir(parents=True)
    real = package(tmp_path / "second", "ttnn")
    _, packages = ask(THIS, dict(os.environ), [tmp_path / "first", tmp_path / "second"])
    assert packages["ttnn"].folders == (real,)


def test_nothing_of_a_project_runs_when_its_interpreter_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`json.py` made a plain run fail, `sitecustomize.py` ran in a dry run."""
    for name in ("json", "sitecustomize", "usercustomize", "email", "csv", "zipfile"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w'); raise SystemExit('imported')")
    package(tmp_path, "tracy")
    monkeypatch.chdir(tmp_path)
    machine = examine(
        tmp_path, env={**os.environ, "PYTHONPATH": f".{os.pathsep}{tmp_path}"}, cwd=tmp_path
    )
    assert machine.python_version == VERSION
    assert machine.packages["tracy"].folders[0].samefile(tmp_path / "tracy")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("body", ["exit 3", "echo no json"])
def test_a_broken_interpreter_is_an_error(tmp_path: Path, body: str) -> None:
    python = make_python(tmp_path, body=f"#!/bin/sh\n{body}\n")
    with pytest.raises(NotReady, match="does not answer"):
        ask(python, dict(os.environ))


def test_an_environment_of_the_project_is_read_not_started_in_a_preview(tmp_path: Path) -> None:
    body = f"#!/bin/sh\ntouch '{tmp_path}/ran'\nexec '{sys.executable}' \"$@\"\n"
    python = make_python(tmp_path / "env" / "xla_env", body=body)
    site = tmp_path / "env" / "xla_env" / "lib" / "python3.9" / "site-packages"
    installed = package(site, "torch", "2.9.0")
    machine = examine(tmp_path, env={}, preview=True)
    assert machine.interpreter == Interpreter(python, "env/xla_env", of_project=True)
    assert not machine.asked
    assert machine.python_version == "3.9"
    assert machine.packages == {"torch": Package("torch", "2.9.0", (installed,))}
    assert not (tmp_path / "ran").exists()
    assert examine(tmp_path, env={}).asked and (tmp_path / "ran").exists()


def test_the_version_stands_in_the_environment(tmp_path: Path) -> None:
    python = make_python(tmp_path)
    assert look(python) == ("", {})
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nversion_info = 3.10.12.final.0\n")
    assert look(python)[0] == "3.10.12"


@pytest.mark.parametrize("name", ["METADATA", "PKG-INFO"])
@pytest.mark.parametrize("plant", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), grow])
def test_a_description_that_has_no_end_is_not_read(
    tmp_path: Path, plant: Callable[[Path], None], name: str
) -> None:
    """Of a package beside the project, or in an environment that came with it."""
    package(tmp_path / "beside", "tracy", "1.0")
    package(tmp_path / "beside", "torch", "2.0")
    planted = tmp_path / "beside" / "tracy-1.0.dist-info"
    (planted / "METADATA").unlink()
    plant(planted / name)
    python = make_python(tmp_path / "env")
    for found in (look(python, [tmp_path / "beside"]), ask(python, {}, [tmp_path / "beside"])):
        assert found[1]["tracy"].version is None and found[1]["torch"].version == "2.0"
