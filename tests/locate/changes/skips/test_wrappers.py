"""A decorated function that an evaluation calls is read with what its decorator does around it."""

from __future__ import annotations

import pytest

from tests.locate.cases import looped, plan_of
from tests.warned import texts

SETUP = """\
import functools
state = {{"scale": 1.0}}
def halve():
    state["scale"] *= 0.5
{decorator}
@{name}
def measure(value, times=1):
    return value.sum().item() * times
def validate(net):
    net.eval()
    with torch.no_grad():
        for x, y in val_loader:
            total = measure(net(x))
    net.train()
    print(total)
validate(model)
"""
STEP = "loss = criterion(model(x), y) * state['scale']\nloss.backward()\noptimizer.step()\n"
AROUND = """\
def around(function):
    {body}
    def inner(*args, **kwargs):
        {before}
        {call}
    return {gives}
"""
RETURNS = "return function(*args, **kwargs)"


def around(
    before: str = "pass", call: str = RETURNS, body: str = "pass", gives: str = "inner"
) -> str:
    return AROUND.format(before=before, call=call, body=body, gives=gives)


def plan(decorator: str, name: str = "around") -> dict[str, object]:
    return plan_of(looped(STEP, before=SETUP.format(decorator=decorator, name=name)))


#: decorators, and how they are applied
GOES = {
    "a_clock": (
        around("print(function.__name__)", f"found = {RETURNS[7:]}\n        return found"),
    ),
    "itself": (around(gives="function"),),
    "with_an_option": (
        "def named(name):\n    def around(function):\n        def inner(value, times=1):\n"
        "            print(name)\n            return function(value, times)\n"
        "        return inner\n    return around",
        "named('a')",
    ),
    "a_method": (
        "class Registry:\n    def __init__(self):\n        self.known = {}\n"
        "    def add(self, function):\n        self.known[function.__name__] = function\n"
        "        return function\nregistry = Registry()",
        "registry.add",
    ),
}


@pytest.mark.parametrize("name", GOES)
def test_an_evaluation_goes_whose_decorators_only_look(name: str) -> None:
    assert plan(*GOES[name])["skipped_validation"]


#: decorators, and how they are applied; the reason that is told
STAYS = {
    "changes_what_training_reads": (around("halve()"), "around", "might change state"),
    "gives_something_else": (around(call="function(*args)\n        return 1"), "around", "read"),
    "calls_it_again": (
        around("function(*args, **kwargs)"),
        "around",
        "cannot be read",
    ),
    "hands_on_something_else": (around(call="return function(state)"), "around", "cannot be read"),
    "keeps_it": (around("state['kept'] = function"), "around", "cannot be read"),
    "another_function": (around(body="function = halve"), "around", "cannot be read"),
    "an_object": (
        "class Around:\n    def __init__(self, function):\n        self.function = function\n"
        "    def __call__(self, *args):\n        halve()\n        return self.function(*args)",
        "Around",
        "cannot be read",
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_an_evaluation_stays_whose_decorator_does_more(name: str) -> None:
    decorator, applied, why = STAYS[name]
    found = plan(decorator, applied)
    assert found["skipped_validation"] == []
    (told,) = [w for w in texts(found["warnings"]) if "Validation is kept" in w]
    assert why in told


def test_an_evaluation_stays_that_decorates_a_function_of_its_own() -> None:
    """What the decorator does runs with it: it keeps the function, and more."""
    setup = SETUP.format(decorator=around("pass", body="halve()", gives="function"), name="around")
    setup = setup.replace("@around\ndef measure", "def measure")
    inner = "    @around\n    def own():\n        return 1\n    print(total, own())"
    source = looped(STEP, before=setup.replace("    print(total)", inner))
    assert plan_of(source)["skipped_validation"] == []
