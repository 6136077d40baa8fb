"""How it is known what the parts of a step are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from instrumentor import Options
from instrumentor.locate import locate
from instrumentor.locate.evidence import findings
from instrumentor.locate.program import Program
from instrumentor.locate.syntax import parse
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


def test_helpers_that_call_each_other_are_looked_through_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = "    finish5()\n    finish5()\n"
    helpers = "def finish5():\n    pass\n"
    for number in range(4, -1, -1):
        helpers += f"def finish{number}():\n{calls}"
        calls = f"    finish{number}()\n" * 4
    helpers += f"def finish():\n{calls}    optimizer.step()\n"
    source = looped("loss = criterion(model(x), y)\nloss.backward()\nfinish()", helpers)
    located = locate(parse(Path("train.py"), source.encode()), Options())
    program = located.knowledge.program
    asked: list[object] = []

    def resolve(*at: Any) -> Any:
        asked.append(at)
        return Program.resolve(program, *at)

    monkeypatch.setattr(program, "resolve", resolve)
    assert [found.part for found in findings(located)][-1] == "step"
    assert len(asked) < 50
