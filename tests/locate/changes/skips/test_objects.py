"""What an object of a library may change when it is used: what it was made of, or given later."""

from __future__ import annotations

import pytest

from tests.locate.cases import plan_of
from tests.locate.changes.skips.test_effects import Evaluation

STATE = "state = {'n': 0}\nimport thing"
KEEPER = f"{STATE}\nkeeper = thing.Keeper(state)"


def felt(setup: str, body: str, rest: str = "scale(state)") -> Evaluation:
    return Evaluation(setup, body, rest)


STAYS: dict[str, Evaluation] = {
    "by_a_method": felt(KEEPER, "keeper.apply()"),
    "by_a_keyword_and_a_list": felt(
        f"{STATE}\nkeeper = thing.Keeper(what=[state])", "keeper.apply()"
    ),
    "by_a_call": felt(KEEPER, "keeper(total)"),
    "by_an_item": felt(KEEPER, "keeper['n'] = 1"),
    "by_an_operator": felt(KEEPER, "keeper += 1"),
    "by_a_block": felt(KEEPER, "with keeper:\n    pass"),
    "by_a_block_of_a_method": felt(KEEPER, "with keeper.average_parameters():\n    pass"),
    "of_a_field": felt(
        f"{STATE}\nclass Own:\n    def __init__(self):\n        self.keeper = thing.Keeper(state)\n"
        "own = Own()",
        "own.keeper.apply()",
    ),
    "of_a_subclass": felt(
        f"{STATE}\nclass Own(thing.Keeper):\n    pass\nkeeper = Own(state)", "keeper.apply()"
    ),
    "that_it_was_given": felt(
        f"{STATE}\nkeeper = thing.Keeper()\nkeeper.register(state)", "keeper.apply()"
    ),
    "weights": felt("import thing\nkeeper = thing.Keeper(model)", "keeper.apply()", ""),
    "weights_by_a_local_module": felt(
        "", "net = torch.nn.Sequential(model)\nnet.load_state_dict(total)", ""
    ),
    "type_of_a_local_module": felt("", "net = torch.nn.Sequential(model)\nnet.half()", ""),
    "type_of_a_part": felt("", "net = torch.nn.Sequential(model)\nlist(net)[0].half()", ""),
    "type_of_parts": felt("", "for part in model.children():\n    part.double()", ""),
    "device_of_parts": felt("", "parts = list(model)\nparts[0].to('cpu')", ""),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_an_object_of_a_library_may_change_is_felt(name: str) -> None:
    assert plan_of(STAYS[name].source)["skipped_validation"] == []


GOES: dict[str, Evaluation] = {
    "a_metric": felt("import torchmetrics\nmetric = torchmetrics.Mean(model)", "metric.compute()"),
    "a_tensor": felt("ones = torch.ones(4)", "print(ones.half())", "scale(ones)"),
    "of_nothing": felt("import thing\nkeeper = thing.Keeper(3, 'a')", "keeper.apply()", ""),
}


@pytest.mark.parametrize("name", GOES)
def test_an_object_that_changes_nothing_else_goes(name: str) -> None:
    assert plan_of(GOES[name].source)["skipped_validation"]
