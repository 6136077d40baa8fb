"""The mode in which an evaluation leaves its model, along each path through it."""

from __future__ import annotations

import textwrap

import pytest

from instrumentor.locate.changes.skips.modes import State
from tests.locate.cases import looped, plan_of
from tests.locate.changes.test_skips import STEP, code_lines, stays

RUN = "with torch.no_grad():\n    for x, y in val_loader:\n        m(x)\n"
FLAG = "was = m.training\nm.eval()\n"
#: parts that were frozen in evaluation are in training then as well
GIVEN_BACK = "model.train() if model.training else model.eval()"
CONSTANTS = "was = False\nif m.training:\n    m.eval()\n    was = True\n"
UNTOLD = "the mode in which it leaves the model cannot be determined"

#: what the evaluation does with the mode, what stands in its place ("-": it stays)
LEFT: dict[str, tuple[str, str]] = {
    "evaluation_if_in_training": ("if m.training:\n    m.eval()\n____", "model.eval()"),
    "training_if_in_evaluation": ("if not m.training:\n    m.train()\n____", "model.train()"),
    "by_name": ("m.train(mode=False)\n____", "model.eval()"),
    "unknown": ("m.train(ready)\n____", "-"),
    "unknown_by_name": ("m.train(mode=ready)\n____", "-"),
    "flag": (f"{FLAG}____if was:\n    m.train()", GIVEN_BACK),
    "flag_to_train": (f"{FLAG}____m.train(was)", GIVEN_BACK),
    "flag_to_train_in_one_branch": ("was = m.training\n____if ready:\n    m.train(was)", ""),
    "flag_below_a_flag": (
        "was = m.training\nif not was:\n    m.train()\n____if not was:\n    m.eval()",
        "model.training or model.eval()",
    ),
    "wrong_way_round": (f"{FLAG}____if not was:\n    m.train()", "-"),
    "flag_read_late": ("m.eval()\nwas = m.training\n____if was:\n    m.train()", "-"),
    "flag_set_twice": (f"{FLAG}____was = ready\nif was:\n    m.train()", "-"),
    "and_something_else": (
        "was = m.training\nm.eval()\n____if was and ready:\n    m.train()",
        "-",
    ),
    "returns_unless": (
        "was = m.training\nm.eval()\n____if not was:\n    return\nm.train()",
        GIVEN_BACK,
    ),
    "returns_unless_or": (
        "was = m.training\nm.eval()\n____if not was or ready:\n    return\nm.train()",
        "-",
    ),
    "another_module": ("was = other.training\nm.eval()\n____if was:\n    m.train()", "-"),
    "flag_of_constants": (
        f"{CONSTANTS}____if was:\n    m.train()",
        "model.training and model.train()",
    ),
    "flag_of_constants_the_wrong_way_round": (f"{CONSTANTS}____if not was:\n    m.train()", "-"),
    "flag_of_constants_set_otherwise": (
        f"{CONSTANTS}____was = ready\nif was:\n    m.train()",
        "-",
    ),
    "flag_of_constants_set_by_others": (
        f"global was\n{CONSTANTS}____if was:\n    m.train()",
        "-",
    ),
    "flag_of_constants_set_in_a_loop": (
        f"{CONSTANTS}____for x in data:\n    was = True\nif was:\n    m.train()",
        "-",
    ),
    "flag_of_constants_set_inside": (
        f"def reset():\n    nonlocal was\n    was = True\n{CONSTANTS}____reset()\n"
        "if was:\n    m.train()",
        "-",
    ),
    "flag_of_another_path": (
        "was = ready\nif was:\n    was = True\nm.eval()\n____if was:\n    m.train()",
        "-",
    ),
    "unless_there_is_none": (
        "if m is not None:\n    m.eval()\n____if m is None:\n    return\nm.train()",
        "if model is not None: model.train()",
    ),
    "unless_there_is_none_and_something_else": (
        "if m is not None and ready:\n    m.eval()\n____",
        "-",
    ),
    "unless_there_is_none_of_another": ("if other is not None:\n    m.eval()\n____", "-"),
    "unless_both_are_none": (
        "if other is not None or m is not None:\n    m.eval()\n____",
        "if model is not None: model.eval()",
    ),
    "early_return": (
        "m.eval()\n____if ready:\n    m.train()\n    return 0\nm.train()",
        "model.train()",
    ),
    "early_return_in_evaluation": ("m.eval()\n____if ready:\n    return 0\nm.train()", "-"),
    "both_branches": (
        "m.eval()\n____if ready:\n    m.train()\nelse:\n    m.train(True)",
        "model.train()",
    ),
    "one_branch": ("m.eval()\n____if ready:\n    m.train()", "-"),
    "part_of_an_expression": ("m.eval()\n____ready and m.train()", "-"),
    "in_a_loop": ("____for x in data:\n    m.eval()", "-"),
    "in_finally": ("m.eval()\ntry:\n    ____\nfinally:\n    m.train()", "model.train()"),
    "in_a_handler": ("m.eval()\ntry:\n    ____\n    m.train()\nexcept OSError:\n    pass", "-"),
    "before_what_fails": (
        "m.eval()\ntry:\n    ____\nexcept OSError:\n    print(0)\nm.train()",
        "model.train()",
    ),
    "flag_of_a_library": (
        "torch.backends.cudnn.benchmark = False\n____torch.backends.cudnn.benchmark = True",
        "torch.backends.cudnn.benchmark = True",
    ),
    "flag_by_another_name": (
        "from torch.backends import cudnn\ncudnn.deterministic = True\n____",
        "torch.backends.cudnn.deterministic = True",
    ),
    "flag_in_one_branch": ("if ready:\n    torch.backends.cudnn.benchmark = True\n____", "-"),
    "always_raises": (
        "if ready:\n    m.train()\n    raise OSError\nm.eval()\n____",
        "model.eval()",
    ),
}


def with_mode(body: str, behind: str = "") -> str:
    indent = " " * (len(body.partition("____")[0].rpartition("\n")[2]))
    body = body.replace("____", textwrap.indent(RUN, indent).lstrip())
    function = f"def validate(m):\n{textwrap.indent(body, '    ')}\n"
    return looped(STEP + behind, before=function + "validate(model)")


@pytest.mark.parametrize("name", LEFT)
def test_the_mode_is_that_of_all_paths(name: str) -> None:
    body, instead = LEFT[name]
    source = with_mode(body)
    lines = code_lines(source)
    if instead == "-":
        assert UNTOLD in stays(source)[0]
        return
    assert plan_of(source)["skipped_validation"], stays(source)
    put = [line.partition("  # [ins")[0] for line in lines if line.endswith("# [instrument]")]
    words = ("train", "eval", "torch.backends")
    assert [line for line in put if any(w in line for w in words)] == [instead] * bool(instead)


def test_states_follow_each_other_where_they_can() -> None:
    evaluation, training = State(False), State(True)
    assert State().then(State(None, True)) == State(None, True)
    assert training.then(State(None, False)) is None
    assert State(None, True).then(State(False, False)) is None
    assert evaluation.then(training) == training
    left = State(None, True).then(evaluation)
    assert left is not None and left.mode is False
    back = State(False, True).then(State(True))
    assert back is not None and back.is_kept


@pytest.mark.parametrize(
    "body",
    [
        "torch.backends.cudnn.benchmark = ready",
        "torch.backends.cudnn.conv.fp32_precision = 'tf32'",
        "torch.compiler.flag = True",
    ],
)
def test_what_else_is_set_of_a_library_cannot_be_read(body: str) -> None:
    assert "sets torch." in stays(with_mode(f"{body}\n____"))[0]


GROUP = """\
nets = {held}
def validate(nets):
    for {target} in {walked}:
        {first}
    with torch.no_grad():
        for x, y in val_loader:
            print(model(x))
    for {target} in {walked}:
        {last}
"""


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({}, "[each.train() for each in nets.values()]"),
        ({"walked": "nets"}, "[each.train() for each in nets.values()]"),
        ({"last": "pass"}, "[each.eval() for each in nets.values()]"),
        (
            {"target": "m", "walked": "nets.values()", "first": "m.eval()", "last": "m.train()"},
            "[each.train() for each in nets.values()]",
        ),
        (
            {"held": "[model]", "target": "m", "walked": "nets", "first": "m.eval()"}
            | {"last": "m.train()"},
            "[each.train() for each in nets]",
        ),
        (
            {"target": "m", "walked": "(model, model)", "first": "m.eval()", "last": "m.train()"},
            "[each.train() for each in [model, model]]",
        ),
        ({"last": "if key:\n            nets[key].train()"}, ""),
        ({"last": "nets['a'].train()"}, ""),
        ({"last": "nets[key].train()\n    model.eval()"}, ""),
        ({"last": "nets[key].train()\n    nets['b'] = model"}, ""),
        ({"target": "m", "walked": "iter([model])", "first": "m.eval()", "last": "m.train()"}, ""),
    ],
)
def test_the_modules_that_a_container_holds_are_switched_together(
    change: dict[str, str], line: str
) -> None:
    known = {"held": "{'a': model}", "target": "key", "walked": "nets.keys()"}
    known |= {"first": "nets[key].eval()", "last": "nets[key].train()"}
    source = looped(f"{STEP}validate(nets)", before=GROUP.format(**{**known, **change}))
    assert bool(plan_of(source)["skipped_validation"]) is bool(line)
    if line:
        assert f"{line}  # [instrument]" in code_lines(source)
