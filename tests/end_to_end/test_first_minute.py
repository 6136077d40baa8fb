"""What a newcomer meets in the first minute: styles of scripts, interpreters, pipes."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.conftest import RepoFactory, RunCli
from tests.end_to_end.conftest import Measure
from tests.end_to_end.small import read, records, script
from tests.end_to_end.styles import FILES, PLAIN
from tests.waiting import HANG_S

#: What is typed, the folder's name, and the loop.
STYLES = {
    "at the level of the module": (("plain.py",), "plain", "plain.py:9"),
    "a function with argparse": (("parsed.py", "--epochs", "2"), "parsed", "parsed.py:15"),
    "a class with callbacks": (("trainer.py",), "trainer", "trainer.py:36"),
    "two models": (("gan.py",), "gan", "gan.py:9"),
    "a trainer beside its script": (("hf/run_clm.py",), "run_clm", "hf/trainer.py:29"),
    "a package and a generator": (("-m", "pkg.train"), "pkg", "pkg/engine.py:2"),
}


@pytest.mark.parametrize("style", STYLES)
def test_every_style_is_measured_at_the_first_try(
    git_repo: RepoFactory, measure: Measure, style: str
) -> None:
    words, name, loop = STYLES[style]
    repo = git_repo(FILES)
    ran = measure(repo, "--steps", "7", *words, folder=f"instrument-runs/{name}-1")
    assert ran.code == 0, ran.err
    assert f"Found the loop at {loop} " in ran.err
    summary = read(ran.folder)
    assert summary["verification"]["status"] == "verified"
    assert set(summary["verification"]["verified"]) >= {"forward", "backward"}
    # Micro-steps of an update that was begun are finished.
    assert 6 <= summary["wall_clock_ms"]["samples"] <= 7
    iteration = summary["wall_clock_ms"]["iteration"]
    assert iteration["samples_per_s"] and len(records(ran.folder, "iteration")) >= 6
    if style == "a class with callbacks":
        # LSTM 12 -> 24 over 9 elements, and a head of 24 -> 3; the backward takes twice as much.
        assert summary["wall_clock_ms"]["mfu"]["flops_per_sample"] == 3 * (
            9 * 2 * 4 * 24 * (12 + 24) + 2 * 24 * 3
        )


@pytest.mark.parametrize("style", list(STYLES)[:-1])
def test_a_dry_run_of_every_style(git_repo: RepoFactory, run_cli: RunCli, style: str) -> None:
    done = run_cli("--dry-run", *STYLES[style][0], cwd=git_repo(FILES))
    assert done.returncode == 0, done.stderr
    assert "_instrument.begin(" in done.stdout


def test_a_dry_run_of_a_module_that_only_a_run_can_read(
    git_repo: RepoFactory, run_cli: RunCli
) -> None:
    done = run_cli("--dry-run", "-m", "pkg.train", cwd=git_repo(FILES))
    assert done.returncode == 3
    assert "instrument run -m pkg.train" in done.stderr


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """Interpreter of an environment that holds the tool and no torch, as that of pipx."""
    folder, packages = tmp_path / "tool", tmp_path / "packages"
    venv.create(folder, with_pip=False, symlinks=True)
    packages.mkdir()
    own = [Path(path) for path in sys.path if path.endswith("-packages")]
    for path in (each for one in own for each in one.iterdir()):
        link = packages / path.name
        if not path.name.startswith(("torch", "functorch")) and not link.exists():
            link.symlink_to(path)
    (found,) = folder.glob("lib/python3.*/site-packages")
    # Through `site`, which reads the .pth files in there: that of the editable install.
    (found / "tool.pth").write_text(f"import site; site.addsitedir({str(packages)!r})\n")
    return folder / "bin" / "python"


def on_path(folder: Path, python: str | Path) -> dict[str, str]:
    """An environment as in a container: no virtual environment, this python3 ahead on PATH."""
    folder.mkdir()
    program = folder / "python3"
    program.write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
    program.chmod(0o755)
    left_out = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH")
    env = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**env, "PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"}


def as_pipx(tool: Path, *words: str, cwd: Path, env: dict[str, str]) -> tuple[int, str]:
    """Exit code and all output, of `python -E` into one pipe."""
    done = subprocess.run(
        [tool, "-E", "-m", "instrumentor", *words],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    return done.returncode, done.stdout


def test_in_a_container_the_python_on_path_runs_the_script_and_a_pipe_keeps_the_order(
    git_repo: RepoFactory, tmp_path: Path, tool: Path
) -> None:
    repo, env = git_repo({"train.py": PLAIN}), on_path(tmp_path / "bin", sys.executable)
    code, said = as_pipx(tool, "run", "--steps", "5", "train.py", cwd=repo, env=env)
    assert code == 0, said
    run = read(repo / "instrument-runs/repo-1", "run.json")
    assert run["python"] == str(tmp_path / "bin/python3")
    assert run["profiler"] == "torch"
    parts = "Found the loop", "samples are taken", "peak memory", "Wrote instrument-runs/", "Next: "
    places = [said.index(part) for part in parts]
    assert places == sorted(places)


def test_without_torch_anywhere_nothing_is_started(
    git_repo: RepoFactory, tmp_path: Path, tool: Path
) -> None:
    repo, env = git_repo({"train.py": PLAIN}), on_path(tmp_path / "bin", tool)
    env["PATH"] = str(tmp_path / "bin")
    code, said = as_pipx(tool, "run", "train.py", cwd=repo, env=env)
    assert code == 4, said
    assert "no torch in" in said and "--python PATH" in said
    assert not list(repo.glob("instrument-runs/*"))


def test_an_error_stands_behind_what_was_measured_before_it(git_repo: RepoFactory) -> None:
    repo = git_repo({"train.py": script(loop="if batch == 3:\n    raise ValueError('lost it')")})
    words = ("run", "--profiler", "wallclock", "train.py")
    code, said = as_pipx(Path(sys.executable), *words, cwd=repo, env=dict(os.environ))
    assert code == 1
    parts = "peak memory", "Kept in", "error: the script ended with code 1", "ValueError: lost it"
    places = [said.index(part) for part in parts]
    assert places == sorted(places)


def test_a_module_of_a_plain_folder_runs_in_its_copy(tmp_path: Path, run_cli: RunCli) -> None:
    """Without git and pyproject.toml the copy holds the package, not its inside alone."""
    package = tmp_path / "plain" / "pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "train.py").write_text(script())
    words = ("-m", "pkg.train")
    shown = run_cli("--dry-run", *words, cwd=tmp_path / "plain")
    assert shown.stdout.startswith("--- a/pkg/train.py\n"), shown.stderr
    done = run_cli("run", "--profiler", "wallclock", "--steps", "5", *words, cwd=tmp_path / "plain")
    assert done.returncode == 0, done.stderr
    assert "Found the loop at pkg/train.py:" in done.stderr


def test_a_file_that_does_not_parse_is_not_run(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "broken.py").write_text("import torch\nfor x in data\n    x.backward()\n")
    done = run_cli("run", "broken.py", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("declined: broken.py:2: the file does not parse: ")
    assert "instrument" not in done.stderr.partition("Fix the syntax, or run instrument")[2]
    assert "two optimizer steps" not in done.stderr


def test_explain_names_files_as_they_are_typed_and_one_line_for_the_stop(
    git_repo: RepoFactory, run_cli: RunCli
) -> None:
    done = run_cli("explain", "hf/run_clm.py", cwd=git_repo(FILES))
    assert done.returncode == 0, done.stderr
    assert "\nhf/trainer.py:29: training loop in train(), lines 29-36\n" in f"\n{done.stdout}"
    places = [line.split()[0] for line in done.stdout.partition("edits:\n")[2].splitlines()[:-1]]
    assert places and all(place.startswith("hf/trainer.py:") for place in places)
    (listed,) = (line for line in done.stdout.splitlines() if line.startswith("   stop "))
    # The counter behind the step belongs to it.
    assert "global_step += 1" in listed and "stop           after line 36, by return" in done.stdout
