"""The region inside of the function that makes the step, where its call may be other than that."""

from __future__ import annotations

import pytest

from tests.locate.cases import HEAD, around, holds, lines_of, plan_of, rewritten, tables

UPDATE = """
class Trainer:
    {decorator}
    def update(self, batch, {parameters}):
        loss = criterion(model(batch[0]), batch[1])
        if {test}:
            return loss
        loss.backward()
        optimizer.step()
        return loss

trainer = Trainer()
for batch in loader:
    loss = {call}
"""


def is_inside(source: str) -> bool:
    """Whether the region is begun in a function and not around its call in the loop."""
    ahead, _, _ = rewritten(source).code.decode().partition("_instrument.begin(")
    return "for batch in loader" not in ahead


@pytest.mark.parametrize(
    ("parameters", "test", "arguments"),
    [
        ("eval=False", "eval", "batch, eval=False"),
        ("eval", "eval", "batch, False"),
        ("eval=False", "eval", "batch"),
        ("*, train=True", "not train", "batch"),
        ("mode='train'", "mode != 'train'", "batch"),
        ("mode", "mode == 'eval'", "batch, mode='train'"),
        ("skip=None", "skip is not None", "batch"),
        ("dry=False", "dry and len(batch)", "batch"),
    ],
)
def test_a_return_that_this_call_rules_out(parameters: str, test: str, arguments: str) -> None:
    """A graph is not opened: its call is the step as long as each makes one."""
    source = HEAD + UPDATE.format(
        decorator="@torch.compile",
        parameters=parameters,
        test=test,
        call=f"trainer.update({arguments})",
    )
    assert not is_inside(source)


@pytest.mark.parametrize(
    ("parameters", "test", "call", "when"),
    [
        ("eval=False", "eval", "trainer.update(batch, flag)", "not eval"),
        ("eval=False", "eval", "trainer.update(*batch)", "not eval"),
        ("eval=False", "eval", "trainer.update(batch, **options)", "not eval"),
        ("eval=1", "eval is not True", "trainer.update(batch)", "not eval is not True"),
        ("eval=False", "eval or loss == 0", "trainer.update(batch)", "not eval"),
        ("eval=True", "eval", "Trainer.update(trainer, False)", "not eval"),
        # a parameter that is set anew is no constant
        ("skip=False", "(skip := loss.isnan())", "trainer.update(batch)", ""),
    ],
)
def test_a_return_that_may_come(parameters: str, test: str, call: str, when: str) -> None:
    source = HEAD + UPDATE.format(decorator="", parameters=parameters, test=test, call=call)
    assert is_inside(source)
    code = rewritten(source).code.decode()
    assert (f"when={when})" in code) if when else ("when=" not in code)
    assert around(rewritten(source), "_instrument.begin(")[1].startswith("loss = criterion(")


FUNCTIONS = """
from functools import partial

def update(batch, train=True):
    loss = criterion(model(batch[0]), batch[1])
    if train:
        loss.backward()
        optimizer.step()
    return loss

DECORATOR
def learn(batch, train=True):
    return update(batch, train)

"""


@pytest.mark.parametrize(
    ("decorator", "call", "inside"),
    [
        ("@torch.compile", "learn(batch)", False),  # the constant goes down with the call
        ("", "learn(batch, flag)", True),
        ("", "partial(update, train=False)(batch)", True),
    ],
)
def test_a_constant_goes_down_with_the_call(decorator: str, call: str, inside: bool) -> None:
    source = (
        HEAD + FUNCTIONS.replace("DECORATOR", decorator) + f"for batch in loader:\n    {call}\n"
    )
    assert is_inside(source) is inside
    assert plan_of(source)["loop"]["line"] == lines_of(source, "for batch in loader")[0]


STEPS = tables(
    """
=== the loop keeps its stop and its counter
def optimize():
    if len(memory) < 8:
        return
    x, y = memory.sample()
    > begin
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    > end
    optimizer.step()

for batch in loader:
    memory.push(batch)
    optimize()
    step += 1
    > stop
=== what its factory was given is known of it
def make(train, finish=None):
    def step(net, x):
        if train:
            > begin
            loss = net(x).mean()
            loss.backward()
            > end
            finish()
        else:
            with torch.no_grad():
                loss = net(x).mean()
        return loss
    return step
def scaled():
    if config.centred:
        return lambda x: 2 * x - 1
    return lambda x: x
scale, other = scaled(), make(False)
learn = make(True, optimizer.step)
for x, y in loader:
    x = scale(x)
    loss = learn(model, x)
    > stop
    if other(model, x) < 1:
        break
=== what follows the backward is not timed
optimizers = [optimizer]
def learn(batch):
    > begin
    score = model(batch)
    if config.kind == "gan":  #! branch-without-samples
        criterion(score, 1).backward()
        > end
    elif config.kind == "ragan":
        criterion(score - score.mean(), 1).backward()
        > end
    if amp:
        scaler.step(optimizer)
    else:
        for each in optimizers:
            each.step()
    with torch.no_grad():
        average.mul_(0.9)
    scheduler.step()
for batch in loader:
    learn(batch)
    > stop
=== a forward ahead of the call
def learn(score):
    criterion(score, 1).backward()
    optimizer.step()
for batch in loader:
    > begin
    score = model(batch)
    learn(score)  #! longer-sample
    > end label="step"
    > stop
=== a sync behind the call ends the sample
def learn(batch):
    loss = criterion(model(batch), 1)
    loss.backward()
    return loss
for batch in loader:
    > begin
    learn(batch)
    torch_xla.sync()
    > end synced=True
    optimizer.step()
    > stop
=== calls from elsewhere would be samples as well
def learn(batch):
    loss = criterion(model(batch), 1)
    loss.backward()
    optimizer.step()
learn(example)
for batch in loader:
    > begin
    learn(batch)  #! longer-sample
    > end label="step"
    > stop
=== one that may come to none is not
def step(batch):
    > begin
    score = model(batch)
    if config.kind in ("gan", "lsgan"):  #! branch-without-samples
        criterion(score, 1).backward()
        > end
    elif config.kind == "ragan":
        criterion(score - score.mean(), 1).backward()
        > end
    if score > 0:
        optimizer.step()

for batch in loader:
    step(batch)
    > stop
=== an evaluation behind the update that sets its rate
def validate():
    with torch.no_grad():
        optimizer.param_groups[0]["lr"] = float(model(held_out).mean())
def learn(batch):
    > begin
    loss = criterion(model(batch[0]), batch[1])
    loss.backward()
    > end
    optimizer.step()
    > kept
    validate()  #! validation-between
    > kept
    return loss
for batch in loader:
    loss = learn(batch)
    > stop
=== an update that only some calls make
def learn(batch, i):
    > begin
    loss = criterion(model(batch[0]), batch[1])
    loss.backward()
    > end
    if (i + 1) % 4 == 0:
        optimizer.step()
for i, batch in enumerate(loader):
    learn(batch, i)
    > stop
"""
)


@pytest.mark.parametrize("name", STEPS)
def test_what_a_call_does_beside_the_step(name: str) -> None:
    holds(STEPS[name])


def test_the_loop_keeps_its_counter() -> None:
    script = "def learn(x):\n    if skip: return\n    model(x).sum().backward()\n"
    source = HEAD + script + "for x in loader:\n    learn(x)\n    optimizer.step()\n    step += 1\n"
    plan = plan_of(source)
    loop, call = lines_of(source, "for x in loader", "    learn(x)")
    assert (plan["loop"]["line"], plan["call"]["line"]) == (loop, call)
    assert plan["counter"]["name"] == "step"


PARTS = """
from easydict import EasyDict

class Networks:
    def build(self):
        self.net = torch.nn.Linear(4, 4)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

class Losses:
    def build_losses(self):
        self.measure = self.distance

    def distance(self):
        self.batch.loss = (self.batch.made - self.batch.wanted).abs().mean()

class Steps:
    def update(self):
        self.optimizer.zero_grad()
        self.run()
        self.batch.loss.backward()
        self.optimizer.step()
        print(self.batch.loss.item())

    def run(self):
        self.batch.made = self.net(self.batch.x)
        self.measure()

class Trainer({bases}):
    def train(self):
        for batch in loader:
            self.batch = {container}(batch)
            self.update()

trainer = Trainer()
trainer.build()
trainer.build_losses()
trainer.train()
"""


@pytest.mark.parametrize("container", ["EasyDict", "dict"])
def test_parts_of_a_class_that_run_each_other(container: str) -> None:
    """What holds the batch runs no model, whoever wrote it; the clock stands at the step itself."""
    source = HEAD + PARTS.format(bases="Networks, Losses, Steps", container=container)
    begin, end = lines_of(source, "self.run()", "self.batch.loss.backward()")
    region = plan_of(source)["region"]
    assert (region["start_line"], region["end_line"]) == (begin, end)


def test_an_unread_call_is_a_forward_where_nothing_else_can_be() -> None:
    parts = PARTS.format(bases="Steps", container="library.Runner")
    source = HEAD + parts.replace("self.run()", "self.batch.loss = self.batch.run()")
    begin = lines_of(source, "self.batch = library.Runner(")
    assert plan_of(source)["region"]["start_line"] in begin
