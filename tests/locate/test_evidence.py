"""How it is known what the parts of a step are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from instrumentor import Options
from instrumentor.locate import locate
from instrumentor.locate.evidence import findings
from instrumentor.read.program import Program
from instrumentor.read.syntax import parse
from tests.locate.cases import lines_of, looped, plan_of


@pytest.mark.parametrize(
    ("step", "known"),
    [
        (
            ("model(x)", "loss.backward()", "optimizer.step()"),
            ("type torch.nn.Linear", "use loss.backward", "type torch.optim.SGD"),
        ),
        (
            ("policy(x)", "torch.autograd.backward(loss)", "opt.step()"),
            ("spelling policy", "type torch.autograd.backward", "spelling opt"),
        ),
        (
            ("model(x)", "accelerator.backward(loss)", "finish()"),
            ("type torch.nn.Linear", "spelling accelerator.backward", "type torch.optim.SGD"),
        ),
    ],
)
def test_evidence(step: tuple[str, str, str], known: tuple[str, str, str]) -> None:
    body = "loss = criterion({}, y)\n{}\n{}".format(*step)
    source = looped(body, "def finish():\n    optimizer.step()")
    found = plan_of(source)["evidence"]
    assert [part["part"] for part in found] == ["forward", "backward", "step"]
    assert tuple(f"{part['by']} {part['name']}" for part in found) == known
    if step[2] == "finish()":  # shown where it is
        assert [found[-1]["line"]] == lines_of(source, "    optimizer.step()")


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


CHOICE = """
import argparse
from torch import nn

class Small(nn.Linear): ...
class Large(nn.Linear): ...

parser = argparse.ArgumentParser()
parser.add_argument("--size", default="large")
args = parser.parse_args()
if TEST == "small":
    net = Small(4, 4)
elif TEST == "large":
    net = Large(4, 4)
else:
    net = nn.Identity()
net = nn.DataParallel(net) if several else net
"""


@pytest.mark.parametrize(
    ("test", "arguments", "name"),
    [
        ("args.size", (), "Large"),
        ("args.size", ("--size", "small"), "Small"),
        ("size", (), "torch.nn.Identity, Large or Small"),
    ],
)
def test_the_type_is_that_of_what_the_options_make(
    test: str, arguments: tuple[str, ...], name: str
) -> None:
    source = looped(
        "criterion(net(x), y).backward()\noptimizer.step()", CHOICE.replace("TEST", test)
    )
    located = locate(parse(Path("train.py"), source.encode()), Options(), None, arguments)
    assert next(findings(located)).name == name


def test_a_backward_of_an_expression_is_called_so() -> None:
    plan = plan_of(looped("loss = criterion(model(x), y)\n(loss / 2).backward()\noptimizer.step()"))
    assert plan["evidence"][1]["name"] == "backward"
