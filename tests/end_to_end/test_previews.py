"""What only looks at a project runs nothing of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import RepoFactory, RunCli
from tests.end_to_end.small import script

MARK = "import os, pathlib; pathlib.Path(os.environ['MARK'], __name__).touch()\n"
HOSTILE = (
    "sitecustomize.py", "usercustomize.py", "json.py", "tracy/__init__.py", "tracy/__main__.py",
    "src/sitecustomize.py", "torch.py",
)  # fmt: skip


def instrument(*words: str, cwd: Path, marks: Path) -> subprocess.CompletedProcess[str]:
    """The command as users have it."""
    command = [str(Path(sys.executable).with_name("instrument")), *words]
    env = {**os.environ, "MARK": str(marks)}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def environment(folder: Path, mark: Path) -> Path:
    """An environment whose interpreter leaves a mark."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\ntouch '{mark}'\nexec '{sys.executable}' \"$@\"\n")
    python.chmod(0o755)
    return python


@pytest.fixture
def hostile(git_repo: RepoFactory) -> Path:
    """A cloned repository that would like to run things."""
    return git_repo({"train.py": script(), "src/x.py": "", **dict.fromkeys(HOSTILE, MARK)})


@pytest.mark.parametrize(
    "command",
    [
        ["run", "--dry-run", "--profiler", "wallclock", "train.py"],
        ["run", "--dry-run", "--in-place", "--profiler", "tracy", "train.py"],
        ["doctor", "train.py"],
        ["doctor", "--profiler", "tracy"],
        ["explain", "train.py"],
        ["--dry-run", "train.py"],
    ],
)
@pytest.mark.parametrize("config", ["", "python", "tt_xla"])
def test_a_preview_runs_nothing_of_the_repository(
    hostile: Path, tmp_path: Path, command: list[str], config: str
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    environment(hostile / "env" / "xla_env", marks / "xla_env")
    environment(hostile / "planted", marks / "configured")
    if config:
        named = {"python": "planted", "tt_xla": "checkout"}[config]
        (hostile / "checkout" / "python_package" / "tracy").mkdir(parents=True)
        for name in ("__init__", "__main__"):
            (hostile / "checkout/python_package/tracy" / f"{name}.py").write_text(MARK)
        (hostile / "pyproject.toml").write_text(f"[tool.instrument]\n{config} = '{named}'\n")
    done = instrument(*command, cwd=hostile, marks=marks)
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in marks.iterdir()) == []


PIPES = (
    *("pyproject.toml", "setup.cfg", "helper.py", ".git/HEAD", ".git/config", ".gitignore"),
    *("pkg/.gitignore", ".git/refs/heads/x", ".git/objects/info/commit-graph"),
)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
@pytest.mark.parametrize("name", PIPES)
def test_nothing_that_has_no_end_is_waited_for(
    git_repo: RepoFactory, tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    """An archive can bring pipes and links to devices, where every tool looks for its files."""
    files = {"train.py": "import helper\n" + script(), "helper.py": "x = 1\n", "pkg/a.py": ""}
    repo = git_repo(files)
    (repo / name).unlink(missing_ok=True)
    make(repo / name)
    place = [] if name == "pkg/.gitignore" else ["--in-place"]  # what is ignored matters to a copy
    for words in (
        ["--dry-run", "train.py"],
        ["run", *place, "--profiler", "wallclock", "--output", "out", "train.py"],
    ):
        done = instrument(*words, cwd=repo, marks=tmp_path)
        assert "Traceback" not in done.stderr.replace(name, ""), done.stderr
    if name.startswith(".git"):
        assert "not a regular file: git is not asked" in done.stderr
    if (name, make) == ("pkg/.gitignore", os.mkfifo):
        assert f"{name} is a pipe, not a regular file: git waits for it" in done.stderr


@pytest.mark.parametrize(
    ("path", "said"), [("/dev/zero", "is a device, not a regular file"), ("pipe", "is a pipe")]
)
def test_a_log_without_an_end_is_refused(tmp_path: Path, path: str, said: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = instrument("diagnose", path, cwd=tmp_path, marks=tmp_path)
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_a_run_names_the_interpreter_that_comes_with_the_repository(
    git_repo: RepoFactory, run_cli: RunCli, tmp_path: Path
) -> None:
    repo = git_repo({"train.py": script()})
    python = environment(repo / "env" / "xla_env", tmp_path / "ran")
    done = run_cli("run", "--profiler", "wallclock", "train.py", cwd=repo)
    assert done.returncode == 0, done.stderr
    assert f"Interpreter {python.relative_to(repo)} (env/xla_env of the project)" in done.stderr
    assert (tmp_path / "ran").exists()


def test_a_script_beside_a_json_py_runs(git_repo: RepoFactory) -> None:
    """The script never imports it, so it is no matter to Python either."""
    repo = git_repo({"exp/train.py": script(), "json.py": "raise SystemExit('not me')\n"})
    done = instrument("run", "--profiler", "wallclock", "exp/train.py", cwd=repo, marks=repo)
    assert done.returncode == 0, done.stderr


def test_started_by_m_nothing_of_the_working_folder_is_ours(
    git_repo: RepoFactory, run_cli: RunCli, tmp_path: Path
) -> None:
    """Modules that are named like what the tool imports, git's among them."""
    names = ("git", "yaml", "libcst", "psutil", "typer", "json")
    repo = git_repo({"train.py": script(), **{f"{name}.py": MARK for name in names}})
    (tmp_path / "marks").mkdir()
    env = {"MARK": str(tmp_path / "marks")}
    done = run_cli("run", "--dry-run", "train.py", cwd=repo, env=env, fresh=True)
    assert done.returncode == 0, done.stderr
    assert [*(tmp_path / "marks").iterdir()] == []
