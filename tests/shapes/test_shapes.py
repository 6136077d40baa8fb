"""Scripts of many shapes run under `instrument run`; every sample is held against what happened.

What happened is told by :mod:`tests.shapes.observer`, which knows nothing of the tool.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import RepoFactory, git
from tests.end_to_end.small import records, snapshot
from tests.shapes.catalogue import FOLDER, SHAPES, Shape
from tests.shapes.forks import Done, Forks
from tests.shapes.verdict import violations
from tests.waiting import HANG_S


def _cases() -> list[object]:
    def marks(shape: Shape) -> list[pytest.MarkDecorator]:
        return [pytest.mark.xfail(strict=True, reason=shape.open)] if shape.open else []

    return [
        pytest.param(shape, id="".join((shape.name, *shape.options)), marks=marks(shape))
        for shape in SHAPES
    ]


def run_of(shape: Shape, repo: Path, forks: Forks, out: Path, seeded: str = "") -> Done:
    """`instrument run` of a shape, observed."""
    python, done = str(forks.python), ("--no-history", "--profiler", "wallclock")
    options = ("--output", str(out), "--timeout", str(HANG_S), *done, *shape.options)
    if shape.promise is None or shape.open:  # what reading alone says of it
        options += ("--no-discover",)
    return forks.tool(
        *("run", "--python", python, *options, "train.py", *shape.arguments),
        cwd=repo,
        observed=out.with_name("seen.json"),
        seeded=seeded,
    )


@pytest.mark.parametrize("shape", _cases())
def test_every_sample_is_the_step(
    shape: Shape, forks: Forks, git_repo: RepoFactory, tmp_path: Path
) -> None:
    repo = git_repo(shape.files())
    before = snapshot(repo)
    done = run_of(shape, repo, forks, tmp_path / "out")
    assert snapshot(repo) == before
    assert git(repo, "status", "--porcelain") == ""
    if shape.promise is None:
        _is_declined(shape, done, repo, forks)
        return
    assert done.code == 0, done.output
    alone = forks.script("train.py", *shape.arguments, cwd=repo, observed=tmp_path / "alone.json")
    assert alone.code == 0, alone.output
    assert done.observed is not None and alone.observed is not None
    samples = records(tmp_path / "out", "sample")
    assert violations(shape.promise, samples, done.observed, alone.observed) == []


def _is_declined(shape: Shape, done: Done, repo: Path, forks: Forks) -> None:
    assert done.code == 3, done.output
    told = forks.tool("explain", "--json", *shape.options, "train.py", cwd=repo)
    document = json.loads(told.output)
    assert document["reasons"][0]["kind"] == shape.declined, told.output


def test_every_file_is_a_shape() -> None:
    names = [path.stem for path in FOLDER.iterdir() if path.name != "__pycache__"]
    assert sorted(names) == sorted({shape.name for shape in SHAPES})
    assert len(names) >= 60
