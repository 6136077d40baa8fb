"""Objects that names alone lead to are told apart by the call that made each."""

from __future__ import annotations

import pytest

from tests.locate.cases import HEAD, looped, plan_of
from tests.locate.changes.skips.test_effects import Evaluation
from tests.locate.changes.test_skips import STEP

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
    def begin(self):
        self.total = 0
        self.start = self.total
    def top(self):
        return max(self.rows)
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


def kept(makes: str, more: str = "") -> Evaluation:
    """Both have a table: the evaluation adds to that of the one, the training reads the other."""
    table = f"    def __init__(self):\n        self.table = {makes}\n"
    return Evaluation(
        f"import collections\nimport numpy as np\n{more}class Kept:\n{table}"
        "    def put(self, value):\n        self.table[value] = value\n"
        "one, other = Kept(), Kept()",
        "other.put(total)",
        "scale(one.table)",
    )


def behind(use: str, more: str = "") -> Evaluation:
    """The value is counted, and what is counted is used."""
    return Evaluation(f"{TWO}\n{more}", call="v = validate(model)", rest=f"other.add(v)\n{use}")


def begun(begin: str, use: str = "other.begin()") -> Evaluation:
    """What the evaluation counts is set by what begins to count anew."""
    method = "        self.total = 0\n        self.start = self.total\n"
    assert method in TWO
    return Evaluation(TWO.replace(method, begin), ADD, use)


ADD = "other.add(total)"
GOES |= {
    "one_that_is_begun_anew": Evaluation(TWO, ADD, "other.begin()"),
    "what_is_only_shown": behind("best = other.top()\nprint(best)"),
    "what_is_shown_by_a_function": behind(
        "best = top(other)\nprint(best)", "def top(m):\n    return m.top()"
    ),
    "an_array_of_each": kept("np.zeros(4)"),
    "a_dictionary_of_each": kept("dict()"),
    "a_part_of_a_list_of_its_own": kept("sorted([1, 2])[0:1]"),
}


@pytest.mark.parametrize("name", GOES)
def test_another_object_of_the_class_is_another(name: str) -> None:
    assert plan_of(GOES[name].source)["skipped_validation"]


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

STAYS |= {
    "set_in_a_branch": begun(
        "        if flag:\n            self.total = 0\n        scale(self.total)\n"
    ),
    "set_behind": begun("        scale(self.total)\n        self.total = 0\n"),
    "set_from_itself": begun("        self.total = self.total + 1\n        scale(self.total)\n"),
    "set_where_it_may_fail": begun(
        "        try:\n            self.total = load()\n        except OSError:\n"
        "            scale(self.total)\n"
    ),
    "set_of_another": begun("        self.peer.total = 0\n        scale(self.total)\n"),
    "set_of_another_bound_anew": begun(
        "        me = self\n        self = load()\n        self.total = 0\n"
        "        self = me\n        scale(self.total)\n"
    ),
    "read_later": begun(
        "        self.total = 0\n        yield\n        scale(self.total)\n",
        "scale([*other.begin()])",
    ),
    "read_later_by_a_lambda": begun(
        "        self.total = 0\n        self.late = lambda: self.total\n",
        "other.begin()\nother.add(1)\nscale(other.late())",
    ),
    "what_decides": behind("if other.top() > 3:\n    break"),
    "what_scales": behind("state = other.top()\nscale(state)"),
    "what_another_function_reads": behind("log()", "def log():\n    scale(other.top())"),
    "a_table_that_a_function_gives": kept("load()", "TABLE = {}\ndef load():\n    return TABLE\n"),
    "a_part_of_another": kept("TABLE[0:4]", "TABLE = np.zeros(8)\n"),
    "a_table_of_its_own_and_another": kept("dict()\n        self.table = TABLE", "TABLE = {}\n"),
    "what_is_written_into": kept("np.exp(TABLE, out=TABLE)", "TABLE = np.zeros(8)\n"),
    "the_table_of_a_class": kept("dict()\n    table = {}\n    def more(self):\n        pass"),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_both_have_is_felt(name: str) -> None:
    assert plan_of(STAYS[name].source)["skipped_validation"] == []


NESTED = """\
class Runner:
    def __init__(self):
        self.total = 0
    def add(self, value):
        self.total += value
    def run(self):
        self.total = 0
        fit()
        ____READ
runner = Runner()
def validate(model):
    model.eval()
    with torch.no_grad():
        for a, b in val_loader:
            total = model(a).sum()
    runner.add(total)
    model.train()
def fit():
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        validate(model)
for epoch in range(3):
    runner.run()
"""


def test_what_is_set_ahead_of_the_evaluation_is_felt_behind_it() -> None:
    read = NESTED.replace("____READ", "scale(self.total)")
    assert plan_of(HEAD + read)["skipped_validation"] == []
    assert plan_of(HEAD + NESTED.replace("____READ", "pass"))["skipped_validation"]


SHARDS = """\
class Shards:
    def __init__(self, n):
        self.current = None
        self.reset()
    def reset(self):
        if self.current != 0:
            self.current = 0
        self.at = 0
    def next(self):
        self.at += 1
        self.current = (self.current + 1) % 2
        return self.at
train_rows = Shards(8)
{}val_rows = Shards(8)
"""
STEP_WITH = "model.eval()\n{}\nwith torch.no_grad():\n    print(model(x), {})\nscale({})"


@pytest.mark.parametrize(
    ("made", "ahead", "use", "rest", "goes"),
    [
        ("", "val_rows.reset()", "val_rows.next()", "train_rows.next()", True),
        ("val_rows = None\n", "val_rows.reset()", "val_rows.next()", "train_rows.next()", True),
        ("", "val_rows.reset()", "val_rows.next()", "val_rows.next()", False),
        ("", "val_rows.reset()", "train_rows.next()", "train_rows.next()", False),
        ("", "train_rows = val_rows", "val_rows.next()", "train_rows.next()", False),
        ("", "val_rows = Shards(9)", "val_rows.next()", "val_rows.at", False),
    ],
)
def test_what_a_constructor_has_read_ahead_is_as_it_was(
    made: str, ahead: str, use: str, rest: str, *, goes: bool
) -> None:
    """A method that it runs as well is called on the object again beside the evaluation."""
    body = STEP_WITH.format(ahead, use, rest)
    source = looped(f"{STEP}{body}", before=SHARDS.format(made))
    assert bool(plan_of(source)["skipped_validation"]) is goes
