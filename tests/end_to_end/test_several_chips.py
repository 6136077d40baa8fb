"""A script whose YAML has a mesh: declined, or measured where that is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RepoFactory, RunCli
from tests.end_to_end.small import read, records, script

OPTIONS = ("--profiler", "wallclock", "--steps", "4", "--no-history", "-o", "out")


@pytest.fixture
def repo(git_repo: RepoFactory) -> Path:
    code = script(before="config = Path(__file__).parent / 'mesh.yaml'")
    return git_repo({"train.py": f"from pathlib import Path\n{code}", "mesh.yaml": "mesh: [1, 4]"})


def nodes(folder: Path, count: int) -> dict[str, str]:
    folder.mkdir()
    for number in range(count):
        (folder / str(number)).touch()
    return {"INSTRUMENT_DEVICE_ROOT": str(folder)}


def test_declined_with_the_option_that_measures_it(repo: Path, run_cli: RunCli) -> None:
    done = run_cli("run", *OPTIONS, "train.py", cwd=repo)
    assert done.returncode == 3 and "mesh is [1, 4]" in done.stderr + done.stdout
    assert "--multi-chip" in done.stderr + done.stdout and not (repo / "out").exists()


def test_measured_where_there_are_the_chips(repo: Path, run_cli: RunCli, tmp_path: Path) -> None:
    env = nodes(tmp_path / "nodes", 4)
    done = run_cli("run", *OPTIONS, "--multi-chip", "train.py", cwd=repo, env=env)
    assert done.returncode == 0, done.stderr
    assert len(records(repo / "out", "sample")) == 4
    assert read(repo / "out")["wall_clock_ms"]["samples"] == 3


def test_not_started_where_there_are_too_few(repo: Path, run_cli: RunCli, tmp_path: Path) -> None:
    env = nodes(tmp_path / "nodes", 1)
    done = run_cli("run", *OPTIONS, "--multi-chip", "train.py", cwd=repo, env=env)
    assert done.returncode == 4 and not (repo / "out" / "timings.jsonl").exists()
    assert "asks for 4 chips, this machine has 1 device node\n" in done.stderr
