"""Validation and checkpoints that are left out, with what only depends on them."""

from __future__ import annotations

import pytest

from tests.locate.cases import HEAD, looped, plan_of, rewritten

STEP = "loss = criterion(model(x), y)\nloss.backward()\noptimizer.step()\n"
VALIDATE = """\
def validate(model):
    model.eval()
    with torch.no_grad():
        for x, y in val_loader:
            total = model(x).sum()
    return total
"""


def with_initial(text: str, rest: str = "") -> str:
    """A script with statements ahead of the loop (from line 14) and behind the step."""
    return looped(STEP + rest, before=VALIDATE + text)


def code_lines(source: str, **options: object) -> list[str]:
    code = rewritten(source, **options).code
    return [line.strip() for line in code.decode().splitlines()]


#: text ahead of the loop, text behind the step, lines skipped, what stands there instead
INITIAL: dict[str, tuple[str, str, list[int], str]] = {
    "bare": ("validate(model)", "", [14], ""),
    "bound_and_logged": ("v = validate(model)\nlogger.info(f'{v:.3f}')", "", [14], ""),
    "under_an_if": ("if do_validate:\n    v = validate(model)\n    print(v)", "", [15], ""),
    "with_eval_switch": ("model.eval()\nvalidate(model)", "", [15], ""),
    "method": ("trainer.evaluate()", "", [14], ""),
    "earlier_binding": ("v = {}\nv = validate(model)", "print(v)", [15], ""),
    "read_later": ("v = validate(model)", "print(f'{v:.3f}')", [14], 'v = float("nan")'),
    "unpacked": ("v, a = validate(model)", "print(v, a)", [14], 'v = a = float("nan")'),
    "one_of_two_read": ("v, a = validate(model)", "print(a)", [14], 'a = float("nan")'),
    "compared": ("v = validate(model)", "if loss < v:\n    print('better')", [14], "v = float"),
    "earlier_none": (
        "v = None\nv = validate(model)",
        "print(f'{v:.3f}')",
        [15],
        'v = float("nan")',
    ),
}


@pytest.mark.parametrize("name", INITIAL)
def test_initial(name: str) -> None:
    before, rest, skipped, instead = INITIAL[name]
    source = with_initial(before, rest)
    assert plan_of(source)["skipped_validation"] == skipped
    lines = code_lines(source)
    assert not any(line.startswith(("v = validate", "validate(")) for line in lines)
    if instead:
        assert any(line.startswith(instead) for line in lines)
    else:
        assert not any("nan" in line for line in lines)


@pytest.mark.parametrize(
    ("before", "rest"),
    [
        ("v = validate(model)", "print(v['loss'])"),
        ("v = validate(model)", "print(v.loss)"),
        ("v = validate(model)", "for part in v:\n    print(part)"),
        ("v = validate(model)", "a, b = v"),
        ("v = validate(model)", "logger.log({**v, 'step': 1})"),
        ("self.v = validate(model)", ""),
    ],
)
def test_kept_where_nan_could_not_stand_in(before: str, rest: str) -> None:
    plan = plan_of(with_initial(before, rest))
    assert plan["skipped_validation"] == []
    assert any(w.startswith("train.py:14: validation is kept") for w in plan["warnings"])


@pytest.mark.parametrize(
    "text",
    [
        "model.train()",
        "config.validate()",
        "parser.validate(args)",
        "loader = get_validation_loader()",
        "value = eval('1 + 1')",
        "evaluation_steps = 10",
        "dataset = load_test_dataset()",
    ],
)
def test_what_is_no_validation(text: str) -> None:
    source = with_initial(text)
    assert plan_of(source)["skipped_validation"] == []
    assert text in code_lines(source)


def test_train_switch_behind_it_stays() -> None:
    lines = code_lines(with_initial("model.eval()\nvalidate(model)\nmodel.train()"))
    assert "model.train()" in lines
    assert "# [instrument] off| model.eval()" in lines


#: text behind the step (from line 19), lines of validations, lines of checkpoints
IN_LOOP: dict[str, tuple[str, list[int], list[int]]] = {
    "every_n": ("if step % 10 == 0:\n    validate(model)\n    model.train()", [20], []),
    "bound": ("if step % 10 == 0:\n    v = validate(model)\n    print(v)", [20], []),
    "best_checkpoint": (
        "if step % 10 == 0:\n    v = validate(model)\n    if v < best:\n        best = v\n"
        "        torch.save(model, 'm.pt')",
        [20],
        [],
    ),
    "checkpoint": ("if step % 10 == 0:\n    torch.save(model, 'm.pt')", [], [20]),
    "manager": ("if manager.due(step):\n    manager.save_checkpoint(model)", [], [20]),
    "pretrained": ("model.save_pretrained('out')", [], [19]),
}


@pytest.mark.parametrize("name", IN_LOOP)
def test_in_loop(name: str) -> None:
    rest, validations, checkpoints = IN_LOOP[name]
    source = looped(STEP + rest, before=VALIDATE + "best = 1e9")
    plan = plan_of(source)
    assert plan["skipped_validation"] == validations
    assert plan["skipped_checkpoints"] == checkpoints


def test_kept_on_request() -> None:
    source = with_initial("validate(model)", "if step % 2 == 0:\n    validate(model)")
    plan = plan_of(source, keep_validation=True)
    assert plan["skipped_validation"] == []
    assert "off|" not in rewritten(source, keep_validation=True).code.decode()


def test_in_the_caller_ahead_of_the_loop() -> None:
    source = (
        HEAD
        + VALIDATE
        + """\

def train():
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

def main():
    before = validate(model)
    print("before", before)
    train()

main()
"""
    )
    plan = plan_of(source)
    assert plan["skipped_validation"] == [22]
    assert "off| print(" in rewritten(source).code.decode()


def test_final_validation_is_not_reached_and_stays() -> None:
    source = looped(STEP, before=VALIDATE) + "print(validate(model))\n"
    plan = plan_of(source)
    assert plan["skipped_validation"] == []
    assert plan["stop"]["strategy"] == "SystemExit"


@pytest.mark.parametrize(
    "name", ["compute_loss", "calculate_loss", "evaluate", "compute_eval_loss"]
)
@pytest.mark.parametrize(
    "forward",
    [
        "loss = {0}(model, x)\nloss.backward()",
        "loss, parts = {0}(model, x)\naccelerator.backward(loss)",
        "first = {0}(model, x)\nsecond = {0}(model, y)\nloss = first + second\nloss.backward()",
        "reward = {0}(model, x)\nloss = criterion(model(x), y) * reward\nloss.backward()",
        "self.loss = self.{0}(x)\nself.loss.backward()",
    ],
)
def test_what_the_loss_is_computed_from_is_never_a_validation(name: str, forward: str) -> None:
    source = looped(forward.format(name) + "\noptimizer.step()", before=f"from lib import {name}")
    plan = plan_of(source)
    assert plan["skipped_validation"] == []
    assert not any("validation" in w for w in plan["warnings"])


def test_a_first_score_stays_where_later_ones_are_compared_with_it() -> None:
    source = (
        HEAD
        + VALIDATE
        + """\
best = validate(model)
patience = 0
for epoch in range(9):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    score = validate(model)
    if score < best:
        best, patience = score, 0
    else:
        patience += 1
    if patience > 3:
        break
"""
    )
    assert plan_of(source)["skipped_validation"] == []
