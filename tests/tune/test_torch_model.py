"""The model compiled or laid out where it is made; TF32 before anything is computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.tune.edits import way_of
from instrumentor.tune.settings import setting
from instrumentor.tune.target import NotApplicable
from tests.tune.scripts import TORCH, accepted, set_by, target_of


def after(folder: Path, text: str, name: str) -> str:
    """The script's text with a setting on."""
    target = target_of(folder, text)
    return accepted(target, set_by(way_of(target, setting(name)), True, target))


def has(folder: Path, text: str, name: str) -> bool:
    """Whether the script has it on itself."""
    return way_of(target_of(folder, text), setting(name)).own is not None


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("compile", "model.compile()"),
        ("channels_last", "model = model.to(memory_format=torch.channels_last)"),
    ],
)
def test_behind_the_model_ahead_of_its_optimizer(tmp_path: Path, name: str, code: str) -> None:
    assert f"    model = Net()\n    {code}\n    optimizer = " in after(tmp_path, TORCH, name)
    assert not has(tmp_path, TORCH, name)


def test_tf32_behind_the_imports(tmp_path: Path) -> None:
    text = after(tmp_path, TORCH, "tf32")
    assert 'DataLoader, Dataset\ntorch.set_float32_matmul_precision("high")\n\n\nclass' in text


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("compile", "    model = torch.compile(model)\n"),
        ("compile", '    model.compile(mode="default")\n'),
        ("channels_last", "    model.to(memory_format=torch.channels_last)\n"),
        ("tf32", '    torch.set_float32_matmul_precision("highest")\n'),
        ("tf32", "    torch.backends.cuda.matmul.allow_tf32 = True\n"),
    ],
)
def test_what_a_script_has_itself(tmp_path: Path, name: str, line: str) -> None:
    assert has(tmp_path, TORCH.replace("    optimizer =", f"{line}    optimizer ="), name)


def test_a_regular_expression_is_no_compiled_model(tmp_path: Path) -> None:
    script = TORCH.replace("import torch\n", "import re\nimport torch\n")
    assert not has(tmp_path, script.replace("    crit", "    re.compile('x')\n    crit"), "compile")


@pytest.mark.parametrize(
    ("old", "new", "name", "why"),
    [
        ("import torch\n", "import torch as t\n", "tf32", "does not import torch at its top"),
        ("model = Net()", "[model] = [Net()]", "compile", "is not made in this module"),
    ],
)
def test_a_place_that_is_not_plain_is_refused(
    tmp_path: Path, old: str, new: str, name: str, why: str
) -> None:
    with pytest.raises(NotApplicable, match=why):
        after(tmp_path, TORCH.replace(old, new).replace("torch.manual", "t.manual"), name)
