"""Evaluations and saves in the functions between the loop and its step."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from tests.locate.cases import HEAD, looped, plan_of

HELPER = """\
batches = iter(loader)
state = {"rate": 1.0}


def validate():
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in val_loader:
            total += criterion(model(x), y).item()
    ____BODY
    model.train()
    return total


def backward(x, y):
    loss = criterion(model(x), y) * state["rate"]
    loss.backward()
    return loss


def train(x, y, n):
    ____AHEAD
    loss = backward(x, y)
    optimizer.step()
    optimizer.zero_grad()
    shown = loss.item()
    ____BEHIND
    return shown


"""
LOOP = "for n, (x, y) in enumerate(loader):"
#: the evaluation and the save of every other step
EVERY = "if n % 2 == 0:\n    print(validate())\n    torch.save(model.state_dict(), 'last.pt')"


def found(
    *,
    body: str = "pass",
    ahead: str = "pass",
    behind: str = EVERY,
    rest: str = "pass",
    at: str = "",
) -> dict[str, Any]:
    """The plan with more in the validation, ahead of the step, behind it, in the loop."""
    text = HELPER
    for mark, code in (("BODY", body), ("AHEAD", ahead), ("BEHIND", behind)):
        text = text.replace(f"____{mark}", textwrap.indent(code, " " * 4).lstrip())
    return plan_of(looped(f"shown = train(x, y, n)\n{rest}", before=text + at, header=LOOP))


def told(plan: dict[str, Any]) -> list[str]:
    kinds = ("validation-between", "checkpoint-between")
    return [w["message"] for w in plan["warnings"] if w["kind"] in kinds]


@pytest.mark.parametrize(
    ("case", "evaluations", "saves"),
    [
        ({}, 1, 1),
        ({"behind": "pass", "ahead": EVERY}, 1, 1),
        ({"behind": "total = validate()\nprint(n, shown, total)\ntotal = shown"}, 1, 0),
        ({"behind": "model.eval()\nout = model(x)\nprint(out)"}, 1, 0),
        ({"behind": "with torch.no_grad():\n    print(model(x))"}, 1, 0),
    ],
)
def test_what_ends_in_itself_goes(case: dict[str, str], evaluations: int, saves: int) -> None:
    plan = found(**case)
    assert told(plan) == []
    assert len(plan["skipped_validation"]) == evaluations
    assert len(plan["skipped_checkpoints"]) == saves


CLOSURE = """\
result = {}
def measure():
    with torch.no_grad():
        result['total'] = float(model(x).sum())
measure()
shown = result"""


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ({"behind": "shown = validate()"}, "shown is returned at line"),
        ({"behind": "a = {}\na['t'] = validate()\nshown = a"}, "shown is returned at line"),
        ({"behind": CLOSURE}, "shown is returned at line"),
        ({"body": "optimizer.param_groups[0]['lr'] = 0.01"}, "which is used at"),
        ({"body": "state['rate'] = total"}, "might change state, which is used at"),
        ({"body": "next(batches)", "rest": "x, y = next(batches)"}, "might change batches"),
        ({"body": "launch(total)"}, "what it does cannot be read"),
        ({"body": "model.train(total > 1)\nreturn total"}, "the mode in which it leaves the model"),
        ({"at": "train(x, y, 0)\n"}, "train() may also be called from train.py:"),
        ({"at": "launch(train)\n"}, "train() may also be called from train.py:"),
    ],
)
def test_what_something_else_needs_stays(case: dict[str, str], why: str) -> None:
    plan = found(**case)
    assert plan["skipped_validation"] == []
    assert why in told(plan)[0]


@pytest.mark.parametrize("place", ["ahead", "behind", "rest"])
def test_a_save_that_is_read_back_at_a_step_stays(place: str) -> None:
    more = "model.load_state_dict(torch.load('last.pt'))"
    case = {"behind": EVERY, place: f"{EVERY}\n{more}" if place == "behind" else more}
    plan = found(**case)
    assert plan["skipped_checkpoints"] == []
    assert "a file is read back at" in told(plan)[0]


@pytest.mark.parametrize(("place", "stays"), [("ahead", True), ("behind", False)])
def test_what_may_be_the_first_to_move_a_model_stays(place: str, stays: bool) -> None:
    case = {"behind": "pass", place: EVERY, "body": "model.to('xla')"}
    assert bool(told(found(**case))) == stays


@pytest.mark.parametrize("where", ["in the loop's function", "in its caller"])
def test_what_moves_a_model_behind_the_samples_of_an_epoch_goes(where: str) -> None:
    validation = HELPER.replace("____BODY", "model.to('xla')").replace("____AHEAD", "pass")
    step = f"{LOOP}\n    train(x, y, n)"
    epoch = f"for epoch in range(3):\n{textwrap.indent(step, '    ')}\n    print(validate())"
    if where == "in its caller":
        epoch = (
            f"def train_all():\n{textwrap.indent(step, '    ')}\n\n\n"
            "for epoch in range(3):\n    train_all()\n    print(validate())"
        )
    plan = plan_of(f"{HEAD}{validation.replace('____BEHIND', 'pass')}{epoch}\n")
    assert len(plan["skipped_validation"]) == 1


def test_what_feeds_the_step_is_no_validation() -> None:
    ahead = "with torch.no_grad():\n    y = model(y)"
    plan = found(ahead=ahead, behind="pass")
    assert plan["skipped_validation"] == [] == told(plan)


SILENT = "with torch.no_grad():\n    state['rate'] = float(model(x).mean())"


@pytest.mark.parametrize(
    ("ahead", "is_told"),
    [
        (SILENT, False),
        (f"if n < 0:\n{textwrap.indent(SILENT, '    ')}\n    return 0", False),
        (f"if n < 0:\n{textwrap.indent(EVERY, '    ')}\n    return 0", False),
        ("state['rate'] = validate()", True),
    ],
)
def test_what_runs_a_model_ahead_of_the_step_is_named_by_its_name(
    ahead: str, *, is_told: bool
) -> None:
    plan = found(ahead=ahead, behind="pass")
    assert plan["skipped_validation"] == []
    assert bool(told(plan)) == is_told
