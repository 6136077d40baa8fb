"""What the barrier is given to learn the device from, and which batch a region begins with."""

from __future__ import annotations

import textwrap

import pytest

from tests.locate.cases import HEAD, looped, plan_of, rewritten
from tests.warned import texts

#: Of a function that is compiled as a whole the call is timed.
STEP = """
@torch.compile
def train():
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    return {}
"""
TRAINER = """
class Trainer:
    def __init__(self, device):
        self.model = torch.nn.Linear(4, 4).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    @torch.compile
    def update(self, batch):
        x, y = (part.to(device) for part in batch)
        loss = criterion(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, loader):
        for batch in loader:
            self.update(batch)

"""
UNCERTAIN = "Nothing here is certain to be a tensor"


def given(source: str, method: str) -> list[str]:
    """The arguments of each inserted call of a method, as written."""
    code = rewritten(source).code.decode()
    head = f"_instrument.{method}("
    lines = [line.partition("  # [")[0].strip() for line in code.splitlines()]
    return [line[len(head) : -1] for line in lines if line.startswith(head)]


def warns(source: str) -> bool:
    return any(UNCERTAIN in warning for warning in texts(plan_of(source)["warnings"]))


DIRECT = """
    loss = criterion(model(x), y)
    loss.backward()
    {}
    optimizer.step()
    {}
"""


@pytest.mark.parametrize(
    ("before_the_step", "behind_it", "expected"),
    [
        ("pass", "pass", "loss"),
        ("pass", "del loss", "loss"),  # far behind the barrier
        ("pass", "del loss, x, y", "loss"),
        ("torch_xla.sync(wait=True)", "del loss", "loss, synced=True"),
        ("del loss\n    torch_xla.sync(wait=True)", "pass", "model, synced=True"),
        ("loss = loss.item()\n    torch_xla.sync(wait=True)", "pass", "loss, model, synced=True"),
    ],
)
def test_the_loss_as_it_is_at_the_end(before_the_step: str, behind_it: str, expected: str) -> None:
    source = looped(textwrap.dedent(DIRECT.format(before_the_step, behind_it)))
    assert given(source, "end") == [expected]
    assert given(source, "begin") == ["x, y"]
    assert not warns(source)


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("float(loss)", 'loss, model, label="step"'),
        ("loss.item()", 'loss, model, label="step"'),
        ("loss", 'loss, label="step"'),
        ("loss, y", 'loss, label="step"'),
        ("loss.item() if loss else loss", 'loss, model, label="step"'),
    ],
)
def test_a_helper_that_reads_the_model_of_the_module(returned: str, expected: str) -> None:
    source = looped("loss = train()", STEP.format(returned), "for epoch in range(9):")
    assert given(source, "end") == [expected]
    assert not warns(source)


FIT = f"{HEAD}{TRAINER}Trainer(device).fit(loader)\n"
UPDATE = looped(
    "loss = trainer.update(batch)",
    TRAINER.partition("    def fit")[0] + "trainer = Trainer(device)",
    "for batch in loader:",
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (FIT, 'self, label="step"'),
        (FIT.replace("update(", "update_rnn("), 'self, label="step"'),  # spelled like a model
        (UPDATE, 'loss, trainer, label="step"'),
    ],
)
def test_the_object_of_a_helper_not_its_batch(source: str, expected: str) -> None:
    assert given(source, "end") == [expected]
    assert given(source, "begin") == ["batch"]
    assert not warns(source)


def test_a_global_that_the_function_of_the_loop_shadows() -> None:
    shadowing = "def run(model):\n    for epoch in range(9):\n        train()\n\nrun(None)\n"
    source = HEAD + STEP.format("1.0") + "\n" + shadowing
    assert given(source, "end") == ['optimizer, label="step"']
    unshadowed = source.replace("run(model)", "run(anything)")
    assert given(unshadowed, "end") == ['model, label="step"']
    maybe = unshadowed.replace("\nmodel =", "\nif device:\n    model =")
    assert given(maybe, "end") == ['model, label="step"']  # the optimizer is made of it
    for name in ("criterion", "optimizer"):
        maybe = maybe.replace(f"\n{name} =", f"\n    {name} =")
    assert given(maybe, "end") == ['label="step"']


NOTHING = """
import torch

@torch.compile
def train(net, opt, x):
    loss = net(x).sum()
    loss.backward()
    opt.step()

def run(parts):
    for x in loader:
        train(*parts, x)

run(everything)
"""


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("net = torch.nn.Linear(4, 4)\nnet.train()", 'net, label="step"'),
        ("net = torch.nn.Linear(4, 4)\nif verbose:\n    print(net)", 'net, label="step"'),
        ("if large:\n    net = torch.nn.Linear(4, 4)\n    net.train()", 'label="step"'),
    ],
)
def test_a_model_is_given_where_every_way_to_the_end_has_met_it(before: str, expected: str) -> None:
    source = NOTHING.partition("def run")[0] + before + "\nfor x in loader:\n    train(*parts, x)\n"
    assert given(source, "end") == [expected]
    assert warns(source) is (expected == 'label="step"')


def test_nothing_in_sight() -> None:
    assert given(NOTHING, "end") == ['label="step"']
    assert warns(NOTHING)


@pytest.mark.parametrize(
    ("before", "header", "first", "expected"),
    [
        ("bar = tqdm(range(9))", "for index in bar:", "x, y = next(data)", "x, y"),
        ("bar = tqdm(range(9))", "for index in bar:", "x = next(data).to(device)", "x"),
        ("bar = tqdm(loader)", "for x, y in bar:", "pass", "x, y"),
        ("bar = enumerate(loader)", "for index, (x, y) in bar:", "pass", "x, y"),
        ("", "for index in tqdm(range(9)):", "x, y = next(data)", "x, y"),
        ("", "for x, y in loader:", "pass", "x, y"),
        ("loader = [make(i) for i in range(9)]", "for x, y in loader:", "pass", "x, y"),
        ("loader = [b for _, b in enumerate(data)]", "for x, y in loader:", "pass", "x, y"),
    ],
)
def test_the_batch(before: str, header: str, first: str, expected: str) -> None:
    body = f"{first}\nloss = criterion(model(x), y)\nloss.backward()\noptimizer.step()\ndel x"
    assert given(looped(body, before, header), "begin") == [expected]


def test_a_bar_of_a_with_statement() -> None:
    body = "loss = criterion(model(x), y)\nloss.backward()\noptimizer.step()"
    loop = textwrap.indent(f"x, y = next(data)\n{body}", "    ")
    source = looped(f"for index in bar:\n{loop}", header="with tqdm(range(9)) as bar:")
    assert given(source, "begin") == ["x, y"]
