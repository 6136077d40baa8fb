"""What counts as an update: optimizers held and stepped in other ways, updates by hand.

Also the loops that only walk over finished losses or over optimizers: parts of one step.
"""

from __future__ import annotations

from textwrap import indent
from typing import Any

import pytest

from instrumentor import Declined
from instrumentor.locate.meaning.kinds import Kinds
from instrumentor.locate.meaning.roles import Kind
from tests.locate.cases import HEAD, around, looped, plan_of, rewritten, timed

BACKWARD = "loss = criterion(model(x), y)\nloss.backward()\n"

TRAINER = """\
import torch

class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(4, 4)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def optimizer_step(self):
        STEP

    def fit(self, loader):
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(self.model(x), y)
            loss.backward()
            CALL

Trainer().fit(loader)
"""


def declined(source: str) -> str:
    """The kind of the first reason against a source."""
    with pytest.raises(Declined) as caught:
        rewritten(source)
    return str(caught.value.reasons[0].kind)


@pytest.mark.parametrize(
    ("step", "call"),
    [
        ("self.optimizer.step()", "self.optimizer_step()"),
        ("self.scaler.step(self.optimizer)", "self.optimizer_step()"),
        ("for opt in [self.optimizer]: opt.step()", "self.optimizer_step(loss)"),
    ],
)
def test_a_method_named_after_the_step_is_the_step_it_makes(step: str, call: str) -> None:
    plan = plan_of(TRAINER.replace("STEP", step).replace("CALL", call))
    assert plan["label"] == "fwd+bwd"
    assert timed(plan) == {"start_line": 13, "end_line": 14}
    assert plan["stop"]["line"] == 15


def test_a_step_behind_a_method_is_another_optimizer_s() -> None:
    """Two updates in one iteration are one sample."""
    second = "self.model(x).mean().backward()\n            self.optimizer_step()"
    call = f"self.opt_a.step()\n            {second}"
    plan = plan_of(TRAINER.replace("STEP", "self.opt_b.step()").replace("CALL", call))
    assert (plan["label"], plan["stop"]["line"]) == ("step", 17)


def test_the_step_of_a_wrapper_is_one_step() -> None:
    wrapper = (
        "class Warmed:\n    def __init__(self, inner):\n        self.inner_optimizer = inner\n\n"
        "    def step(self):\n        self.inner_optimizer.step()\n"
    )
    source = TRAINER.replace("STEP", "pass").replace("CALL", "self.optimizer.step()")
    source = source.replace("torch.optim.SGD(", "Warmed(torch.optim.SGD(").replace("0.1)", "0.1))")
    plan = plan_of(source + wrapper)
    assert (plan["label"], plan["stop"]["line"]) == ("fwd+bwd", 15)


COLLECTIONS = {
    "list": "parts = [torch.optim.SGD(model.parameters(), lr=0.1)]",
    "list_comprehension": "parts = [torch.optim.SGD(p, lr=0.1) for p in groups]",
    "dict": "parts = {'a': torch.optim.SGD(model.parameters(), lr=0.1)}",
    "wrapped": "parts = dict(enumerate([torch.optim.SGD(model.parameters(), lr=0.1)]))",
    "appended": "parts = []\nparts.append(torch.optim.SGD(model.parameters(), lr=0.1))",
    "by_key": "parts = {}\nparts['a'] = torch.optim.SGD(model.parameters(), lr=0.1)",
    "of_names": "parts = (optimizer,)",
    "annotated": "parts: list[object] = [optimizer]",
}


def test_an_optimizer_that_a_model_holds_is_no_part_of_the_model() -> None:
    body = BACKWARD + "net.optim.step()\nnet.optim.zero_grad()"
    before = "net = torch.nn.DataParallel(build(config))"
    assert plan_of(looped(body, before))["evidence"][2]["name"] == "net.optim"


def test_what_is_made_of_an_optimizer_that_only_its_use_tells_is_a_scheduler() -> None:
    before = "solver = make(config)\nsolver.zero_grad()\npace = plan(config, solver)"
    result = rewritten(looped(BACKWARD + "pace.step()\nsolver.step()", before))
    assert result.plan.explanation["label"] == "fwd+bwd"
    assert result.plan.explanation["evidence"][2]["name"] == "make"


@pytest.mark.parametrize("name", COLLECTIONS)
def test_a_variable_over_a_collection_of_optimizers_is_one(name: str) -> None:
    walked = "parts.values()" if "dict" in name or name in ("wrapped", "by_key") else "parts"
    body = BACKWARD + f"[o.step() for o in {walked}]"
    result = rewritten(looped(body, COLLECTIONS[name]))
    assert result.plan.explanation["label"] == "fwd+bwd"
    assert around(result, "_instrument.end(") == (
        "loss.backward()",
        f"[o.step() for o in {walked}]",
    )


@pytest.mark.parametrize(
    "header",
    [
        "for o in optimizers:",
        "for o in self.optimizers.values():",
        "for name, o in optimizers.items():",
        "for n, o in enumerate(optimizers):",
        "for n, (name, o) in enumerate(optimizers.items()):",
        "for o, s in zip(optimizers, schedulers):",
        "for o in reversed(optimizers):",
        "for o in (optimizer, muon):",
        "for o, s in ((optimizer, first), (muon, second)):",
    ],
)
def test_a_loop_over_optimizers_steps_them(header: str) -> None:
    result = rewritten(looped(BACKWARD + f"{header}\n    o.step()\nprint(1)"))
    assert timed(result.plan.explanation) == {"start_line": 9, "end_line": 10}
    assert around(result, "_instrument.finished(")[0] == "o.step()"
    assert b"\n    if _instrument.finished()" in result.code


@pytest.mark.parametrize(
    "header",
    [
        "for o in schedulers:",
        "for s, o in zip(optimizers, schedulers):",
        "for o in optimizer.param_groups:",
        "for o in environments:",
    ],
)
def test_a_loop_over_anything_else_steps_no_optimizer(header: str) -> None:
    assert declined(looped(BACKWARD + f"{header}\n    o.step()")) == "no-optimizer-step"


def test_an_optimizer_of_a_list_is_stepped_by_its_index() -> None:
    result = rewritten(looped(BACKWARD + "optimizers[0].step()"))
    assert around(result, "_instrument.finished(")[0] == "optimizers[0].step()"


def test_two_walked_collections_are_two_optimizers() -> None:
    walks = ("for o in d_optimizers:\n    o.step()\n", "for o in g_optimizers:\n    o.step()\n")
    plan = plan_of(looped("".join(BACKWARD + walk for walk in walks)))
    assert (plan["label"], plan["stop"]["line"]) == ("step", 15)


UPDATES = [
    "for p in ps: p.data -= lr * p.grad",
    "w -= lr * w.grad",
    "w = w - lr * w.grad",
    "w.data = w.data - lr * w.grad",
    "for p in ps: p.data += -lr * p.grad",
    "for p in ps: p.data.add_(p.grad, alpha=-lr)",
    "for p in ps: p.data.copy_(p.data - lr * p.grad)",
    "self.w.data.mul_(decay).add_(self.w.grad)",
    "params[i].data.add_(params[i].grad, alpha=-lr)",
    "with torch.no_grad():\n    for p in ps:\n        p.add_(-lr, p.grad)",
    "for p in ps:\n    g = p.grad.data\n    p.data.add_(g, alpha=-lr)",
    "for p, b in zip(ps, bs):\n    b.mul_(0.9).add_(p.grad)\n    p.data.sub_(b, alpha=lr)",
    "for p in ps:\n    m[p] = 0.9 * m[p] + p.grad\n    p.data -= lr * m[p]",
    "for p in ps:\n    v = 0.9 * v - lr * p.grad\n    p.data += v",
]

SUMS = [
    "for p, imp in pairs: imp.data += p.grad.data.clone().pow(2)",
    "for p in ps: fisher[p] += p.grad ** 2",
    "for p in ps: fisher[p].add_(p.grad.pow(2))",
    "for p in ps: fisher[p] = fisher[p] + p.grad ** 2",
    "for p in ps: p.fisher += p.grad ** 2",
    "for p in ps:\n    g = p.grad.clone()\n    kept[p].add_(g)",
    "for s, p in pairs: s.copy_(p.grad)",
    "for p in ps: p.grad.add_(noise)",
    "for p in ps: p.grad.data.add_(decay, p.data)",
    "total += p.grad.norm()",
    "gap = a.grad - b.grad",
    "gap = old - p.grad",
]


@pytest.mark.parametrize("text", UPDATES)
def test_an_update_by_hand_changes_what_it_reads_the_gradient_of(text: str) -> None:
    plan = plan_of(looped(BACKWARD + text))
    assert timed(plan) == {"start_line": 9, "end_line": 10}
    assert plan["stop"]["line"] >= 11


@pytest.mark.parametrize("text", SUMS)
def test_sums_of_gradients_are_no_update(text: str) -> None:
    assert declined(looped(BACKWARD + text)) == "no-optimizer-step"


#: a loop over the losses of one forward
FINISHED = {
    "plain": "for loss in losses:\n    loss.backward(retain_graph=True)",
    "items": "for name, loss in losses.items():\n    scaler.scale(loss).backward()",
    "reduced": "for loss in losses:\n    loss.mean().backward(retain_graph=True)",
    "weighted": "for w, loss in zip(weights, losses):\n    (w * loss).backward()",
    "divided": "for loss in losses:\n    loss = loss / len(losses)\n    loss.backward()",
    "accelerate": "for loss in losses:\n    accelerator.backward(loss)",
    "by_key": "for k in losses:\n    losses[k].backward(retain_graph=True)",
    "guarded": "for loss in losses:\n    if loss.requires_grad:\n        loss.backward()",
    "apex": "for loss in losses:\n    with amp.scale_loss(loss, optimizer) as scaled:\n"
    "        scaled.backward(retain_graph=True)",
}


@pytest.mark.parametrize("name", FINISHED)
def test_a_backward_per_loss_of_one_forward_is_one_region(name: str) -> None:
    losses = "losses = {'a': criterion(out, y)}" if name == "items" else "losses = parts(out)"
    body = f"out = model(x)\n{losses}\noptimizer.zero_grad()\n{FINISHED[name]}\noptimizer.step()"
    result = rewritten(looped(body))
    plan = result.plan.explanation
    last = 8 + len(body.splitlines()) - 1
    assert plan["loop"]["line"] == 8
    assert timed(plan) == {"start_line": 9, "end_line": last}
    assert b"\n    _instrument.end(" in result.code


@pytest.mark.parametrize("walked", ["model.losses(x)", "(criterion(model(x), y), model(y).mean())"])
def test_a_forward_in_what_is_walked_over_is_timed(walked: str) -> None:
    walk = f"for loss in {walked}:\n    loss.backward(retain_graph=True)"
    body = f"optimizer.zero_grad()\n{walk}\noptimizer.step()"
    assert timed(plan_of(looped(body))) == {"start_line": 10, "end_line": 11}


@pytest.mark.parametrize(
    "backward",
    [
        "criterion(model(part), y).backward()",
        "model(part).mean().backward()",
        "scaler.scale(criterion(model(part), y)).backward()",
        "part.run(model).loss.backward()",
    ],
)
def test_a_loop_that_runs_the_forward_walks_over_micro_batches(backward: str) -> None:
    plan = plan_of(looped(f"for part in x.chunk(4):\n    {backward}\noptimizer.step()"))
    assert plan["loop"]["line"] == 9
    assert plan["accumulation"] == "nested"


@pytest.mark.parametrize(
    ("before", "step"),
    [
        ("a = torch.optim.SGD(model.parameters(), lr=0.1)\nstep = a.step", "step()"),
        ("from torch.optim import SGD as Descent\nd = Descent(model.parameters())", "d.step()"),
        ("a, b = torch.optim.SGD(model.parameters()), 3", "a.step()"),
        ("from lion import Lion\nd = Lion(model.parameters())", "d.step()"),
        ("a = make(model)\na.zero_grad()", "a.step()"),
        ("import torch.optim as o\nmade = {'x': o.SGD(model.parameters())}", "made['x'].step()"),
        ("import torch_xla.core.xla_model as q\na = make(model)", "q.optimizer_step(a)"),
        ("def make(m): return torch.optim.SGD(m.parameters())\na = make(model)", "a.step()"),
        ("from torch.amp import GradScaler\ns = GradScaler()\na = make(1)", "s.step(a)"),
    ],
)
def test_an_optimizer_under_any_name(before: str, step: str) -> None:
    result = rewritten(looped(BACKWARD + step, before))
    assert around(result, "_instrument.finished(")[0] == step


@pytest.mark.parametrize(
    "binding",
    ["acc = Accelerator()", "acc = accelerate.Accelerator()", "acc = make(Accelerator())"],
)
def test_an_accelerator_under_any_name(binding: str) -> None:
    source = (
        "import accelerate\nfrom accelerate import Accelerator\ndef make(x): return x\n"
        f"{binding}\nnet, a, data = acc.prepare(net, torch.optim.SGD(net.parameters()), data)\n"
        "for x in data:\n    out = net(x)\n    acc.backward(out)\n    a.step()\n"
    )
    assert timed(plan_of("import torch\n" + source)) == {"start_line": 8, "end_line": 9}


def test_an_optimizer_under_the_name_of_what_it_trains() -> None:
    body = "loss = criterion(model(x), y)\nloss.backward()\noptims.generator.step()"
    source = looped(body, before="from munch import Munch\noptims = Munch()")
    assert plan_of(source)["eligible"]


def test_an_update_behind_the_call_of_the_function_with_the_loop() -> None:
    accumulate = (
        f"def accumulate(batches):\n    for x, y in batches:\n{indent(BACKWARD, 8 * ' ')}\n"
    )
    step = "def step(batches):\n    accumulate(batches)\n    optimizer.step()\n\n"
    plan = plan_of(f"{HEAD}{accumulate}{step}while True:\n    step(loader)\n")
    assert (plan["loop"]["line"], plan["stop"]["line"]) == (9, 15)


def _nested(number: int) -> str:
    made = f"Part{number + 1}" if number < 24 else "torch.nn.Linear"
    return f"""
class Part{number}(torch.nn.Module):
    def __init__(self, size=4, out=4):
        super().__init__()
        self.first = {made}(4, 4)
        self.second = {made}(4, 4)
        self.back = lambda: Part{max(number - 1, 0)}()

    def forward(self, x):
        return self.first(x) + self.second(x)
"""


def test_modules_that_hold_two_of_the_next_are_read_a_few_times_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The innermost stands sixteen million times in the outermost."""
    asked, found = [], Kinds._of_class

    def counted(self: Kinds, cls: Any) -> Kind | None:
        asked.append(cls)
        return found(self, cls)

    monkeypatch.setattr(Kinds, "_of_class", counted)
    loop = (
        "import torch\n"
        + "".join(map(_nested, range(25)))
        + """
model = Part0()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in [torch.ones(2, 4)] * 10:
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""
    )
    assert timed(plan_of(loop))
    assert 25 <= len(asked) < 2_000


def test_parameters_that_are_made_with_a_name_of_the_method_make_a_model() -> None:
    source = """\
import torch
class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        from torch.nn import Parameter as P
        self.weight = P(torch.ones(4, 1))
    def forward(self, x):
        return x @ self.weight
net = Scale()
optimizer = torch.optim.SGD([net.weight], lr=0.1)
for x, y in loader:
    z = net(x)
    z = prepare(z)
    loss = torch.nn.functional.mse_loss(z, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    begins = source.splitlines().index("    z = net(x)") + 1
    assert plan_of(source)["region"]["start_line"] == begins
