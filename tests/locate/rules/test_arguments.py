"""What a script is called with may keep it from its loop: then it is declined with the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor import Options, explain

HEAD = """\
import argparse
import sys
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--evaluate", action="store_true")
parser.add_argument("--export", action="store_true")
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)

def validate(loader):
    model.eval()
    with torch.no_grad():
        for x in loader:
            print(model(x))
    model.train()

def train(loader):
    for x in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

def main(loader):
    if args.evaluate:
        validate(loader)
        {end}
    if not args.export:
        train(loader)

main([])
"""


@pytest.mark.parametrize("end", ["return", "sys.exit()", "exit(0)", "raise SystemExit"])
def test_a_script_that_only_evaluates_with_its_arguments_is_declined(
    tmp_path: Path, end: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(HEAD.format(end=end))
    line = HEAD.splitlines().index("    if args.evaluate:") + 1
    (reason,) = explain(script, Options(), ["--evaluate"]).reasons
    assert (reason.kind, reason.line) == ("not-reached", line)
    assert "only evaluates with these arguments" in reason.message


def test_one_that_does_something_else_is_not_said_to_evaluate(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(HEAD.format(end="return"))
    (reason,) = explain(script, Options(), ["--export"]).reasons
    assert "does not train with these arguments" in reason.message


@pytest.mark.parametrize("arguments", [[], ["--lr", "0.2"]])
def test_with_the_option_off_nothing_is_said(tmp_path: Path, arguments: list[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text(HEAD.format(end="return"))
    found = explain(script, Options(), arguments).plan
    assert found is not None
    assert not found.warnings


def test_one_of_several_calls_may_lead_there(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(HEAD.format(end="return") + "train([1])\n")
    assert explain(script, Options(), ["--evaluate"]).eligible
