"""What the end-to-end tests share: a run checked for traces, stand-ins, an empty environment."""

from __future__ import annotations

import os
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RepoFactory, RunCli, git
from tests.end_to_end.small import processes_with, snapshot


@dataclass(frozen=True)
class Ran:
    """A finished `instrument run` and its folder."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def log(self) -> str:
        """The whole output of the script."""
        return (self.folder / "run.log").read_text(encoding="utf-8")


Measure = Callable[..., Ran]


@pytest.fixture
def measure(run_cli: RunCli) -> Measure:
    """``measure(repo, *options, "train.py", *arguments)``: run, and prove that no trace is left.

    The user's files are compared byte for byte with mode and mtime, the cache is searched for a
    left copy, and /proc for processes of the run.
    """

    def run(
        repo: Path,
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        profiler: str = "wallclock",
        folder: str = "instrument-runs/repo-1",
    ) -> Ran:
        output = (cwd or repo) / folder
        latest = output.with_name("latest")
        before = {name: what for name, what in snapshot(repo).items() if repo / name != latest}
        chosen = ("--profiler", profiler) if profiler else ()
        # Few steps: how many a median needs is asked of the sampling, not here.
        chosen += () if "--steps" in arguments or "--warmup" in arguments else ("--steps", "5")
        done = run_cli("run", *chosen, *arguments, cwd=cwd or repo, env=env)
        after = snapshot(repo)
        assert {name: after[name] for name in before} == before
        new = {repo / name for name in after if name not in before}
        places = new - {latest, latest.with_name(".gitignore")}
        assert all(place.is_relative_to(output) for place in places), new
        if (repo / ".git").exists():
            assert git(repo, "status", "--porcelain", "--untracked-files=no") == ""
        cache = Path(os.environ["INSTRUMENT_CACHE"])
        assert not list(cache.glob("shadows/*"))
        assert processes_with(str(cache / "shadows")) == []
        return Ran(done.returncode, done.stdout, done.stderr, output)

    return run


@pytest.fixture
def measured(git_repo: RepoFactory, measure: Measure) -> Measure:
    """``measured(source, *options)``: measure a script alone in its repository."""

    def run(source: str, *options: str | Path, **more: Any) -> Ran:
        return measure(git_repo({"train.py": source}), *options, "train.py", **more)

    return run


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """Interpreter of a virtual environment that holds nothing at all."""
    folder = tmp_path / "bare"
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"
