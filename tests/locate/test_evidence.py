"""How it is known what the parts of a step are."""

from __future__ import annotations

import pytest

from tests.locate.cases import looped, plan_of

BODY = """\
loss = criterion({model}(x), y)
{backward}
{step}
"""


@pytest.mark.parametrize(
    ("model", "backward", "step", "by", "names"),
    [
        (
            *("model", "loss.backward()", "optimizer.step()"),
            ("type", "use", "type"),
            ("torch.nn.Linear", "loss.backward", "torch.optim.SGD"),
        ),
        (
            *("policy", "torch.autograd.backward(loss)", "opt.step()"),
            ("spelling", "type", "spelling"),
            ("policy", "torch.autograd.backward", "opt"),
        ),
        (
            *("model", "accelerator.backward(loss)", "finish()"),
            ("type", "spelling", "type"),
            ("torch.nn.Linear", "accelerator.backward", "torch.optim.SGD"),
        ),
    ],
)
def test_evidence(
    model: str, backward: str, step: str, by: tuple[str, ...], names: tuple[str, ...]
) -> None:
    body = BODY.format(model=model, backward=backward, step=step)
    found = plan_of(looped(body, "def finish():\n    optimizer.step()"))["evidence"]
    assert [part["part"] for part in found] == ["forward", "backward", "step"]
    assert tuple(part["by"] for part in found) == by
    assert tuple(part["name"] for part in found) == names


def test_a_step_in_a_helper_is_shown_where_it_is() -> None:
    source = looped(
        "loss = criterion(model(x), y)\nloss.backward()\nfinish()",
        "def finish():\n    optimizer.step()",
    )
    line = source.splitlines().index("    optimizer.step()") + 1
    assert plan_of(source)["evidence"][-1]["line"] == line
