"""Where the recorder is imported: behind the script's preamble, and ahead of what uses it."""

from __future__ import annotations

import ast

import pytest

from instrumentor import Options, rewrite
from instrumentor.runtime.bundle import MODULE

SCRIPT = '''\
"""Trains."""
from __future__ import annotations
import argparse
import math
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(30):
    loss = model(torch.randn(8, 4)).sum()
    loss.backward()
    optimizer.step()
'''


def order(options: Options) -> list[str]:
    """Statements of the module, as far as the recorder's: `import` and `use`, others as `.`."""
    found = []
    for statement in ast.parse(rewrite(SCRIPT, options).code).body:
        names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        brought = isinstance(statement, ast.ImportFrom) and statement.module == MODULE
        found.append("import" if brought else "use" if "_instrument" in names else ".")
    return found


def test_it_stands_behind_the_imports() -> None:
    assert order(Options())[5] == "import"


@pytest.mark.parametrize("first", [3, 4, 5, 6])
def test_it_stands_ahead_of_a_region_among_the_imports(first: int) -> None:
    found = order(Options(region=("", first, first + 1)))
    assert found.index("import") < found.index("use")
    assert found.index("import") == min(first - 1, 5)
