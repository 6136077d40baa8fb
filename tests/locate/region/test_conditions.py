"""One loop for training and evaluation: the clock starts in the iterations that train."""

from __future__ import annotations

import textwrap

import pytest

from instrumentor.locate import Declined
from tests.locate.cases import around, looped, rewritten
from tests.warned import texts

FORWARD = "loss = criterion(model(x), y)\n"
TRAINS = "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
SKIPS = "    continue\n" + textwrap.dedent(TRAINS)


def begun(body: str) -> str:
    """The inserted begin of a loop with this body."""
    code = rewritten(looped(body)).code.decode()
    return next(line.strip() for line in code.splitlines() if "_instrument.begin(" in line)


@pytest.mark.parametrize(
    ("test", "when"),
    [
        ("training", "training"),
        ("phase == 'train'", "phase == 'train'"),
        ("optimizer is not None", "optimizer is not None"),
        ("model.training", "model.training"),
        ("self.model.training and not self.dry", "self.model.training and (not self.dry)"),
    ],
)
def test_the_scripts_own_test_says_it_ahead_of_the_forward(test: str, when: str) -> None:
    assert f"when={when})" in begun(f"{FORWARD}if {test}:\n{TRAINS}print(loss)")
    assert f"when={when})" in begun(f"{FORWARD}if not ({test}):\n{SKIPS}")


@pytest.mark.parametrize(
    "body",
    [
        f"if training:\n    if cfg.training.skips and loss > 9:\n        continue\n{TRAINS}",
        f"if training and loss < 9:\n{TRAINS}",
        f"if not training or loss > 9:\n{SKIPS}",
        f"if training:\n    if loss < 9:\n{textwrap.indent(TRAINS, '    ')}",
    ],
)
def test_what_the_loss_decides_is_left_to_the_iteration(body: str) -> None:
    """A step that is skipped for its loss was begun, and its sample is dropped at the next begin;
    an evaluation begins none."""
    assert "when=training)" in begun(FORWARD + body)


@pytest.mark.parametrize(
    "test",
    [
        "loss < 9 and training",  # as half of a test it may not be asked
        "training == bool(loss < 9)",
        "training or loss < 9",
        "mode.startswith('train')",
        "mode.value == kept(loss)",
        "cfg.training.phase(loss)",
    ],
)
def test_a_phase_that_cannot_be_asked_for_ahead_is_declined(test: str) -> None:
    with pytest.raises(Declined) as declined:
        begun(f"{FORWARD}if {test}:\n{TRAINS}")
    assert declined.value.reasons[0].kind == "train-and-eval"


def test_several_tests_are_asked_in_their_order() -> None:
    body = f"{FORWARD}if skip:\n    continue\nif training:\n{TRAINS}"
    assert "when=not skip and training)" in begun(body)


@pytest.mark.parametrize(
    "body",
    [
        FORWARD + "if loss > 9:\n" + SKIPS,  # known behind the forward only
        "if not training:\n    continue\n" + FORWARD + textwrap.dedent(TRAINS),
        "if training:\n" + textwrap.indent(FORWARD, "    ") + TRAINS,
        FORWARD + "if step > 9:\n    break\n" + textwrap.dedent(TRAINS),
        FORWARD + "if amp:\n    scaler.scale(loss).backward()\nelse:\n    loss.backward()\n"
        "optimizer.step()",
        f"{FORWARD}good = bool(loss.isfinite())\nif good:\n{TRAINS}",  # changes in between
    ],
)
def test_other_begins_are_not_conditional(body: str) -> None:
    assert "when=" not in begun(body)


def test_the_end_and_the_stop_stand_in_the_branch_that_trains() -> None:
    result = rewritten(looped(f"{FORWARD}if training:\n{TRAINS}print(loss)"))
    assert around(result, "_instrument.end(") == ("loss.backward()", "optimizer.step()")
    assert around(result, "_instrument.finished(")[0] == "optimizer.step()"
    assert not any("branch" in text for text in texts(result.plan.warnings))


def test_what_counts_the_steps_of_a_sample_is_not_asked_at_its_begin() -> None:
    body = (
        f"{FORWARD}if training:\n    loss.backward()\n    if last_micro:\n        optimizer.step()"
    )
    code = rewritten(looped(body), scope="step").code.decode()
    assert "resume=True, when=training)" in code
