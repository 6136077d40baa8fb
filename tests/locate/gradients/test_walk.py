"""What a backward differentiates, and how that is known; what carries no gradient is no forward."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from instrumentor import Declined
from instrumentor.locate.gradients.walk import Gradients
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.roles import Evidence
from instrumentor.read.program import Program
from instrumentor.read.syntax import parse
from tests.locate.cases import around, lines_of, looped, plan_of, rewritten


def made(body: str, before: str = "") -> list[tuple[str, Evidence, str]]:
    """Statements of a loop's body that make what its backward differentiates, in order.

    Those off the graph, which the loss is computed from as well, are left out.
    """
    source = parse(Path("train.py"), looped(body, before).encode())
    (loop,) = (s for s in source.tree.body if isinstance(s, ast.For))
    walk = Gradients(Knowledge(Program.single(source)))
    found = walk.differentiated(source, source.tree, loop.body, ["x", "y"])
    (values,) = found.values()
    on_graph = [m for m in values if not m.detached]
    return [(ast.unparse(m.unit).splitlines()[0], m.evidence, m.what) for m in on_graph]


@pytest.mark.parametrize(
    ("statement", "evidence", "what"),
    [
        ("out = model(x)", Evidence.TYPE, "torch.nn.Linear"),
        ("out = w * x", Evidence.TYPE, "w"),
        ("out = policy(x)", Evidence.SPELLING, "policy"),
        ("out = library.compute_loss(x)", Evidence.SPELLING, "library.compute_loss"),
        ("out = library.thing(x)", Evidence.UNREAD, "library.thing"),
        ("out = library.load_batch(x)", Evidence.PREPARATION, "library.load_batch"),
    ],
)
def test_evidence(statement: str, evidence: Evidence, what: str) -> None:
    found = made(f"{statement}\nout.sum().backward()", "w = torch.ones(4, requires_grad=True)")
    assert found == [(statement, evidence, what)]


@pytest.mark.parametrize(
    "made_of_it",
    [
        "model(x).detach()",
        "model(x).argmax(-1)",
        "model.generate(x)",
        "torch.distributions.Categorical(logits=model(x)).sample()",
        "model(x).shape[0]",
        "model(x).data",
        "np.array(model(x))",
        "float(model(x))",
        "model(x) > 0",
        "torch.zeros_like(model(x))",
        "loader_of(x)",
        "Flow()(x)",
        "Teacher()(x)",
    ],
)
def test_what_carries_no_gradient(made_of_it: str) -> None:
    before = """\
import numpy as np

def loader_of(x):
    with torch.no_grad():
        return model(x)

class Flow(torch.nn.Module):
    def __init__(self):
        self.net = torch.nn.Linear(4, 4)

    def forward(self, x):
        "Of two images."
        with torch.no_grad():
            return self.net(x)

class Teacher(Flow):
    @torch.no_grad()
    def forward(self, x):
        return self.net(x)
"""
    body = f"mask = {made_of_it}\nloss = (head(x) * mask).sum()\nloss.backward()"
    found = made(body, f"{before}\nhead = torch.nn.Linear(4, 4)")
    assert [unit for unit, _, _ in found] == ["loss = (head(x) * mask).sum()"]


@pytest.mark.parametrize(
    "path",
    [
        "outs = []\nfor part in x.chunk(2):\n    outs.append(out)\nloss = torch.cat(outs).sum()",
        "outs = {}\nouts['a'] = out\nloss = sum(v.mean() for v in outs.values())",
        "batch.out = out\nloss = batch.out.mean()",
        "a, b = out, x\nloss = a.mean()",
        "if (y > 0).any():\n    loss = out.mean()\nelse:\n    loss = x.mean()",
        "error = lambda a, b: ((a - b) ** 2).mean()\nloss = error(out, y)",
        "loss = apply(lambda value: value.mean(), out)",
        "out = rnn.pack_padded_sequence(out, lengths)\nloss = criterion(out.data, y)",
        "out, *_ = rnn.pack_padded_sequence(out, lengths)\nloss = criterion(out, y)",
    ],
)
def test_ways_of_a_value(path: str) -> None:
    found = made(
        f"out = model(x)\n{path}\nloss.backward()",
        "from torch.nn.utils import rnn\ndef apply(f, value):\n    return f(value)",
    )
    assert found[0] == ("out = model(x)", Evidence.TYPE, "torch.nn.Linear")


def test_generation_feeds_through_tokens_only() -> None:
    body = """\
with torch.no_grad():
    tokens = model.generate(x)
texts = tokenizer.batch_decode(tokens)
rewards = torch.tensor([score(text) for text in texts])
logits = model(tokens)
loss = -(logits.log_softmax(-1).gather(-1, tokens) * rewards).mean()
loss.backward()
"""
    assert made(body)[0][0] == "logits = model(tokens)"


def test_a_batch_that_needs_a_gradient_is_no_parameter() -> None:
    body = """\
real = next(batches)
real = real.to(device)
loss = criterion(model(real), y)
loss.backward()
real.requires_grad = True
"""
    assert made(body)[0][0] == "loss = criterion(model(real), y)"


LEAF = "from torch.autograd import Variable\ndevice = torch.device(name)"


@pytest.mark.parametrize(
    "ahead",
    [
        "x, y = x.to(device), y.to(device)\nx, y = Variable(x, requires_grad=True), Variable(y)",
        "x = x.to(device)\nx = x.float().requires_grad_()",
        "x = moved(x)",
    ],
)
def test_what_is_made_a_leaf_later_is_none_before(ahead: str) -> None:
    moved = """\
def moved(x):
    x = x.to(device)
    x = Variable(x, requires_grad=True)
    return x
"""
    found = made(f"{ahead}\nloss = criterion(model(x), y)\nloss.backward()", f"{LEAF}\n{moved}")
    assert {unit for unit, _, _ in found} == {"loss = criterion(model(x), y)"}


def test_what_is_computed_of_a_leaf_starts_the_forward() -> None:
    leaf = "x = Variable(x, requires_grad=True)"
    found = made(f"{leaf}\nz = x.cos()\nloss = model(z)\nloss.backward()", LEAF)
    assert found[0][0] == "z = x.cos()"


@pytest.mark.parametrize("again", ["w = w - 0.1 * w.grad", "if x:\n    pass"])
def test_a_leaf_of_an_earlier_iteration_is_one(again: str) -> None:
    remade = f"{again}\nw = Variable(w, requires_grad=True)"
    found = made(f"z = w * x\nloss = model(z)\nloss.backward()\n{remade}", f"{LEAF}\nw = load()")
    assert found[0][0] == "z = w * x"


HOOKED = """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.seen = 0
    def forward(self, x):
        return self.inner(x)
    def on_step(self, n):
        self.seen = n
net = Net()
"""


def test_a_hook_of_the_model_is_no_forward() -> None:
    hook = 'if hasattr(net, "on_step"):\n    net.on_step(len(x))\n'
    found = made(f"{hook}loss = criterion(net(x), y)\nloss.backward()", HOOKED)
    assert found[0][0] == "loss = criterion(net(x), y)"


NUMPY = """\
import numpy as np
class Layer:
    def __init__(self):
        self.weight = np.zeros((4, 4))
    def forward(self, x):
        self.x = x
        return x @ self.weight
    def backward(self, gradient):
        self.gradient = self.x.T @ gradient
class SGD:
    def step(self, layer):
        layer.weight -= 0.1 * layer.gradient
layer, optimizer = Layer(), SGD()
for x, y in batches:
    out = layer.forward(x)
    layer.backward(out - y)
    optimizer.step(layer)
"""


def test_a_backward_written_by_hand_is_none_of_torch() -> None:
    with pytest.raises(Declined) as caught:
        rewritten(NUMPY)
    assert caught.value.reasons[0].kind == "no-loop"


def test_the_same_shape_with_torch_is_a_loop() -> None:
    layer = NUMPY.partition("class SGD")[0].replace(
        "self.gradient = self.x.T @ gradient", "torch.autograd.backward(gradient)"
    )
    body = "loss = criterion(model(x), y)\nlayer.backward(loss)\noptimizer.step()"
    result = rewritten(looped(body, f"{layer}layer = Layer()"))
    assert around(result, "_instrument.begin(")[1].startswith("loss = criterion(")


BUILT = """\
def build(target, **settings):
    kind = getattr(library, target)
    return kind(**settings)
net = build("Net")
optimizer = build("Adam", params=net.parameters())
diffuser = build("Diffuser")
"""


def test_a_builder_makes_another_object_at_each_call() -> None:
    body = "loss = diffuser.loss_of(net, x)\nloss.backward()\noptimizer.step()"
    found = made(body, BUILT)
    assert found == [("loss = diffuser.loss_of(net, x)", Evidence.SPELLING, "diffuser.loss_of")]


def test_what_one_statement_makes_comes_in_one_order() -> None:
    names = [f"w{number}" for number in range(6)]
    before = "\n".join(f"{name} = torch.ones(4, requires_grad=True)" for name in names)
    parts = " + ".join(f"({name} * x).sum()" for name in reversed(names))
    found = made(f"loss = library.thing(x) + {parts}\nloss.backward()", before)
    assert [what for _, _, what in found] == [*names, "library.thing"]


def test_no_chain_of_calls_is_too_long() -> None:
    before = "def called100(x):\n    return model(x)\n"
    for number in range(99, 0, -1):
        before += f"def called{number}(x):\n    return called{number + 1}(x)\n"
    found = made("out = called1(x)\nout.sum().backward()", before)
    assert found == [("out = called1(x)", Evidence.TYPE, "torch.nn.Linear")]


@pytest.mark.usefixtures("no_hang")
def test_loops_in_loops_are_walked_a_few_times_each() -> None:
    lines, indent = ["v0 = x"], ""
    for n in range(18):
        lines.append(f"{indent}for i{n} in range(2):")
        indent += "    "
        lines.append(f"{indent}v{n + 1} = v{n} + v{(n + 5) % 19} if i{n} else v{n}")
    lines += ["loss = criterion(model(v18), y)", "loss.backward()", "optimizer.step()"]
    source = looped("\n".join(lines))
    plan = plan_of(source)
    assert plan["forward"]["line"] == lines_of(source, "criterion(model(v18)")[0]


def test_what_an_inner_loop_leaves_to_its_next_turn_is_the_forward() -> None:
    body = """
        for epoch in range(2):
            total = 0
            for part in range(2):
                held, total = total, model(x)
        held.mean().backward()
        optimizer.step()
        """
    source = looped(body)
    assert plan_of(source)["forward"]["line"] in lines_of(source, "held, total", "for epoch")
