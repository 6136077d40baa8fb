"""A trainer with its loop in a class: what goes ahead of the epochs and between the steps."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from instrumentor import Options
from instrumentor.locate import locate_file
from instrumentor.locate.located import Located
from tests.locate.cases import HEAD, lines_of, looped, plan_of, rewritten
from tests.warned import texts

HANDLER = """\
class Callback:
    def on_train_begin(self, trainer, **values): ...
    def on_step_end(self, trainer, **values): ...
    def on_validation_end(self, trainer, **values): ...
    def on_error(self, trainer, **values): ...
    def on_train_end(self, trainer, **values): ...


class Printer(Callback):
    def on_step_end(self, trainer, **values):
        print(trainer.global_step, values["loss"])

    def on_validation_end(self, trainer, **values):
        print("validation", values["val_loss"])


class Extra(Callback):
    def on_validation_end(self, trainer, **values):
        {extra}


class Handler:
    def __init__(self, callbacks):
        self.callbacks = callbacks

    def fire(self, event, trainer, **values):
        for callback in self.callbacks:
            getattr(callback, event)(trainer, **values)
"""
TRAINER = """\
from abc import ABC, abstractmethod

import torch

from handler import Handler


class Trainer(ABC):
    def __init__(self, config, model, train_loader, val_loader, callbacks):
        self.config, self.model = config, model
        self.train_loader, self.val_loader = train_loader, val_loader
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=config.rate)
        self.callbacks = Handler(callbacks)
        self.global_step = 0

    @abstractmethod
    def _forward(self, batch):
        ...

    def _backward(self, loss):
        loss.backward()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        total, batches = 0.0, 0
        for batch in self.val_loader:
            total += self._forward(batch).item()
            batches += 1
        self.model.train()
        self.callbacks.fire("on_validation_end", self, val_loss=total / max(batches, 1))

    def train(self):
        try:
            self.callbacks.fire("on_train_begin", self)
            if self.val_loader is not None:
                self.validate()
            for epoch in range(self.config.epochs):
                for batch in self.train_loader:
                    self.optimizer.zero_grad()
                    loss = self._forward(batch)
                    self._backward(loss)
                    self.optimizer.step()
                    self.global_step += 1
                    self.callbacks.fire("on_step_end", self, loss=loss.item())
                    if self.global_step % self.config.every == 0:
                        self.validate()
        except Exception as error:
            self.callbacks.fire("on_error", self, error=error)
            raise
        finally:
            self.callbacks.fire("on_train_end", self)
"""
ENTRY = """\
import torch
from dataclasses import dataclass

from handler import Extra, Printer
from trainer import Trainer


@dataclass
class Config:
    rate: float = 0.1
    epochs: int = 2
    every: int = 3


class Regression(Trainer):
    def _forward(self, batch):
        x, y = batch
        return torch.nn.functional.mse_loss(self.model(x), y)


data = torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
loader = torch.utils.data.DataLoader(data, 4)
model = torch.nn.Linear(4, 1)
Regression(Config(), model, loader, loader, [Printer(), Extra()]).train()
"""


def located(folder: Path, extra: str) -> Located:
    (folder / "handler.py").write_text(HANDLER.format(extra=extra))
    (folder / "trainer.py").write_text(TRAINER)
    (folder / "train.py").write_text(ENTRY)
    return locate_file(folder / "train.py", Options(), [folder])


@pytest.mark.parametrize(
    ("extra", "goes"),
    [
        ("pass", True),
        ("self.seen = values['val_loss']", True),
        ("trainer.on_step_end = print", False),
        ("trainer.config.every = 5", False),
        ("trainer.optimizer.param_groups[0]['lr'] = 0.01", False),
        ("trainer.global_step = 0", False),
        ("trainer.model.requires_grad_(False)", False),
    ],
)
def test_a_trainer_that_tells_its_callbacks(tmp_path: Path, extra: str, goes: bool) -> None:
    found = located(tmp_path, extra)
    lines = [s.statement.lineno for s in found.skipped]
    at = [n for n, text in enumerate(TRAINER.splitlines(), 1) if "self.validate()" in text]
    whole = [
        n for n, text in enumerate(TRAINER.splitlines(), 1) if "val_loader is not None" in text
    ]
    assert [n for n in lines if n in (*at, *whole)] == (at if goes else [])
    assert bool([k for k in found.kept if k.what == "validation"]) is not goes


def test_a_branch_that_evaluates_and_returns_is_left_alone() -> None:
    source = f"""{HEAD}
def validate(model):
    model.eval()
    with torch.no_grad():
        return sum(model(x).sum() for x, y in val_loader)

def main(only_evaluate):
    if only_evaluate:
        print(validate(model))
        {{}}
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

main(ready)
"""
    assert plan_of(source.format("pass"))["skipped_validation"] == [16]
    plan = plan_of(source.format("return"))
    assert plan["skipped_validation"] == []
    assert "stays" not in str(plan["warnings"])


STEP = "loss = criterion(model(x), y)\nloss.backward()\noptimizer.step()\n"


@pytest.mark.parametrize(
    ("name", "inside", "goes", "told"),
    [
        ("eval_policy", "pass", True, False),
        ("show", "pass", False, False),  # by its name it may be anything
        ("eval_policy", "optimizer.zero_grad()", False, True),
        ("eval_policy", "model.weight.grad = None", False, True),
    ],
)
def test_an_evaluation_with_gradients(name: str, inside: str, goes: bool, told: bool) -> None:
    function = (
        f"def {name}(model):\n    for x, y in val_loader:\n        model(x)\n        {inside}\n"
    )
    plan = plan_of(looped(STEP, before=f"{function}{name}(model)"))
    assert bool(plan["skipped_validation"]) is goes
    assert any("Validation is kept" in text for text in texts(plan["warnings"])) is told


DATA = """data = torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randn(8, 4))
loader = torch.utils.data.DataLoader(data, 4)
val_loader = torch.utils.data.DataLoader(data, 8)
net = torch.nn.Sequential(model, torch.nn.{layer})
net.eval()
total, n = 0.0, 0
"""
LOOP = "for a, b in val_loader:\n    total += criterion(net(a), b).item()\n"
BRANCH = (
    "if n % 10 == 0:\n    a, b = next(iter(val_loader))\n    net.eval()\n    out = net(a)\n"
    "    print(criterion(out, b).item())\n"
)


@pytest.mark.parametrize(
    ("block", "goes", "told"),
    [
        (LOOP, True, False),
        (f"{LOOP}print(total)\n", True, False),
        (f"{LOOP}optimizer.param_groups[0]['lr'] = total\n", False, True),
        (f"{LOOP}    scale(a.mul_(total))\n", False, True),
        (f"{LOOP}    net(a).sum().backward()\n    optimizer.step()\n", False, False),
        (f"net.train()\n{LOOP}", True, False),  # dropout: a note tells of the random numbers
        (BRANCH, True, False),
        (f"{BRANCH}    scale(out)\n", False, True),
        (BRANCH.replace("    net.eval()\n", "    net.train()\n"), False, False),
        (BRANCH.replace("    net.eval()\n", ""), True, False),  # as it was set up
    ],
)
def test_a_block_that_only_runs_a_model_is_an_evaluation(
    block: str, goes: bool, told: bool
) -> None:
    source = looped(STEP + block, before=DATA.format(layer="Dropout()"))
    plan = plan_of(source)
    assert bool(plan["skipped_validation"]) is goes
    assert any("Validation is kept" in text for text in texts(plan["warnings"])) is told


def test_a_block_in_training_mode_that_tracks_statistics_stays() -> None:
    before = DATA.format(layer="BatchNorm1d(4)")
    assert plan_of(looped(STEP + LOOP, before=before))["skipped_validation"]
    plan = plan_of(looped(f"{STEP}net.train()\n{LOOP}", before=before))
    assert not plan["skipped_validation"]
    assert any("running statistics" in text for text in texts(plan["warnings"]))


MAKES_A_MODEL = """class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList()
        self.layers.append(torch.nn.Linear(4, 4).eval())

    def strip(self):
        self.scale = 1.0

    def forward(self, x):
        return self.layers[0](x)

def get_net():
    net = Net()
    net.load_state_dict(torch.load("net.pt"))
    net.eval()
    net.strip()
    {more}
    return net

net = get_net()
"""


@pytest.mark.parametrize("more", ["pass", "net(torch.ones(1, 4))"])
def test_what_makes_a_model_is_no_evaluation(more: str) -> None:
    plan = plan_of(looped(STEP, before=MAKES_A_MODEL.format(more=more)))
    assert not plan["skipped_validation"]
    assert not any("Validation is kept" in text for text in texts(plan["warnings"]))


SHARED = """\
val_loader = torch.utils.data.DataLoader(torch.zeros(8, 4), 4)
def run(loader, {parameter}):
    {mode}
    total = 0.0
    for x, y in loader:
        loss = criterion(model(x), y)
        if {trains}:
            loss.backward()
            optimizer.step()
        total += loss.item()
    return total
for epoch in range(9):
    run(loader, {one})
    model.eval()
    print(run(val_loader, {other}))
    model.train()
"""


@pytest.mark.parametrize(
    ("parameter", "trains", "one", "other", "goes"),
    [
        ("training", "training", "True", "False", True),
        ("phase='train'", "phase == 'train'", "'train'", "phase='val'", True),
        ("training=False", "training", "training=True", "", True),
        ("training", "training", "True", "epoch > 3", False),  # it may train
        ("training", "training or epoch", "True", "False", False),
    ],
)
def test_a_function_that_trains_unless_a_call_writes_out_otherwise(
    parameter: str, trains: str, one: str, other: str, goes: bool
) -> None:
    written = {"parameter": parameter, "trains": trains, "one": one, "other": other}
    source = HEAD + SHARED.format(mode="pass", **written)
    (at,) = [n for n, line in enumerate(source.splitlines(), 1) if "print(run" in line]
    assert plan_of(source)["skipped_validation"] == ([at] if goes else [])


def test_a_mode_that_a_constant_chooses_is_one() -> None:
    written = {"parameter": "training", "trains": "training", "one": "True", "other": "False"}
    for mode in (
        "model.train(training)",
        "model.train() if training else None",
        "if training:\n        model.train()\n    else:\n        model.eval()",
    ):
        source = HEAD + SHARED.format(mode=mode, **written)
        assert plan_of(source)["skipped_validation"], mode


def test_an_exit_that_the_arguments_rule_out_is_none() -> None:
    function = """\
def evaluate(model, name):
    if name == "dev":
        data = torch.zeros(8, 4)
    else:
        print("no such data:", name)
        exit(1)
    model.eval()
    total = model(data).sum().item()
    model.train()
    return total
"""
    plan = plan_of(looped(f"{STEP}print(evaluate(model, 'dev'))", before=function))
    assert plan["skipped_validation"]
    plan = plan_of(looped(f"{STEP}print(evaluate(model, names[0]))", before=function))
    assert not plan["skipped_validation"]
    assert any("exit()" in text for text in texts(plan["warnings"]))


def test_what_runs_behind_the_loop_of_a_function_that_is_called_again() -> None:
    source = f"""{HEAD}
val_loader = torch.utils.data.DataLoader(torch.zeros(8, 4), 4)
def train(epoch):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    total = 0.0
    for a, b in val_loader:
        total += criterion(model(a), b).item()
    model.train()
    print(epoch, total)
    torch.save(model.state_dict(), "last.pt")
{{}}
"""
    again = plan_of(source.format("for epoch in range(9):\n    train(epoch)"))
    assert (len(again["skipped_validation"]), len(again["skipped_checkpoints"])) == (1, 1)
    once = plan_of(source.format("train(0)"))  # the early stop comes to none of it
    assert (once["skipped_validation"], once["skipped_checkpoints"]) == ([], [])


def test_a_save_in_the_branch_that_makes_the_batches() -> None:
    body = f"""\
if n % 10 == 0:
    batches = iter(loader)
    if n > 0:
        torch.save(model.state_dict(), "last.pt")
x, y = next(batches)
{STEP}"""
    plan = plan_of(looped(body, header="for n in range(99):"))
    assert len(plan["skipped_checkpoints"]) == 1


def test_batches_and_numbers_are_no_loader_that_draws() -> None:
    function = """\
def evaluate(model, batches):
    model.eval()
    with torch.no_grad():
        total = sum(model(batch).sum().item() for batch in batches)
        if total:
            total += sum(int(n) for n in np.arange(4))
    model.train()
    return total
val_batches = [torch.zeros(4, 4)]
"""
    body = f"{STEP}print(evaluate(model, val_batches))"
    plan = plan_of("import numpy as np\n" + looped(body, before=function))
    assert plan["skipped_validation"]
    assert "random-numbers" not in [w["kind"] for w in plan["warnings"]]


def test_what_is_generated_is_an_evaluation_that_may_draw() -> None:
    before = (
        "from transformers import AutoModelForSeq2SeqLM\n"
        "model = AutoModelForSeq2SeqLM.from_pretrained('t5')\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    )
    body = STEP + "with torch.no_grad():\n    print(model.generate(x{}))\n"
    for more, told in ((", do_sample=False", False), ("", True)):
        plan = plan_of(looped(body.format(more), before=before))
        assert plan["skipped_validation"]
        assert ("random-numbers" in [w["kind"] for w in plan["warnings"]]) is told


MOVES = """\
def save(path):
    torch.save(model.cpu().state_dict(), path)
    {}
"""


@pytest.mark.parametrize(
    ("back", "goes"),
    [
        ("model.cuda()", True),
        ("if torch.cuda.is_available():\n        model.cuda()", True),
        ("model.to('xla')", True),
        ("pass", False),  # the step goes on elsewhere
        ("model.to('cpu')", False),
        ("model.half().cuda()", False),
        ("model.to(kind)", False),  # of another type, for all that is known
    ],
)
def test_a_save_that_moves_the_model_and_back(back: str, goes: bool) -> None:
    plan = plan_of(looped(f"{STEP}save('last.pt')", before=MOVES.format(back)))
    assert bool(plan["skipped_checkpoints"]) is goes
    assert any("is kept" in text for text in texts(plan["warnings"])) is not goes


def test_what_moves_the_model_ahead_of_the_first_sample_stays() -> None:
    function = "def validate(m):\n    m.cuda()\n    with torch.no_grad():\n        return m(x)\n"
    plan = plan_of(looped(STEP, before=f"{function}validate(model)"))
    assert plan["skipped_validation"] == []
    assert any("another device" in text for text in texts(plan["warnings"]))


def test_names_in_a_method_are_bound_anew_as_in_a_function() -> None:
    source = f"""{HEAD}
class Trainer:
    def fit(self):
        for epoch in range(9):
            total = 0.0
            for x, y in loader:
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                total += loss.item()
            model.eval()
            total = 0.0
            for x, y in val_loader:
                total += criterion(model(x), y).item()
            model.train()
            print(total)
val_loader = torch.utils.data.DataLoader(torch.zeros(8, 4), 4)
Trainer().fit()
"""
    assert plan_of(source)["skipped_validation"]


ROLLOUT = """
for step in range(9):
    with torch.no_grad():
        action = model(x).argmax(-1)
    {used}
    criterion(model(x), y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("used", "told"), [("x, reward = env.step(action)", False), ("scheduler.step(action)", True)]
)
def test_a_rollout_is_not_called_a_validation(used: str, told: bool) -> None:
    plan = plan_of(HEAD + ROLLOUT.format(used=used))
    assert plan["skipped_validation"] == []
    assert ("validation-between" in [w["kind"] for w in plan["warnings"]]) is told


METER = """
class Meter:
    def __call__(self, model, right):
        self.right = right


meter = Meter()
"""


def test_figures_of_the_step_without_gradients_are_not_called_a_validation() -> None:
    body = """
    out = model(x)
    criterion(out, y).backward()
    optimizer.step()
    with torch.no_grad():
        right = out.argmax(-1) == y
        meter(model, right.cpu())
    """
    plan = plan_of(looped(body, METER))
    assert not [w for w in plan["warnings"] if w["kind"].startswith("validation-")]


CACHED = """
import os

def rows(path):
    if os.path.exists(path):
        return torch.load(path)
    found = [[1.0]]
    torch.save(found, path)
    return found
"""


def test_data_that_are_kept_in_a_file_are_no_checkpoint() -> None:
    body = """
    criterion(model(x), y).backward()
    optimizer.step()
    held_out = rows('rows.pt')
    print(len(held_out))
    """
    plan = plan_of(looped(body, CACHED))
    assert plan["skipped_checkpoints"] == []
    assert "checkpoint-stays" not in [w["kind"] for w in plan["warnings"]]


STEPPED = """\
loss = criterion(model(x), y)
loss.backward()
optimizer.step()
error = criterion(model(held), held)
{}
"""
BEHIND_THE_STEP = {
    "printed": ("held = load()", "print(error.item())", True),
    "kept_in_a_table": (
        "held, table = load(), {'a': []}",
        "table['a'].append(error.item())\nprint(table)",
        True,
    ),
    "beside_the_loss": ("held = load()", "print(loss.item(), error.item())", True),
    "weights_that_were_random_at_first": (
        "held = load()\nclass Net(torch.nn.Module):\n    def __init__(self):\n"
        "        self.fc = torch.nn.Linear(4, 4)\n"
        "        torch.nn.init.orthogonal_(self.fc.weight)\n"
        "    def forward(self, x):\n        return self.fc(x)\nmodel = Net()",
        "print(error.item())",
        True,
    ),
    "what_goes_into_the_step": (
        "held, weight = load(), 1",
        "for group in optimizer.param_groups:\n    group['lr'] = error.item()",
        False,
    ),
    "what_the_script_goes_on_by": ("held = load()", "if error < 1:\n    break", False),
    "dropout": (
        "held = load()\nmodel = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(4, 4))",
        "print(error.item())",
        False,
    ),
    "running_statistics": (
        "held = load()\nmodel = torch.nn.Sequential(torch.nn.BatchNorm1d(4))",
        "print(error.item())",
        False,
    ),
    "beside_what_draws": ("held = load()", "print(error.item(), torch.rand(1))", False),
}


@pytest.mark.parametrize("name", BEHIND_THE_STEP)
def test_what_only_runs_a_model_behind_the_step_goes_or_is_not_spoken_of(name: str) -> None:
    setup, rest, goes = BEHIND_THE_STEP[name]
    source = looped(STEPPED.format(rest), before=setup)
    plan = plan_of(source)
    line = source.splitlines().index("    error = criterion(model(held), held)") + 1
    assert plan["skipped_validation"] == ([line] if goes else [])
    assert not [w for w in plan["warnings"] if "validation" in w["kind"]]


FIRST = "batches = iter(data)\nheld = torch.autograd.Variable(batches.next())"
SHOWS = """\
def show(net, held):
    seen = net(torch.nn.parallel.data_parallel(net, held))
    torchvision.utils.save_image(seen.data, "seen.png")
    {}
    return seen
"""


@pytest.mark.parametrize("use", ["show(model, held)", "seen = show(model, held)\n    print(seen)"])
@pytest.mark.parametrize(("more", "goes"), [("pass", True), ("state['n'] = 2", False)])
def test_pictures_of_what_a_model_gives_go_though_gradients_are_on(
    use: str, more: str, goes: bool
) -> None:
    """In a branch behind the step too, and nothing is said of those that stay."""
    setup = f"import torchvision\ndata = torch.utils.data.DataLoader(load())\n{FIRST}\n"
    setup += f"state = {{'n': 1}}\n{SHOWS.format(more)}"
    step = "loss = criterion(model(x), y) * state['n']\nloss.backward()\noptimizer.step()\n"
    source = looped(f"{step}if every:\n    {use}", before=setup)
    plan = plan_of(source)
    assert bool(plan["skipped_validation"]) is goes
    assert not [w for w in plan["warnings"] if "validation" in w["kind"]]


SOLVED = """\
import copy
import ode
from torchvision.utils import save_image
def solve(net, path):
    net.eval()
    solver = ode.Solver({})
    with torch.no_grad():
        found = solver.{}
        save_image(found, path)
    net.train()
"""


@pytest.mark.parametrize(
    ("made_with", "use", "told"),
    [
        ("copy.deepcopy(net)", "solve(torch.zeros(8, 4))", True),
        ("net", "solve(torch.zeros(8, 4))", True),
        ("4", "solve(torch.zeros(8, 4))", False),
        ("net", "close()", False),
    ],
)
def test_a_model_that_an_object_of_a_library_runs(made_with: str, use: str, told: bool) -> None:
    source = looped(f"{STEP}solve(model, 'seen.png')", before=SOLVED.format(made_with, use))
    plan = plan_of(source)
    (line,) = lines_of(source, "solve(model,")
    kept = [w["place"] for w in plan["warnings"] if w["kind"].startswith("validation")]
    assert bool(plan["skipped_validation"] == [line] or kept) is told


@pytest.mark.parametrize("again", ["sync()", "done = sync()", "done = sync(loss)"])
def test_what_the_step_calls_too_is_no_model(again: str) -> None:
    step = "loss = criterion(model(x), y)\nloss.backward()\nsync()\noptimizer.step()\n"
    source = f"{HEAD}def train(sync):\n    for x, y in loader:\n"
    source += textwrap.indent(step + again, "        ") + "\ntrain(barrier)\n"
    assert plan_of(source)["skipped_validation"] == []


@pytest.mark.parametrize("name", BEHIND_THE_STEP)
def test_nobody_asks_for_what_only_runs_a_model_behind_the_step(name: str) -> None:
    setup, rest, _ = BEHIND_THE_STEP[name]
    source = looped(STEPPED.format(rest), before=setup)
    for asked in ({"keep_validation": True}, {"skip_validation": True}):
        plan = plan_of(source, **asked)
        assert not [w for w in plan["warnings"] if "validation" in w["kind"]]


#: what stands beside a value of the evaluation, and what of it is still read
READ_ALONE = {
    "a_loss": ("print(loss.item(), v)", "loss.item()"),
    "a_loss_off_the_graph": ("print(v, sum(loss.detach().cpu()))", "loss.detach().cpu()"),
    "a_number": ("print(f'{v}', float(loss))", "float(loss)"),
    "two": ("print(v, loss.item(), y.tolist(), len(x))", "loss.item()"),
    "a_tensor_that_is_printed": ("print(v, loss)", None),
    "a_text": ("print(v, f'{loss}')", None),
    "a_value_of_both": ("print((loss - v).item())", None),
    "one_that_may_not_be_read": ("print(v, loss.item() if v else 0)", None),
    "several": ("print(v, [loss.item() for _ in range(2)])", None),
    "what_a_name_is_bound_to": ("shown = v, loss.item()", None),
    "what_is_done_with_it": ("print(v, meter.add(loss).item())", None),
}


@pytest.mark.parametrize("name", READ_ALONE)
def test_what_is_shown_of_the_step_beside_an_evaluation_is_read_all_the_same(name: str) -> None:
    shows, read = READ_ALONE[name]
    evaluates = (
        "def evaluate(model):\n    with torch.no_grad():\n        return model(ones).sum()\n"
    )
    before = f"ones, meter = torch.ones(4), load()\n{evaluates}"
    body = f"{STEP}v = evaluate(model)\n{shows}"
    done = rewritten(looped(body, before=before))
    lines = [line.strip() for line in done.code.decode().splitlines()]
    assert bool(done.plan.explanation["skipped_validation"]) is (read is not None)
    if read is not None:
        assert [line for line in lines if line.startswith(read)]
        assert shows not in lines


INITIALIZES = """\
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleDict({{'a': torch.nn.Linear(4, 4)}})
    def forward(self, x):
        return self.layers['a'](x)
    @torch.no_grad()
    def begin(self):
        for layer in self.layers.values():
            torch.nn.init.zeros_(layer.weight)
        {}
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model.begin()
"""


@pytest.mark.parametrize(("does", "runs"), [("pass", False), ("print(self(x))", True)])
def test_what_only_sets_the_weights_of_a_model_is_no_evaluation(does: str, runs: bool) -> None:
    plan = plan_of(looped(STEP, before=INITIALIZES.format(does)))
    assert plan["skipped_validation"] == []
    assert ("Validation is kept" in str(texts(plan["warnings"]))) is runs


RECORDS = """\
import argparse, json, os, yaml
import matplotlib.pyplot as plt
from torchvision.utils import save_image
parser = argparse.ArgumentParser()
parser.add_argument('--rate', type=float)
args = parser.parse_args()
os.makedirs('out', exist_ok=True)
def note(path, text):
    with open(path, 'w') as file:
        file.write(text)
def plot(values, path):
    plt.figure()
    plt.plot(values)
    plt.savefig(path)
    plt.close()
images = torch.zeros(4, 3, 8, 8)
"""
#: what is written ahead of the first sample, what reads it, whether it goes
RECORDED = {
    "options": ("with open('out/o.json', 'w') as file:\n    json.dump(vars(args), file)", "", True),
    "settings": (
        "sizes = {'layers': 2, 'both': args}\nwith open('out/o.json', 'w') as file:\n"
        "    json.dump(sizes, file)",
        "",
        True,
    ),
    "settings of a call": (
        "sizes = dict(layers=2)\nwith open('out/o.json', 'w') as file:\n    json.dump(sizes, file)",
        "",
        True,
    ),
    "a table of words": (
        "words = {word: n for n, word in enumerate('ab')}\n"
        "with open('out/o.json', 'w') as file:\n    json.dump(words, file)",
        "",
        False,
    ),
    "settings that are read again": (
        "sizes = dict(layers=2)\nwith open('out/o.json', 'w') as file:\n    json.dump(sizes, file)",
        "print(json.load(open('out/o.json')))",
        False,
    ),
    "by another library, beside what is read": (
        "with open('out/o.yaml', 'w') as file:\n    yaml.safe_dump(vars(args), file)",
        "print(open('out/a.txt').read())",
        True,
    ),
    "by a function": ("note('out/o.txt', str(args.__dict__))", "", True),
    "a picture": ("save_image(images, 'out/real.png')", "", True),
    "a plot": ("plot([1, 2], 'out/a.png')", "", True),
    "rows": ("with open('out/rows.json', 'w') as file:\n    json.dump([1, 2], file)", "", False),
    "a text": ("note('out/rows.txt', 'a b c')", "", False),
    "into what stays open": ("log = open('out/o.txt', 'w')\nlog.write(str(args))", "", False),
    "with what is no file": ("with lock:\n    note('out/o.txt', str(args))", "", True),
    "what is read again": (
        "note('out/o.txt', str(args))",
        "print(open('out/o.txt').read())",
        False,
    ),
    "what is uploaded": ("plot([1, 2], 'out/a.png')", "api.upload('out/a.png')", False),
}


@pytest.mark.parametrize(("writes", "reads", "goes"), RECORDED.values(), ids=RECORDED)
def test_pictures_and_options_that_are_written_ahead_go_and_nothing_is_said_of_others(
    writes: str, reads: str, goes: bool
) -> None:
    plan = plan_of(looped(f"{reads}\n{STEP}", before=RECORDS + writes))
    assert bool(plan["skipped_checkpoints"]) is goes
    assert "once before the first sample" not in str(texts(plan["warnings"]))


MAKES = """\
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(4, 4)
        self.net.eval()
        with torch.no_grad():
            self.mean = self.net(torch.zeros(8, 4)).mean()

def build():
    net = torch.nn.Linear(4, 4)
    net.eval()
    with torch.no_grad():
        print(net(torch.zeros(8, 4)).mean())
    return net

def evaluate():
    with torch.no_grad():
        return model(torch.zeros(8, 4)).mean()

{made}
"""


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("trainer = Trainer()\nhistory.append(trainer.mean)", False),
        ("net = build()\nhistory.append(net.weight)", False),
        ("if only:\n    history.append(evaluate())\n    exit()", False),
        ("mean = evaluate()\nhistory.append(mean)", True),
    ],
)
def test_what_makes_a_model_or_ends_the_script_is_no_validation(made: str, told: bool) -> None:
    """`history` is read by the step, so that none of them may go."""
    step = "(criterion(model(x), y) * history[0]).mean().backward()\noptimizer.step()"
    plan = plan_of(looped(step, before="history = []\n" + MAKES.format(made=made)))
    assert not plan["skipped_validation"]
    kinds = {w["kind"] for w in plan["warnings"]}
    assert ("validation-stays" in kinds) is told


MADE = """\
class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        with torch.no_grad():
            self.scale = self.fc(torch.ones(4)).max()
            torch.cuda.set_device(0)
    def forward(self, x):
        return self.fc(x) / self.scale
"""


@pytest.mark.parametrize(
    ("makes", "told"), [("net = Inner()", False), ("Inner()", False), ("net = evaluate()", True)]
)
def test_an_object_that_is_made_and_kept_is_no_evaluation(makes: str, *, told: bool) -> None:
    before = f"{MADE}def evaluate():\n    return Inner()\n{makes}"
    found = str(texts(plan_of(looped(STEP, before=before))["warnings"]))
    assert ("Validation is kept" in found) is told


SETS_UP = """\
class Whitened(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))
    @torch.no_grad()
    def initialize(self, x):
        self.mean.copy_(self.fc(x).mean(0))
        {shows}
    def forward(self, x):
        return self.fc(x) - self.mean
net = Whitened()
{calls}
"""


@pytest.mark.parametrize(
    ("calls", "shows", "told"),
    [
        ("net.initialize(torch.ones(8, 4))", "pass", False),
        ("with torch.no_grad():\n    net.initialize(torch.ones(8, 4))", "pass", False),
        ("net.initialize(torch.ones(8, 4))", "print(self.mean)", True),
        ("net.initialize(torch.ones(8, 4))", "return self.mean", True),
    ],
)
def test_what_shows_and_gives_nothing_sets_up(calls: str, shows: str, *, told: bool) -> None:
    before = SETS_UP.format(calls=calls, shows=shows)
    step = "criterion(net(x), y).backward()\noptimizer.step()"
    plan = plan_of(looped(step, before=before))
    assert not plan["skipped_validation"]
    assert ("validation-stays" in {w["kind"] for w in plan["warnings"]}) is told


@pytest.mark.parametrize("layer", ["LazyLinear(4)", "Sequential(torch.nn.LazyLinear(4))"])
@pytest.mark.parametrize("shown", ["", "print"])
def test_the_first_call_of_a_lazy_module_makes_its_weights(layer: str, shown: str) -> None:
    first = f"with torch.no_grad():\n    {shown}(net(torch.ones(1, 4)))"
    before = f"net = torch.nn.{layer}\n{first}"
    step = "criterion(net(x), y).backward()\noptimizer.step()"
    assert not plan_of(looped(step, before=before))["skipped_validation"]
    other = before.replace("Lazy", "").replace("Linear(4)", "Linear(4, 4)")
    assert plan_of(looped(step, before=other))["skipped_validation"]


OWN_BATCH = """\
model = model.train()
loss = criterion(model(x), y)
loss.backward()
optimizer.step()
hits = (loss < 1).sum()
print(hits.item())
if step % 10 == 0:
    x, y = next(iter(val_loader))
    model = model.eval()
    loss = criterion(model(x), y)
    hits = (loss < 1).sum()
    print(hits.item())
    {inside}
{behind}
"""


@pytest.mark.parametrize(
    ("inside", "behind", "goes"),
    [
        ("pass", "pass", ["        loss = criterion"]),  # the batch is still drawn
        (
            "torch.save(model.state_dict(), 'm.pt')",
            "pass",
            ["        loss = criterion", "torch.save"],
        ),
        ("best = loss.item()", "scale(best)", []),
        ("pass", "keep(hits)", []),  # a name of the step's that is not bound anew before
        (
            "rate = loss.item()",
            "torch.save(model.state_dict(), 'm.pt')\nscale(rate)",
            ["torch.save"],
        ),
        (
            "torch.save(model.state_dict(), 'm.pt')\n    rate = loss",
            "scale(rate)",
            ["    torch.save"],
        ),
    ],
)
def test_a_branch_with_a_batch_of_its_own_goes_with_the_names_that_it_binds(
    inside: str, behind: str, goes: list[str]
) -> None:
    """What it binds the step binds anew before it is read; where not, only a part may go."""
    source = looped(
        OWN_BATCH.format(inside=inside, behind=behind),
        before="step = 0",
        header="for step, (x, y) in enumerate(loader):",
    )
    plan = plan_of(source)
    skipped = [*plan["skipped_validation"], *plan["skipped_checkpoints"]]
    assert skipped == lines_of(source, *goes)
