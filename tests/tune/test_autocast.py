"""autocast around forward and loss, and nothing more; or why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.tune.edits import prepared, way_of
from instrumentor.tune.settings import setting
from instrumentor.tune.target import NotApplicable
from tests.tune.scripts import TORCH, accepted, configuration, set_by, target_of

AMP = setting("amp")
WITH = (
    "            with torch.autocast(next(model.parameters()).device.type, dtype=torch.bfloat16):\n"
)
FORWARD = "            outputs = model(images)\n"
LOSS = "            loss = criterion(outputs, labels)\n"


def mixed(folder: Path, text: str) -> str:
    """The script's text with autocast."""
    target = target_of(folder, text)
    return accepted(target, set_by(way_of(target, AMP), "bfloat16", target))


def test_forward_and_loss_go_into_the_block_and_backward_stays_out(tmp_path: Path) -> None:
    text = mixed(tmp_path, TORCH)
    indented = f"{WITH}    {FORWARD}    {LOSS[:-1]}"
    assert f"{indented}\n            loss.backward()\n" in text


def test_what_only_reads_the_loss_stays_outside(tmp_path: Path) -> None:
    text = mixed(tmp_path, TORCH.replace(LOSS, f"{LOSS}            shown = float(loss.detach())\n"))
    assert f"    {LOSS}            shown = float(loss.detach())\n" in text


def test_together_with_the_measuring(tmp_path: Path) -> None:
    target = target_of(tmp_path, TORCH)
    copy = prepared(target, configuration(amp="bfloat16", compile=True, num_workers=2))
    text = copy.replacements[target.script].decode()
    assert text.index("_instrument.begin(") < text.index("with torch.autocast(")
    assert text.index("with torch.autocast(") < text.index("loss.backward()")


LINES = """criterion(outputs, labels) * len('''a
            b''')"""
TWICE = "            loss.backward(retain_graph=True)\n            (outputs**2).sum().backward()\n"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("    optimizer =", "    scaler = torch.GradScaler()\n    optimizer =", "itself"),
        (
            f"{FORWARD}{LOSS}            loss.backward()\n",
            "            criterion(model(images), labels).backward()\n",
            "no statements of one block",
        ),
        ("criterion(outputs, labels)", LINES, "a text of several lines"),
        ("            loss.backward()\n", TWICE, "several backwards"),
    ],
)
def test_what_is_not_plain_is_refused(tmp_path: Path, old: str, new: str, why: str) -> None:
    assert old in TORCH
    with pytest.raises(NotApplicable, match=why):
        mixed(tmp_path, TORCH.replace(old, new))
