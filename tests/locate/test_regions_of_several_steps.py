"""Several optimizer steps in one iteration: a sample is all of it, labelled `step`."""

from __future__ import annotations

import pytest

from tests.locate.cases import HEAD, around, looped, rewritten

STEPS: dict[str, tuple[str, str, str]] = {
    "gan": (
        "fake = generator(noise)",
        "optimizer_g.step()",
        """\
optimizer_d = torch.optim.Adam(discriminator.parameters())
optimizer_g = torch.optim.Adam(generator.parameters())
for real in loader:
    fake = generator(noise)
    loss_d = criterion(discriminator(real), ones) + criterion(discriminator(fake.detach()), zeros)
    optimizer_d.zero_grad()
    loss_d.backward()
    optimizer_d.step()
    loss_g = criterion(discriminator(fake), ones)
    optimizer_g.zero_grad()
    loss_g.backward()
    optimizer_g.step()
""",
    ),
    "sac": (
        "q_loss = (qf(",
        "if step % 2 == 0:",
        """\
q_optimizer = torch.optim.Adam(qf.parameters())
actor_optimizer = torch.optim.Adam(actor.parameters())
for step in range(1000):
    data = buffer.sample(64)
    q_loss = (qf(data.observations) - targets(data)).pow(2).mean()
    q_optimizer.zero_grad()
    q_loss.backward()
    q_optimizer.step()
    if step % 2 == 0:
        actor_loss = -qf(actor(data.observations)).mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()
""",
    ),
    "gan_in_helpers": (
        "a = train_discriminator(x)",
        "b = train_generator(x)",
        """\
def train_discriminator(x):
    loss = criterion(discriminator(x), 1)
    loss.backward()
    optimizer_d.step()
    return loss

def train_generator(x):
    loss = criterion(discriminator(generator(x)), 1)
    loss.backward()
    optimizer_g.step()
    return loss

for x in loader:
    a = train_discriminator(x)
    b = train_generator(x)
""",
    ),
    "gan_in_a_class": (
        "gan.optimize()",
        "gan.optimize()",
        """\
class Gan:
    def optimize(self):
        self.backward_d()
        self.optimizer_d.step()
        self.backward_g()
        self.optimizer_g.step()

    def backward_d(self):
        self.loss_d = self.criterion(self.discriminator(self.real))
        self.loss_d.backward()

    def backward_g(self):
        self.loss_g = self.criterion(self.discriminator(self.generator(self.noise)))
        self.loss_g.backward()

gan = Gan()
for gan.real, gan.noise in loader:
    gan.optimize()
""",
    ),
    "inner_and_outer_optimizer": (
        "learner = clone(model)",
        "optimizer.step()",
        """\
for task in tasks:
    learner = clone(model)
    for x, y in task:
        inner = criterion(learner(x), y)
        inner.backward()
        inner_optimizer.step()
    outer = criterion(learner(task.x), task.y)
    outer.backward()
    optimizer.step()
""",
    ),
    "two_steps_of_one_optimizer": (
        "first = criterion",
        "optimizer.step()",
        """\
for x, y in loader:
    first = criterion(model(x), y)
    first.backward()
    optimizer.step()
    second = criterion(model(y), x)
    second.backward()
    optimizer.step()
""",
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_from_the_first_forward_to_the_last_update(name: str) -> None:
    begin, end, body = STEPS[name]
    result = rewritten(HEAD + body)
    plan = result.plan.explanation
    assert (plan["label"], plan["scope"]) == ("step", "step")
    assert around(result, "_instrument.begin(")[1].startswith(begin)
    source = (HEAD + body).splitlines()
    assert source[plan["region"]["start_line"] - 1].strip().startswith(begin)
    assert any(
        end in line for line in source[plan["stop"]["line"] - 1 : plan["region"]["end_line"]]
    )
    assert around(result, "_instrument.finished(")[0].startswith("_instrument.end(")


def test_a_helper_with_a_loop_of_its_own_is_part_of_the_iteration() -> None:
    helper = """\
def warm(x):
    for part in x:
        criterion(model(part), part).backward()
        optimizer.step()
"""
    body = "warm(x)\nloss = criterion(model(x), y)\nloss.backward()\noptimizer.step()"
    result = rewritten(looped(body, helper))
    assert result.plan.explanation["label"] == "step"
    assert around(result, "_instrument.begin(")[1] == "warm(x)"


def test_two_optimizers_of_one_backward_are_stepped_behind_it() -> None:
    more = "other = torch.optim.SGD(model.parameters(), lr=0.1)"
    body = "loss = criterion(model(x), y)\nloss.backward()\noptimizer.step()\nother.step()"
    result = rewritten(looped(body, more))
    assert result.plan.explanation["label"] == "fwd+bwd"
    assert around(result, "_instrument.finished(")[0] == "other.step()"
