"""The region inside of the function that makes the step, where its call may be other than that."""

from __future__ import annotations

import textwrap

import pytest

from tests.locate.cases import HEAD, around, lines_of, plan_of, rewritten, timed

UPDATE = """
class Trainer:
    def update(self, batch, {parameters}):
        loss = criterion(model(batch[0]), batch[1])
        if {test}:
            return loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

trainer = Trainer()
for batch in loader:
    loss = trainer.update({arguments})
"""


def updating(parameters: str, test: str, arguments: str) -> str:
    """A helper with a return ahead of its backward."""
    return HEAD + UPDATE.format(parameters=parameters, test=test, arguments=arguments)


def is_inside(source: str) -> bool:
    """Whether the region is begun in a function and not around its call in the loop."""
    code = rewritten(source).code.decode()
    begin = next(line for line in code.splitlines() if "_instrument.begin(" in line)
    call = next(line for line in code.splitlines() if line.startswith("for batch in loader"))
    return code.index(begin) < code.index(call)


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
    assert not is_inside(updating(parameters, test, arguments))


@pytest.mark.parametrize(
    ("parameters", "test", "arguments", "when"),
    [
        ("eval=False", "eval", "batch, eval=True", "not eval"),
        ("eval=False", "eval", "batch, flag", "not eval"),
        ("eval=False", "eval", "*batch", "not eval"),
        ("eval=False", "eval", "batch, **options", "not eval"),
        ("eval=1", "eval is not True", "batch", "not eval is not True"),
        ("eval=False", "eval or loss == 0", "batch", ""),
        ("eval=False", "loss == 0", "batch", ""),
    ],
)
def test_a_return_that_may_come(parameters: str, test: str, arguments: str, when: str) -> None:
    source = updating(parameters, test, arguments)
    assert is_inside(source)
    begin = around(rewritten(source), "_instrument.begin(")
    assert begin[1] == "loss = criterion(model(batch[0]), batch[1])"
    code = rewritten(source).code.decode()
    assert (f"when={when})" in code) if when else ("when=" not in code)


def test_a_method_called_on_its_class() -> None:
    source = updating("eval=True", "eval", "trainer, False").replace(
        "trainer.update", "Trainer.fix"
    )
    assert is_inside(source.replace("def update", "def fix"))


def test_a_parameter_set_anew_is_no_constant() -> None:
    source = updating("skip=False", "skip", "batch")
    changed = source.replace("        if skip:", "        skip = loss.isnan()\n        if skip:")
    assert is_inside(changed)
    assert "when=" not in rewritten(changed).code.decode()


FUNCTIONS = """
from functools import partial

def update(batch, train=True):
    loss = criterion(model(batch[0]), batch[1])
    if train:
        loss.backward()
        optimizer.step()
    return loss

def learn(batch, train=True):
    return update(batch, train)

"""


@pytest.mark.parametrize(
    ("call", "inside"),
    [
        ("learn(batch)", False),  # the constant goes down with the call
        ("learn(batch, flag)", True),
        ("partial(update, train=False)(batch)", True),
    ],
)
def test_a_constant_goes_down_with_the_call(call: str, inside: bool) -> None:
    source = HEAD + FUNCTIONS + f"for batch in loader:\n    {call}\n"
    assert is_inside(source) is inside
    assert plan_of(source)["loop"]["line"] == lines_of(source, "for batch in loader")[0]


MEMORY = """
def optimize():
    if len(memory) < 8:
        return
    x, y = memory.sample()
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

for batch in loader:
    memory.push(batch)
    optimize()
    step += 1
"""


def test_the_loop_keeps_its_stop_and_its_counter() -> None:
    source = HEAD + textwrap.dedent(MEMORY)
    plan = plan_of(source)
    loop, call = lines_of(source, "for batch in loader", "    optimize()")
    assert (plan["loop"]["line"], plan["call"]["line"]) == (loop, call)
    assert plan["label"] == "fwd+bwd"
    assert plan["counter"]["name"] == "step"
    assert plan["stop"]["line"] == call
    begin, end = lines_of(source, "    loss = criterion", "    loss.backward()")
    assert timed(plan) == {"start_line": begin, "end_line": end}


EVALUATES = """
def learn(batch):
    loss = criterion(model(batch[0]), batch[1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{behind}
    return loss

for batch in loader:
    loss = learn(batch)
"""


@pytest.mark.parametrize(
    ("behind", "inside"),
    [
        ("    with torch.no_grad():\n        held_out = model(batch[2])", True),
        ("    validate()", True),
        ("    with torch.no_grad():\n        average.mul_(0.9)", False),
        ("    scheduler.step()", False),
    ],
)
def test_an_evaluation_behind_the_update(behind: str, inside: bool) -> None:
    validate = "\ndef validate():\n    with torch.no_grad():\n        model(held_out)\n"
    source = HEAD + validate + EVALUATES.format(behind=behind)
    assert is_inside(source) is inside


def test_a_call_whose_every_path_comes_to_the_update_is_the_step() -> None:
    """The loss of a kind that no branch knows stands for no call without a step."""
    source = HEAD + textwrap.dedent("""
        def step(batch):
            score = model(batch)
            if config.kind in ("gan", "lsgan"):
                criterion(score, 1).backward()
            elif config.kind == "ragan":
                criterion(score - score.mean(), 1).backward()
            optimizer.step()

        for batch in loader:
            step(batch)
        """)
    assert not is_inside(source)
    assert is_inside(
        source.replace("    optimizer.step()\n", "    if score > 0:\n        optimizer.step()\n")
    )


@pytest.mark.parametrize(
    ("update", "inside"),
    [
        ("    if (i + 1) % 4 == 0:\n        optimizer.step()", True),
        ("    if amp:\n        scaler.step(optimizer)\n    else:\n        optimizer.step()", False),
        ("    for each in optimizers:\n        each.step()", False),
    ],
)
def test_an_update_that_not_every_call_makes(update: str, inside: bool) -> None:
    helper = "def learn(batch, i):\n    loss = criterion(model(batch[0]), batch[1])\n"
    call = "for batch in loader:\n    learn(batch, i)\n    i += 1\n"
    before = "scaler = torch.amp.GradScaler()\noptimizers = [optimizer]\n\n"
    source = f"{HEAD}{before}{helper}    loss.backward()\n{update}\n\n{call}"
    assert is_inside(source) is inside
    assert plan_of(source)["label"] == ("fwd+bwd" if inside else "step")
