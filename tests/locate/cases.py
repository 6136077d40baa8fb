"""Small scripts to locate in: a loop body, with what every script has around it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from instrumentor import Options, Rewritten, rewrite

HEAD = """\
import torch
import torch_xla
import torch_xla.core.xla_model as xm

model = torch.nn.Linear(4, 4)
criterion = torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def looped(body: str, before: str = "", header: str = "for x, y in loader:") -> str:
    """A module with one loop; the body starts at line 9 when nothing stands before."""
    indented = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    setup = textwrap.dedent(before).strip("\n")
    return HEAD + (setup + "\n" if setup else "") + f"{header}\n{indented}\n"


def rewritten(source: str, **options: Any) -> Rewritten:
    """The source, rewritten under the name train.py."""
    return rewrite(source, Options(**options), filename="train.py")


def plan_of(source: str, **options: Any) -> dict[str, Any]:
    """The explanation of a source."""
    return dict(rewritten(source, **options).plan.explanation)


def timed(plan: Mapping[str, Any]) -> dict[str, int]:
    """The lines of a plan's region."""
    return {key: value for key, value in plan["region"].items() if key != "file"}


def lines_of(source: str, *marks: str) -> list[int]:
    """1-based lines that hold each text; the first one each."""
    lines = source.splitlines()
    return [next(n for n, line in enumerate(lines, 1) if mark in line) for mark in marks]


def around(result: Rewritten, mark: str) -> tuple[str, str]:
    """The lines before and after the first inserted line that holds a text, stripped."""
    lines = [line.strip() for line in result.code.decode().splitlines()]
    index = next(n for n, line in enumerate(lines) if mark in line)
    return lines[index - 1], lines[index + 1]
