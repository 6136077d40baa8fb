"""Which models are frozen and which tensors are trained: only those can make a forward."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.read.program import Program
from instrumentor.read.syntax import parse

MADE = "import torch\nteacher = torch.nn.Linear(4, 4)\nstudent = torch.nn.Linear(4, 4)\n"


def known(source: str) -> tuple[Knowledge, Program]:
    program = Program.single(parse(Path("train.py"), (MADE + source).encode()))
    return Knowledge(program), program


def is_model(source: str, name: str) -> bool:
    knowledge, program = known(source)
    return knowledge.is_model(program.entry, program.entry.tree, ast.Name(name, ast.Load()))


@pytest.mark.parametrize(
    "frozen",
    [
        "teacher.requires_grad_(False)",
        "for p in teacher.parameters():\n    p.requires_grad_(False)",
        "for p in teacher.parameters():\n    p.requires_grad = False",
        "for name, p in teacher.named_parameters():\n    p.requires_grad = False",
    ],
)
@pytest.mark.parametrize(
    ("again", "trained"),
    [
        ("", False),
        ("student.requires_grad_(True)", False),
        ("teacher.requires_grad_(True)", True),
        ("teacher.add_adapter(config)", True),
        ("teacher.head = torch.nn.Linear(4, 2)", True),
        ("torch.optim.SGD(teacher.parameters(), lr=0.1)", True),
        ("torch.optim.SGD([{'params': teacher[1].parameters()}], lr=0.1)", True),
    ],
)
def test_a_model_is_frozen_until_some_of_it_is_trained(
    frozen: str, again: str, trained: bool
) -> None:
    assert is_model(f"{frozen}\n{again}", "teacher") is trained
    assert is_model(f"{frozen}\n{again}", "student")


def test_a_model_is_not_frozen_by_a_test_on_the_name_of_its_parameters() -> None:
    some = "for name, p in teacher.named_parameters():\n    if 'head' not in name:\n        "
    assert is_model(some + "p.requires_grad_(False)", "teacher")
    assert is_model(some + "p.requires_grad = False", "teacher")


def test_tensors_that_are_trained() -> None:
    knowledge, program = known(
        "image = torch.rand(4).requires_grad_()\nmask = load()\nmask.requires_grad = True\n"
        "noise = torch.rand(4)\nother = torch.rand(4).requires_grad_(False)\n"
        "weights = build()\ntorch.optim.LBFGS([weights])\n"
    )
    names = program.names
    found = {
        name
        for name in ("image", "mask", "noise", "other", "weights")
        if knowledge.trained.leaves.intersection(
            names.named(program.entry, program.entry.tree, name)
        )
    }
    assert found == {"image", "weights"}  # what an unread call gave may be a batch
