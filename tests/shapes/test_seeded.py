"""Mistakes seeded into the plans of shapes: the run itself names each, and gives no figures.

Whether a plan with a mistake is wrong at all is the observer's word: where nothing is misplaced,
the run must not raise an alarm either.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.conftest import RepoFactory, RunCli
from tests.end_to_end.small import read, records
from tests.shapes.catalogue import SHAPES
from tests.shapes.seeding import install
from tests.shapes.test_shapes import run_of
from tests.shapes.verdict import misplaced

FORWARD = "a forward that feeds the backward runs outside of the timed region"
NONE = "no backward runs in the timed region"
CUT = "the backward runs after the timed region"
UPDATE = "the optimizer steps inside the region that is to time forward and backward"
LATER = "parameters change inside a later region that is to time forward and backward"
RIGHT = ""

SEEDED = [
    ("plain", "begin late", FORWARD),
    ("plain", "begin at the backward", FORWARD),
    ("plain", "end early", CUT),
    ("plain", "end late", UPDATE),
    ("activation_checkpointing", "begin late", FORWARD),
    ("critic_ahead_of_the_actor", "begin late", FORWARD),
    ("several_backwards", "end early", CUT),
    ("sync_from_import", "begin at the backward", NONE),
    ("compiled_step", "statement disabled", NONE),
    ("accumulation_modulo", "end late", LATER),
    ("gan", "begin late", FORWARD),
    ("gan", "begin at the backward", NONE),
    ("gan", "end early", RIGHT),
]


@pytest.mark.parametrize(
    ("name", "mistake", "text"),
    # The witness alone is shown all of them in tests/runtime/recorder/test_witness.py.
    [*SEEDED[:4], *(pytest.param(*each, marks=pytest.mark.slow) for each in SEEDED[4:])],
)
def test_a_run_names_the_mistake_in_its_plan(
    name: str,
    mistake: str,
    text: str,
    run_cli: RunCli,
    torch_python: Path,
    git_repo: RepoFactory,
    tmp_path: Path,
) -> None:
    shape = next(each for each in SHAPES if each.name == name)
    repo, out = git_repo(shape.files()), tmp_path / "out"
    done, seen = run_of(shape, repo, run_cli, torch_python, out, first=partial(install, mistake))
    assert shape.promise is not None
    wrong = misplaced(shape.promise, records(out, "sample"), seen)
    assert bool(wrong) == bool(text), wrong
    assert done.returncode == (8 if text else 0), done.stderr
    assert text in done.stdout + done.stderr
    summary = read(out)
    assert (summary["verification"]["status"] == "failed") == bool(text)
    assert (summary["wall_clock_ms"]["median"] is None) == bool(text)
