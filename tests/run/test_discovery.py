"""What was seen of a run chooses the loop as reading understands it, then the step as seen."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from instrumentor.run.discovery import choices, prepared_by
from instrumentor.shared.errors import InstrumentError
from instrumentor.shared.observed import Observed
from instrumentor.shared.options import Options
from tests.warned import texts

SOURCE = """\
import torch

def train(model, data):
    for epoch in range(2):
        for x in data:
            with model.lock:
                y = model(x)
                loss = (
                    y.mean()
                )
                getattr(loss, "back" + "ward")()
            model.update()
        model.save()

train(MODEL, [1])
"""


def seen(file: Path, *, library: bool = False, step: int = 12) -> Observed:
    return Observed(file, "train", library, (file, 1), (7,), (11,), (step,), {}, None)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def test_the_loop_is_tried_before_what_was_seen_of_it(script: Path) -> None:
    by_loop, as_seen = choices(seen(script), Options())
    assert by_loop.loop == (str(script), 5)
    assert (as_seen.loop, as_seen.seen) == (None, seen(script))


def test_nothing_of_a_library_is_edited(script: Path) -> None:
    assert not list(choices(seen(script, library=True), Options()))


def test_a_plan_says_that_its_loop_was_found_by_running(script: Path) -> None:
    plan = prepared_by(seen(script), script, Options(), ()).plan
    assert (plan.label, plan.explanation["found_by"]) == ("fwd+bwd", "running")
    for warnings in (plan.warnings, plan.explanation["warnings"]):
        assert any("found by running the script" in each for each in texts(warnings))


def test_lines_that_hold_the_update_are_a_step(script: Path) -> None:
    assert prepared_by(seen(script, step=11), script, Options(), ()).plan.label == "step"


def test_what_is_no_step_by_itself_is_timed_by_whole_steps(script: Path) -> None:
    """Here the backward comes ahead of all that is seen of a forward."""
    late = Observed(script, "train", False, (script, 15), (12,), (7,), (11,), {}, None)
    plan = prepared_by(late, script, Options(), ()).plan
    assert (plan.label, plan.explanation["found_by"]) == ("whole step", "running")
    assert "cannot be timed by themselves: train.py:" in texts(plan.warnings)[0].replace(
        f"{script.parent}/", ""
    )
    with pytest.raises(InstrumentError, match="not in the same iteration"):
        prepared_by(late, script, Options(), (), refuted=True)


@pytest.mark.parametrize(
    "content", [None, b"x = 1\0", b"x = (", b"x = " + b"-" * 200_000 + b"1", b"# coding: none\n"]
)
def test_a_loop_in_a_file_that_cannot_be_read_is_timed_as_whole_steps(
    script: Path, content: bytes | None
) -> None:
    """The script makes it in its copy, or says so in its record."""
    made = script.with_name("made.py")
    if content is not None:
        made.write_bytes(content)
    assert prepared_by(seen(made), script, Options(), ()).plan.label == "whole step"


def test_a_loop_in_a_pipe_is_not_waited_for(script: Path) -> None:
    made = script.with_name("made.py")
    os.mkfifo(made)
    assert not list(choices(seen(made), Options()))


def test_without_an_update_in_the_loop_there_is_no_step_of_it(script: Path) -> None:
    """One that is so deep in calls that the loop is in none of its places."""
    assert not list(choices(dataclasses.replace(seen(script), step=()), Options()))
