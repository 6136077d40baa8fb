"""What is called may lie in a variable, a table or an attribute: all that it may be is read."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from instrumentor import Options
from instrumentor.locate import locate_file
from tests.locate.cases import looped, plan_of
from tests.warned import texts

STEP = "loss = criterion(model(x), y) * state['scale']\nloss.backward()\noptimizer.step()\n"
SETUP = """\
import collections, functools, sys
state, key = {{"scale": 1.0}}, sys.argv[-1]
def one(out, y):
    {does}
    return (out - y).abs().mean().item()
def other(out, y):
    return one(out, y) * 2
class Meter:
    def __init__(self):
        self.total = 0.0
    def add(self, out, y):
        self.total += one(out, y)
class Kinds:
    @staticmethod
    def of_one(out, y):
        return one(out, y)
    @staticmethod
    def of_other(out, y):
        return other(out, y)
class Held:
    measure = max
    def __init__(self, **given):
        self.__dict__.update(given)
    def go(self, out, y):
        return 1.0
class Registry:
    def __init__(self):
        self.known = {{}}
    def add(self, name):
        def put(function):
            self.known[name] = function
            return function
        return put
    def __getitem__(self, name):
        return self.known[name]
{before}
def validate(net{takes}):
    net.eval()
    with torch.no_grad():
        for x, y in val_loader:
            out = net(x)
{body}
    net.train()
{call}
"""


def script(before: str, body: str, takes: str, call: str, *, does: str) -> str:
    inner = textwrap.indent(body, " " * 12)
    setup = SETUP.format(before=before, body=inner, takes=takes, call=call, does=does)
    return looped(STEP, before=setup)


CALL = "print(metric(out, y))"
#: what stands ahead, what the evaluation does, what it takes, how it is called
HELD: dict[str, tuple[str, ...]] = {
    "a_table_by_a_name": ("table = {'a': one, 'b': max}", "table[key](out, y)"),
    "a_table_asked_for_a_name": ("table = {'a': max}", "table.get(key, one)(out, y)"),
    "a_table_by_its_names": ("table = dict(a=one, b=max)", "[f(out, y) for f in table.values()]"),
    "pairs_of_a_table": (
        "table = collections.OrderedDict([('a', one)])",
        "for _, metric in table.items():\n    metric(out, y)",
    ),
    "a_table_in_a_table": ("few = {'a': one}\ntable = {**few, 'b': max}", "table[key](out, y)"),
    "a_table_that_is_filled": ("table = {'a': max}\ntable.update(b=one)", "table[key](out, y)"),
    "a_table_that_gets_another": (
        "table = {'a': max}\ntable.update({'b': one})",
        "table[key](out, y)",
    ),
    "a_default_of_a_table": (
        "table = {'a': max}\ntable.setdefault('b', one)",
        "table[key](out, y)",
    ),
    "what_a_table_makes": (
        "meters = collections.defaultdict(Meter)",
        "meters[key].add(out, y)",
    ),
    "what_a_lambda_makes": (
        "meters = collections.defaultdict(lambda: Meter())",
        "meters[key].add(out, y)",
    ),
    "a_class_in_a_table": ("kinds = {'a': Meter}", "kinds[key]().add(out, y)"),
    "a_longer_list": ("some = [max]\nsome += [one]", "for metric in some:\n    metric(out, y)"),
    "an_inserted_one": (
        "some = [max]\nsome.insert(0, one)",
        "for metric in some:\n    metric(out, y)",
    ),
    "a_list_of_a_list": ("few = [one]", "for metric in [*few, max]:\n    metric(out, y)"),
    "a_partial": ("metric = functools.partial(one)", CALL),
    "a_method_by_itself": ("metric = Meter().add", CALL),
    "several": ("pass", "for metric in some:\n    metric(out, y)", ", *some", "(model, max, one)"),
    "named_ones": ("pass", "some['b'](out, y)", ", **some", "(model, a=max, b=one)"),
    "a_lambda": ("pass", CALL, ", metric", "(model, lambda out, y: one(out, y))"),
    "a_computed_name": ("pass", "getattr(Kinds, 'of_' + key)(out, y)"),
    "any_name": ("metric = getattr(Kinds, key)", CALL),
    "a_registry": (
        "registry = Registry()\n@registry.add('a')\ndef third(out, y):\n    return one(out, y)",
        "registry[key](out, y)",
    ),
    "put_on_an_object": ("held = Held()\nheld.go = one", "held.go(out, y)"),
    "put_on_a_class": ("held = Held()\nHeld.go = lambda self, a, b: one(a, b)", "held.go(out, y)"),
    "put_by_a_name": ("held = Held()\nsetattr(held, 'measure', one)", "held.measure(out, y)"),
    "put_by_any_name": ("held = Held()\nsetattr(held, key, one)", "held.go(out, y)"),
    "put_into_its_table": (
        "held = Held()\nheld.__dict__.update({'go': one})",
        "held.go(out, y)",
    ),
}


@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize(("does", "goes"), [("pass", True), ("state['scale'] *= 0.5", False)])
def test_all_that_a_called_expression_may_be_is_read(name: str, does: str, goes: bool) -> None:
    before, body, takes, call, *_ = *HELD[name], *("", "(model)")[len(HELD[name]) - 2 :]
    source = script(before, body, takes, f"validate{call}", does=does)
    assert bool(plan_of(source)["skipped_validation"]) is goes


#: what stands ahead, what the evaluation does, what it takes, how it is called
UNTOLD = {
    "one_of_many": (
        "".join(f"def f{n}(out, y):\n    return 1.0\n" for n in range(13))
        + "table = {"
        + ", ".join(f"'{n}': f{n}" for n in range(13))
        + ", 'last': one}",
        "table[key](out, y)",
        "",
        "(model)",
    ),
    "a_parameter_of_a_lambda": (
        "def metric(out, y):\n    return 1.0",
        "print(*map(lambda metric: metric(out, y), [one]))",
        "",
        "(model)",
    ),
    "one_that_is_told_and_another": (
        "some = [f for f in sys.modules['x'].table]\ndef never():\n    validate(model, one)",
        CALL,
        ", metric",
        "(model, some[0])",
    ),
    "a_name_of_an_object": ("held = Held()", "getattr(held, key)(out, y)", "", "(model)"),
}


@pytest.mark.parametrize("name", UNTOLD)
def test_an_evaluation_stays_that_calls_what_nobody_tells(name: str) -> None:
    before, body, takes, call = UNTOLD[name]
    plan = plan_of(script(before, body, takes, f"validate{call}", does="pass"))
    assert plan["skipped_validation"] == []
    (why,) = [w for w in texts(plan["warnings"]) if "Validation is kept" in w]
    assert "what it does cannot be read at train.py:" in why


@pytest.mark.parametrize(
    ("kept", "goes"), [("print(values)", True), ("seen.append(values)", False)]
)
def test_a_function_of_a_module_is_no_method_of_a_list(
    kept: str, goes: bool, tmp_path: Path
) -> None:
    """In a forward, where names alone tell what is changed."""
    (tmp_path / "tools.py").write_text(
        f"seen = [1.0]\ndef update(values, more):\n    {kept}\ndef reverse(x):\n    return x\n"
    )
    net = (
        "import tools\nclass Net(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.fc = torch.nn.Linear(4, 4)\n"
        "    def forward(self, x):\n        tools.update([1], 2)\n"
        "        return self.fc(tools.reverse(x))\nmodel = Net()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "state = {'scale': tools.seen[0]}\ndef validate(net):\n    net.eval()\n"
        "    with torch.no_grad():\n        for x, y in val_loader:\n"
        "            print(net(x).sum())\n    net.train()\nvalidate(model)"
    )
    body = STEP.replace("state['scale']", "len(tools.seen)")
    (tmp_path / "train.py").write_text(looped(body, before=net))
    found = locate_file(tmp_path / "train.py", Options(), [tmp_path])
    assert bool(found.skipped) is goes


def test_a_generator_that_was_called_elsewhere_is_read_with_its_constants() -> None:
    """`batches(rows, shuffle=False)` draws nothing, whatever it would do otherwise."""
    before = (
        "import random\nstate = {'scale': 1.0}\ndef batches(rows, shuffle):\n    if shuffle:\n"
        "        random.seed(1)\n    for row in rows:\n        yield row\n"
        "def validate(net, rows):\n    net.eval()\n    with torch.no_grad():\n"
        "        for x in rows:\n            print(net(x).sum())\n    net.train()\n"
        "rows = batches(torch.zeros(2, 1, 4), shuffle={})\nvalidate(model, rows)"
    )
    each = (before.replace("={}", f"={shuffle}") for shuffle in (False, True))
    goes = [bool(plan_of(looped(STEP, before=text))["skipped_validation"]) for text in each]
    assert goes == [True, False]


#: A module of which what has some name is asked for; it has more than a few, the last imported.
TOOLS = (
    "import re\nfrom more import last\nspaces = re.compile(' +')\nshort = [(k, k) for k in 'ab']\n"
    + "".join(f"def f{n}(out, y):\n    return 1.0\n" for n in range(13))
)
#: what stands in that module besides, what the imported function does, whether all can be read
LOOKED_UP = {
    "all_read": ("", "pass", "goes"),
    "the_last_changes_it": ("", "seen.append(0.5)", "might change"),
    "names_of_whatever_text": ("globals().update(sys.modules)\nimport sys", "pass", "read"),
    "names_of_another_module": ("from library import *", "pass", "read"),
    "one_that_nobody_tells": ("import library\nf = library.functions[0]", "pass", "read"),
    "an_object_that_is_called": (
        "class Adds:\n    def __call__(self, out, y):\n        seen.append(1)\n"
        "from more import seen\nadd = Adds()",
        "pass",
        "might change",
    ),
}


@pytest.mark.parametrize(
    ("elsewhere", "goes"),
    [
        ("", True),
        ("tools.extra = lambda out, y: seen.append(1)", False),
        ("setattr(tools, key, lambda out, y: seen.append(1))", False),
        ("vars(tools)[key] = lambda out, y: seen.append(1)", False),
    ],
)
def test_a_module_has_what_others_put_there(elsewhere: str, goes: bool, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("def f(out, y):\n    return 1.0\n")
    before = f"import tools\nseen = []\n{elsewhere}"
    source = script(before, "getattr(tools, key)(out, y)", "", "validate(model)", does="pass")
    (tmp_path / "train.py").write_text(source.replace("state['scale']", "len(seen)"))
    assert bool(locate_file(tmp_path / "train.py", Options(), [tmp_path]).skipped) is goes


@pytest.mark.parametrize("name", LOOKED_UP)
def test_of_a_module_asked_for_any_name_all_that_it_has_is_read(name: str, tmp_path: Path) -> None:
    more, does, answer = LOOKED_UP[name]
    (tmp_path / "more.py").write_text(f"seen = []\ndef last(out, y):\n    {does}\n    return 1.0\n")
    (tmp_path / "tools.py").write_text(TOOLS + more + "\n")
    before = "import tools\nfrom more import seen"
    body = "metric = getattr(tools, key)\nif not metric:\n    raise ValueError(key)\n" + CALL
    source = script(before, body, "", "validate(model)", does="pass")
    (tmp_path / "train.py").write_text(source.replace("state['scale']", "len(seen)"))
    found = locate_file(tmp_path / "train.py", Options(), [tmp_path])
    if answer == "goes":
        assert found.skipped
    else:
        (why,) = [kept.why for kept in found.kept]
        assert answer in why


def test_all_functions_of_libraries_that_a_name_may_be_count() -> None:
    """`torch.cos` changes nothing that it is given; what a library of unknown ways has may."""
    before = "import library\nfew = [torch.cos, {}]\nstate['scale'] = torch.ones(1)"
    for other, goes in (("torch.sin", True), ("library.measure", False)):
        body = "for f in few:\n    f(state['scale'])"
        source = script(before.format(other), body, "", "validate(model)", does="pass")
        assert bool(plan_of(source)["skipped_validation"]) is goes


@pytest.mark.parametrize(
    ("does", "goes"), [("return m.group(1)", True), ("seen.append(1)\n    return ''", False)]
)
@pytest.mark.parametrize("call", ["re.sub('(a)', short, text)", "letter.sub(short, text)"])
def test_what_a_library_hands_a_replacing_function_is_new(call: str, does: str, goes: bool) -> None:
    before = (
        f"import re\nseen = []\nletter = re.compile('(a)')\ndef short(m):\n    {does}\n"
        f"def clean(text):\n    return {call}"
    )
    source = script(before, "print(clean(str(out)))", "", "validate(model)", does="pass")
    source = source.replace("* state['scale']", "* len(seen)")
    assert bool(plan_of(source)["skipped_validation"]) is goes
