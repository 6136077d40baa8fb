"""Loops that run a model with gradients off, and lines that the user marks."""

from __future__ import annotations

import pytest

from instrumentor import Declined, Options, UsageError, rewrite
from tests.locate.cases import lines_of, plan_of, timed
from tests.locate.region.test_barrier_hints import given
from tests.locate.test_rules import reason_of

SCRIPT = """\
import torch

model = torch.nn.Linear(4, 4)

def predict(x):
    return torch.nn.functional.relu(model(x))

{decorator}
def run(loader):
    {outer}
    for step, batch in enumerate(loader):
        {body}
        log(step)

{call}
"""


def script(
    body: str = "y = model(batch)", *, decorator: str = "@torch.no_grad()", call: str = "run(data)"
) -> str:
    inner = body.replace("\n", "\n        ")
    return SCRIPT.format(decorator=decorator, outer="pass", body=inner, call=call)


@pytest.mark.parametrize(
    ("body", "first", "last", "hints", "batch"),
    [
        ("y = model(batch)", "y = model", "y = model", "y", "batch"),
        ("y = predict(batch)", "y = predict", "y = predict", "y", ""),
        ("y = model(batch)\nz = y.item()\nz = 0", "y = model", "z = y.item", "y, z", "batch"),
        ("y = model(batch)\nz = y + 1\nz.item()", "y = model", "y = model", "y", "batch"),
        ("y = model(batch)\nz = model(y)", "y = model", "z = model", "y, z", "batch"),
        ("y = model(batch)\ntorch.cuda.synchronize()", "y = model", "torch.cuda", "y", "batch"),
        ("if step:\n    y = model(batch)", "y = model", "y = model", "y", "batch"),
        ("x = batch + 1\ny = model.generate(x, step)", "y = model", "y = model", "y", "x, step"),
    ],
)
def test_from_the_first_call_to_the_read_back(
    body: str, first: str, last: str, hints: str, batch: str
) -> None:
    source = script(body)
    start, end = (lines_of(source.partition("for step")[2], mark)[0] for mark in (first, last))
    offset = lines_of(source, "for step")[0] - 1
    plan = plan_of(source)
    assert plan["mode"] == "inference"
    assert timed(plan) == {"start_line": start + offset, "end_line": end + offset}
    assert given(source, "begin") == [batch]
    assert given(source, "end")[0].startswith(hints)


@pytest.mark.parametrize(
    ("decorator", "call", "found"),
    [
        ("@torch.inference_mode()", "run(data)", True),
        ("@torch.no_grad", "run(data)", True),
        ("", "with torch.no_grad():\n    run(data)", True),
        ("", "run(data)  # no_grad", False),
        ("@torch.no_grad()", "torch.optim.SGD(model.parameters())", False),
        ("@torch.no_grad()", "model.train()\nrun(data)", True),
        ("@torch.no_grad()", "trainer.train()\nrun(data)", False),
    ],
)
def test_where_gradients_are_off_and_nothing_trains(decorator: str, call: str, found: bool) -> None:
    source = script(decorator=decorator, call=call)
    if found:
        assert plan_of(source)["mode"] == "inference"
    else:
        assert reason_of(source).kind == "no-loop"


def test_a_loop_in_a_helper_of_the_loop_is_no_rival() -> None:
    source = script("y = model(batch)\npredict(y)").replace(
        "def predict(x):\n",
        "@torch.no_grad()\ndef predict(x):\n    for part in x:\n        part = model(part)\n",
    )
    assert timed(plan_of(source)) == dict.fromkeys(
        ("start_line", "end_line"), lines_of(source, "y = model(batch)")[0]
    )


def test_several_loops_and_none_that_was_named() -> None:
    source = script(
        "for part in batch:\n    y = model(part)\nfor part in batch:\n    y = model(part)"
    )
    with pytest.raises(Declined) as caught:
        plan_of(source)
    lines = [reason.line for reason in caught.value.reasons]
    assert len(lines) == 2 and {r.kind for r in caught.value.reasons} == {"several-loops"}
    inference = Options(mode="inference", loop=("", lines[1]))
    assert rewrite(source, inference).plan.explanation["loop"]["line"] == lines[1]
    with pytest.raises(UsageError, match="no inference loop starts there"):
        rewrite(source, Options(mode="inference", loop=("", 1)))
    assert reason_of("x = 1\n", Options(mode="inference")).kind == "no-inference-loop"


MARKED = """\
def run(loader):
    prepare()
    for batch in loader:
        x = move(
            batch)
        y = work(x)
        if y:
            return y
    finish()
"""


@pytest.mark.parametrize(
    ("first", "last", "problem"),
    [
        (4, 6, ""),
        (6, 6, ""),
        (2, 2, "in no loop of its function"),
        (4, 4, "not whole statements"),
        (6, 8, "left before its end"),
        (5, 6, "no statement starts at line 5"),
        (4, 99, "the file ends at line"),
    ],
)
def test_marked_lines(first: int, last: int, problem: str) -> None:
    options = Options(region=("train.py", first, last))
    try:
        plan = rewrite(MARKED, options, filename="train.py").plan
    except (Declined, UsageError) as error:
        assert problem and problem in str(error)
    else:
        assert timed(plan.explanation) == {"start_line": first, "end_line": last}
        assert [problem in w.message for w in plan.warnings] == ([True] if problem else [])


def test_lines_behind_the_end_of_the_file_are_answered_with_a_line_that_there_is() -> None:
    with pytest.raises(UsageError) as refused:
        rewrite(MARKED, Options(region=("train.py", 4, 99)), filename="train.py")
    last = len(MARKED.splitlines())
    assert refused.value.hint == f"Give the last line of the step instead of 99: {last} at most."


def test_lines_of_a_module_that_the_script_does_not_have() -> None:
    with pytest.raises(UsageError, match=r"not a module of train\.py"):
        rewrite(MARKED, Options(region=("other.py", 4, 6)), filename="train.py")
