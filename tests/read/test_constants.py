"""A branch of a function that none of its callers selects."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from instrumentor.locate import Declined
from instrumentor.read.constants import decided, leaves_out, run_by, unreached
from instrumentor.read.program import Function, Program
from instrumentor.read.syntax import parse
from tests.locate.cases import HEAD, lines_of, plan_of, timed

ATTACK = """
def robust_loss(x, y, {parameter}):
    if norm == "inf":
        noise = torch.zeros_like(x)
    elif norm == "2":
        noise = torch.zeros_like(x, requires_grad=True)
        inner = torch.optim.SGD([noise], lr=0.1)
        for _ in range(10):
            inner.zero_grad()
            (-criterion(model(x + noise), y)).backward()
            inner.step()
    return criterion(model(x + noise), y)

for x, y in loader:
    optimizer.zero_grad()
    loss = {call}
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("parameter", "call", "more"),
    [
        ("norm='inf'", "robust_loss(x, y)", ""),
        ("norm='2'", "robust_loss(x, y, norm='inf')", ""),
        ("norm", "robust_loss(x, y, 'inf')", "robust_loss(x, y, 'inf')"),
        ("norm='inf'", "robust_loss(x, y)", "model.train()"),
    ],
)
def test_a_backward_that_no_caller_selects_is_none(parameter: str, call: str, more: str) -> None:
    source = HEAD + ATTACK.format(parameter=parameter, call=call) + more
    begin, end = lines_of(source, "    loss = ", "    loss.backward()")
    assert timed(plan_of(source)) == {"start_line": begin, "end_line": end}


@pytest.mark.parametrize(
    ("parameter", "call", "more"),
    [
        ("norm='inf'", "robust_loss(x, y, norm=chosen)", ""),
        ("norm='inf'", "robust_loss(x, y, **options)", ""),
        ("norm='inf'", "robust_loss(x, y)", "robust_loss(x, y, '2')"),
        ("norm='inf'", "robust_loss(x, y)", "compare(robust_loss)"),
        ("norm='inf'", "robust_loss(x, y)", "any.robust_loss(x, y, norm='2')"),
        ("norm='inf', *, on", "robust_loss(x, y)", "run = partial(robust_loss, norm='2')"),
    ],
)
def test_one_that_may_run_is_still_there(parameter: str, call: str, more: str) -> None:
    source = HEAD + ATTACK.format(parameter=parameter, call=call) + more
    with pytest.raises(Declined) as declined:
        plan_of(source)
    assert declined.value.reasons[0].kind == "conditional-step"


def test_one_that_every_caller_selects_belongs_to_the_step() -> None:
    plan = plan_of(HEAD + ATTACK.format(parameter="norm='2'", call="robust_loss(x, y)"))
    assert plan["region"]["end_line"] == len((HEAD + ATTACK).rstrip().splitlines())


@pytest.mark.parametrize(("decorator", "is_timed"), [("@command", False), ("@staticmethod", True)])
def test_a_decorator_may_pass_what_no_caller_does(decorator: str, is_timed: bool) -> None:
    attack = ATTACK.format(parameter="norm='inf'", call="robust_loss(x, y)")
    source = HEAD + attack.replace("def robust", f"{decorator}\ndef robust")
    if is_timed:
        plan_of(source)
    else:
        with pytest.raises(Declined):
            plan_of(source)


PHASES = """
import enum

class Phase(enum.Enum):
    TRAIN = 0
    VALID = 1

def iteration(x, y, phase):
    loss = criterion(model(x), y)
    if phase == Phase.TRAIN:
        loss.backward()
        optimizer.step()
    elif phase == Phase.VALID:
        print(loss)
    else:
        return loss

for x, y in loader:
    iteration(x, y, phase={first})
    iteration(x, y, phase={second})
"""


def test_a_member_of_an_enumeration_is_a_constant() -> None:
    source = HEAD + PHASES.format(first="Phase.TRAIN", second="Phase.VALID")
    begin, end = lines_of(source, "    loss = ", "        loss.backward()")
    assert timed(plan_of(source)) == {"start_line": begin, "end_line": end}


def test_of_an_unknown_one_both_may_train() -> None:
    with pytest.raises(Declined):
        plan_of(HEAD + PHASES.format(first="Phase.TRAIN", second="chosen"))


@pytest.mark.parametrize(
    ("test", "chosen"),
    [
        ("args.task in ['tags', 'words']", False),
        ("args.task in ('loss',)", True),
        ("args.task not in {'loss'}", False),
        ("args.task in 'a loss'", True),
        ("args.task in known", None),
    ],
)
def test_an_option_that_is_looked_for_in_a_list(test: str, chosen: bool | None) -> None:
    expression = ast.parse(test, mode="eval").body
    assert decided(expression, {"args.task": "loss"}) is chosen


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        (("'a'", "'b'", "_"), "bc"),
        (("'b'", "'a' | 'c'", "_"), "ac"),
        (("'b' | 'c'", "_"), "a"),
        (("'a' if ready", "'b'", "_"), "b"),
        (("'b' if ready", "'a' if ready", "_"), "a"),
        (("'a' | other", "_"), ""),  # a name takes what there is, an attribute may be any value
        (("Mode.A", "'a'", "_"), "c"),
        (("None", "[first]", "{'a': 1}", "str()", "_"), ""),
    ],
)
def test_cases_that_a_value_leaves_out(patterns: tuple[str, ...], left: str) -> None:
    bodies = [f"    case {p}:\n        {b}" for p, b in zip(patterns, "abcde", strict=False)]
    source = parse(Path("train.py"), "\n".join(["match mode:", *bodies]).encode())
    statements = [case.body[0] for case in source.tree.body[0].cases]  # type: ignore[attr-defined]
    out = [s for s in statements if leaves_out(source, s, {"mode": "a"})]
    assert "".join(map(ast.unparse, out)) == left
    assert not any(leaves_out(source, s, {"other": "a"}) for s in statements)


def test_statements_that_no_call_comes_to() -> None:
    source = parse(
        Path("train.py"),
        b"""
def run(phase, n=1):
    if phase == "val":
        a()
        return
    while n == 2:
        b()
    match phase:
        case "test":
            c()
        case _:
            d()

run("train")
run(phase)
""",
    )
    (node,) = source.functions

    def lines(**known: object) -> list[int]:
        return sorted({s.lineno for s in unreached(Function(source, node), known)})

    assert lines() == []
    assert lines(phase="train") == [4, 5, 10]
    assert lines(phase="val") == [6, 7, 8, 10, 12]
    assert lines(n=1) == [7]
    program = Program.single(source)
    body = source.tree.body
    assert {s.lineno for s in run_by(program, source.tree, body[1:2]).functions[node]} == {
        4,
        5,
        7,
        10,
    }
    # what one of several calls comes to is run
    assert {s.lineno for s in run_by(program, source.tree, body[1:]).functions[node]} == {7}
