"""Several training loops of which the script's own options choose one."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from instrumentor import Declined
from instrumentor.locate import locate_file
from instrumentor.shared.options import Options

SCRIPT = """\
import argparse
import torch

def parse():
    parser = argparse.ArgumentParser()
OPTIONS
    return parser.parse_args()

def first(model, optimizer, loader):
    for x in loader:
        model(x).mean().backward()
        optimizer.step()

def second(model, optimizer, loader):
    for x in loader:
        model(x).sum().backward()
        optimizer.step()

args = parse()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
OPTIONS = {
    "switch": "parser.add_argument('--other', '-o', action='store_true')",
    "either": (
        "parser.add_argument('--other', default=False, action=argparse.BooleanOptionalAction)"
    ),
    "off": "parser.add_argument('--first', action='store_false', dest='other')",
    "word": "parser.add_argument('--net', default='a')",
    "empty": "parser.add_argument('--net', default='')",
    "typed": "parser.add_argument('--net', type=str, default='a')",
    "made": "parser.add_argument('--net', type=Network, default='a')",
    "counted": "parser.add_argument('--other', type=int, default=0)",
    "open": "parser.add_argument('net')",
    "required": "parser.add_argument('--net', required=True)",
    "set": "parser.add_argument('--net', default='a')\nparser.set_defaults(net='b')",
    "any": "parser.add_argument('--net', default='a')\nparser.set_defaults(**settings)",
    "named": "parser.add_argument('--net', default='a')\nreturn parser.parse_args(namespace=saved)",
    "twice": "parser.add_argument('--net', default='a')\nparser.add_argument('--net', default='b')",
}
ON_SWITCH = """\
if args.other:
    second(model, optimizer, loader)
else:
    first(model, optimizer, loader)
"""
ON_WORD = """\
if args.net == 'a':
    first(model, optimizer, loader)
elif args.net == 'b':
    second(model, optimizer, loader)
"""
ON_TABLE = "config = vars(args)\n{}" + ON_WORD.replace("args.net", "config['net']")
KEYED = "for key in settings:\n    config[key] = settings[key]\n"
PUT_ELSEWHERE = "def put(table, value):\n    table['net'] = value\nput(config, load())\n"
ON_MATCH = """\
match args.net:
    case 'a':
        first(model, optimizer, loader)
    case 'b':
        second(model, optimizer, loader)
"""
ON_PARTS = """\
parts = [] if not args.net else args.net.split(',')
extra = len(parts) > 0
if extra:
    second(model, optimizer, loader)
else:
    first(model, optimizer, loader)
"""
ALONG_NAMES = (
    "a = args.net or 'a'\n"
    + "".join(f"{name} = {of}\n" for of, name in zip("abcdefgh", "bcdefghi", strict=True))
    + ON_WORD.replace("args.net", "i")
)
ON_COUNT = ON_SWITCH.replace("args.other", "args.other >= 2")
BY_GUARD = ON_MATCH.replace("'a'", "'a' if ready").replace("'b'", "_")


def chosen(folder: Path, options: str, body: str, *arguments: str) -> tuple[str, list[str]]:
    """The function whose loop is located, and the kinds of the warnings; '' when declined."""
    path = folder / "train.py"
    given = textwrap.indent(OPTIONS[options], "    ")
    path.write_text(SCRIPT.replace("OPTIONS", given) + body, encoding="utf-8")
    try:
        located: Any = locate_file(path, Options(), [folder], arguments)
    except Declined as declined:
        assert {r.kind for r in declined.reasons} == {"several-loops"}
        return "", []
    return located.candidate.scope.name, [w.kind for w in located.warnings]


#: Settings of an earlier run, of which some are taken up.
OF_NAMES = """\
names = {names}
for name in settings:
    if name in names:
        setattr(args, name, settings[name])
"""


@pytest.mark.parametrize(
    ("options", "body", "arguments", "function"),
    [
        ("switch", ON_SWITCH, (), "first"),
        ("switch", ON_SWITCH, ("--other",), "second"),
        ("switch", ON_SWITCH, ("--steps", "3", "-o"), "second"),
        ("either", ON_SWITCH, (), "first"),
        ("either", ON_SWITCH, ("--other",), "second"),
        ("either", ON_SWITCH, ("--other", "--no-other"), "first"),
        ("off", ON_SWITCH, (), "second"),
        ("off", ON_SWITCH, ("--first",), "first"),
        ("word", ON_WORD, (), "first"),
        ("word", ON_WORD, ("--net=b",), "second"),
        ("word", ON_WORD, ("--net", "a", "--net", "b"), "second"),
        ("typed", ON_WORD, (), "first"),
        ("typed", ON_WORD, ("--net", "b"), "second"),
        ("counted", ON_SWITCH, (), "first"),
        ("counted", ON_SWITCH, ("--other=1", "--help", "data.csv"), "second"),
        ("switch", ON_SWITCH.replace("args.other", "not (args.other and args.fast)"), (), "second"),
        ("word", ON_MATCH, (), "first"),
        ("word", ON_MATCH, ("--net", "b"), "second"),
        ("word", ON_MATCH.replace("'b'", "_"), (), "first"),
        ("word", ON_MATCH.replace("'b'", "_"), ("--net", "c"), "second"),
        ("word", BY_GUARD, ("--net", "b"), "second"),
        ("empty", ON_PARTS, (), "first"),
        ("counted", ON_COUNT, (), "first"),
        ("counted", ON_COUNT, ("--other=2",), "second"),
        ("counted", ON_COUNT.replace(">= 2", "< 2"), ("--other=1",), "second"),
        ("switch", f"if args.other:\n{textwrap.indent(ON_SWITCH, '    ')}{ON_SWITCH}", (), "first"),
        (
            "counted",
            ON_SWITCH.replace("args.other", "args.other * 2 > 3"),
            ("--other=2",),
            "second",
        ),
        ("word", ALONG_NAMES, ("--net", "b"), "second"),
        ("word", OF_NAMES.format(names="['size', 'depth']") + ON_WORD, ("--net", "b"), "second"),
        ("word", ON_TABLE.format(""), (), "first"),
        ("word", ON_TABLE.format("config['name'] = load()\n"), ("--net", "b"), "second"),
    ],
)
def test_the_loop_that_the_options_leave(
    options: str, body: str, arguments: tuple[str, ...], function: str, tmp_path: Path
) -> None:
    found, warnings = chosen(tmp_path, options, body, *arguments)
    assert found == function
    assert "loop-by-options" in warnings


@pytest.mark.parametrize(
    ("options", "body", "arguments"),
    [
        ("open", ON_WORD, ()),
        ("required", ON_WORD, ()),
        ("set", ON_WORD, ()),
        ("twice", ON_WORD, ()),
        ("any", ON_WORD, ()),
        ("named", ON_WORD, ()),
        ("word", "vars(args).update(settings)\n" + ON_WORD, ()),
        ("word", ON_TABLE.format("config['net'] = load()\n"), ()),
        ("word", ON_TABLE.format("config.update(settings)\n"), ()),
        ("word", ON_TABLE.format("config.update(net=load())\n"), ()),
        ("word", ON_TABLE.format("config |= settings\n"), ()),
        ("word", ON_TABLE.format(KEYED), ()),
        ("word", ON_TABLE.format(PUT_ELSEWHERE), ()),
        ("word", ON_TABLE.format("config = load(config)\n"), ()),
        ("word", "vars(args)['net'] = load()\n" + ON_WORD, ()),
        ("word", "args.__dict__.update(settings)\n" + ON_WORD, ()),
        ("word", "setattr(args, name, settings[name])\n" + ON_WORD, ()),
        ("word", "setattr(args, 'net', load())\n" + ON_WORD, ()),
        ("word", OF_NAMES.format(names="['size', 'net']") + ON_WORD, ()),
        ("word", OF_NAMES.format(names="['size', load()]") + ON_WORD, ()),
        ("word", OF_NAMES.format(names="load()") + ON_WORD, ()),
        ("word", OF_NAMES.format(names="['size']") + "names += load()\n" + ON_WORD, ()),
        ("word", "vars(args)['net'] = load()\n" + ON_WORD, ()),
        ("word", "args.net += load()\n" + ON_WORD, ()),
        ("word", "def turn(given):\n    given.net = load()\nhook(turn, args)\n" + ON_WORD, ()),
        ("word", "parser.parse_args(['--net', 'b'])\n" + ON_WORD, ()),
        ("word", "sys.argv.append('--net=b')\n" + ON_WORD, ()),
        ("made", ON_WORD, ("--net", "b")),  # a type may change the word
        ("counted", ON_SWITCH, ("--other", "many")),  # no number: the script itself will refuse it
        ("word", "args.net = load()\n" + ON_WORD, ()),
        ("word", ON_WORD, ("--net",)),
        ("switch", ON_SWITCH.replace("args.other", "len(loader) > 3"), ()),
        ("switch", ON_SWITCH.replace("args.other", "config.other"), ()),
        ("switch", "if ready:\n    first(model, optimizer, loader)\n" + ON_SWITCH, ("--other",)),
        ("word", BY_GUARD, ()),
        ("word", ON_MATCH.replace("args", "config"), ()),
        ("empty", ON_PARTS, ("--net", "b")),
        ("empty", "parts = []\nwalk(parts)\n" + ON_PARTS.partition("\n")[2], ()),
        ("word", ON_COUNT.replace("args.other", "args.net"), ()),  # a text and a number: an error
        ("word", ON_WORD, ("--net=c",)),  # neither: which one is asked
    ],
)
def test_what_the_options_leave_open_is_asked(
    options: str, body: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    assert chosen(tmp_path, options, body, *arguments) == ("", [])


def test_the_options_of_another_module_choose(tmp_path: Path) -> None:
    parse, _, rest = SCRIPT.partition("def first(")
    given = textwrap.indent(OPTIONS["switch"], "    ")
    (tmp_path / "given.py").write_text(parse.replace("OPTIONS", given), encoding="utf-8")
    entry = tmp_path / "train.py"
    head = "import torch\nfrom given import parse\n\n"
    entry.write_text(f"{head}def first({rest}{ON_SWITCH}", encoding="utf-8")
    located = locate_file(entry, Options(), [tmp_path], ("--other",))
    assert getattr(located.candidate.scope, "name", "") == "second"


def test_an_import_that_the_options_leave_out_chooses(tmp_path: Path) -> None:
    body = "for x in loader:\n        model(x).mean().backward()\n        optimizer.step()\n"
    for name in ("one", "other"):
        function = f"def train(model, optimizer, loader):\n    {body}"
        (tmp_path / f"{name}.py").write_text(function, encoding="utf-8")
    path = tmp_path / "train.py"
    script = SCRIPT.partition("def first")[0].replace("OPTIONS", f"    {OPTIONS['switch']}")
    path.write_text(
        f"{script}args = parse()\nif args.other:\n    from other import train\nelse:\n"
        "    from one import train\nmodel = torch.nn.Linear(4, 4)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "train(model, optimizer, loader)\n",
        encoding="utf-8",
    )
    for arguments, name in (((), "one.py"), (("--other",), "other.py")):
        located = locate_file(path, Options(), [tmp_path], arguments)
        assert located.candidate.source.path.name == name


def test_one_loop_needs_no_options(tmp_path: Path) -> None:
    body = ON_SWITCH.replace("second(", "first(")
    assert chosen(tmp_path, "switch", body) == ("first", [])


ON_BRANCH = """\
for x in loader:
    loss = model(x).mean()
    if args.other:
        loss.backward()
        print(loss.item())
        optimizer.step()
    else:
        loss.backward()
        optimizer.step()
"""


#: both branches come to one step behind them
ON_LOSS_BRANCH = ON_BRANCH.replace("        optimizer.step()\n", "") + "    optimizer.step()\n"


#: the branch has two backwards, in a loop that may have no turn
ON_CHUNKS = """\
for x in loader:
    if args.other:
        for part in x.chunk(2):
            loss = model(part).mean()
            if fp16:
                scaler.scale(loss).backward()
            else:
                loss.backward()
        loss.backward()
    else:
        loss = model(x).mean()
        loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("body", [ON_LOSS_BRANCH, ON_CHUNKS])
def test_a_way_that_the_options_leave_out_is_told_once(body: str, tmp_path: Path) -> None:
    path, given = tmp_path / "train.py", textwrap.indent(OPTIONS["switch"], "    ")
    text = SCRIPT.replace("OPTIONS", given).replace("first(", "other(").replace(".backward()", "()")
    path.write_text(text + body, encoding="utf-8")
    told = [w.kind for w in locate_file(path, Options(), [tmp_path], ()).warnings]
    assert [kind for kind in told if kind.startswith("branch-")] == ["branch-by-options"]


@pytest.mark.parametrize(("arguments", "told"), [((), False), (("--other",), True)])
def test_what_a_branch_that_is_left_out_would_copy_is_not_told(
    arguments: tuple[str, ...], told: bool, tmp_path: Path
) -> None:
    path, given = tmp_path / "train.py", textwrap.indent(OPTIONS["switch"], "    ")
    text = SCRIPT.replace("OPTIONS", given).replace(".backward()", "()").replace("first(", "other(")
    body = (
        "for x in loader:\n    loss = model(x).mean()\n    if args.other:\n"
        "        loss = loss + model(x.cuda()).mean()\n    loss.backward()\n    optimizer.step()\n"
    )
    path.write_text(text + body, encoding="utf-8")
    kinds = [w.kind for w in locate_file(path, Options(), [tmp_path], arguments).warnings]
    assert ("copy-inside" in kinds) is told


@pytest.mark.parametrize(("arguments", "line"), [((), 29), (("--other",), 25)])
def test_of_two_ways_through_a_step_the_one_that_the_options_leave(
    arguments: tuple[str, ...], line: int, tmp_path: Path
) -> None:
    path, given = tmp_path / "train.py", textwrap.indent(OPTIONS["switch"], "    ")
    text = SCRIPT.replace("OPTIONS", given).replace("first(", "other(").replace(".backward()", "()")
    path.write_text(text + ON_BRANCH, encoding="utf-8")
    located = locate_file(path, Options(), [tmp_path], arguments)
    assert [[site.backward.lineno for site in each.sites] for each in located.regions] == [[line]]
    [told] = [w for w in located.warnings if w.kind == "branch-by-options"]
    assert told.place == f"train.py:{25 + 29 - line}"


ACCUMULATING = """\
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=1)
args = parser.parse_args()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def update(batches):
    for x in batches:
        loss = model(x).mean()
        loss.backward()
        if args.accumulate == 1:
            optimizer.step()
    if args.accumulate > 1:
        optimizer.step()


for batches in torch.ones(100, 2, 8, 4):
    update(batches)
"""


@pytest.mark.parametrize(("arguments", "line"), [((), 16), (("--accumulate", "2"), 18)])
def test_the_stop_stands_behind_the_update_that_the_options_leave(
    arguments: tuple[str, ...], line: int, tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(ACCUMULATING, encoding="utf-8")
    located = locate_file(path, Options(), [tmp_path], arguments)
    assert [stop.after.lineno for stop in located.stops] == [line]


STEPPING = """\
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--net", default="a")
parser.add_argument("--tune", type=SWITCH, default=False)
args = parser.parse_args()
criterion = torch.nn.MSELoss()


class First:
    def __init__(self, tune):
        self.tune = tune
        self.net = torch.nn.Linear(4, 4)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def learn(self, memory):
        x = memory.sample()
        if self.tune:
            self.net(x).sum().backward()
        else:
            self.net(x).mean().backward()
        self.optimizer.step()


class Second(First):
    def learn(self, memory):
        self.net(memory.sample()).prod().backward()
        self.optimizer.step()


class Third(First):
    pass


def steps(agent, tune):
    for turn in range(100):
        if tune:
            agent.learn(memory, tune)
        agent.learn(memory)


MADE
steps(agent, args.tune)
"""
BY_WORD = "if args.net == 'a':\n    agent = First(args.tune)\nelse:\n    agent = Second(args.tune)"
EITHER = "self.net(x).sum().backward()"  # the first of two branches, both of them timed
LOADED = "\nelse:\n    agent = load()"


@pytest.mark.parametrize(
    ("made", "arguments", "region"),
    [
        (BY_WORD, (), "self.net(x).mean().backward()"),
        (BY_WORD, ("--net", "b"), "self.net(memory.sample()).prod().backward()"),
        (BY_WORD.replace("args.net", "args.other"), (), "agent.learn(memory)"),
        (BY_WORD.replace("args.net == 'a'", "ready"), (), "agent.learn(memory)"),
        (BY_WORD, ("--tune", ""), "if tune:"),  # what the type makes of a text is not known
        ("agent = First(args.tune)\nagent.tune = load()", (), "self.net(x).sum().backward()"),
        (BY_WORD, ("--tu", ""), "if tune:"),  # argparse takes the first letters of an option
        (BY_WORD.replace("Second(", "Third("), ("--net", "b"), "self.net(x).mean().backward()"),
        (BY_WORD.replace("else:", "elif ready:") + LOADED, (), "agent.learn("),
        # set by a text, by a class body or from outside; made where no argument is seen
        ("agent = First(args.tune)\nsetattr(agent, 'tune', load())", (), EITHER),
        ("agent = First(args.tune)\nvars(agent).update(load())", (), EITHER),
        ("class Late(First):\n    tune = True\nagent = First(args.tune)", (), EITHER),
        ("flag = args.tune\nimport train\ntrain.flag = True\nagent = First(flag)", (), EITHER),
        ("agent = First(args.tune)\nother = partial(First, True)", (), EITHER),
        ("@register\nclass Late(First):\n    pass\nagent = First(args.tune)", (), EITHER),
    ],
)
def test_options_are_followed_through_parameters_attributes_and_objects(
    made: str, arguments: tuple[str, ...], region: str, tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    text = STEPPING.replace("MADE", made)
    path.write_text(text, encoding="utf-8")
    located = locate_file(path, Options(), [tmp_path], arguments)
    starts = [text.splitlines()[r.begin.lineno - 1].strip() for r in located.regions]
    assert region in starts[0]
    assert all("sum()" not in s or "sum()" in region for s in starts)


LOOPS_IN_ONE = """\
import argparse
import torch

class Once:
    def __init__(self):
        self.net = torch.nn.Linear(4, 4)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def update(self, x):
        self.net(x).mean().backward()
        self.optimizer.step()

class Often(Once):
    def update(self, xs):
        for x in xs:  # its own
            self.net(x).sum().backward()
            self.optimizer.step()

parser = argparse.ArgumentParser()
parser.add_argument("--algo", default="once")
args = parser.parse_args()
if args.algo == "once":
    agent = Once()
elif args.algo == "often":
    agent = Often()
for x in loader:  # of all
    agent.update(x)
"""


@pytest.mark.parametrize(("algo", "loop"), [("once", "# of all"), ("often", "# its own")])
def test_the_class_that_is_chosen_may_hold_the_loop(algo: str, loop: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(LOOPS_IN_ONE, encoding="utf-8")
    located = locate_file(path, Options(), [tmp_path], ("--algo", algo))
    assert loop in LOOPS_IN_ONE.splitlines()[located.candidate.loop.lineno - 1]
    assert "branch-by-options" in {w.kind for w in located.warnings}


SETTINGS = """\
import torch

class Settings:
    def __init__(self):
        self.kind = "net-b"
        self.rate = 0.1

args = Settings()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=args.rate)
loader = []
"""
TWO_LOOPS = """\
def first(model, optimizer, loader):
    for x in loader:
        model(x).mean().backward()
        optimizer.step()

def second(model, optimizer, loader):
    for x in loader:
        model(x).sum().backward()
        optimizer.step()

def train(args, *given):
    if "-a" in args.kind:
        first(*given)
    elif "-b" in args.kind:
        second(*given)
"""
CALLED = "from steps import train\ntrain(args, model, optimizer, loader)\n"


def test_settings_that_a_constructor_writes_out_choose_a_loop_of_another_module(
    tmp_path: Path,
) -> None:
    (tmp_path / "steps.py").write_text(TWO_LOOPS, encoding="utf-8")
    path = tmp_path / "train.py"
    path.write_text(SETTINGS + CALLED, encoding="utf-8")
    located = locate_file(path, Options(), [tmp_path])
    assert getattr(located.candidate.scope, "name", "") == "second"
    assert "loop-by-options" in [w.kind for w in located.warnings]


@pytest.mark.parametrize(
    "changed",
    [
        "args.kind = load()\n",
        "args.kind += load()\n",
        "setattr(args, 'kind', load())\n",
        "vars(args).update(load())\n",
        "class Late(Settings):\n    kind = 'net-a'\n",
        "args = load(args)\n",
    ],
)
def test_settings_that_may_be_others_choose_none(changed: str, tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(TWO_LOOPS, encoding="utf-8")
    path = tmp_path / "train.py"
    path.write_text(SETTINGS + changed + CALLED, encoding="utf-8")
    with pytest.raises(Declined) as caught:
        locate_file(path, Options(), [tmp_path])
    assert caught.value.reasons[0].kind == "several-loops"


def test_an_option_that_is_required_is_known_when_it_is_given(tmp_path: Path) -> None:
    found, _ = chosen(tmp_path, "required", ON_WORD, "--net", "b")
    assert found == "second"
