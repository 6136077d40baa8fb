"""Lines within a region that its loss is not made from: what a run sees there is no step's."""

from __future__ import annotations

import textwrap

import pytest

from tests.locate.cases import HEAD, rewritten

START = """
teacher = torch.nn.Linear(4, 4)
scores = []


def evaluate(net, held_out):
    net.eval()
    with torch.no_grad():
        score = net(held_out).mean()
    net.train()
    return score


def collect(net, batch, into):
    with torch.no_grad():
        into.append(net(batch))


class Trainer:
    def guide(self, x):
        with torch.no_grad():
            self.wanted = teacher(x)

    def look(self, x):
        with torch.no_grad():
            self.seen = model(x)

    def step(self, x, y):
        loss = criterion(model(x), self.wanted)
        loss.backward()

    def whole(self, x, y):
        out = model(x)
        evaluate(model, y)  # apart
        loss = criterion(out, y)
        loss.backward()

    def train(self):
        for x, y in loader:
{of_self}
            optimizer.step()


for x, y in loader:
{body}
    optimizer.step()
"""

NOTHING = "out = model(x)\nloss = criterion(out, y)\nloss.backward()"


def apart(source: str) -> set[str]:
    """The text of the lines."""
    found = rewritten(source, loop=("", source.splitlines().index(LOOPS[source]) + 1))
    lines = source.splitlines()
    return {line.strip() for _, first, last in found.plan.apart for line in lines[first - 1 : last]}


LOOPS: dict[str, str] = {}


def script(body: str, *, of_self: bool = False) -> str:
    inner = textwrap.indent(textwrap.dedent(body).strip("\n"), " " * (12 if of_self else 4))
    rest = textwrap.indent("pass", " " * 12)
    if of_self:
        made = START.replace("{of_self}", inner).partition("\nfor x, y in loader:")[0]
        text = HEAD + made + "\n\nTrainer().train()\n"
    else:
        text = HEAD + START.replace("{of_self}", rest).replace("{body}", inner)
    LOOPS[text] = "        for x, y in loader:" if of_self else "for x, y in loader:"
    return text


@pytest.mark.parametrize(
    "body",
    [
        "out = model(x)\nevaluate(model, y)  # apart\nloss = criterion(out, y)\nloss.backward()",
        "out = model(x)\nscore = evaluate(model, y)  # apart\nloss = criterion(out, y)\n"
        "loss.backward()",
        "out = model(x)\nscores.append(model(y).mean())  # apart\nloss = criterion(out, y)\n"
        "loss.backward()",
        "out = model(x)\nwith torch.no_grad():  # apart\n    seen = model(y)  # apart\n"
        "    print(seen)  # apart\nloss = criterion(out, y)\nloss.backward()",
        "criterion(model(x), y).backward()\nevaluate(model, y)  # apart\n"
        "criterion(model(y), x).backward()",
    ],
)
def test_what_no_loss_comes_from(body: str) -> None:
    assert apart(script(body)) == marked(body)


@pytest.mark.parametrize(
    "body",
    [
        NOTHING,
        "with torch.no_grad():\n    wanted = teacher(x)\nloss = criterion(model(x), wanted)\n"
        "loss.backward()",
        "fake = model(x)\nloss = criterion(teacher(fake.detach()), y)\nloss.backward()",
        "kept = []\ncollect(teacher, x, kept)\nloss = criterion(model(x), kept[0])\n"
        "loss.backward()",
        "if y.sum() > 0:\n    y = teacher(y).detach()\nloss = criterion(model(x), y)\n"
        "loss.backward()",
    ],
)
def test_what_the_loss_is_made_from(body: str) -> None:
    assert apart(script(body)) == set()


@pytest.mark.parametrize(
    "body",
    [
        "self.guide(x)\nself.step(x, y)",
        "self.guide(x)\nout = model(x)\nself.look(x)  # apart\n"
        "loss = criterion(out, self.wanted)\nloss.backward()",
    ],
)
def test_through_an_object(body: str) -> None:
    assert apart(script(body, of_self=True)) == marked(body)


def test_in_a_helper_of_the_step() -> None:
    found = apart(script("self.whole(x, y)", of_self=True))
    assert found == {"evaluate(model, y)  # apart"}


def marked(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines() if line.endswith("# apart")}
