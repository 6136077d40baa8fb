"""Where the model is called and where it is made, or why that is not plain."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.read.syntax import dotted
from instrumentor.tune.model_places import forward, made
from instrumentor.tune.target import NotApplicable
from tests.tune.scripts import TORCH, target_of


def test_the_call_of_the_loop_and_the_last_binding_ahead_of_the_optimizer(tmp_path: Path) -> None:
    moved = TORCH.replace("model = Net()\n", "model = Net()\n    model = model.to('cpu')\n")
    source, call = forward(target_of(tmp_path, moved))
    assert dotted(call.func) == "model" and call.lineno == 37
    assert made(source, "model", call).lineno == 28


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("    optimizer = ", "    model2 = Net()\n    optimizer = ", "`other` is not made"),
        ("def main", "other = 1\n\n\ndef other_main():\n    other = 2\n\n\ndef main", "in several"),
    ],
)
def test_no_place_or_several(tmp_path: Path, old: str, new: str, why: str) -> None:
    source, call = forward(target_of(tmp_path, TORCH.replace(old, new)))
    with pytest.raises(NotApplicable, match=why):
        made(source, "other", call)


def test_a_module_without_torch_by_that_name_is_refused(tmp_path: Path) -> None:
    renamed = TORCH.replace("import torch\n", "import torch as t\n")
    for name in ("manual_seed", "full", "relu", "optim.AdamW"):
        renamed = renamed.replace(f"torch.{name}", f"t.{name}")
    with pytest.raises(NotApplicable, match="does not import torch by name"):
        forward(target_of(tmp_path, renamed))
