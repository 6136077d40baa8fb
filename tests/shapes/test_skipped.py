"""Scripts run without what is skipped compute what they compute alone, bit for bit.

Each is seeded, with dropout and shuffled data. A skip that is forced where the tool refuses it is a
mistake: the same comparison has to catch it.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RepoFactory, RunCli
from tests.end_to_end.small import records
from tests.shapes.catalogue import Shape
from tests.shapes.test_shapes import PACKAGES, run_of
from tests.shapes.verdict import Observed, Promise, same_training

SCRIPT = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(24, 8), torch.randn(24, 1)
samples = [(a, b) for a, b in zip(x, y)]
loader = DataLoader(samples, 4, shuffle=True)
val_loader = DataLoader(TensorDataset(x, y), 8, shuffle=True)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(), torch.nn.Linear(8, 1))
criterion = torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
state = {"scale": 1.0}
rows = []
it = iter(loader)
____BEFORE


class Log:
    def __init__(self):
        self.rows = []

    def note(self, step, value):
        self.rows.append({"step": step, "value": value})

    def finish(self):
        print(self.rows)


def validate(model, log, step):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for a, b in val_loader:
            total += criterion(model(a), b).item()
        ____BODY
    model.train()
    log.note(step, total)
    return total


def train(log):
    step = 0
    try:
        first = validate(model, log, step)
        print(f"at first {first:.3f}")
        for epoch in range(4):
            for a, b in loader:
                loss = criterion(model(a), b) * state["scale"]
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                step += 1
                log.note(step, loss.item())
                if step % 2 == 0:
                    validate(model, log, step)
                    torch.save(model.state_dict(), "last.pt")
                ____REST
            best = validate(model, log, step)
            print(f"epoch {epoch}: {best:.3f}")
        ____BEHIND
    finally:
        log.finish()


train(Log())
"""


def script(
    body: str = "pass",
    rest: str = "pass",
    before: str = "pass",
    behind: str = "pass",
    steps: int = 9,
) -> Shape:
    """The script with more in its validation, behind each step, ahead of all, behind all loops."""

    class Written(Shape):
        def files(self) -> dict[str, bytes]:
            text = SCRIPT.replace("____BODY", textwrap.indent(body, " " * 8).lstrip())
            text = text.replace("____BEFORE", before)
            text = text.replace("____REST", textwrap.indent(rest, " " * 16).lstrip())
            text = text.replace("____BEHIND", textwrap.indent(behind, " " * 8).lstrip())
            return {"train.py": text.encode()}

    return Written("skipped", Promise(steps=steps))


def force(
    mode: str = "model.train()", *, draws: tuple[str, ...] = (), with_its_branch: bool = False
) -> None:
    """Take out whatever looks like an evaluation or a save, and its line, without a proof.

    Args:
        mode: what an evaluation leaves behind.
        draws: loaders whose random numbers are drawn in its place.
        with_its_branch: only evaluations, each with all that follows it in its branch.
    """
    from instrumentor.locate.changes import skips
    from instrumentor.locate.located import Skipped

    def unproven(_: object, pieces: Iterable[Any], *__: object) -> tuple[list[Any], ...]:
        found = []
        for piece in pieces:
            evaluates = piece.what == "validation"
            place = piece.source.places[piece.statement]
            following = place.suite[place.index + 1 :]
            if not with_its_branch:
                following = [s for s in following[:1] if "print" in ast.unparse(s)]
            elif not evaluates:
                continue
            where = (piece.source, piece.statement, tuple(following))
            left = mode if evaluates else ""
            found.append(Skipped(*where, left, piece.initial, piece.what, draws=draws))
        return found, [], []

    skips.prove = unproven  # type: ignore[assignment]


def observed(
    shape: Shape, run_cli: RunCli, python: Path, repo: Path, out: Path, **more: Any
) -> tuple[Observed, Observed]:
    """What was seen in the run that was measured, and in the script alone."""
    done, seen = run_of(shape, repo, run_cli, python, out, **more)
    assert seen.get("backwards"), done.stderr
    written = out.with_name("alone.json")
    subprocess.run(
        [python, "train.py"],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": PACKAGES, "OBSERVED": str(written)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    return seen, json.loads(written.read_text())


def skipped(run_cli: RunCli, repo: Path) -> tuple[int, int]:
    """How many validations and checkpoints are skipped."""
    plan = json.loads(run_cli("explain", "--json", "train.py", cwd=repo).stdout)
    return len(plan["skipped_validation"]), len(plan["skipped_checkpoints"])


#: a closure's list, a copy, a tensor made of a weight, a name bound anew, a file of its own
OF_ITS_OWN = """\
def measure(x):
    seen = []
    def count(x):
        seen.append(x)
        return len(seen)
    return count(x)
kept = state.copy()
kept["scale"] = 0.0
own = next(model.parameters()).new_zeros(4)
own.fill_(measure(total))
kept = state
kept = {}
kept["scale"] = 0.0
with open("seen.txt", "a") as file:
    file.write("seen")
"""

METER = """\
class Meter:
    def __init__(self):
        self.total, self.count, self.rows = 0.0, 0, []
    def add(self, value):
        self.total += value
        self.count += 1
        self.mean = self.total / self.count
        self.rows.append(value)
"""
TWO_METERS = f"{METER}\n\nmeter, other = Meter(), Meter()"
TRAINS_BY_THE_FIRST = "meter.add(loss.item())\nstate['scale'] = 1 + meter.mean"


def test_another_object_of_a_class_goes_and_changes_nothing(
    run_cli: RunCli, torch_python: Path, git_repo: RepoFactory, tmp_path: Path
) -> None:
    shape = script("other.add(total)", TRAINS_BY_THE_FIRST, TWO_METERS)
    repo = git_repo(shape.files())
    assert skipped(run_cli, repo) == (3, 1)
    seen, alone = observed(shape, run_cli, torch_python, repo, tmp_path / "out")
    assert same_training(seen, alone) == []


METERS_THAT_BEGIN = f"""\
{METER}
    def begin(self):
        self.total = 0.0
        self.rows = list()
        self.first = self.total + len(self.rows)
    def largest(self):
        return max(self.rows)


meter, other = Meter(), Meter()
"""


OWN = """\
class Own:
    def __init__(self, rate=0.5):
        self.rate = rate


own = Own()
mask = torch.ones(8) > 0
"""
TRAINS_BY_ITS_RATE = "state['scale'] = own.rate"


NET = """\
import copy
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.calls = torch.nn.Parameter(torch.ones(1)), 0
    def forward(self, x):
        {counts}
        return {gives}


net = Net().eval()
"""
COMPUTES = NET.format(counts="pass", gives="x * self.weight")
TRAINS_BY_A_FORWARD = "state['scale'] = float(net(torch.ones(1)).detach())"
#: a value of a forward that is changed in place, copies, gradients that nobody keeps
OF_A_FORWARD = """\
score = net(x)
score += 1
twin = copy.deepcopy(net)
twin.weight.data.fill_(3)
twin.train()
with torch.enable_grad():
    print(score.sum(), torch.autograd.grad(net(x).sum(), [net.weight]))
"""


def test_what_is_done_with_the_value_of_a_forward_goes_and_changes_nothing(
    run_cli: RunCli, torch_python: Path, git_repo: RepoFactory, tmp_path: Path
) -> None:
    shape = script(OF_A_FORWARD, TRAINS_BY_A_FORWARD, COMPUTES)
    repo = git_repo(shape.files())
    assert skipped(run_cli, repo) == (3, 1)
    seen, alone = observed(shape, run_cli, torch_python, repo, tmp_path / "out")
    assert same_training(seen, alone) == []


@pytest.mark.parametrize(
    "use",
    [
        "error = net(x).sum()\nprint(loss.item(), error.item())",
        "if step % 2 == 0:\n    show(net)",
    ],
)
@pytest.mark.parametrize(("counts", "goes"), [("pass", True), ("self.calls += 1", False)])
def test_a_forward_behind_the_step_goes_unless_it_is_felt(
    use: str,
    counts: str,
    goes: bool,
    run_cli: RunCli,
    torch_python: Path,
    git_repo: RepoFactory,
    tmp_path: Path,
) -> None:
    rest = f"{use}\nstate['scale'] += net.calls"
    before = NET.format(counts=counts, gives="x * self.weight")
    before += "def show(held):\n    print(held(torch.ones(1)).sum())\n"
    shape = script(rest=rest, before=before)
    repo = git_repo(shape.files())
    assert skipped(run_cli, repo) == (3 + goes, 1)
    seen, alone = observed(shape, run_cli, torch_python, repo, tmp_path / "out")
    assert same_training(seen, alone) == []
    if not goes:
        out = tmp_path / "forced" / "out"
        out.parent.mkdir()
        wrong, alone = observed(shape, run_cli, torch_python, repo, out, first=force)
        assert same_training(wrong, alone)


PHASE = """\
memory = {"seen": 0.0}
def tell(value, valid=False):
    if valid:
        memory["seen"] = value
    if valid and memory["seen"] > 99:
        print("high")
    return value * (memory["seen"] if valid else 1.0)
"""
TIMER = """\
class Timer:
    def __init__(self, items):
        self.items, self.last = items, 0.0
        self.walk = self.items.__iter__()
    def __iter__(self):
        return self
    def __next__(self):
        self.last += 0.25
        return next(self.walk)


shared = Timer(samples)
"""
ARGUMENTS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, default=0.5)
args = parser.parse_args([])
args.count = 1.0
"""
#: what the validation does, what the training does with its like, what stands ahead
OF_ITS_LIKE = {
    "phase": ("tell(total, valid=True)", "state['scale'] = tell(0.5)", PHASE),
    "timer": (
        "timer = Timer(samples)\nfor one in timer:\n    pass\nprint(timer.last)",
        "timer = Timer(samples)\nnext(timer)\nstate['scale'] = timer.last",
        TIMER,
    ),
    "option": ("args.count = total", "state['scale'] = args.rate", ARGUMENTS),
    "seeds": ("print(next(iter(val_loader))[0].sum())", "pass", "pass"),
}

#: a loader that is walked over under another name, which a branch chooses
RENAMED = """\
import itertools
def walk(loader, verbose=False, silent=True):
    if verbose:
        loader = list(loader)
    if silent:
        batches = loader
    else:
        batches = iter(loader)
    for batch in batches:
        a, b = batch
        print(a.sum())
    shown = itertools.chain(loader) if rows else loader
    print(sum(1 for a, b in shown), len(list(loader)))"""
OF_ITS_LIKE["renamed"] = ("walk(val_loader)", "pass", RENAMED)
GENERATORS = """\
def cycle(rows):
    at = 0
    def turn():
        nonlocal at
        at += 1
        return at
    while True:
        for row in rows:
            yield row * turn()
train_rows = cycle([x[0], x[1]])
val_rows = cycle([x[2], x[3]])
numbers = {}
def number(key):
    if key not in numbers:
        numbers[key] = torch.ones(len(key))
    return numbers[key]"""
OF_ITS_LIKE["another generator of a function"] = (
    "print(next(val_rows).sum(), number('ab'))",
    "state['scale'] = float(next(train_rows).mean() + number('ab').sum())",
    GENERATORS,
)
OF_ITS_LIKE["lists of its own"] = (
    "own = {0: [], 1: []}\nfor key in own:\n    own[key].append(state)\nprint(len(own[0]))",
    "pass",
    "pass",
)

#: loaders that are walked over in turn, as elements, by generators, by what a function gives
IN_TURN = """\
import itertools
loaders = {"one": val_loader, "other": DataLoader(samples, 6, shuffle=True)}
def each(batches):
    yield from batches
def given():
    return loaders["other"]
def walk(batches):
    return sum(a.sum() for a, b in batches)"""
WALKS = """\
for a, b in itertools.chain(loaders["one"], loaders["other"]):
    print(a.sum())
print(walk(each(val_loader)), walk(given()), walk(itertools.chain(loaders["one"])))"""
OF_ITS_LIKE["in_turn"] = (WALKS, "pass", IN_TURN)

#: what may be a loader, or an object that holds one: the run tells which
LIMITED = """\
from itertools import islice
class Few:
    def __init__(self, held):
        self.held = held
    def __iter__(self):
        return islice(iter(self.held), 2)
def limit(held):
    return val_loader if rows else Few(held)
limited = limit(val_loader)
def walk(batches):
    return sum(a.sum() for a, b in batches)"""
OF_ITS_LIKE["limited"] = ("print(walk(limited))", "pass", LIMITED)

#: changes of the evaluation's own batches, a cache that returns what it holds, a file of options
BATCHES = """\
weight, other = torch.ones(8), torch.zeros(8)
weight.data = other.data + 1
options = {"num_workers": 0}
shown = DataLoader(TensorDataset(x, y), 4, **options)
made = {}
def ones(n, shape):
    key = (n, tuple(shape))
    if key in made:
        return made[key]
    def scaled(value):
        return value * n
    made[key] = scaled
    return scaled
def show(batches):
    for a, b in batches:
        images = a.data.cpu()
        for one in images:
            one += ones(2, [8])(1)
            one = batches.dataset
        print(images.sum())"""
OF_ITS_LIKE["its own batches"] = (
    "show(shown)",
    "state['scale'] = float(weight.mean() + x.mean()) * ones(2, [8])(0.5)",
    BATCHES,
)
OF_ITS_LIKE["a file of options"] = (
    "args.log.write(str(total))\nargs.log.flush()",
    "state['scale'] = args.rate",
    ARGUMENTS + 'args.log = open("log.txt", "w")\n',
)
#: functions and classes in variables, tables, attributes, by a computed name, decorated
CALLABLES = """\
import functools
def error(a, b):
    return (model(a) - b).abs().mean().item()
def square(a, b, times=1):
    return (model(a) - b).pow(2).mean().item() * times
def timed(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        print(function.__name__)
        return function(*args, **kwargs)
    return inner
METRICS = {}
def register(name):
    def put(function):
        METRICS[name] = function
        return function
    return put
@register("worst")
@timed
def worst(a, b):
    return (model(a) - b).abs().max().item()
METRICS.update(error=error, square=functools.partial(square, times=2))
class Kinds:
    @staticmethod
    def of_mean(a, b):
        return error(a, b)
    @staticmethod
    def of_most(a, b):
        return worst(a, b)
class Total:
    def __init__(self, most=None):
        self.most, self.amount = most, 0.0
    def add(self, value):
        self.amount += value
        return self.amount
options = {"kind": "mean", "metric": lambda a, b: square(a, b)}
def measure(a, b, *more, table=METRICS, **named):
    found = {name: metric(a, b) for name, metric in table.items()}
    put = {"total": Total}["total"](most=max).add
    for metric in [*more, *named.values()]:
        found[metric] = put(metric(a, b))
    put(options["metric"](a, b) + getattr(Kinds, "of_" + options["kind"])(a, b))
    return found"""
OF_ITS_LIKE["functions in variables"] = (
    "print(measure(a, b, error, METRICS.get('none', square), last=METRICS['error']))",
    "pass",
    CALLABLES,
)

#: caches that whoever comes first fills with the same
CACHES = """import functools
windows = {}
def window(n):
    return torch.ones(n) / n
def kept(n):
    if n not in windows:
        windows[n] = window(n)
    return windows[n]
@functools.lru_cache(maxsize=None)
def ramp(n):
    return torch.arange(n) + 1.0
class Held:
    def __init__(self):
        self.made = None
    @functools.cached_property
    def half(self):
        return torch.tensor(0.5)
    def one(self):
        if self.made is None:
            self.made = window(1)
        return self.made
held = Held()"""
OF_ITS_LIKE["what is made once"] = (
    "print(kept(4), ramp(3), held.half, held.one())",
    "state['scale'] = float(kept(4).sum() + ramp(3)[0] * held.half + held.one().sum())",
    CACHES,
)


@pytest.mark.parametrize("name", OF_ITS_LIKE)
def test_what_is_done_with_its_like_goes_and_changes_nothing(
    name: str, run_cli: RunCli, torch_python: Path, git_repo: RepoFactory, tmp_path: Path
) -> None:
    shape = script(*OF_ITS_LIKE[name])
    repo = git_repo(shape.files())
    assert skipped(run_cli, repo) == (3, 1)
    seen, alone = observed(shape, run_cli, torch_python, repo, tmp_path / "out")
    assert same_training(seen, alone) == []


#: a lambda that is given to a function, an operation with a backward of its own
OPERATIONS = """\
class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, floor=-15):
        ctx.save_for_backward(x)
        ctx.floor = floor
        return torch.exp(x)
    @staticmethod
    def backward(ctx, grad):
        return grad * torch.exp(ctx.saved_tensors[0].clamp(ctx.floor, 15)), None
exp = Exp.apply
weight = torch.zeros(1, requires_grad=True)
def each(rows, measure):
    return [measure(row) for row in rows]"""
OF_ITS_LIKE["operations"] = (
    "print(each([x[:2], x[2:4]], lambda row: exp(row).sum().item()), exp(weight))",
    "state['scale'] = float(sum(each([weight], lambda row: exp(row) + 1)))",
    OPERATIONS,
)
#: what is made once: by whoever asks for it where nobody has made it yet
MADE = """\
class Rates:
    current = None
    def __init__(self, rate):
        self.rate = rate
def begin(rate):
    Rates.current = Rates(rate)
def at_hand():
    if Rates.current is None:
        begin(9.0)
    return Rates.current
begin(0.5)"""
OF_ITS_LIKE["made ahead"] = ("print(at_hand().rate)", "state['scale'] = at_hand().rate", MADE)


#: looks at the model behind each step, and leaves it in evaluation mode by one of two ways
LOOK = """\
def look(net, gives_back=True):
    was = False
    if net.training:
        was = True
        net.eval()
    with torch.no_grad():
        print(net(x).sum())
    if was and gives_back:
        net.train(mode=was)
def leave(net, train):
    with torch.no_grad():
        print(net.eval()(x).sum())
    net.train(mode=train)
class Evaluator:
    def __init__(self, net):
        self.net = net
    def run(self, batches):
        for a, b in batches:
            with torch.no_grad():
                print(self.net.eval()(a).sum())
evaluator = Evaluator(model)
nets = {"all": model}
def look_at(held):
    for key in held:
        held[key].eval()
    with torch.no_grad():
        print(held["all"](x).sum())
def with_gradients(train):
    torch.set_grad_enabled(train)
    model.eval()
    print(model(x).sum())
    model.train()"""


@pytest.mark.parametrize(
    "left",
    [
        "look(model, False)",
        "leave(model, False)",
        "look_at(nets)",
        "evaluator.run(val_loader)\nprint(step)\nmodel.train()",
        "evaluator.run(val_loader)\nprint(step)\nmodel.eval()",
        "with_gradients(train=False)\ntorch.set_grad_enabled(True)",
    ],
)
def test_the_mode_that_a_look_leaves_is_that_of_the_step(
    left: str, run_cli: RunCli, torch_python: Path, git_repo: RepoFactory, tmp_path: Path
) -> None:
    shape = script("look(model)\nmodel.train()\nlook(model)", left, LOOK)
    repo = git_repo(shape.files())
    assert skipped(run_cli, repo) == (4, 1)
    seen, alone = observed(shape, run_cli, torch_python, repo, tmp_path / "out")
    assert same_training(seen, alone) == []


#: what stands behind each step, with gradients on: a branch and a loop that only run the model
INLINE = """\
if step % 2 == 0:
    a, b = next(iter(val_loader))
    model.eval()
    out = model(a)
    print((out - b).pow(2).mean().item())
    model.train()
total = 0.0
model.eval()
for a, b in val_loader:
    total += (model(a) - b).pow(2).mean().item()
model.train()
print(total)
"""


def test_what_runs_with_gradients_that_nobody_uses_goes_too(
    run_cli: RunCli, torch_python: Path, git_repo: RepoFactory, tmp_path: Path
) -> None:
    shape = script(rest=INLINE)
    repo = git_repo(shape.files())
    assert skipped(run_cli, repo) == (5, 1)
    seen, alone = observed(shape, run_cli, torch_python, repo, tmp_path / "out")
    assert same_training(seen, alone) == []


@pytest.mark.parametrize("body", ["pass", "own = []\nown.append(state)\nprint(own)", OF_ITS_OWN])
def test_what_nothing_depends_on_goes_and_changes_nothing(
    body: str, run_cli: RunCli, torch_python: Path, git_repo: RepoFactory, tmp_path: Path
) -> None:
    shape = script(body)
    repo = git_repo(shape.files())
    assert skipped(run_cli, repo) == (3, 1)
    seen, alone = observed(shape, run_cli, torch_python, repo, tmp_path / "out")
    assert len(seen["backwards"]) == 9
    assert same_training(seen, alone) == []


#: what stands behind the loops, and needs what is skipped: an element, a file
BEHIND = """\
print(log.rows[1]["value"], rows[-1])
model.load_state_dict(torch.load("last.pt"))
"""


def run_on() -> None:
    """Let a loop that ends by itself run on to what stands behind it."""
    from instrumentor.locate.changes.skips.facts import Facts

    # a seeded fault: a value in the place of the property
    Facts.endings = ()  # type: ignore[assignment,misc]


def test_what_stands_behind_a_loop_that_ends_by_itself_does_not_miss_what_is_skipped(
    run_cli: RunCli, torch_python: Path, git_repo: RepoFactory, tmp_path: Path
) -> None:
    shape = script("rows.append(total)", behind=BEHIND, steps=99)
    repo = git_repo(shape.files())
    assert skipped(run_cli, repo) == (3, 1)
    seen, alone = observed(shape, run_cli, torch_python, repo, tmp_path / "out")
    assert same_training(seen, alone) == []
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    (told,) = [w["message"] for w in summary["warnings"] if w["kind"] == "few-samples"]
    assert told.startswith(f"The loop ended after {len(alone['backwards'])} of 99 samples. What")
    out = tmp_path / "forced" / "out"
    out.parent.mkdir()
    done, _ = run_of(shape, repo, run_cli, torch_python, out, first=run_on)
    assert done.returncode == 1
    assert "IndexError" in done.stdout + done.stderr


HALVES = "def halve(*given):\n    state['scale'] *= 0.5\n    return 1\n"
#: what the validation does, what the training does with it
FELT = {
    "scale_through_a_list": ("rows.append(state)\nrows[0]['scale'] *= 0.5", "pass"),
    "rate": ("for group in optimizer.param_groups:\n    group['lr'] *= 0.5", "pass"),
    "frozen": ("for p in model[0].parameters():\n    p.requires_grad_(False)", "pass"),
    "samples": ("samples[0] = samples[1]", "pass"),
    "iterator": ("next(it, None)", "a, b = next(it, (a, b))\nstate['scale'] = float(a.mean())"),
    "weights": ("model[0].weight.data.mul_(0.5)", "pass"),
    "weights_that_are_set_to_others": (
        "model[0].weight.data.mul_(0.5)",
        "pass",
        "model[0].weight.data = model[0].weight.data",
    ),
    "weights_in_a_batch_of_its_own": (
        "for one, _ in DataLoader(samples, 4):\n    one.data = model[0].weight.data\n"
        "    own = one.data.cpu()\n    own *= 0.5",
        "pass",
    ),
    "weights_of_a_local_module": (
        "net = torch.nn.Sequential(model)\n"
        "net.load_state_dict({n: w * 0.5 for n, w in net.state_dict().items()})",
        "pass",
    ),
    "scale_by_a_property": (
        "import operator\nclass Own:\n    @property\n    def total(self):\n"
        "        state['scale'] *= 0.5\n        return 1\noperator.attrgetter('total')(Own())",
        "pass",
    ),
    "scale_by_a_class_below_an_if": (
        "class Own:\n    if True:\n        kept = state\nOwn.kept['scale'] *= 0.5",
        "pass",
    ),
    "the_meter_that_training_has": ("meter.add(total)", TRAINS_BY_THE_FIRST, TWO_METERS),
    "another_name_of_the_meter": (
        "other.add(total)",
        TRAINS_BY_THE_FIRST,
        f"{TWO_METERS}\nother = meter",
    ),
    "a_list_of_a_log_and_a_meter": (
        "pass",
        "meter.rows = log.rows\nstate['scale'] = 1 + len(meter.rows)",
        TWO_METERS,
    ),
    "the_largest_of_a_meter": (
        "other.add(total)",
        "state['scale'] = 1 + max([0.0, *other.rows, other.total])",
        METERS_THAT_BEGIN,
    ),
    "a_meter_that_is_not_begun_anew": (
        "other.add(total)",
        "if step > 3:\n    other.begin()\nstate['scale'] = 1 + other.total",
        METERS_THAT_BEGIN,
    ),
    "a_list_of_both_meters": (
        "other.rows.append(total)",
        "state['scale'] = 1 + sum(meter.rows)",
        f"{TWO_METERS}\nother.rows = meter.rows",
    ),
    "rate_of_another_name": (
        "other = max([own], key=id)\nother.rate = other.rate * 0.5",
        TRAINS_BY_ITS_RATE,
        OWN,
    ),
    "rate_in_its_table": ("own.__dict__.update(rate=0.25)", TRAINS_BY_ITS_RATE, OWN),
    "rate_under_its_name": ("own.__dict__['rate'] = 0.25", TRAINS_BY_ITS_RATE, OWN),
    "what_a_forward_gives": (
        "net(x).data.mul_(0.5)",
        "state['scale'] = float(net.weight.detach())",
        NET.format(counts="pass", gives="self.weight"),
    ),
    "phase": ("tell(total, valid=True)", "state['scale'] = 1 + tell(0.01, step > 2)", PHASE),
    "timer": ("next(shared, None)", "state['scale'] = 1 + shared.last", TIMER),
    "option": ("args.count = total", "state['scale'] = vars(args)['count']", ARGUMENTS),
    "what_a_copy_shares": (
        "copy.copy(net).weight.data.mul_(0.5)",
        TRAINS_BY_A_FORWARD,
        COMPUTES,
    ),
    "what_a_method_puts_into_a_list_of_its_own": (
        "class Own:\n    def __init__(self):\n        self.all = []\n"
        "    def note(self, one):\n        self.all.append(one)\n"
        "    def bump(self):\n        self.all[0]['scale'] *= 0.5\n"
        "own = Own()\nown.note(state)\nown.bump()",
        "pass",
    ),
    "what_a_generator_counts": (
        "next(counted)",
        "pass",
        "def count():\n    while True:\n        state['scale'] *= 0.5\n        yield 1\n"
        "counted = count()",
    ),
    "scale_in_a_list_of_its_own": (
        "own = {0: []}\nown[0].append(state)\nown[0][0]['scale'] *= 0.5",
        "pass",
    ),
    "a_function_in_a_table": (
        "table[str(len(rows)) and 'other'](a)",
        "pass",
        f"{HALVES}table = dict(one=abs)\ntable.update(other=halve)",
    ),
    "the_last_of_many_functions": (
        "table[key](1)",
        "pass",
        f"{HALVES}key = 'last'\ntable = {{"
        + "".join(f"'{n}': (lambda one: {n})," for n in range(13))
        + "'last': halve}",
    ),
    "a_function_by_a_computed_name": (
        "getattr(Kinds, 'of_' + 'half'[:len(state) + 3])(1)",
        "pass",
        f"{HALVES}class Kinds:\n    of_half = halve\n    of_one = abs",
    ),
    "what_a_table_makes": (
        "import collections\ncollections.defaultdict(Halves)[1].go()",
        "pass",
        f"{HALVES}class Halves:\n    def go(self):\n        halve()",
    ),
    "a_function_that_is_put_in_the_place_of_another": (
        "quiet.go()",
        "pass",
        f"{HALVES}class Quiet:\n    def go(self):\n        return 1\n"
        "quiet = Quiet()\nsetattr(quiet, ''.join('go'), halve)",
    ),
    "what_a_decorator_does": (
        "one(1)",
        "pass",
        f"{HALVES}def around(function):\n    def inner(*args):\n        halve()\n"
        "        return function(*args)\n    return inner\n@around\ndef one(value):\n"
        "    return value",
    ),
    "what_is_kept_of_a_scale": (
        "state['scale'] and kept(1)",
        "state['scale'] = kept(1)",
        "import functools\n@functools.lru_cache(maxsize=None)\ndef kept(n):\n"
        "    return 0.5 if rows else 1 + len(windows)\nwindows = {}\n"
        "def grow(*given):\n    windows[len(windows)] = given\n"
        "model[0].register_forward_hook(lambda *given: grow() if model.training else None)",
    ),
    "mask": ("mask.fill_(False)", "state['scale'] = float(mask.sum())", OWN),
    "file": (
        "torch.save(total, 'scale.pt')",
        "state['scale'] = torch.load('scale.pt')",
    ),
}


@pytest.mark.parametrize("name", FELT)
def test_what_training_feels_stays_and_would_be_caught(
    name: str, run_cli: RunCli, torch_python: Path, git_repo: RepoFactory, tmp_path: Path
) -> None:
    shape = script(*FELT[name])
    repo = git_repo(shape.files())
    assert skipped(run_cli, repo)[0] == 0
    seen, alone = observed(shape, run_cli, torch_python, repo, tmp_path / "out")
    assert same_training(seen, alone) == []
    if name != "file":  # without it the script ends with an error
        out = tmp_path / "forced" / "out"
        out.parent.mkdir()
        wrong, alone = observed(shape, run_cli, torch_python, repo, out, first=force)
        assert same_training(wrong, alone)


PHASES = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(24, 8), torch.randn(24, 1)


class Rows(torch.utils.data.Dataset):
    def __init__(self, noisy):
        self.noisy = noisy

    def __len__(self):
        return len(x)

    def __getitem__(self, index):
        row = x[index]
        if self.noisy:
            row = row + torch.randn(8)
        return row, y[index]


loader = DataLoader(TensorDataset(x, y), 4, shuffle=True)
val_loader = DataLoader(TensorDataset(x, y), 8, shuffle=True)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
factor = 1.0


def run(loader, phase):
    if phase == "train":
        model.train()
    elif phase == "val":
        model.eval()
    else:
        print("no such phase:", phase)
        exit(1)
    total = 0.0
    for a, b in loader:
        loss = (model(a) - b).pow(2).mean() * factor
        if phase == "train":
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        ____BODY
        total += loss.item()
    return total


def save(path):
    torch.save(model.cpu().state_dict(), path)
    if torch.cuda.is_available():
        model.cuda()


class Trainer:
    def fit(self):
        for epoch in range(4):
            print(run(loader, "train"))
            model.eval()
            total = 0.0
            for a, b in val_loader:
                total += (model(a) - b).pow(2).mean().item()
            print(total, run(val_loader, "val"))
            save("last.pt")


Trainer().fit()
"""


def phases(body: str, data: str = "TensorDataset(x, y)") -> Shape:
    """A function that trains and evaluates, with more in both of its phases."""

    class Written(Shape):
        def files(self) -> dict[str, bytes]:
            text = PHASES.replace("____BODY", textwrap.indent(body, " " * 8).lstrip())
            text = text.replace("TensorDataset(x, y), 8", f"{data}, 8")
            return {"train.py": text.encode()}

    return Written("phases", Promise(steps=9))


def test_the_phase_that_trains_nothing_goes_and_changes_nothing(
    run_cli: RunCli, torch_python: Path, git_repo: RepoFactory, tmp_path: Path
) -> None:
    shape = phases("pass")
    repo = git_repo(shape.files())
    assert skipped(run_cli, repo) == (2, 1)
    seen, alone = observed(shape, run_cli, torch_python, repo, tmp_path / "out")
    assert len(seen["backwards"]) == 9
    assert same_training(seen, alone) == []


def test_a_phase_that_training_feels_stays(
    run_cli: RunCli, torch_python: Path, git_repo: RepoFactory, tmp_path: Path
) -> None:
    shape = phases("for group in optimizer.param_groups:\n    group['lr'] *= 0.9")
    repo = git_repo(shape.files())
    assert skipped(run_cli, repo) == (0, 1)  # what prints the one prints the other
    seen, alone = observed(shape, run_cli, torch_python, repo, tmp_path / "out")
    assert same_training(seen, alone) == []
    out = tmp_path / "forced" / "out"
    out.parent.mkdir()
    wrong, alone = observed(shape, run_cli, torch_python, repo, out, first=force)
    assert same_training(wrong, alone)


@pytest.mark.parametrize("noisy", [True, False])
def test_samples_that_draw_random_numbers_are_told_of_and_are_felt(
    noisy: bool, run_cli: RunCli, torch_python: Path, git_repo: RepoFactory, tmp_path: Path
) -> None:
    shape = phases("pass", f"Rows({noisy})")
    repo = git_repo(shape.files())
    assert skipped(run_cli, repo) == (2, 1)
    seen, alone = observed(shape, run_cli, torch_python, repo, tmp_path / "out")
    told = [each["kind"] for each in records(tmp_path / "out", "warning")]
    assert ("random-numbers" in told) is noisy
    assert bool(same_training(seen, alone)) is noisy


def test_a_save_goes_beside_another_file_that_training_reads(
    run_cli: RunCli, torch_python: Path, git_repo: RepoFactory, tmp_path: Path
) -> None:
    reads = "torch.save(0.5, 'rate.pt')\nstate['scale'] = torch.load('rate.pt')"
    shape = script("torch.save(total, 'scale.pt')", reads)
    repo = git_repo(shape.files())
    assert skipped(run_cli, repo)[0] > 0
    seen, alone = observed(shape, run_cli, torch_python, repo, tmp_path / "out")
    assert same_training(seen, alone) == []
