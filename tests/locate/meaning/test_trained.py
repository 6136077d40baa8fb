"""Which tensors are trained: only those can make a forward."""

from __future__ import annotations

from pathlib import Path

from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.read.program import Program
from instrumentor.read.syntax import parse


def known(source: str) -> tuple[Knowledge, Program]:
    program = Program.single(parse(Path("train.py"), f"import torch\n{source}".encode()))
    return Knowledge(program), program


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
