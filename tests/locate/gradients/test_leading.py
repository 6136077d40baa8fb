"""Which statements a loss comes from, also in the blocks ahead of its backward."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from instrumentor.locate.gradients.leading import leading_to
from instrumentor.locate.loop.loops import find_candidates
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.read.program import Program
from instrumentor.read.syntax import parse
from tests.locate.cases import looped, rewritten


def leading(body: str) -> set[str]:
    """First lines of the statements that the backward's loss comes from."""
    source = parse(Path("train.py"), looped(body).encode())
    (candidate,) = find_candidates(Knowledge(Program.single(source)))
    found = set[ast.stmt]().union(*(leading_to(candidate, site) for site in candidate.sites))
    return {ast.unparse(statement).splitlines()[0] for statement in found}


STEP = "loss.backward()\noptimizer.step()"


@pytest.mark.parametrize(
    ("inside", "others"),
    [
        ("noise = sample(x)\nloss += model(noise).mean()", "print(loss)"),
        (
            "with torch.no_grad():\n    target = old(x)\nloss += criterion(model(x), target)",
            "seen()",
        ),
        ("outs = []\nouts.append(model(x))\nloss += sum(outs)", "total.append(loss)"),
        ("batch.out = model(x)\nloss += batch.out.mean()", "log(batch.out)"),
        ("before = after\nloss += model(before)\nafter = y.cos()", "seen(after)"),
    ],
)
def test_what_a_block_computes_of_the_loss(inside: str, others: str) -> None:
    block = "\n".join(f"    {line}" for line in f"{inside}\n{others}".splitlines())
    found = leading(f"loss = 0.0\nfor part in x:\n{block}\n{STEP}")
    assert {line.strip() for line in inside.splitlines()} <= found
    assert others not in found


def test_what_is_computed_anew_needs_nothing_of_its_old_value() -> None:
    block = "if wanted:\n    loss = validate(model)\n    model.train()\n    print(loss)"
    found = leading(f"{block}\nloss = model(x).mean()\n{STEP}")
    assert "loss = model(x).mean()" in found
    assert found.isdisjoint({"loss = validate(model)", "model.train()", "print(loss)"})


TARGETS = """\
def target(x):
    with torch.no_grad():
        return model(x)

for x, y in loader:
    loss = 0.0
    for part in x:
        with torch.no_grad():
            value = target(part)
        loss += criterion(model(part), value)
    if wanted:
        fake = target(x)
        loss += criterion(model(fake), y)
        print(fake.mean())
    loss.backward()
    optimizer.step()
"""


def test_a_target_that_a_block_computes_is_no_evaluation() -> None:
    source = looped("pass", header="if 1:") + TARGETS
    kinds = {w.kind for w in rewritten(source).plan.warnings}
    assert not {k for k in kinds if k.startswith("validation")}, kinds


TIMED = """\
@torch.no_grad()
def validate():
    return model(held_out).mean()

for x, y in loader:
    loss = criterion(model(x), y)
    if wanted:
        optimizer.param_groups[0]["lr"] = float(validate())
    loss.backward()
    optimizer.step()
"""


def test_one_note_tells_of_an_evaluation_that_is_timed() -> None:
    source = looped("pass", header="if 1:") + TIMED
    kinds = [w.kind for w in rewritten(source).plan.warnings]
    assert [k for k in kinds if k.startswith("validation")] == ["validation-inside"]
