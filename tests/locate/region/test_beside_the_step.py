"""What a sample holds that is no part of the step is named with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor import Options, explain
from instrumentor.locate import locate_file
from tests.locate.cases import HEAD, lines_of, plan_of

#: A step that cannot be entered, with one more thing in it.
STEP = """
@torch.compile
def learn(batch):
    {more}
    loss = criterion(model(batch), 1)
    loss.backward()
    optimizer.step()

for batch in loader:
    learn(batch)
"""


def named(source: str) -> dict[str, list[int]]:
    """Lines of what is told to be inside, by kind."""
    found: dict[str, list[int]] = {}
    for warning in plan_of(source)["warnings"]:
        if warning["kind"].endswith("-inside"):
            assert warning["weight"] == "caution"
            found.setdefault(warning["kind"], []).append(int(warning["place"].split(":")[1]))
    return found


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ("batch = next(batches)", "fetch-inside"),
        ("batch = memory.get_batch()", "fetch-inside"),
        ("batch = batch.to(device)", "copy-inside"),
        ("batch = batch.cuda(non_blocking=True)", "copy-inside"),
        ("batch = torch.from_numpy(batch)", "copy-inside"),
        ("print(batch.sum().item())", "host-read-inside"),
        ("torch.save(model.state_dict(), 'last.pt')", "save-inside"),
    ],
)
def test_inside_of_a_call(more: str, kind: str) -> None:
    source = HEAD + STEP.format(more=more)
    assert named(source) == {kind: lines_of(source, more)}


@pytest.mark.parametrize(
    "more",
    [
        "device = next(model.parameters()).device",
        "model.to(device)",
        "batch = batch.float()",
        "weight = torch.tensor(0.5)",
        "rows = np.unique(ids).tolist()",
        "steps = enumerate(batch.view(4, 4)); _, first = next(steps)",
    ],
)
def test_what_every_step_may_do(more: str) -> None:
    assert named(f"{HEAD}import numpy as np\n{STEP.format(more=more)}") == {}


DIRECT = """
def accuracy(output):
    return (output > 0).float().mean().item()

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(4, 4)

    def forward(self, x):
        out = self.body(x)
        {inside}
        return out

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    out = net(x)
    {between}
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
    {behind}
"""


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"between": "top = accuracy(out)"}, {"host-read-inside": "float().mean().item()"}),
        ({"inside": "self.seen = out.max().item()"}, {"host-read-inside": "self.seen ="}),
        ({"between": "torch.save(out, 'o.pt')"}, {"save-inside": "torch.save(out"}),
        ({"between": "y = y.to(device)"}, {"copy-inside": "y.to(device)"}),
        ({"between": "y = y.to(torch.device('cuda:1'))"}, {"copy-inside": "y.to(torch"}),
        ({"between": "here = torch.device('cpu'); y = y.to(here)"}, {}),
        ({"behind": "top = accuracy(out)"}, {}),
    ],
)
def test_between_forward_and_backward(more: dict[str, str], expected: dict[str, str]) -> None:
    pieces = {"inside": "pass", "between": "pass", "behind": "pass", **more}
    source = HEAD + DIRECT.format(**pieces)
    assert named(source) == {kind: lines_of(source, mark) for kind, mark in expected.items()}


def test_a_helper_of_another_file(tmp_path: Path) -> None:
    """The loop is found in its own file; what its region runs may stand in any."""
    script = HEAD + (
        "from helpers import accuracy\n"
        "for x, y in loader:\n"
        "    out = model(x)\n"
        "    loss = criterion(out, y)\n"
        "    tops.append(accuracy(out, y))\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
    )
    (tmp_path / "train.py").write_text(script)
    (tmp_path / "helpers.py").write_text(
        "def accuracy(out, y):\n    return out.eq(y).sum().item()\n"
    )
    warnings = explain(tmp_path / "train.py", Options()).to_json()["warnings"]
    told = [each["place"] for each in warnings if each["kind"] == "host-read-inside"]
    assert told == ["helpers.py:2"]


@pytest.mark.parametrize("fetch", ["next(batches)", "batches.next()"])
def test_a_fetch_between_the_steps_of_several_optimizers(fetch: str) -> None:
    source = HEAD + (
        "critic = torch.nn.Linear(4, 1)\n"
        "slow = torch.optim.SGD(critic.parameters(), lr=0.1)\n"
        "for n in range(100):\n"
        "    for _ in range(5):\n"
        f"        x = {fetch}\n"
        "        slow.zero_grad()\n"
        "        critic(x).mean().backward()\n"
        "        slow.step()\n"
        "    optimizer.zero_grad()\n"
        "    critic(model(x)).mean().backward()\n"
        "    optimizer.step()\n"
    )
    assert named(source) == {"fetch-inside": lines_of(source, fetch)}


CALLBACKS = """
class Meter:
    def on_forward_end(self, loss):
        self.total = loss.item()

    def on_step_end(self, loss):
        self.last = loss.cpu()

class Handler:
    def __init__(self, callbacks):
        self.callbacks = callbacks

    def call(self, event, loss):
        for each in self.callbacks:
            {dispatch}

handler = Handler([Meter()])
for x, y in loader:
    loss = criterion(model(x), y)
    handler.call("on_forward_end", loss)
    loss.backward()
    optimizer.step()
    handler.call("on_step_end", loss)
"""


@pytest.mark.parametrize(
    "dispatch",
    [
        "getattr(each, event)(loss)",
        "hook = getattr(each, event, None)\n            hook and hook(loss)",
    ],
)
def test_a_callback_that_is_looked_up_by_a_text(dispatch: str) -> None:
    source = HEAD + CALLBACKS.format(dispatch=dispatch)
    assert named(source) == {"host-read-inside": lines_of(source, "loss.item()")}


EVALUATES = """
def {name}(x):
    with torch.no_grad():
        return {body}

for x, y in loader:
    out = model(x)
    {use}
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("name", "body", "use", "told"),
    [
        ("look", "model(x).mean()", "look(x)", True),
        ("look", "model(x).mean()", "seen.append(look(x))", True),
        ("reduce", "x.mean() / 2", "seen.append(reduce(out))", False),
        ("target", "model(x)", "y = y + target(x)", False),  # the loss comes from it
    ],
)
def test_an_evaluation(name: str, body: str, use: str, told: bool) -> None:
    source = HEAD + EVALUATES.format(name=name, body=body, use=use)
    assert ("validation-inside" in named(source)) is told


MEASURES = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.body(x)

def share(output, y, parts=2):
    with torch.no_grad():
        {of}
        return best.eq(y).float().mean()

def elsewhere(model):
    output = model(x)
    return share(output, y)

net = Net()
for x, y in loader:
    out = net(x)
    shares.append(share(out, y))
    criterion(out, y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("of", "told"),
    [
        ("best = output.topk(parts)[1]", False),
        ("best = net(output).topk(parts)[1]", True),
    ],
)
def test_a_metric_of_the_step_s_own_output_is_no_evaluation(of: str, told: bool) -> None:
    assert ("validation-inside" in named(HEAD + MEASURES.format(of=of))) is told


BELOW = """
def look():
    with torch.no_grad():
        return model(held_out).mean()

def target(x):
    with torch.no_grad():
        return model(x)

def between(n, x):
    if n % 10 == 0:
        {use}

for n, (x, y) in enumerate(loader):
    out = model(x)
    between(n, x)
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("use", "told"),
    [
        ("look()", True),
        ("seen.append(look())", True),
        ("y = target(x)", False),  # a loss may come from it
        ("print(n)", False),
    ],
)
def test_an_evaluation_in_a_helper_between_forward_and_backward(use: str, told: bool) -> None:
    source = HEAD + BELOW.format(use=use)
    expected = {"validation-inside": lines_of(source, " " * 8 + use)} if told else {}
    assert named(source) == expected


def test_inside_of_a_helper_that_makes_the_forward_alone() -> None:
    source = HEAD + (
        "def losses_of(batch):\n"
        "    batch = batch.to(device)\n"
        "    return criterion(model(batch), 1)\n"
        "\n"
        "for batch in loader:\n"
        "    loss = losses_of(batch)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
    )
    assert named(source) == {"copy-inside": lines_of(source, "batch = batch.to(device)")}


def test_a_forward_may_move_what_it_works_on() -> None:
    source = HEAD + (
        "class InParts(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.first, self.second = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)\n"
        "    def forward(self, x):\n"
        "        return self.second(moved(self.first(x)))\n"
        "\n"
        "def moved(x):\n"
        "    return x.to(other_device)\n"
        "\n"
        "parts = InParts()\n"
        "for batch in loader:\n"
        "    criterion(parts(batch), 1).backward()\n"
        "    optimizer.step()\n"
    )
    assert named(source) == {}


@pytest.mark.parametrize(
    ("moved", "told"),
    [
        ("x = x.cuda()", True),
        ("x = torch.autograd.Variable(x.float().to(device))", True),
        ("mask = torch.ones(x.size(0)).bool().to(x.device)", True),
        ("mask = torch.ones(x.size(0), device=x.device).to(x.device)", False),
        ("mask = self.mask.to(x.device)", False),
        ("y = self.first(x).to(other_device)", False),
        ("y = self.first(x)\n        y = y.to(other_device)", False),
    ],
)
def test_a_forward_that_moves_its_batch(moved: str, told: bool) -> None:
    """What a model is given or makes on the host is copied; its own values it may have to move."""
    source = HEAD + (
        "class Moves(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.first, self.second = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)\n"
        "    def forward(self, x):\n"
        f"        {moved}\n"
        "        return self.second(x)\n"
        "\n"
        "net = Moves()\n"
        "for batch in loader:\n"
        "    criterion(net(batch), 1).backward()\n"
        "    optimizer.step()\n"
    )
    assert named(source) == ({"copy-inside": lines_of(source, moved)} if told else {})


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("net = torch.nn.DataParallel(Wrapper(Moves()))", True),
        ("net = Moves()\nnet = torch.nn.DataParallel(net) if several else Wrapper(net)", True),
        ("net = Moves() if moves else Wrapper(torch.nn.Linear(1, 1))", False),
    ],
)
def test_a_model_in_a_wrapper_is_run(made: str, told: bool) -> None:
    """Of several models one is run, and nobody knows which; a wrapper runs what it is given."""
    source = HEAD + (
        "class Moves(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = torch.nn.Linear(1, 1)\n"
        "    def forward(self, x):\n"
        "        return self.layer(x.cuda())\n"
        "\n"
        "class Wrapper(torch.nn.Module):\n"
        "    def __init__(self, inner):\n"
        "        super().__init__()\n"
        "        self.inner = inner\n"
        "    def forward(self, x):\n"
        "        return self.inner(x)\n"
        "\n"
        f"{made}\n"
        "for batch in loader:\n"
        "    criterion(net(batch), 1).backward()\n"
        "    optimizer.step()\n"
    )
    expected = {"copy-inside": lines_of(source, "return self.layer(x.cuda())")}
    assert named(source) == (expected if told else {})


@pytest.mark.parametrize(
    ("block", "told"), [("if ready:", False), ("if ready:\n      for _ in range(3):", True)]
)
def test_a_host_read_of_the_last_block(block: str, told: bool) -> None:
    """Behind the last update of a branch the clock stands still; a loop is timed as a whole."""
    body = """
head = torch.nn.Linear(4, 4)
slow = torch.optim.SGD(head.parameters(), lr=0.1)
for x in loader:
    loss = criterion(model(x), 1)
    loss.backward()
    optimizer.step()
    BLOCK
        other = criterion(head(x), 1)
        other.backward()
        slow.step()
        print(other.item())
"""
    source = HEAD + body.replace("BLOCK", block)
    at = {"host-read-inside": lines_of(source, "print(other")} if told else {}
    assert named(source) == at


def test_host_reads_beside_the_backward_of_a_branch() -> None:
    """A generator that trains from some iteration on: the block is timed with all that it reads."""
    sums = "".join(f"        sums[{n}] += fake.item()\n" for n in range(9))
    source = HEAD + (
        "critic = torch.nn.Linear(4, 1)\n"
        "slow = torch.optim.SGD(critic.parameters(), lr=0.1)\n"
        "for n, x in enumerate(loader):\n"
        "    if n > start:\n"
        "        fake = model(x)\n"
        f"{sums}"
        "        if adversarial:\n"
        "            fake = fake + critic(fake)\n"
        "            total += fake.item()  # inner\n"
        "        fake.mean().backward()\n"
        "        optimizer.step()\n"
        "    loss = critic(x).mean()\n"
        "    loss.backward()\n"
        "    slow.step()\n"
    )
    first, last = lines_of(source, "sums[0]", "# inner")
    assert named(source) == {"host-read-inside": [*range(first, first + 9), last]}


def test_a_host_read_is_told_once() -> None:
    """Ahead of a branch with a backward of its own on either side."""
    source = HEAD + (
        "for x in loader:\n"
        "    loss = model(x).mean()\n"
        "    total += loss.item()\n"
        "    if mixed:\n"
        "        scaler.scale(loss).backward()\n"
        "        scaler.step(optimizer)\n"
        "    else:\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
    )
    assert named(source) == {"host-read-inside": lines_of(source, "loss.item()")}


def test_of_modules_of_one_name_the_folder_is_told(tmp_path: Path) -> None:
    moving = "def moved(batch):\n    return batch.cuda()\n"
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "batches.py").write_text(moving)
    calls = "    criterion(model(one.batches.moved(other.batches.moved(batch))), 1).backward()\n"
    entry = f"import one.batches\nimport other.batches\n{HEAD}for batch in loader:\n{calls}"
    (tmp_path / "train.py").write_text(f"{entry}    optimizer.step()\n")
    warnings = locate_file(tmp_path / "train.py", Options(), [tmp_path]).warnings
    places = {w.place for w in warnings if w.kind == "copy-inside"}
    assert places == {"one/batches.py:2", "other/batches.py:2"}


def test_every_host_read_of_a_function_is_named() -> None:
    more = "if ready:\n        print(batch.sum().item())\n        print(batch.max().item())"
    source = HEAD + STEP.format(more=more)
    assert named(source) == {"host-read-inside": lines_of(source, "sum().item", "max().item")}


CHOSEN = """
import argparse

class Moving:
    def loss(self, x):
        return criterion(x, x.cuda())

class Plain:
    def loss(self, x):
        if args.verbose:
            print(x.mean().item())
        return criterion(x, 1)

parser = argparse.ArgumentParser()
parser.add_argument("--loss", default="plain")
parser.add_argument("--verbose", action="store_true")
args = parser.parse_args()
if args.loss == "plain":
    loss_of = Plain().loss
else:
    loss_of = Moving().loss
for x in loader:
    loss_of(model(x)).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), set()),
        (("--verbose",), {"host-read-inside"}),
        (("--loss", "moving"), {"copy-inside"}),
    ],
)
def test_what_the_options_leave_out_is_not_named(
    arguments: tuple[str, ...], told: set[str], tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(HEAD + CHOSEN)
    warnings = locate_file(path, Options(), [tmp_path], arguments).warnings
    assert {w.kind for w in warnings if w.kind.endswith("-inside")} == told
