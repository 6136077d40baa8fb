"""What to type next: pasted as it is printed, it does what was asked for."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from instrumentor.cli import next_commands
from tests.conftest import RepoFactory, RunCli
from tests.end_to_end.small import script

TWO = """import torch
a, b = torch.nn.Linear(8, 1), torch.nn.Linear(8, 1)
one, two = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (a, b))
for step in range(8):
    one.zero_grad()
    a(torch.randn(4, 8)).mean().backward()
    one.step()
for step in range(8):
    two.zero_grad()
    b(torch.randn(4, 8)).mean().backward()
    two.step()
"""
LOOP = """for step in range(8):
    one.zero_grad()
    a(torch.randn(4, 8)).mean().backward()
    one.step()
"""
HIDDEN = """import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    getattr(model(torch.randn(4, 8)).mean(), "back" + "ward")()
    optimizer.step()
"""


def _next(text: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith("Next: "))
    return shlex.split(line.removeprefix("Next: instrument "))


@pytest.mark.parametrize(
    ("asked", "following"),
    [
        ("--loop two.py:8 --dry-run two.py", "run --loop two.py:8 two.py"),
        ("--dry-run --loop two.py:8 --full two.py", "run --loop two.py:8 two.py"),
        ("run --dry-run --loop two.py:8 two.py --lr 3", "run --loop two.py:8 two.py --lr 3"),
        ("run --dry-run --region two.py:9-11 -m two 3", "run --region two.py:9-11 -m two 3"),
        ("explain --loop two.py:8 two.py --x 1", "--dry-run --loop two.py:8 two.py --x 1"),
        ("explain --loop two.py:8 -m two --lr 3", "--dry-run --loop two.py:8 -m two --lr 3"),
        (
            "explain --loop two.py:8 --skip validation two.py",
            "--dry-run --loop two.py:8 --skip validation two.py",
        ),
        (
            "--dry-run --loop two.py:8 --skip validation two.py",
            "run --loop two.py:8 --skip validation two.py",
        ),
        ("--dry-run --loop two.py:8 -m two --lr 3", "run --loop two.py:8 -m two --lr 3"),
    ],
)
def test_the_next_command_repeats_what_matters(
    git_repo: RepoFactory, run_cli: RunCli, asked: str, following: str
) -> None:
    done = run_cli(*asked.split(), cwd=git_repo({"two.py": TWO}))
    assert done.returncode == 0, done.stderr
    assert _next(done.stdout + done.stderr) == following.split()


@pytest.mark.parametrize(
    ("file", "end", "through"),
    [
        ("test_loop.py", "", True),
        ("loop_test.py", "", True),
        ("loop.py", "", False),
        ("test_loop.py", "test_it()\n", False),
    ],
)
def test_a_loop_that_only_pytest_calls_is_previewed_as_it_has_to_be_run(
    git_repo: RepoFactory, run_cli: RunCli, file: str, end: str, through: bool
) -> None:
    text = script().split('if __name__ == "__main__":')[0].replace("def train(", "def fit(")
    repo = git_repo({file: f"{text}\n\ndef test_it():\n    fit()\n\n\n{end}"})
    target = ["-m", "pytest", file] if through else [file]
    told = "The loop runs in test_it, which pytest calls, not the script."
    for verb in ("explain", "--dry-run", "run --dry-run", "doctor"):
        done = run_cli(*verb.split(), file, cwd=repo)
        assert done.returncode == 0, done.stderr
        assert (told in done.stdout + done.stderr) is through
        if verb != "doctor":  # which may say "when it is quiet"
            words = _next(done.stdout + done.stderr)
            assert words == ["--dry-run" if verb == "explain" else "run", *target]
        else:
            assert f"instrument run {' '.join(target)}\n" in done.stdout + done.stderr
    if through:
        assert told not in run_cli("--dry-run", *target, cwd=repo).stderr


def test_a_variable_of_the_environment_is_not_typed_again(
    git_repo: RepoFactory, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSTRUMENT_STEPS", "9")
    done = run_cli("run", "--dry-run", "train.py", cwd=git_repo({"train.py": script()}))
    assert _next(done.stderr) == ["run", "train.py"]


@pytest.fixture
def with_tracy(tmp_path: Path) -> Path:
    """What PYTHONPATH names, with Tracy's package in it."""
    package = tmp_path / "installed" / "tracy"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    return package.parent


@pytest.mark.parametrize("verb", [["explain"], ["--dry-run"], ["run", "--dry-run"]])
def test_a_decline_ends_in_commands(
    git_repo: RepoFactory, run_cli: RunCli, verb: list[str], with_tracy: Path
) -> None:
    repo = git_repo({"two.py": TWO, "hidden.py": HIDDEN, "plain.py": "print('hello')\n"})

    def offered(name: str, path: str = str(with_tracy)) -> list[str]:
        done = run_cli(*verb, name, cwd=repo, env={"PYTHONPATH": path})
        assert done.returncode == 3
        said = (done.stdout if verb == ["explain"] else done.stderr).partition("hint: ")[2]
        return [line.strip() for line in said.splitlines()[1:]]

    loops = offered("two.py")
    assert loops[:2] == [f"instrument run --loop two.py:{line} two.py" for line in (4, 8)]
    assert offered("hidden.py")[0].startswith("instrument run hidden.py  # runs it for two steps")
    assert [line.split("  #")[0] for line in offered("plain.py")] == [
        "instrument profile python3 plain.py"
    ]
    assert not offered("plain.py", "")  # without Tracy there is nothing to offer
    if verb == ["explain"]:  # what it offers, works
        command = [*shlex.split(loops[1])[1:2], "--dry-run", *shlex.split(loops[1])[2:]]
        assert run_cli(*command, cwd=Path(repo)).returncode == 0


@pytest.mark.parametrize("named", ["nowhere", "file", "variable"])
def test_a_profile_is_offered_where_the_configured_interpreter_has_tracy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    own = tmp_path / "own"
    package = own / "lib" / f"python3.{sys.version_info[1]}" / "site-packages" / "tracy"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (own / "bin").mkdir()
    (own / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    (own / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    (tmp_path / "train.py").write_text("print('hello')\n")
    if named == "file":
        (tmp_path / "pyproject.toml").write_text('[tool.instrument]\npython = "own"\n')
    if named == "variable":
        monkeypatch.setenv("INSTRUMENT_PYTHON", "own")
    monkeypatch.chdir(tmp_path)
    assert next_commands._has_tracy(tmp_path / "train.py", []) is (named != "nowhere")


IMPORTS = "from .net import width\n"


@pytest.mark.parametrize(
    ("head", "target"),
    [
        (IMPORTS, "-m pkg.two"),
        (f"if True:\n    {IMPORTS}", "pkg/two.py"),  # it may do without
        ("import torch\n", "pkg/two.py"),
    ],
)
def test_a_script_that_imports_from_its_package_is_typed_as_a_module(
    git_repo: RepoFactory, run_cli: RunCli, head: str, target: str
) -> None:
    files = {"pkg/__init__.py": "", "pkg/net.py": "width = 8\n"}
    repo = git_repo({**files, "pkg/two.py": head + TWO.partition("for step")[0] + LOOP})
    for words in (("explain",), ("--dry-run",), ("run", "--dry-run")):
        done = run_cli(*words, "pkg/two.py", cwd=repo)
        assert done.returncode == 0, done.stderr
        following = _next(done.stdout + done.stderr)
        assert shlex.join(following).endswith(target)


def test_one_that_was_started_as_a_script_all_the_same_is_told_the_command(
    git_repo: RepoFactory, run_cli: RunCli
) -> None:
    files = {"pkg/__init__.py": "", "pkg/net.py": "width = 8\n"}
    repo = git_repo({**files, "pkg/train.py": IMPORTS + script()})
    options = ("--steps", "3", "--profiler", "wallclock")
    done = run_cli("run", *options, "pkg/train.py", "--lr", "1", cwd=repo)
    assert done.returncode == 1
    hint = done.stderr.partition("hint: Start it as a module: ")[2].splitlines()[0]
    assert hint == f"instrument run {shlex.join(options)} -m pkg.train --lr 1"
    assert run_cli(*shlex.split(hint)[1:], cwd=repo).returncode == 0
