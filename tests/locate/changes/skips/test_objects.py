"""What an object of a library may change when it is used: what it was made of, or given later."""

from __future__ import annotations

import pytest

from tests.locate.cases import looped, plan_of
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


NET = (
    "class Net(torch.nn.Module):\n    def __init__(self, part=None):\n        super().__init__()\n"
    "        {}\n    def forward(self, x):\n        return self.body(x)\n"
)
OWN = NET.format("self.body = torch.nn.Linear(4, 4)")
SHARED = "shared = torch.nn.Linear(4, 4)\n"
TWO = "model, other = Net(), Net()\n"
#: what stands ahead, what the evaluation is done with, whether it goes
LOADED = {
    "one_of_its_own": (OWN + TWO, "other.load_state_dict(model.state_dict())", True),
    "a_copy": (
        f"import copy\n{OWN}model = Net()\nother = copy.deepcopy(model)",
        "other.load_state_dict(model.state_dict())",
        True,
    ),
    "made_of_numbers": (
        NET.format("self.body = torch.nn.Sequential(torch.nn.Linear(part[0], 4))")
        + "width = [int(n) for n in '44']\nmodel, other = Net(width), Net(part=width)\n",
        "other.load_state_dict(model.state_dict())",
        True,
    ),
    "by_the_tensors_themselves": (OWN + TWO, "other.load_state_dict(state, assign=True)", False),
    "with_a_hook": (
        f"{OWN}{TWO}other.register_load_state_dict_post_hook(print)",
        "other.load_state_dict(state)",
        False,
    ),
    "that_of_the_step": ("other = model", "other.load_state_dict(state)", False),
    "around_that_of_the_step": (
        "other = torch.nn.DataParallel(model)",
        "other.load_state_dict(state)",
        False,
    ),
    "with_a_part_of_both": (
        SHARED + NET.format("self.body = shared") + TWO,
        "other.load_state_dict(state)",
        False,
    ),
    "with_an_added_part_of_both": (
        SHARED + NET.format("self.add_module('body', shared)") + TWO,
        "other.load_state_dict(state)",
        False,
    ),
    "with_a_given_part": (
        SHARED + NET.format("self.body = part") + "model, other = Net(shared), Net(shared)",
        "other.load_state_dict(state)",
        False,
    ),
    "with_a_part_put_there": (
        f"{OWN}{TWO}other.add_module('more', model.body)",
        "other.load_state_dict(state)",
        False,
    ),
    "with_a_layer_of_such_a_part": (
        SHARED + NET.format("self.body = torch.nn.Sequential(shared)") + TWO,
        "other.half()",
        False,
    ),
}


@pytest.mark.parametrize("name", LOADED)
def test_weights_of_another_network_change_that_network_alone(name: str) -> None:
    ahead, load, goes = LOADED[name]
    before = (
        f"state = torch.load('best.pt')\n{ahead}\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\ndef validate():\n"
        f"    with torch.no_grad():\n        {load}\n        other.eval()\n"
        "        for x, y in val_loader:\n            print(other(x).sum())"
    )
    body = "criterion(model(x), y).backward()\noptimizer.step()\nif step % 9 == 0:\n    validate()"
    header = "for step, (x, y) in enumerate(loader):"
    plan = plan_of(looped(body, before=before, header=header))
    assert bool(plan["skipped_validation"]) is goes
