"""A number or a text that training reads is another one only where another is put in its place."""

from __future__ import annotations

import pytest

from tests.locate.cases import plan_of
from tests.locate.changes.skips.test_effects import Evaluation

SETTINGS = """\
RATE, NAMES = 0.5, []
class Settings:
    def __init__(self, size=4):
        self.rate = 0.5
        self.size = size * 2
        self.shape = (size, 3)
        self.label = f'n{size}'
        self.is_best = size > 3
        self.rows = []
settings = Settings(len(NAMES))
"""


def read(word: str, body: str = "", more: str = "", rest: str = "") -> Evaluation:
    """Something called that is called by the evaluation, of an object that nobody knows."""
    return Evaluation(
        f"{SETTINGS}{more}\n",
        body or f"other.{word}.show(total)",
        rest or f"scale(settings.{word})",
    )


GOES = {
    **{word: read(word) for word in ("rate", "size", "shape", "label", "is_best")},
    "a_variable_of_the_module": read(
        "", "values = [RATE, NAMES]\nvalues.show(total)", rest="scale(RATE)"
    ),
    "what_another_class_has": read(
        "rate", more="class Other:\n    def __init__(self):\n        self.rate = 1\n"
    ),
    "of_a_base_of_torch": read(
        "momentum",
        more="class Net(torch.nn.Module):\n    def __init__(self):\n"
        "        self.momentum = 0.1\nnet = Net()",
        rest="scale(net.momentum)",
    ),
    "of_a_class": read("rate", more="class Own:\n    rate = 0.1\nsettings = Own()"),
}  # fmt: skip

#: of the name, or of another object's attribute, it is put something else in its place
PUT = {
    "set": "settings.rate = total",
    "set_of_another_name": "other.rate = total",
    "grown": "settings.rate += total",
    "set_by_name": "setattr(settings, 'rate', total)",
    "set_by_its_table": "vars(settings)['rate'] = total",
    "set_by_its_dict": "settings.__dict__['rate'] = total",
    "updated": "settings.__dict__.update(rate=total)",
    "taken": "del settings.rate",
}
#: there is more that it may be: then what is changed in place may be that
OTHERWISE = {
    "a_list": "settings.rate = NAMES",
    "a_list_of_another": "class Other:\n    def __init__(self):\n        self.rate = []",
    "a_tensor": "settings.rate = torch.ones(1)",
    "a_mask": "settings.rate = torch.ones(4) > 0",
    "of_a_list": "settings.rate = NAMES[0]",
    "unpacked": "settings.rate, _ = load()",
    "walked": "for settings.rate in load():\n    pass",
    "of_a_file": "with open('x') as settings.rate:\n    pass",
    "grown": "settings.rate += load()",
    "set_by_whatever_name": "for key in load():\n    setattr(settings, key, load()[key])",
    "set_by_its_table": "vars(settings).update(load())",
    "set_by_its_dict": "settings.__dict__.update(load())",
    "set_by_a_parser": "import argparse\nargparse.ArgumentParser().parse_args(namespace=settings)",
    "a_property": "class Own(Settings):\n    @property\n    def rate(self):\n"
    "        return NAMES\nsettings = Own(3)",
    "looked_up": "class Own:\n    def __getattr__(self, name):\n        return NAMES\n"
    "settings = Own()",
    "turned_into_another": "class Own:\n    def __init__(self):\n        self.rate = 0.5\n"
    "    def __setattr__(self, name, value):\n        self.__dict__[name] = [value]\n"
    "settings = Own()",
    "a_descriptor": "class Own(Settings):\n    rate = Cell()\nsettings = Own(3)",
    "of_a_library": "import lib\nsettings = lib.Settings()",
    "of_a_librarys_base": "import lib\nclass Own(lib.Base):\n    def __init__(self):\n"
    "        self.rate = 0.5\nsettings = Own()",
    "of_a_decorated_class": "@remade\nclass Own:\n    def __init__(self):\n"
    "        self.rate = 0.5\nsettings = Own()",
    "of_a_dataclass": "from dataclasses import dataclass\n@dataclass\nclass Own:\n"
    "    rate: float = 0.5\nsettings = Own(NAMES)",
    "of_a_named_tuple": "from typing import NamedTuple\nclass Own(NamedTuple):\n"
    "    rate: float = 0.5\nsettings = Own(NAMES)",
    "of_one_that_nobody_knows": "settings = load()",
    "given": "class Own:\n    def __init__(self, rate=0.1):\n        self.rate = rate\n"
    "settings = Own(NAMES)",
    "given_among_several": "class Own:\n    def __init__(self, rate=0.1):\n"
    "        self.rate = rate\nsettings = Own(*load())",
    "given_by_name_among_several": "class Own:\n    def __init__(self, rate=0.1):\n"
    "        self.rate = rate\nsettings = Own(**load())",
    "given_by_default": "class Own:\n    def __init__(self, rate=NAMES):\n"
    "        self.rate = rate\nsettings = Own()",
    "given_where_its_class_is_handed_on": "class Own:\n    def __init__(self, rate=0.1):\n"
    "        self.rate = rate\nsettings = Own()\nothers = build(Own)",
    "given_by_a_subclass": "class Own:\n    def __init__(self, rate=0.1):\n"
    "        self.rate = rate\nclass Late(Own):\n    def __init__(self):\n"
    "        super().__init__(NAMES)\nsettings = Own()\nlate = Late()",
    "given_to_a_method": "class Own:\n    def __init__(self):\n        self.rate = 0.5\n"
    "    def put(self, rate):\n        self.rate = rate\nsettings = Own()\n"
    "settings.put(1)\nload().put(NAMES)",
}
STAYS = {
    **{f"put_{name}": read("rate", body) for name, body in PUT.items()},
    **{f"may_be_{name}": read("rate", more=more) for name, more in OTHERWISE.items()},
    "rows": read("rows"),
    "a_list_of_the_module": read("", "RATES.show(total)", "RATES = [1]", "scale(RATES)"),
    "a_list_in_a_tuple": read(
        "pair", more="class Own:\n    def __init__(self):\n        self.pair = (1, NAMES)\n"
        "settings = Own()",
    ),
    "a_variable_that_a_function_sets": Evaluation(
        f"{SETTINGS}def put():\n    global RATE\n    RATE = total", "put()", "scale(RATE)"
    ),
    "a_module_where_it_is_missing": Evaluation(
        "try:\n    import lib\nexcept ImportError:\n    lib = None",
        "lib.table.update(n=total)",
        "scale(lib)",
    ),
    "a_class_where_it_is_missing": Evaluation(
        "if load():\n    class Own:\n        n = 0\nelse:\n    Own = None",
        "Own.n = total",
        "scale(Own)",
    ),
    "a_mask": Evaluation("mask = torch.ones(4) > 0", "mask.fill_(0)", "scale(mask)"),
    "a_mask_by_its_elements": Evaluation(
        "mask = torch.ones(4) == 0", "mask[0] = True", "scale(mask)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOES)
def test_a_number_is_not_changed_in_place(name: str) -> None:
    assert plan_of(GOES[name].source)["skipped_validation"]


@pytest.mark.parametrize("name", STAYS)
def test_what_is_put_in_its_place_or_may_be_no_number_is_felt(name: str) -> None:
    assert plan_of(STAYS[name].source)["skipped_validation"] == []
