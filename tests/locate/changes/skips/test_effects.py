"""An evaluation stays that changes, by whatever way, something that the training reads."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from instrumentor import Options
from instrumentor.locate import locate_file
from instrumentor.locate.changes.skips.storage import TooMuch
from tests.locate.cases import HEAD, looped, plan_of, rewritten

STEP = "loss = criterion(model(x), y)\nloss.backward()\noptimizer.step()\n"


@dataclass(frozen=True)
class Evaluation:
    """A script whose evaluation does `body`, called behind each step and followed by `rest`."""

    setup: str = ""
    body: str = "pass"
    rest: str = ""
    takes: str = "model"
    call: str = "validate(model)"
    header: str = "for x, y in loader:"

    @property
    def source(self) -> str:
        function = (
            f"def validate({self.takes}):\n    model.eval()\n    with torch.no_grad():\n"
            "        for a, b in val_loader:\n            total = model(a).sum()\n"
            f"{textwrap.indent(self.body, '    ')}\n    model.train()\n    return total\n"
        )
        body = f"{STEP}{self.call}\n{self.rest}"
        return looped(body, before=f"{self.setup}\n{function}", header=self.header)


BUFFER = "buf = torch.zeros(4)"
STATE = "state = {'n': 0}"
FETCH = "while True:\n    x, y = next(it)"
COUNTING = """\
class Inner(torch.nn.Module):
    def forward(self, x):
        {}
        return x * self.calls
class Net(torch.nn.Module):
    def __init__(self):
        self.inner = Inner()
        self.head = torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.inner(x)
net = Net()"""
PARTS = "s['n'] += 1"
TURNS = "def walk(own, n):\n    own[0].append(n)\n    if n:\n        {}"


def changes(setup: str, body: str, **more: str) -> Evaluation:
    """The training goes on with the first name that the set-up binds."""
    name = setup.rpartition("\n")[2].partition(" ")[0]
    return Evaluation(setup, body, f"scale({name})", **more)


def imported_or(own: str, name: str = "note", library: str = "fast") -> str:
    """A name of a library, or what the program has where the library is missing."""
    own = textwrap.indent(own, "    ")
    return f"try:\n    from {library} import {name}\nexcept ImportError:\n{own}\n"


def kept_class(method: str, body: str, use: str) -> Evaluation:
    own = f"class Own:\n    {method}\n        state['n'] += 1\n        {body}\n"
    return Evaluation(f"{STATE}\n{own}own = Own()", use, "scale(state)")


#: What runs a special method of a class of the script (which one is not told apart): the method,
#: what it returns, an expression.
RUN_BY_SYNTAX: dict[str, tuple[str, str, str]] = {
    "sum": ("def __add__(self, other):", "self", "own + total"),
    "in_place": ("def __iadd__(self, other):", "self", "t = own\nt += total"),
    "negation": ("def __neg__(self):", "self", "-own"),
    "comparison": ("def __lt__(self, other):", "True", "own < total"),
    "condition": ("def __bool__(self):", "True", "if own:\n    pass"),
    "guard": ("def __bool__(self):", "True", "match total:\n    case 1 if own:\n        pass"),
    "shown": ("def __str__(self):", "''", "print(f'{own}')"),
    "printed": ("def __repr__(self):", "''", "print(own)"),
    "attribute_that_is_not_there": ("def __getattr__(self, name):", "3", "own.something"),
    "attribute_that_is_set": ("def __setattr__(self, name, v):", "None", "own.something = 3"),
    "deleted_element": ("def __delitem__(self, i):", "None", "del own[3]"),
    "set_property": (
        "@property\n    def v(self):\n        return 1\n    @v.setter\n    def v(self, value):",
        "None",
        "own.v = 3",
    ),
}
#: What binds a name `calls` of the module in a function that declares it global.
BINDS_A_GLOBAL = {
    "case": "match total:\n    case calls:\n        pass",
    "rest_of_a_sequence": "match total:\n    case [1, *calls]:\n        pass",
    "rest_of_a_mapping": "match total:\n    case {1: 2, **calls}:\n        pass",
    "handler": "try:\n    pass\nexcept ValueError as calls:\n    pass",
    "import": "import os as calls",
    "function": "def calls():\n    pass",
}
LOADED = "from metrics import accuracy\nargs = load()\nvalid = torch.utils.data.DataLoader({})"
FIELD = "class Own:\n    it = None\nown = Own()\n"


def run_by_syntax(name: str, body: str) -> Evaluation:
    method, returned, use = RUN_BY_SYNTAX[name]
    own = f"class Own:\n    {method}\n        {body}\n        return {returned}\nown = Own()"
    return Evaluation(f"{STATE}\n{own}", use, "scale(state)")


#: An operation with a backward of its own: what its forward does besides.
OPERATION = """\
class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, floor=-15):
        ctx.save_for_backward(x)
        ctx.floor = floor
        {}
        return torch.exp(x)
    @staticmethod
    def backward(ctx, grad):
        return grad * torch.exp(ctx.saved_tensors[0].clamp(ctx.floor, 15)), None
exp = Exp.apply
state, buf = {{'n': 0}}, torch.zeros(4)"""
#: Modules in a list and in a table, which the step does not call, and how one is called.
PARTED = """\
calls = []
class Part(torch.nn.Module):
    def forward(self, x):
        {}
        return x + 1
parts = torch.nn.ModuleList([Part() for n in range(2)])
others = torch.nn.ModuleList([torch.nn.Linear(4, 4) for n in range(2)])
named = torch.nn.ModuleDict({{'a': Part()}})"""
ELEMENTS = {
    "index": "print(others[0](total), parts[0](total))",
    "key": "print(named['a'](total))",
    "walk": "for part, other in zip(parts, others):\n    print(other(part(total)))",
}
#: A model that an accelerator prepares, and gives back.
PREPARED = """\
import accelerate
class Net(torch.nn.Module):
    def forward(self, x, count=False):
        if count:
            self.calls = self.calls + 1
        return x * self.calls
accelerator = accelerate.Accelerator()
net = Net()
net, optimizer = accelerator.prepare(net, optimizer)"""
#: What is given a lambda and calls it.
MEASURE = "def count(d, n=1):\n    d['n'] = d['n'] + n\n    return n\n"
EACH = "def each(rows, measure):\n    return [measure(row) for row in rows]\n"
#: What is used where a progress bar is not installed: with what it writes, and without.
STANDS_IN = {
    "function": ("def tqdm(rows):\n    {}\n    return rows", "state['n'] += 1", "pass"),
    "class": (
        "class tqdm:\n    seen = {}\n    def __init__(self, rows):\n        self.rows = rows\n"
        "        tqdm.seen.update(n=1)\n    def __iter__(self):\n        return iter(self.rows)",
        "state",
        "{}",
    ),
    "lambda": ("tqdm = lambda rows: {}rows", "state.update(n=1) or ", ""),
}


def progress(kind: str, *, writes: bool) -> Evaluation:
    own, writing, harmless = STANDS_IN[kind]
    own = own.replace("{}", writing if writes else harmless)
    setup = f"{STATE}\n{imported_or(own, 'tqdm', 'tqdm')}"
    return Evaluation(setup, "for a, b in tqdm(val_loader):\n    print(a)", "scale(state)")


#: How an attribute comes to be the object `state` of the module, and what changes it.
HELD_BY_A_CLASS = {
    "body": ("held = state", "", "Own.held.update(n=1)"),
    "body_with_a_type": ("held: dict = state", "", "own.held['n'] = 1"),
    "body_of_two": ("held, n = state, 1", "", "own.held['n'] = 1"),
    "property": ("@property\n    def held(self):\n        return state", "", "own.held['n'] = 1"),
    "setattr": ("pass", "setattr(own, 'held', state)", "own.held['n'] = 1"),
    "dict": ("pass", "own.__dict__['held'] = state", "own.held['n'] = 1"),
}


def held_by_a_class(name: str, what: str) -> Evaluation:
    body, setup, use = (text.replace("state", what) for text in HELD_BY_A_CLASS[name])
    return Evaluation(
        f"{STATE}\nother = {{}}\nclass Own:\n    {body}\nown = Own()\n{setup}", use, "scale(state)"
    )


#: Objects of a class of the script hold a number that has the name of something else.
NUMBER = "class Meter:\n    def __init__(self):\n        self.data = self.rows = 0\nown = Meter()\n"


#: An object that the evaluation makes, whose class puts something of the module there.
OWN_WITH_SHARED = """\
class Own:
    def __init__(self):
        self.rows = buf
    def more(self):
        self.rows.append(1)
buf = [1]"""
METER = """\
class Meter:
    def __init__(self):
        self.sum = 0
    def update(self, value):
        self.sum += value
meter = Meter()
"""


def listed(text: str) -> Evaluation:
    """What a function does with a list that it makes of another."""
    text = textwrap.indent(text, "    ")
    return Evaluation(f"buf = [1]\ndef note(t):\n{text}", "note(buf)", "scale(buf)")


STAYS: dict[str, Evaluation] = {
    "method_of_its_own_object": changes(OWN_WITH_SHARED, "Own().more()"),
    "part_of_its_own_object": changes(OWN_WITH_SHARED, "own = Own()\nown.rows.append(1)"),
    "number_of_a_meter_that_is_read": Evaluation(METER, "meter.update(total)", "scale(meter.sum)"),
    "function_of_a_meter_that_is_called": Evaluation(
        METER, "meter.sum = print", "scale(meter.sum(x))"
    ),
    "list_of_which_it_has_another_name": listed("u = t\nt = list(t)\nu.append(1)"),
    "list_that_may_be_another": listed("t = list(t)\nif t:\n    t = buf\nt.append(1)"),
    "list_that_was_the_given_one": listed("for i in t:\n    t.append(1)\n    t = list(t)"),
    "element_of_a_longer_list": Evaluation(
        "buf = [torch.zeros(4)]\ndef note(t):\n    t = []\n    t += buf\n    t[0].add_(1)",
        "note(buf)",
        "scale(buf)",
    ),
    "shape_that_is_a_list": Evaluation(
        "import fast\nconfig = fast.load()", "s = config.shape[0]\ns.append(1)", "scale(config)"
    ),
    "shape_that_is_given": Evaluation(
        "import fast\nfrom types import SimpleNamespace\nbuf = [1]\n"
        "own = SimpleNamespace(shape=[buf])",
        "fast.change(own.shape[0])",
        "scale(buf)",
    ),
    "text_or_a_list": Evaluation(
        "import fast\nbuf = [1]\nname = 'a'\nif ready:\n    name = buf",
        "fast.change(name)",
        "scale(buf)",
    ),
    **{f"held_by_{name}": held_by_a_class(name, "state") for name in HELD_BY_A_CLASS},
    "weights_that_are_no_number_of_a_meter": Evaluation(
        NUMBER, "for p in model.parameters():\n    p.data.add_(1)"
    ),
    "a_list_that_is_no_number_of_a_meter": Evaluation(
        NUMBER + "class Box:\n    rows = [1]", "Box.rows.append(1)", "scale(Box.rows)"
    ),
    **{f"progress_that_writes_by_{kind}": progress(kind, writes=True) for kind in STANDS_IN},
    "may_be_a_library_that_writes": Evaluation(
        STATE + "\n" + imported_or("def note(x):\n    return 0"), "note(state)", "scale(state)"
    ),
    "may_be_a_class_of_a_library": Evaluation(
        STATE + "\n" + imported_or("class Note:\n    def __init__(self, x):\n        pass", "Note"),
        "Note(state)",
        "scale(state)",
    ),
    "may_be_given_back_by_a_library": Evaluation(
        "buf = [1]\n" + imported_or("def note(x):\n    return list(x)"),
        "own = note(buf)\nown.append(1)",
        "scale(buf)",
    ),
    "may_be_read_by_a_library": Evaluation(
        STATE + "\n" + imported_or("def note(x):\n    return 0"),
        PARTS.replace("s[", "state["),
        "scale(note(state))",
    ),
    "may_end_the_process": Evaluation(
        imported_or("def exit():\n    pass", "exit", "sys"), "if total > 3:\n    exit()"
    ),
    "a_function_or_one_of_a_library": Evaluation(
        STATE + "\nfrom fast import one\ndef two(x):\n    pass\nnote = one if ready else two",
        "note(state)",
        "scale(state)",
    ),
    "a_list_that_a_lambda_gives": changes(
        "get = lambda: buf\nown = get()\nbuf = [1]", "own.append(1)"
    ),
    "a_list_of_a_library": Evaluation("import fast", "fast.rows.append(total)", "scale(fast.rows)"),
    **{f"{name}_of_a_class": run_by_syntax(name, "state['n'] += 1") for name in RUN_BY_SYNTAX},
    **{
        f"global_by_{name}": changes("calls = 0", f"global calls\n{text}")
        for name, text in BINDS_A_GLOBAL.items()
    },
    "one_of_many_that_are_put_there": Evaluation(
        "buf = [1]\n" + FIELD + "".join(f"own.it = f{n}()\n" for n in range(9)) + "own.it = buf",
        "own.it.append(3)",
        "scale(buf)",
    ),
    "taken_over_by_a_class": Evaluation(
        "buf = [1]", "buf[0] = 2", "class Rates:\n    first = buf\nscale(Rates.first)"
    ),
    "default_of_a_lambda": Evaluation(
        "buf = [1]", "buf[0] = 2", "rate = lambda buf=buf: buf\nscale(rate())"
    ),
    "batches_as_they_are_stored": Evaluation(
        LOADED.format("Data(args), batch_size=None"),
        "for a in valid:\n    accuracy(a)",
        "scale(args)",
    ),
    "batches_of_a_function": Evaluation(
        LOADED.format("Data(args), 8, collate_fn=collate"),
        "for n, a in enumerate(valid):\n    accuracy(a)",
        "scale(args)",
    ),
    "batches_that_are_kept": Evaluation(
        LOADED.format("Data(args), 8") + "\nbatches = list(valid)",
        "for a in batches:\n    accuracy(a)",
        "scale(batches)",
    ),
    "batches_that_a_cycle_keeps": Evaluation(
        "import itertools\n" + LOADED.format("Data(args), 8") + "\nit = itertools.cycle(valid)",
        "a = next(it)\naccuracy(a)",
        "scale(next(it))",
    ),
    "data_set_of_a_loader": Evaluation(
        LOADED.format("Data(args), 8"), "valid.dataset.update(3)", "scale(args)"
    ),
    "all_attributes": Evaluation(FIELD, "own.best = 1", "scale(vars(own))"),
    "attribute_by_any_name": Evaluation(FIELD, "own.best = 1", "scale(getattr(own, name))"),
    "called_in_a_lambda_as_well": Evaluation(
        f"{STATE}\ndef rate(step=0):\n    return state['n']\n"
        "scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step))",
        "state['n'] += 1\nprint(rate())",
        "scheduler.step()",
    ),
    # the same memory by another name
    "view": changes(BUFFER, "buf.view(-1)[0] = 1"),
    "copied_into_a_view": changes(BUFFER, "buf.view(-1).copy_(total)"),
    "detached": changes(BUFFER, "buf.detach().zero_()"),
    "converted_or_not": changes(BUFFER, "buf.float().zero_()"),
    "as_numpy": changes(BUFFER, "buf.numpy()[0] = 1"),
    "split": changes(BUFFER, "buf.split(2)[0].zero_()"),
    "view_by_a_function": changes(BUFFER, "torch.squeeze(buf).zero_()"),
    "array_by_a_function": changes("import numpy as np\nbuf = [1]", "np.asarray(buf)[0] = 1"),
    "state_dict": Evaluation("", "for v in model.state_dict().values():\n    v.zero_()"),
    "parameters": Evaluation("", "for p in model.parameters():\n    p.data.copy_(total)"),
    "weights": Evaluation("", "old = model.weight.data\nmodel.weight.data = old * 2"),
    "copied_list": changes("buf = [torch.zeros(1)]", "for t in buf.copy():\n    t.fill_(1)"),
    "listed_again": changes("buf = [torch.zeros(1)]", "for t in [u for u in buf]:\n    t.fill_(1)"),
    "unpacked": changes("buf = [torch.zeros(1), 0]", "a0, b0 = buf\na0 += 1"),
    "one_of_two": changes("buf = [0]", "t = buf or []\nt.append(1)"),
    "one_or_the_other": changes("buf = [0]", "t = buf if total > 1 else []\nt.append(1)"),
    "got_from_a_dict": changes("buf = {'a': []}", "buf.get('a', []).append(1)"),
    "default_of_a_dict": changes("buf = []", "{}.setdefault('a', buf).append(1)"),
    "given_as_default": changes("buf = []", "seen.append(1)", takes="model, seen=buf"),
    "unpacked_later": Evaluation(
        "buf = [0, []]", "buf[1].append(1)", "n, items = buf\nscale(items)"
    ),
    "put_elsewhere_later": Evaluation(
        "buf = [0]\nd = {}", "buf.append(1)", "d['k'] = buf\nscale(d)"
    ),
    "method_by_another_name": Evaluation("buf = []\nadd = buf.append", "add(1)", "scale(buf)"),
    "field": Evaluation(
        "from dataclasses import dataclass\n@dataclass\nclass Kept:\n    it: object\n"
        "buf = []\nkept = Kept(buf)",
        "kept.it.append(3)",
        "scale(buf)",
    ),
    "field_of_what_is_made_there": changes(
        "from dataclasses import dataclass\n@dataclass\nclass Kept:\n    it: object\nbuf = []",
        "Kept(buf).it.append(3)",
    ),
    "generated": changes("def each(s):\n    s.append(1)\n    yield 1\nbuf = []", "list(each(buf))"),
    "in_a_context": changes(
        "from contextlib import contextmanager\n@contextmanager\ndef each(s):\n    s.append(1)\n"
        "    yield 1\nbuf = []",
        "with each(buf):\n    pass",
    ),
    "chosen_function": changes(
        "def one():\n    pass\ndef two():\n    buf.append(1)\ntable = {1: one, 2: two}\nbuf = []",
        "table[total]()",
    ),
    "instance": changes(
        "class Made:\n    def __new__(cls):\n        buf.append(1)\nbuf = []", "Made()"
    ),
    "dictionary_of_attributes": Evaluation("", "model.__dict__['n'] = 1", "scale(model.n)"),
    "counted_by_the_forward": Evaluation(
        COUNTING.format("self.calls += 1"), "net(total)", "scale(net(x))"
    ),
    "decorated": changes(
        "def counted(f):\n    def inner():\n        buf.append(1)\n        f()\n    return inner\n"
        "@counted\ndef show():\n    pass\nbuf = []",
        "show()",
    ),
    "function_of_both": Evaluation(
        f"{STATE}\ndef note():\n    state['n'] += 1\n    return state['n']",
        "note()",
        "scale(note())",
    ),
    "endless": Evaluation(
        "first = load()\ndef walk(node):\n    node.seen = 1\n    walk(node.next)",
        "walk(first)",
        "scale(first.seen)",
    ),
    "felt_in_the_third_turn": Evaluation(
        f"rows = []\n{TURNS.format('walk([own[1], rows], n - 1)')}",
        "walk([[], []], 3)",
        "scale(rows)",
    ),
    # written by a library
    "into_out": changes(BUFFER, "torch.add(total, 1, out=buf)"),
    "in_place_by_option": changes(
        f"import torch.nn.functional as F\n{BUFFER}", "F.relu(buf, inplace=True)"
    ),
    "handed_to_map": changes("buf = []", "list(map(buf.append, [1]))"),
    **{
        f"an_operation_that_{name}_by_{use}": Evaluation(
            OPERATION.format(does), f"print({use}(buf))", rest
        )
        for name, does, rest in (
            ("counts", "state['n'] += 1", "scale(state)"),
            ("works_in_place", "x.exp_()", "scale(buf)"),
        )
        for use in ("exp", "Exp.apply")
    },
    **{
        f"an_element_of_modules_that_counts_by_{name}": Evaluation(
            PARTED.format("calls.append(1)"), use, "scale(calls)"
        )
        for name, use in ELEMENTS.items()
    },
    "a_model_that_an_accelerator_gives_back_and_that_counts": Evaluation(
        PREPARED, "accelerator.unwrap_model(net)(total, count=True)", "scale(net(x))"
    ),
    "a_lambda_that_changes_what_it_is_given": Evaluation(
        f"{STATE}\n{MEASURE}{EACH}", "each([state], lambda d: count(d))", "scale(state)"
    ),
    **{
        f"a_{name}_of_two_that_changes_what_it_is_given": Evaluation(
            f"{STATE}\n{MEASURE}{EACH}measure = {choice}",
            "print(each([state], measure))",
            "scale(state)",
        )
        for name, choice in (
            ("function", "count if ready else lambda d: len(d)"),
            ("lambda", "len if ready else lambda d: count(d)"),
        )
    },
    "a_lambda_of_the_module_that_does": Evaluation(
        f"{STATE}\n{MEASURE}note = lambda d, n=2: count(d, n)", "note(state)", "scale(state)"
    ),
    "a_lambda_that_changes_what_it_names": Evaluation(
        f"{STATE}\n{MEASURE}{EACH}note = lambda row: count(state)",
        "each([total], note)",
        "scale(state)",
    ),
    "a_lambda_that_changes_its_default": Evaluation(
        f"{STATE}\n{MEASURE}note = lambda row, d=state: count(d)", "note(total)", "scale(state)"
    ),
    "a_lambda_that_is_given_the_rest": Evaluation(
        f"{STATE}\n{MEASURE}note = lambda *rest: count(rest[0])", "note(state)", "scale(state)"
    ),
    "a_lambda_in_a_lambda": Evaluation(
        f"{STATE}\n{MEASURE}note = lambda d: (lambda: count(d))", "note(state)()", "scale(state)"
    ),
    "handed_lambda": changes("buf = []", "list(map(lambda v: buf.append(v), [1]))"),
    "handed_function": Evaluation(
        f"{STATE}\ndef note(v):\n    state['n'] += 1", "launch.each(note)", "scale(state)"
    ),
    "average_of_weights": Evaluation(
        "from torch_ema import ExponentialMovingAverage\n"
        "ema = ExponentialMovingAverage(model.parameters(), decay=0.9)",
        "ema.store()\nema.copy_to()",
    ),
    "own_average_of_weights": Evaluation(
        "class Average:\n    def __init__(self, model):\n        self.kept = model\n"
        "    def swap(self):\n        self.kept.weight.data.zero_()\nema = Average(model)",
        "ema.swap()",
    ),
    "gradients": Evaluation("", "optimizer.zero_grad()"),
    "gradients_off": Evaluation("", "for p in model.parameters():\n    p.requires_grad = False"),
    "hyperparameter": Evaluation("", "optimizer.param_groups[0]['lr'] = total"),
    "precision": Evaluation("", "model.half()"),
    "device": Evaluation("", "model.to('cpu')"),
    "cache_of_the_model": Evaluation("", "model.reset_cache()"),
    "scheduler": Evaluation("", "scheduler.step(total)"),
    # the process
    "grown_from_a_number": Evaluation(
        "rows, sum_of = [], 0",
        "rows.append({'sum': sum_of})\nrows[0]['sum'].zero_()",
        "sum_of += loss.detach()\nscale(sum_of)",
    ),
    "field_grown_from_a_number": Evaluation(
        "class Own:\n    def __init__(self):\n        self.sum_of = 0\nown = Own()\nrows = []",
        "rows.append({'sum': own.sum_of})\nrows[0]['sum'].zero_()",
        "own.sum_of += loss.detach()\nscale(own.sum_of)",
    ),
    "seed": Evaluation("", "torch.manual_seed(3)"),
    "state_of_random": Evaluation("", "torch.random.set_rng_state(s)"),
    "data_set": Evaluation(
        "data = Data()\nloader = torch.utils.data.DataLoader(data)", "data.epoch = 3"
    ),
    "generator": changes("g = torch.Generator()", "g.manual_seed(3)"),
    "another_process": Evaluation("import subprocess", "subprocess.run(['x'])"),
    "a_thread": Evaluation("import threading", "threading.Thread(target=work).start()"),
    "end": Evaluation("", "exit(0)"),
    # variables of others
    "global": changes("calls = 0", "global calls\ncalls += 1"),
    "class": changes("class Config:\n    best = 0\nConfig = Config", "Config.best = total"),
    "attribute": Evaluation("", "model.scale = 3", "scale(model.scale)"),
    "early_stopping": Evaluation(
        "class Stopper:\n    stop = False\n    def __call__(self, v):\n        self.stop = v > 3\n"
        "stopper = Stopper()",
        rest="stopper(v)\nif stopper.stop:\n    break",
        call="v = validate(model)",
    ),
    # parameters
    "spread": Evaluation(
        f"{STATE}\nparts = (model, state)", PARTS, "scale(state)", "model, s", "validate(*parts)"
    ),
    "spread_by_name": Evaluation(
        f"{STATE}\nparts = {{'model': model, 's': state}}",
        PARTS,
        "scale(state)",
        "model, s",
        "validate(**parts)",
    ),
    "any_name": Evaluation(
        STATE, "kw['s']['n'] += 1", "scale(state)", "model, **kw", "validate(model, s=state)"
    ),
    "only_by_name": Evaluation(
        STATE, PARTS, "scale(state)", "model, *, s", "validate(model, s=state)"
    ),
    "any_position": Evaluation(
        STATE, "v[0]['n'] += 1", "scale(state)", "model, *v", "validate(model, state)"
    ),
    # iterators
    "next_batch": Evaluation("it = iter(loader)", "next(it)", header=FETCH),
    "batches": Evaluation("it = iter(loader)", "for q in it:\n    break", header=FETCH),
    "listed_batches": Evaluation("it = iter(loader)", "list(it)", header=FETCH),
    "slice_of_batches": Evaluation(
        "import itertools\nit = iter(loader)",
        "for q in itertools.islice(it, 3):\n    pass",
        header=FETCH,
    ),
    "zipped_batches": Evaluation("it = iter(loader)", "[q for q, _ in zip(it, [1])]", header=FETCH),
    "unpacked_batches": Evaluation("it = iter(loader)", "q, *more = it", header=FETCH),
    "spread_batches": Evaluation("it = iter(loader)", "print(*it)", header=FETCH),
    "looked_for_in_batches": Evaluation("it = iter(loader)", "3 in it", header=FETCH),
    "random_numbers": changes("g = torch.Generator()", "torch.rand(3, generator=g)"),
    "set_by_an_operator": changes("import operator\nbuf = [1]", "operator.setitem(buf, 0, 1)"),
    "read_in_a_lambda": Evaluation(
        "buf = [1]\nrate = lambda: buf[0]", "buf[0] = 2", "scale(rate())"
    ),
    "bound_for_a_lambda": Evaluation(
        "rate = lambda: v", rest="scale(rate())", call="v = validate(model)"
    ),
    "read_by_its_name": Evaluation(
        "class Own:\n    best = 0\nown = Own()", "own.best = 1", "scale(getattr(own, 'best'))"
    ),
    "generated_batches": Evaluation(
        "def batches():\n    for b in loader:\n        yield b\nit = batches()",
        "for q in it:\n    break",
        header=FETCH,
    ),
    # files
    "rate_from_a_file": Evaluation(
        "import json",
        "with open('lr.json', 'w') as f:\n    json.dump(1, f)",
        "with open('lr.json') as f:\n    optimizer.lr = json.load(f)",
    ),
    "rate_from_a_text": Evaluation(
        "from pathlib import Path",
        "Path('lr').write_text('1')",
        "optimizer.lr = float(Path('lr').read_text())",
    ),
    "weights_from_a_folder": Evaluation(
        "from transformers import AutoModel",
        "model.save_pretrained('out')",
        "for group in AutoModel.from_pretrained('out').parameters():\n    pass",
    ),
    # what syntax runs
    "context": kept_class("def __enter__(self):", "return self", "with own:\n    pass"),
    "walk": kept_class("def __iter__(self):", "return iter([])", "for q in own:\n    pass"),
    "property": kept_class("@property\n    def value(self):", "return 3", "own.value"),
    "index": Evaluation(
        "buf, table = [0], [0, 0]", "buf[0] = 1", "table[buf[0]] += 3\nscale(table)"
    ),
    "added_at": changes("import numpy as np\nbuf = np.zeros(3)", "np.add.at(buf, [1], 1)"),
    "sorted": changes("buf = [3, 1]", "buf.sort()"),
    "replaced_in_place": changes("buf = read()", "buf.replace(1, 2, inplace=True)"),
    "result_of_a_method": changes(f"a = 1\n{BUFFER}", "x.mean(out=buf)"),
    "called_by_what_it_calls": Evaluation(
        f"{STATE}\ndef one(k):\n    two(k)\n    state['n'] += 1\n"
        "def two(k):\n    if k:\n        one(k - 1)\n"
        "def check(model):\n    with torch.no_grad():\n        model(x)\n    one(2)",
        "two(2)",
        "scale(state)",
        call="check(model)\nvalidate(model)",
    ),
    "what_may_be_bound_anew": Evaluation(
        "import contextlib",
        rest="with contextlib.suppress(KeyError):\n    v = table['v']\nscale(v)",
        call="v = validate(model)",
    ),
    "by_name_behind_a_position": Evaluation(
        f"{STATE}\nclass Own:\n    def note(self, /, s):\n        s['n'] += 1\nown = Own()",
        "own.note(s=state)",
        "scale(state)",
    ),
    "of_another_object": Evaluation(
        "class Own:\n    best = 0\none, two = Own(), Own()\n"
        "def rate():\n    two.best = 1\n    return one.best",
        "one.best = total",
        "scale(rate())",
    ),
    "whether_it_is_there": Evaluation(
        "class Own:\n    best = None\none = Own()",
        "one.best = total",
        "if one.best is None:\n    scale(x)",
    ),
    "function_that_others_are_given": Evaluation(
        f"{STATE}\ndef rate(step):\n    return 1 / (1 + state['n'])\n"
        "scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)",
        f"{PARTS.replace('s[', 'state[')}\nprint(rate(3))",
        "scheduler.step()",
    ),
    "case": Evaluation(STATE, "match total:\n    case 1:\n        state['n'] = 1", "scale(state)"),
    "handler": Evaluation(
        STATE, "try:\n    pass\nexcept ValueError:\n    state['n'] = 1", "scale(state)"
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_an_evaluation_that_training_feels_stays(name: str) -> None:
    assert plan_of(STAYS[name].source)["skipped_validation"] == []


GOES: dict[str, Evaluation] = {
    "calls_of_itself_that_change_their_own": Evaluation(
        f"rows = []\n{TURNS.format('walk([own[1], []], n - 1)')}",
        "walk([[], []], 3)",
        "scale(rows)",
    ),
    "calls_of_itself_with_more_each_time": Evaluation(
        "rows = []\ndef walk(node):\n    print(node)\n    walk([node, [rows]])",
        "walk(1)",
        "scale(rows)",
    ),
    "parts_of_texts": Evaluation(
        "import fast\nname = 'a,b'",
        "part = fast.load()\nif total > 3:\n    part = name\nfast.change(part)",
        "scale(name)",
    ),
    "numbers_of_a_shape": Evaluation(
        "import fast\nbuf = torch.zeros(4)",
        "n, m = buf.shape\nfast.change(n, buf.shape[0])",
        "scale(buf)",
    ),
    "number_called_like_a_method": Evaluation(METER, "meter.update(total)", "scale(x.sum())"),
    "list_made_of_another": listed("t = list(t)\nt.append(1)"),
    "writer_of_a_class_of_its_own": Evaluation(
        "from torch.utils.tensorboard import SummaryWriter\nclass Writer(SummaryWriter):\n"
        "    def note(self, rate):\n        self.add_scalar('rate', rate)\n"
        "writer, rate = Writer(), load()",
        "writer.note(rate)",
        "scale(rate)",
    ),
    **{
        f"other_held_by_{name}": held_by_a_class(name, "other")
        for name in HELD_BY_A_CLASS
        if name != "dict"
    },
    "a_number_of_a_meter": Evaluation(NUMBER, "own.rows += 1\nprint(own.rows)", "scale(own.data)"),
    **{f"progress_by_{kind}": progress(kind, writes=False) for kind in STANDS_IN},
    **{f"{name}_of_a_class": run_by_syntax(name, "pass") for name in RUN_BY_SYNTAX},
    **{
        f"its_own_{name}": Evaluation("calls = 0", text)
        for name, text in BINDS_A_GLOBAL.items()
        if name not in ("import", "function")
    },
    "one_of_many_of_its_own": Evaluation(
        "buf = [1]\n" + FIELD + "".join(f"own.it = f{n}()\n" for n in range(9)),
        "own.it.append(3)",
        "scale(buf)",
    ),
    "batches_that_a_loader_makes": Evaluation(
        "from tqdm import tqdm\n" + LOADED.format("Data(args), 8"),
        "for n, a in enumerate(tqdm(valid)):\n    accuracy(a)",
        "scale(args)",
    ),
    "attributes_of_another_kind": Evaluation(
        "import argparse\nargs = argparse.ArgumentParser().parse_args()\n" + FIELD,
        "own.best = 1",
        "scale(vars(args), getattr(args, name))",
    ),
    "counted_in_training_alone": Evaluation(
        COUNTING.format("if self.training:\n            self.calls += 1"),
        "net.eval()\nnet(total)\nnet.train()",
        "scale(net(x))",
    ),
    "nothing": Evaluation(),
    **{
        f"an_operation_with_its_own_backward_by_{name}": Evaluation(
            OPERATION.format("own = {}\n        own['n'] = 1"), f"print({use}(buf))", "scale(buf)"
        )
        for name, use in (("name", "exp"), ("its_class", "Exp.apply"))
    },
    **{
        f"an_element_of_modules_by_{name}": Evaluation(PARTED.format("pass"), use, "scale(calls)")
        for name, use in ELEMENTS.items()
    },
    "a_model_that_an_accelerator_gives_back": Evaluation(
        PREPARED, "accelerator.unwrap_model(net)(total, count=False)", "scale(net(x))"
    ),
    "a_lambda_that_is_given_and_computes": Evaluation(
        f"{EACH}def density(mean, scale):\n    return torch.sum(mean * scale)",
        "width = 3\neach([total, a], lambda row: density(row, scale=width).item())",
    ),
    "a_lambda_or_a_function": Evaluation(
        f"{MEASURE}{EACH}rows = [1]\nmeasure = count if ready else lambda d: len(d)",
        "print(each([{'n': 0}], measure))",
        "scale(rows)",
    ),
    "a_lambda_that_changes_its_own": Evaluation(
        f"{STATE}\n{MEASURE}{EACH}",
        "own = {'n': 0}\neach([own], lambda d: count(d))",
        "scale(state)",
    ),
    "its_own_buffer": Evaluation("", f"{BUFFER}\nbuf.view(-1).copy_(total)\nbuf += 1"),
    "computed_from_what_training_has": Evaluation(
        BUFFER,
        "new = torch.zeros_like(buf)\nnew += 1\nold = buf.clone()\nold.zero_()",
        "scale(buf)",
    ),
    "its_own_iterator": Evaluation("", "it = iter(val_loader)\nnext(it)\nfor q in it:\n    pass"),
    "a_walk_over_a_loader_of_both": Evaluation("", "for q in loader:\n    break"),
    "a_list_that_it_alone_reads": Evaluation("seen = []", "seen.append(total)\nprint(seen[-1])"),
    "rows_that_hold_a_number_of_training": Evaluation(
        "rows, step = [], 0\nname = 'train'\ndef note(step, value):\n"
        "    rows.append({'step': step, 'name': name, 'value': value})",
        "note(step, total.item())",
        "step += 1\nscale(step, name)",
    ),
    "a_metric_of_its_own": Evaluation(
        "import torchmetrics\ndevice = torch.device('cpu')\n"
        "metric = torchmetrics.Accuracy('binary').to(device)",
        "metric.update(total, total)\nprint(metric.compute())\nmetric.reset()",
        "x = x.to(device)",
    ),
    "a_metric_made_from_what_training_has": Evaluation(
        "import torchmetrics\nconfig = load()\nmetric = torchmetrics.Accuracy(config)",
        "metric.update(total, total)",
        "scale(config)",
    ),
    "a_context_of_a_library": Evaluation("", "with torch.autocast('cpu'):\n    print(total)"),
    "rank": Evaluation(
        "import torch.distributed as dist", "if dist.get_rank() == 0:\n    print(total)"
    ),
    "progress": Evaluation(
        "from tqdm import tqdm", "bar = tqdm(val_loader)\nfor q in bar:\n    bar.set_postfix(n=1)"
    ),
    "deleted": Evaluation(rest="del v", call="v = validate(model)"),
}


@pytest.mark.parametrize("name", GOES)
def test_an_evaluation_that_keeps_to_itself_goes(name: str) -> None:
    source = GOES[name].source
    (line,) = plan_of(source)["skipped_validation"]
    assert "validate(model)" in source.splitlines()[line - 1]


def test_what_deletes_the_result_goes_along() -> None:
    code = rewritten(GOES["deleted"].source).code.decode()
    assert "# [instrument] off| del v" in code


def test_a_variable_of_the_function_around_is_not_its_own() -> None:
    source = (
        HEAD
        + """\
def train():
    history = []
    def validate():
        model.eval()
        with torch.no_grad():
            for a, b in val_loader:
                history.append(model(a).sum())
        model.train()
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        validate()
        if len(history) > 3:
            break
train()
"""
    )
    assert plan_of(source)["skipped_validation"] == []


@pytest.mark.parametrize(
    ("ahead", "declared"), [("def train():\n    best = 0", "nonlocal"), ("if True:", "global")]
)
def test_a_variable_declared_in_an_inner_function_is_not_its_own(ahead: str, declared: str) -> None:
    source = HEAD + (
        f"best = 0\n{ahead}\n"
        f"    def epoch():\n        {declared} best\n        for x, y in loader:\n"
        f"{textwrap.indent(STEP, '            ')}"
        "            with torch.no_grad():\n                best = model(x).sum()\n"
        "    for number in range(3):\n        epoch()\n        if best > 3:\n            break\n"
        f"{'train()' if declared == 'nonlocal' else ''}\n"
    )
    assert plan_of(source)["skipped_validation"] == []


def test_a_variable_of_another_module_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "config.py").write_text("best = 0\n\ndef rate():\n    return best\n")
    evaluation = Evaluation("import config", "config.best = total", "scale(config.rate())")
    script = tmp_path / "train.py"
    script.write_text(evaluation.source)
    assert not locate_file(script, Options(), [tmp_path]).skipped


EPOCHS = """\
class Own:
    it = None
    def note(self, value):
        self.it.append(value)
own = Own()
def validate(model, history):
    model.eval()
    with torch.no_grad():
        for a, b in val_loader:
            {note}(model(a).sum())
    model.train()
def epoch(model, history):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        validate(model, history)
def main():
    history = []
    own.it = history
    for number in range(3):
        epoch(model, history)
        {rest}
main()
"""


@pytest.mark.parametrize("note", ["history.append", "own.note"])
def test_a_list_of_a_caller_is_not_its_own(note: str) -> None:
    read = EPOCHS.format(note=note, rest="if len(history) > 3:\n            break")
    assert plan_of(HEAD + read)["skipped_validation"] == []
    unread = EPOCHS.format(note=note, rest="pass")
    assert plan_of(HEAD + unread)["skipped_validation"]


def test_a_mode_is_not_set_on_another_variable_of_that_name() -> None:
    source = HEAD + textwrap.dedent(
        """\
        def validate():
            model.eval()
            with torch.no_grad():
                for a, b in val_loader:
                    total = model(a).sum()
        def main(nets):
            {} = nets[0]
            for x, y in loader:
                loss = criterion({}(x), y)
                loss.backward()
                optimizer.step()
                validate()
        main([model])
        """
    )
    assert plan_of(source.format("model", "model"))["skipped_validation"] == []
    assert plan_of(source.format("net", "net"))["skipped_validation"] != []


#: a module of the program, what the script has of it, what the evaluation does, what training does
OF_ANOTHER_MODULE: dict[str, tuple[str, str, str, str]] = {
    "read_there": (
        "cache = {}\ndef rate():\n    return cache['x']\n",
        "from state import cache, rate",
        "cache['x'] = total",
        "scale(rate())",
    ),
    "read_here": ("cache = []\n", "from state import cache", "cache.append(total)", "scale(cache)"),
    "by_another_name": (
        "cache = []\n",
        "import state\nfrom state import cache as seen",
        "seen.append(total)",
        "scale(state.cache)",
    ),
    "as_an_attribute": (
        "cache = []\n",
        "import state",
        "state.cache.append(1)",
        "scale(state.cache)",
    ),
    "global_there": (
        "best = 0\ndef note(v):\n    global best\n    best = v\ndef rate():\n    return best\n",
        "from state import note, rate",
        "note(total)",
        "scale(rate())",
    ),
}


@pytest.mark.parametrize("name", OF_ANOTHER_MODULE)
def test_what_another_module_holds_is_not_its_own(name: str, tmp_path: Path) -> None:
    module, has, body, rest = OF_ANOTHER_MODULE[name]
    script = tmp_path / "train.py"
    for use, goes in ((rest, False), ("scale(3)", True)):
        text = re.sub(r"return \S+", "return 3", module) if goes else module
        (tmp_path / "state.py").write_text(text)
        script.write_text(Evaluation(has, body, use).source)
        assert bool(locate_file(script, Options(), [tmp_path]).skipped) is goes


def test_nothing_goes_where_too_much_leads_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instrumentor.locate.changes.skips.storage._MOST", 3)
    plan = plan_of(GOES["deleted"].source)
    assert plan["skipped_validation"] == []
    why = "because more leads to and from it than can be followed"
    assert [why in w["message"] for w in plan["warnings"] if "kept" in w["message"]] == [True]


def test_a_search_that_finds_nothing_for_what_leads_there_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def too_much(*_: object) -> None:
        raise TooMuch

    monkeypatch.setattr("instrumentor.locate.changes.skips.find_pieces", too_much)
    plan = plan_of(GOES["deleted"].source)
    assert plan["skipped_validation"] == []
    assert "more leads to and from them than can be followed" in str(plan["warnings"])


COUNTED = """\
state = {'n': 0}
def counted():
    while True:
        state['n'] += 1
        yield torch.ones(4)
def some(rows):
    for row in rows:
        state['n'] += 1
        yield row
numbers = counted()
class Held:
    def __init__(self):
        self.rows = some([1, 2])
held = Held()
def take(rows):
    return next(rows)
"""


@pytest.mark.parametrize(
    "walk",
    [
        "next(numbers)",
        "numbers.__next__()",
        "numbers.send(None)",
        "take(numbers)",
        "for row in held.rows:\n    print(row)",
        "print([row for row in held.rows])",
        "list(held.rows)",
        "print(1 in held.rows)",
        "for at, row in enumerate(held.rows):\n    print(row)",
        "for one, row in zip([1], numbers):\n    print(row)",
    ],
)
def test_what_a_generator_does_is_done_where_it_is_walked_over(walk: str) -> None:
    case = Evaluation(COUNTED, walk, "scale(state['n'])")
    assert plan_of(case.source)["skipped_validation"] == []
    alone = Evaluation(COUNTED, walk, "scale(1)")
    assert plan_of(alone.source)["skipped_validation"] != []


CYCLE = """\
train_rows, val_rows = [1, 2], [3, 4]
def cycle(rows):
    at = 0
    def turn():
        nonlocal at
        at += 1
        return at
    while True:
        for row in rows:
            yield row, turn()
train_rows = cycle(train_rows)
val_rows = cycle(val_rows)
"""


@pytest.mark.parametrize(
    ("more", "goes"),
    [
        ("", True),
        ("train_rows = val_rows", False),
        ("train_rows = zip(val_rows, [1])", False),
    ],
)
def test_two_generators_of_a_function_are_two(more: str, *, goes: bool) -> None:
    case = Evaluation(f"{CYCLE}{more}", "print(next(val_rows))", "scale(next(train_rows))")
    assert bool(plan_of(case.source)["skipped_validation"]) is goes
    handed_out = case.source.replace("yield row, turn()", "yield row, [turn(), turn]")
    assert plan_of(handed_out)["skipped_validation"] == []


@pytest.mark.parametrize(
    ("call", "goes"),
    [
        ("print(seen.logsumexp(1).masked_fill(seen > 0, 0.0).repeat(2, 1))", True),
        ("print(cv2.resize(cv2.cvtColor(seen, cv2.COLOR_BGR2RGB), (2, 2)))", True),
        ("seen.frobnicate()", False),
        ("seen.masked_fill_(seen > 0, 0.0)", False),
        ("cv2.rectangle(seen, (0, 0), (1, 1), 255)", False),
        ("cv2.arrowedLine(seen, (0, 0), (1, 1), 255)", False),
        ("cv2.setRNGSeed(seen.size)", False),
    ],
)
def test_what_computes_from_an_array_changes_none(call: str, *, goes: bool) -> None:
    case = Evaluation("import cv2\nimport shapes\nseen = shapes.one()", call, "scale(seen)")
    assert bool(plan_of(case.source)["skipped_validation"]) is goes


DISTRIBUTION = "noise = torch.distributions.Normal(0.0, 1.0)"


def test_a_distribution_stays_as_it_is() -> None:
    case = Evaluation(DISTRIBUTION, "print(noise.sample(), noise.log_prob(x))", "scale(noise)")
    plan = plan_of(case.source)
    assert plan["skipped_validation"] != []
    assert "random-numbers" in [w["kind"] for w in plan["warnings"]]
    own = "class Noise:\n    def sample(self):\n        self.n = 1\nnoise = Noise()"
    case = Evaluation(own, "noise.sample()", "scale(noise.n)")
    assert plan_of(case.source)["skipped_validation"] == []


FABRIC = "import lightning\nfabric = lightning.Fabric()\nrates = [1]"


@pytest.mark.parametrize(
    ("call", "goes"),
    [
        ("fabric.print(rates)", True),
        ("fabric.log_dict({'n': rates})", True),
        ("fabric.barrier()", True),
        ("fabric.launch(rates)", False),
        ("unknown.print(rates)", False),
    ],
)
def test_an_accelerator_that_shows_something_leaves_it_as_it_is(call: str, *, goes: bool) -> None:
    case = Evaluation(FABRIC, call, "scale(rates)")
    assert bool(plan_of(case.source)["skipped_validation"]) is goes


@pytest.mark.parametrize(
    ("body", "goes"),
    [
        ("own = {'a': 1}\nown.update(options)\nown.update(b=rows)", True),
        ("own = {'a': 1}\nown.update(options)\nown['b'].append(1)", False),
        ("own = options\nown.update(a=1)", False),
        ("unknown.update(options)", False),
    ],
)
def test_a_table_that_is_updated_with_another_leaves_that_as_it_is(
    body: str, *, goes: bool
) -> None:
    case = Evaluation("rows = [1]\noptions = {'b': rows}", body, "scale(options)")
    assert bool(plan_of(case.source)["skipped_validation"]) is goes


@pytest.mark.parametrize("read", ["np.random.get_state()", "random.getstate()"])
def test_reading_how_far_a_generator_is_draws_nothing(read: str) -> None:
    body = f"{STEP}torch.save({read}, 'state.pt')\n"
    plan = plan_of(looped(body, "import random\nimport numpy as np"))
    assert plan["skipped_checkpoints"]
    assert not [w for w in plan["warnings"] if w["kind"] == "random-numbers"]
