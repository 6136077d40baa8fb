"""Why a script shows no loop: what it imports from folders that nobody searches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from instrumentor import Options
from instrumentor.locate import locate_file
from instrumentor.locate.located import Declined, Reason

STEPS = """\
import torch

net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

def train(loader):
    for x in loader:
        net(x).sum().backward()
        optimizer.step()
"""
SCRIPT = "import torch\nfrom steps import train\n\ntrain(data)\n"


def reason(folder: Path, *held: str) -> Reason:
    """Why a script is declined, with the module that it imports in these folders."""
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    for name in held:
        (folder / name).mkdir()
        (folder / name / "steps.py").write_text(STEPS, encoding="utf-8")
    with pytest.raises(Declined) as caught:
        locate_file(folder / "train.py", Options(), [folder])
    return caught.value.reasons[0]


def test_a_module_in_a_folder_that_is_not_searched_is_named(tmp_path: Path) -> None:
    declined, near = reason(tmp_path, "lib"), os.path.relpath(tmp_path / "lib")
    assert (declined.line, declined.kind) == (2, "no-loop")
    assert "steps of train.py:2 is not read" in declined.message
    assert declined.remedy.endswith(f"PYTHONPATH={near}")
    found = locate_file(tmp_path / "train.py", Options(), [tmp_path, tmp_path / "lib"])
    assert found.candidate.source.path.name == "steps.py"


@pytest.mark.parametrize("held", [(), ("lib", "other")])
def test_no_folder_is_named_where_it_may_be_another(held: tuple[str, ...], tmp_path: Path) -> None:
    assert "is not read" not in reason(tmp_path, *held).message
