"""Objects that names alone lead to are told apart by the call that made each."""

from __future__ import annotations

import pytest

from tests.locate.cases import plan_of
from tests.locate.changes.skips.test_effects import Evaluation

METER = """\
class Meter:
    rows_of_all = []
    def __init__(self, rows=[], peer=None):
        self.reset()
        self.rows, self.peer = [], peer
        self.given = rows
    def reset(self):
        self.value, self.total, self.count = 0, 0, 0
    def add(self, value):
        self.value = value
        self.total += value
        self.count += 1
        self.mean = self.total / self.count
        self.rows.append(value)
    def share(self, value):
        self.rows_of_all.append(value)
    def take(self, value):
        self.given.append(value)
"""
TWO = f"{METER}meter, other = Meter(), Meter()"
TRAINS = "meter.add(loss.item())\nscale(meter.mean)"


def read(
    maker: str, use: str = "other.add(total)", rest: str = TRAINS, more: str = ""
) -> Evaluation:
    return Evaluation(f"{METER}{more}\nmeter = Meter()\n{maker}", use, rest)


#: the evaluation counts with another object of the class
GOES = {
    "two_meters": Evaluation(TWO, "other.add(total)", TRAINS),
    "two_statements": read("other = Meter()"),
    "another_that_is_reset": Evaluation(TWO, "other.reset()\nother.add(total)", TRAINS),
    "another_set_from_outside": Evaluation(TWO, "other.total = 3\nother.count += 1", TRAINS),
    "one_that_a_function_gets": Evaluation(
        f"{TWO}\ndef note(m, value):\n    m.add(value)",
        "note(other, total)",
        "note(meter, loss.item())\nscale(meter.mean)",
    ),
    "a_list_of_each": Evaluation(TWO, "other.rows.append(total)", "scale(meter.rows)"),
}


@pytest.mark.parametrize("name", GOES)
def test_another_object_of_the_class_is_another(name: str) -> None:
    assert plan_of(GOES[name].source)["skipped_validation"]


ADD = "other.add(total)"
#: the training reads the same object, or what both have
STAYS = {
    "the_meter_itself": Evaluation(TWO, "meter.add(total)", TRAINS),
    "an_alias": read("other = meter"),
    "one_of_both": read("other = meter if flag else Meter()"),
    "the_other_read": Evaluation(TWO, ADD, "scale(other.mean)"),
    "the_other_counting_on": Evaluation(TWO, ADD, "other.add(1)\nscale(other.mean)"),
    "the_other_in_a_function": Evaluation(
        f"{TWO}\ndef mean(m):\n    return m.mean", ADD, "scale(mean(other))"
    ),
    "in_a_list": Evaluation(
        f"{TWO}\nall = [meter, other]", ADD, "for m in all:\n    scale(m.mean)"
    ),
    "in_an_attribute": read("other = Meter()\nmeter.peer = other", rest="scale(meter.peer.mean)"),
    "given_to_the_constructor": read(
        "other = Meter()\nthird = Meter([], other)", rest="scale(third.peer.mean)"
    ),
    "given_to_a_library": read("other = Meter()\nlibrary.watch(other)", rest="scale(meter.total)"),
    "a_list_of_the_class": Evaluation(TWO, "other.share(total)", "scale(meter.rows_of_all)"),
    "a_list_of_the_default": Evaluation(TWO, "other.take(total)", "scale(meter.given)"),
    "a_list_given_to_both": read(
        "shared = []\nmeter, other = Meter(shared), Meter(shared)",
        "other.take(total)",
        "scale(meter.given)",
    ),
    "one_for_all": Evaluation(
        TWO.replace(
            "    rows_of_all = []",
            "    one = None\n    def __new__(cls):\n"
            "        cls.one = cls.one or object.__new__(cls)\n        return cls.one",
        ),
        ADD,
        TRAINS,
    ),
    "a_decorated_class": Evaluation(f"@single\n{TWO}", ADD, TRAINS),
    "a_method_handed_on": Evaluation(
        f"{TWO}\nread = other.add", ADD, "read(loss)\nscale(other.mean)"
    ),
    "itself_handed_on": Evaluation(
        TWO.replace("    def share", "    def me(self):\n        return self\n    def share"),
        ADD,
        "scale(other.me().mean)",
    ),
    "a_closure": Evaluation(f"{TWO}\ndef mean():\n    return other.mean", ADD, "scale(mean())"),
    "looked_up": Evaluation(TWO, ADD, "scale(getattr(other, 'mean'))"),
    "all_of_it": Evaluation(TWO, ADD, "scale(vars(other))"),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_both_have_is_felt(name: str) -> None:
    assert plan_of(STAYS[name].source)["skipped_validation"] == []
