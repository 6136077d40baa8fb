"""What runs, or is read, where only a text or the body of a class says so."""

from __future__ import annotations

import pytest

from tests.locate.cases import plan_of
from tests.locate.changes.skips.test_effects import Evaluation

STATE = "state = {'n': 0}\nimport operator"
COUNTS = f"""\
{STATE}
class Own:
    @property
    def total(self):
        state['n'] += 1
        return 1
    def count(self):
        state['n'] += 1
own = Own()"""
FIELD = """\
import operator
class Own:
    def __init__(self):
        self.n = 0
    @property
    def total(self):
        self.n += 1
        return 1
    def rank(self, x):
        self.n += 1
        return x
own = Own()"""

STAYS: dict[str, Evaluation] = {
    "a_property": Evaluation(COUNTS, "operator.attrgetter('total')(own)", "scale(state)"),
    "a_property_by_a_name": Evaluation(
        f"{COUNTS}\nget = operator.attrgetter('total')", "get(own)", "scale(state)"
    ),
    "a_property_as_a_key": Evaluation(
        COUNTS, "max([own], key=operator.attrgetter('total'))", "scale(state)"
    ),
    "a_property_of_a_part": Evaluation(
        COUNTS, "operator.attrgetter('inner.total')(own)", "scale(state)"
    ),
    "a_property_that_changes_its_object": Evaluation(
        FIELD, "operator.attrgetter('total')(own)", "scale(own.n)"
    ),
    "a_property_by_getattr": Evaluation(COUNTS, "getattr(own, 'total')", "scale(state)"),
    "any_property_by_getattr": Evaluation(COUNTS, "getattr(own, str(total))", "scale(state)"),
    "a_method": Evaluation(COUNTS, "operator.methodcaller('count')(own)", "scale(state)"),
    "a_method_as_a_key": Evaluation(FIELD, "sorted([1], key=own.rank)", "scale(own.n)"),
    "a_field_that_is_read": Evaluation(
        FIELD, "own.n = total", "scale(operator.attrgetter('n')(own))"
    ),
    "any_field_that_is_read": Evaluation(
        f"{FIELD}\nget = operator.attrgetter(load())", "own.n = total", "scale(get(own))"
    ),
}
#: suites of the body of a class
STAYS |= {
    f"a_class_with_{name}": Evaluation(
        f"{STATE}\nclass Own:\n    {body}\nown = Own()", "own.rows['n'] += 1", "scale(state)"
    )
    for name, body in {
        "an_if": "if True:\n        rows = state",
        "a_try": "try:\n        rows = state\n    except OSError:\n        pass",
        "a_with": "with open('x') as file:\n        rows = state",
        "a_walrus": "if (rows := state):\n        pass",
    }.items()
}
STAYS["a_class_with_a_method_below_an_if"] = Evaluation(
    f"{STATE}\nclass Own:\n    if True:\n        def note(self):\n            state['n'] += 1\n"
    "own = Own()",
    "own.note()",
    "scale(state)",
)


@pytest.mark.parametrize("name", STAYS)
def test_what_runs_or_is_read_by_its_name_is_felt(name: str) -> None:
    assert plan_of(STAYS[name].source)["skipped_validation"] == []


@pytest.mark.parametrize("get", ["operator.attrgetter('n')(own)", "getattr(own, 'n')"])
def test_a_field_that_is_looked_up_by_its_name_changes_nothing(get: str) -> None:
    assert plan_of(Evaluation(COUNTS, f"print({get})", "scale(state)").source)["skipped_validation"]


OWN = """\
class Own:
    def __init__(self):
        self._n = 8
    @property
    def n(self):
        return self._n
    @n.setter
    def n(self, value):
        self._n = value
    @n.deleter
    def n(self):
        self._n = None
own = Own()
"""


@pytest.mark.parametrize(
    ("use", "goes"),
    [
        ("print(own.n)", True),
        ("own.n = 4", False),
        ("own.n += 4", False),
        ("del own.n", False),
        ("for own.n in range(3):\n    pass", False),
    ],
)
def test_reading_a_property_does_not_set_it(use: str, *, goes: bool) -> None:
    source = Evaluation(OWN, use, "scale(own.n)").source
    assert bool(plan_of(source)["skipped_validation"]) is goes


LAYERS = """\
state = {{'n': 0}}
class Count(torch.nn.Module):
    def forward(self, x):
        state['n'] += 1
        return x
class Plain(torch.nn.Module):
    def forward(self, x):
        return x + 1
class Walked(torch.nn.Sequential):
    def forward(self, x):
        for layer in self._modules.values():
            x = layer(x)
        return x
class Children(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.add_module('inner', layer)
    def forward(self, x):
        for layer in self.children():
            x = layer(x)
        return x
class Block(torch.nn.Sequential):
    def __init__(self):
        super().__init__({layer}(), torch.nn.ReLU())
class Added(torch.nn.Sequential):
    def __init__(self):
        super().__init__()
        self.add_module('inner', {layer}())
layers = []
{fill}
net = {net}"""


@pytest.mark.parametrize(("layer", "goes"), [("Count", False), ("Plain", True)])
@pytest.mark.parametrize(
    ("fill", "net"),
    [
        ("layers.append({layer}())", "torch.nn.Sequential(*layers)"),
        ("layers.extend([{layer}(), torch.nn.ReLU()])", "torch.nn.Sequential(*layers)"),
        ("for n in range(2):\n    layers += [{layer}()]", "torch.nn.Sequential(*layers)"),
        ("layers += [{layer}() for n in range(2)]", "Walked(*layers)"),
        ("", "Walked({layer}(), torch.nn.ReLU())"),
        ("", "Children({layer}())"),
        ("", "Block()"),
        ("", "Added()"),
    ],
)
def test_what_a_container_holds_runs_with_it(
    layer: str, fill: str, net: str, *, goes: bool
) -> None:
    fill, net = (text.format(layer=layer) for text in (fill, net))
    setup = LAYERS.format(layer=layer, fill=fill, net=net)
    case = Evaluation(setup, "net.eval()\nprint(net(x))\nnet.train()", "scale(state['n'])")
    assert bool(plan_of(case.source)["skipped_validation"]) is goes
