"""Where the region begins when the output reaches the loss through an object or the module."""

from __future__ import annotations

import textwrap

import pytest

from instrumentor import Declined, Rewritten, rewrite
from tests.locate.cases import around, looped, rewritten

TRAINER = """\
import torch
import torch.nn.functional as F


class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
"""


def trainer(methods: str, body: str, header: str = "for x, y in loader:") -> str:
    """A class with the given methods, and one more whose loop has the given body."""
    loop = f"{header}\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
    fit = "def fit(self, loader):\n" + textwrap.indent(loop, "    ")
    inside = textwrap.dedent(methods).strip() + "\n\n" + fit
    return TRAINER + "\n" + textwrap.indent(inside, "    ") + "\n\nTrainer().fit(batches)\n"


COMPUTE = "def compute(self):\n    return F.cross_entropy({}, self.y)\n"
STEP = "loss.backward()\nself.optimizer.step()\n"
CALLED = """\
def set_input(self, batch):
    self.x, self.y = batch

def forward(self):
    self.fake = self.net(self.x)

def backward(self):
    self.loss = F.cross_entropy(self.fake, self.y)
    self.loss.backward()
"""

#: methods, body of the loop, text of the line that the region starts at
STARTS = {
    "loss_computed_in_the_backward_s_line": (
        COMPUTE.format("self.fake"),
        "self.y = y\nself.fake = self.net(x)\nself.compute().backward()\nself.optimizer.step()",
        "self.fake = self.net(x)",
    ),
    "methods_return_nothing": (
        CALLED,
        "self.set_input((x, y))\nself.forward()\nself.optimizer.zero_grad()\nself.backward()\n"
        "self.optimizer.step()",
        "self.forward()",
    ),
    "two_calls_deep": (
        COMPUTE.format("self.fake")
        + "\ndef finish(self):\n    self.differentiate()\n"
        + "\ndef differentiate(self):\n    self.compute().backward()\n",
        "self.y = y\nself.fake = self.net(x)\nself.finish()\nself.optimizer.step()",
        "self.fake = self.net(x)",
    ),
    "item_of_an_attribute": (
        COMPUTE.format("self.out['x']"),
        f"self.y = y\nself.out['x'] = self.net(x)\nloss = self.compute()\n{STEP}",
        "self.out['x'] = self.net(x)",
    ),
    "collected_in_a_list": (
        COMPUTE.format("torch.cat(self.outs)"),
        "self.y, self.outs = y, []\nfor part in x.chunk(2):\n    self.outs.append(self.net(part))\n"
        f"loss = self.compute()\n{STEP}",
        "for part in",
    ),
    "validation_s_score_is_read_too": (
        "@torch.no_grad()\ndef score_of(self, x):\n    self.score = self.net(x).mean()\n\n"
        "def compute(self, out, y):\n    return F.cross_entropy(out, y) + 0 * self.score\n",
        f"self.score_of(x)\nout = self.net(x)\nloss = self.compute(out, y)\n{STEP}",
        "out = self.net(x)",
    ),
    "type_of_the_data_is_asked_first": (
        "def loss_func(self, x, y):\n    return (self.parts(x) - y).pow(2).mean()\n",
        "if isinstance(x, list) and len(x) == 1:\n    x = x[0]\n"
        f"loss = self.loss_func(x, y)\n{STEP}",
        "loss = self.loss_func(",
    ),
}


def starts_at(source: str, mark: str) -> Rewritten:
    """Check that the region starts at the last line with the text, forward and begin alike."""
    result = rewritten(source)
    lines = source.splitlines()
    line = max(n for n, text in enumerate(lines, 1) if text.strip().startswith(mark))
    assert result.plan.explanation["region"]["start_line"] == line
    _, following = around(result, "_instrument.begin(")
    assert mark in following
    return result


@pytest.mark.parametrize("name", STARTS)
def test_output_goes_through_the_object(name: str) -> None:
    starts_at(trainer(*STARTS[name][:2]), STARTS[name][2])


def test_loop_variable_is_an_attribute() -> None:
    methods = "def criterion(self):\n    return F.cross_entropy(self.out, self.batch[1])\n"
    body = f"self.out = self.net(self.batch[0])\nloss = self.criterion()\n{STEP}"
    starts_at(trainer(methods, body, header="for self.batch in loader:"), "self.out = self.net(")


RUN = """

class Run:
    def __init__(self):
        self.part = Trainer()

    def fit(self, loader):
        for batch in loader:
            self.part.set_input(batch)
            self.part.forward()
            self.part.optimizer.zero_grad()
            self.part.backward()
            self.part.optimizer.step()


Run().fit(batches)
"""


def test_state_of_another_object() -> None:
    starts_at(f"{TRAINER}\n{textwrap.indent(CALLED, '    ')}{RUN}", "self.part.forward()")


@pytest.mark.parametrize(
    "forward", ["out = model(x)", "run()"], ids=["bound_in_the_loop", "bound_through_global"]
)
def test_names_of_the_module(forward: str) -> None:
    functions = """\
    def run():
        global out
        out = model(x)
    def compute_loss():
        return torch.nn.functional.cross_entropy(out, y)
    """
    body = f"{forward}\nloss = compute_loss()\nloss.backward()\noptimizer.step()"
    starts_at(looped(body, before=functions), forward)


def test_names_of_the_function_around() -> None:
    source = """\
import torch

def main(loader):
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def compute():
        return torch.nn.functional.cross_entropy(out, y)
    for x, y in loader:
        out = model(x)
        loss = compute()
        loss.backward()
        optimizer.step()

main(batches)
"""
    starts_at(source, "out = model(x)")


def declined(source: str) -> list[str]:
    with pytest.raises(Declined) as caught:
        rewrite(source, filename="train.py")
    return [reason.kind for reason in caught.value.reasons]


def test_loss_of_an_earlier_iteration_is_declined() -> None:
    source = trainer(
        "def backward(self):\n    self.loss.backward()\n",
        "self.optimizer.zero_grad()\nself.backward()\nself.optimizer.step()",
    )
    assert declined(source) == ["forward-unseen"]


ROLLOUT = """\
def rollout(self):
    self.saved = []
    state = self.env.reset()
    for _ in range(20):
        choice = torch.distributions.Categorical(logits=self.net(state))
        action = choice.sample()
        self.saved.append(choice.log_prob(action))
        state, _ = self.env.step(action)

def learn(self):
    loss = -torch.stack(self.saved).sum()
    loss.backward()
    self.optimizer.step()
"""


def test_rollout_in_a_method_is_no_forward() -> None:
    source = trainer(ROLLOUT, "self.rollout()\nself.learn()", header="for _ in range(100):")
    assert declined(source) == ["forward-apart"]


def test_a_sample_leaves_no_backward_of_the_step_out() -> None:
    """The policy learns from a rollout: a sample of the critic alone would not be the step."""
    policy = "loss = -torch.stack(self.saved).sum()\nloss.backward()\nself.optimizer.step()\n"
    critic = "self.critic(torch.ones(2, 4)).mean().backward()\nself.critic_optimizer.step()"
    source = trainer(ROLLOUT, f"self.rollout()\n{policy}{critic}", header="for _ in range(100):")
    assert declined(source) == ["forward-apart"]
    alone = trainer(ROLLOUT, f"self.rollout()\n{critic}", header="for _ in range(100):")
    starts_at(alone, "self.critic(")


@pytest.mark.parametrize("switch", ["noise.requires_grad = True", "noise.requires_grad_()"])
def test_a_leaf_is_one_from_its_switch_on(switch: str) -> None:
    attack = f"noise = torch.zeros_like(x)\nnoise = noise * 2\n{switch}\n"
    steps = "loss = model(x + noise).mean()\nloss.backward()\noptimizer.step()"
    starts_at(looped(attack + steps), "loss = model(x + noise)")


CLAMPED = """\
def clamped(t):
    return torch.max(torch.min(t, t + 1), t - 1)
def moved(batch):
    x, y = batch
    x = torch.cat((x, x))
    x, y = x.cuda(), y.cuda()
    return x, y
"""


@pytest.mark.parametrize(
    "ahead",
    [
        "noise = torch.zeros_like(x)\nnoise.data = clamped(noise)",
        "noise, y = moved((x, y))",
    ],
)
def test_what_a_function_makes_of_a_leaf_ahead_of_its_switch_is_data(ahead: str) -> None:
    switched = f"{ahead}\nnoise.requires_grad = True\n"
    steps = "loss = criterion(model(noise), y)\nloss.backward()\noptimizer.step()"
    starts_at(looped(switched + steps, CLAMPED), "loss = criterion(model(noise)")


def test_a_batch_that_is_made_to_need_a_gradient_starts_no_forward() -> None:
    """The region is in the method with the step, behind the one that only moves the batch."""
    methods = """\
def set_input(self, batch):
    image = torch.from_numpy(batch["image"]).float()
    self.image = image.to(self.device).requires_grad_(self.training)

def optimize(self):
    self.optimizer.zero_grad()
    loss = self.net(self.image).mean()
    loss.backward()
    self.optimizer.step()
"""
    source = trainer(methods, "self.set_input(x)\nself.optimize()")
    starts_at(source, "loss = self.net(self.image)")


@pytest.mark.parametrize("made", ["fake = model(x)", "fake = weight * x"])
def test_a_switch_leaves_the_graph_of_what_was_computed(made: str) -> None:
    before = "weight = torch.nn.Parameter(torch.ones(2))"
    steps = "fake.requires_grad_()\nloss = model(fake).mean()\nloss.backward()\noptimizer.step()"
    starts_at(looped(f"{made}\n{steps}", before), made)


def test_the_loss_is_what_a_forward_made() -> None:
    """Whatever runs the backward: nothing is known of a wrapper that nobody can read."""
    before = "from legacy import Wrapper\nwrapper = Wrapper(optimizer)"
    source = looped("loss = model(x).mean()\nwrapper.backward(loss)\noptimizer.step()", before)
    starts_at(source, "loss = model(x)")


OPAQUE = """\
from somewhere import Trainer

def search(trainer, generator):
    for batch in generator:
        trainer.optimizer.zero_grad()
        loss = trainer.batch_outputs(batch, for_training=True)["loss"]
        {backward}
        trainer.optimizer.step()

search(Trainer(), Trainer().generator())
"""


@pytest.mark.parametrize(
    "backward", ["loss.backward()", "(loss / 4).backward()", "scaler.scale(loss).backward()"]
)
def test_what_binds_the_loss_is_no_preparation(backward: str) -> None:
    starts_at(OPAQUE.format(backward=backward), "loss = trainer.batch_outputs(")


@pytest.mark.parametrize("stored", ["memory.pop()", "buffer.sample()", "losses[i]"])
def test_stored_loss_is_no_forward(stored: str) -> None:
    source = looped(f"loss = {stored}\nloss.backward()\noptimizer.step()")
    assert declined(source) == ["forward-unseen"]


KEPT = """\
import zoo
outs = []
for batch in loader:
    outs.append(zoo.scale(model(batch)))
"""


@pytest.mark.parametrize("loss", ["zoo.criterion(out)", "out.mean()"])
def test_what_an_earlier_loop_has_kept_is_no_forward_of_this_one(loss: str) -> None:
    """An unread call may be the loss of what the loop ahead has kept: it is not taken for more."""
    steps = f"loss = {loss}\nloss.backward()\noptimizer.step()"
    assert declined(looped(steps, KEPT, header="for out in outs:")) == ["forward-apart"]
    starts_at(looped(f"out = model(x)\n{steps}", KEPT), "out = model(x)")


def test_what_a_method_has_kept_is_no_forward_of_another_ones_loop() -> None:
    collect = (
        "def collect(self):\n    self.outs = []\n    for batch in self.data:\n"
        "        self.outs.append(zoo.scale(self.net(batch)))\n\n"
    )
    learn = (
        "def learn(self):\n    for out in self.outs:\n        loss = zoo.criterion(out)\n"
        "        loss.backward()\n        self.optimizer.step()\n"
    )
    run = "self.collect()\nself.learn()"
    source = trainer(collect + learn, run, header="for _ in range(100):")
    assert declined(f"import zoo\n{source}") == ["forward-apart"]


LEARNER = """\
import torch

class Learner:
    def __init__(self):
        self.w = torch.nn.Parameter(torch.randn(4, 2))
    def get_batch(self):
        return torch.randn(8, 4)
    def compute(self, inputs):
        return (inputs @ self.w).pow(2).mean()

class Meta:
    def __init__(self, learner):
        self.learner = learner
        self.optimizer = torch.optim.Adam([learner.w])
    def train(self, steps):
        for i in range(steps):
            self.optimizer.zero_grad()
            {fetch}
            loss = self.learner.compute({argument})
            loss.backward()
            self.optimizer.step()

Meta(Learner()).train(100)
"""


@pytest.mark.parametrize(
    ("fetch", "argument"),
    [
        ("inputs = self.learner.get_batch()", "inputs"),
        ("self.learner.set_epoch(i)", "self.learner.get_batch()"),
    ],
)
def test_model_s_own_data_is_fetched_first(fetch: str, argument: str) -> None:
    starts_at(LEARNER.format(fetch=fetch, argument=argument), "loss = self.learner.compute(")


LEFT_BY_A_FORWARD = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.last_loss = None

    def forward(self, x, y=None):
        output = self.layer(x)
        self.last_loss = None if y is None else (output - y).pow(2).mean()
        return output


net = Net()
whole = torch.nn.DataParallel(net) if several else net
plain = whole.module if several else whole
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler()
for x, y in loader:
    y = y.float()
    {forward}
    loss = plain.last_loss
    scaler.scale(loss).backward()
    scaler.step(optimizer)
"""


@pytest.mark.parametrize("forward", ["whole(x, y)", "output = net(x, y)", "run(whole, x, y)"])
def test_what_a_forward_leaves_in_its_model(forward: str) -> None:
    run = "def run(model, x, y):\n    return model(x, y)\n\n\nnet = Net()"
    starts_at(LEFT_BY_A_FORWARD.replace("net = Net()", run).format(forward=forward), forward)


LEFT_IN_A_WRAPPED_MODEL = """\
import torch


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.code = None

    def forward(self, x):
        self.code = self.layer(x)

    def at(self, place):
        return self.code[place]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.head = torch.nn.Linear(4, 2)

    def encode(self, x):
        {encode}

    def forward(self, place):
        return self.head({read})


class Render(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, place):
        return self.net(place)


net = Net()
render = Render(net).eval()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, place in loader:
    place = place.long()
    net.encode(x)
    loss = render(place).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("encode", "read"),
    [
        ("self.code = self.encoder.layer(x)", "self.code"),
        ("self.encoder(x)", "self.encoder.at(place)"),
        ("self.encoder(x)", "self.encoder.code"),
    ],
)
def test_what_a_method_leaves_in_a_model_that_another_one_runs(encode: str, read: str) -> None:
    source = LEFT_IN_A_WRAPPED_MODEL.format(encode=encode, read=read)
    starts_at(source, "net.encode(x)")


def test_what_a_model_keeps_and_does_not_read_again_starts_nothing() -> None:
    source = LEFT_IN_A_WRAPPED_MODEL.format(encode="self.encoder(x)", read="place.float()")
    starts_at(source, "loss = render(place).mean()")


STEPPED_IN_THE_GRAPH = """\
import contextlib
import torch


@contextlib.contextmanager
def adapted(net):
    fast = copies.functional(net)
    yield fast, copies.optimizer(fast)


net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    x = x.float()
    {bound} adapted(net){as_what}
        for turn in range(3):
            inner_loss = fast(x).mean()
            inner.step(inner_loss)
        loss = fast(y).mean()
        loss.backward()
    optimizer.step()
"""


def test_a_model_that_is_stepped_by_a_loss_is_made_of_it() -> None:
    source = STEPPED_IN_THE_GRAPH.format(bound="with", as_what=" as (fast, inner):")
    starts_at(source, "for turn in range(3):")


def test_what_came_from_elsewhere_is_not() -> None:
    apart = STEPPED_IN_THE_GRAPH.replace(
        "optimizer =", "fast, inner = net, schedule()\noptimizer ="
    )
    source = apart.format(bound="with", as_what=":").replace("fast(x)", "probe(x)")
    starts_at(source, "loss = fast(y).mean()")


def test_an_attribute_of_a_model_that_is_not_read_is_named() -> None:
    source = LEFT_BY_A_FORWARD.format(forward="whole(x, y)").replace(
        "net = Net()", "net = models.make()"
    )
    with pytest.raises(Declined) as caught:
        rewrite(source, filename="train.py")
    reason = caught.value.reasons[0]
    assert (reason.kind, "plain.last_loss at train.py" in reason.message) == (
        "forward-unseen",
        True,
    )
