"""Scripts to be tuned, and what the tests of tuning ask of them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from instrumentor.rewrite.engine import apply_edits
from instrumentor.rewrite.proofs import prove
from instrumentor.shared.options import Options
from instrumentor.tune.edits import accept
from instrumentor.tune.settings import Configuration, Value
from instrumentor.tune.statements import Changes, Way
from instrumentor.tune.target import Target, read_target
from tests.conftest import ROOT
from tests.waiting import wait_for

STANDINS = ROOT / "tests" / "standins" / "tuning"

#: Runs on the stand-ins in tests/standins/tuning.
TRAIN = '''\
"""A training script."""
import torch
import torch_xla
import torch_xla.core.xla_model as xm


def train():
    device = xm.xla_device()
    options = {"optimization_level": 0}
    torch_xla.set_custom_compile_options(options)
    model = torch.Linear()
    model = model.to(device)
    optimizer = torch.SGD(model.parameters())
    batch_size = 4  # what fits
    for step in range(60):
        batch = torch.randn(batch_size, 8)
        optimizer.zero_grad()
        loss = model(batch)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    train()
'''


#: Runs on torch itself, on the CPU.
TORCH = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 2048

    def __getitem__(self, index):
        return torch.full((3, 8, 8), index % 7 / 7.0), index % 10


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.head = nn.Linear(8 * 6 * 6, 10)

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).flatten(1))


def main():
    torch.manual_seed(0)
    images = Images()
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    val_loader = DataLoader(images)
    device = next(model.parameters()).device
    loader = DataLoader(images, batch_size=32, shuffle=True)  # of training
    for epoch in range(2):
        for images, labels in loader:
            optimizer.zero_grad()
            outputs = model(images)
            loss = criterion(outputs, labels)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""


def target_of(
    folder: Path, text: str, *arguments: str, files: dict[str, str] | None = None
) -> Target:
    """The target of a script written into a folder that is a project."""
    (folder / "pyproject.toml").write_text("")
    for name, content in {"train.py": text, **(files or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return read_target(folder / "train.py", arguments, folder, Options(steps=13, warmup=3))


def configuration(**values: Value) -> Configuration:
    """A configuration of names and values."""
    return Configuration.of(values)


def wait_for_file(process: subprocess.Popen[str], folder: Path, pattern: str) -> None:
    """Wait for a file of a tuning under way; its own words when it ends before that."""
    wait_for(lambda: process.poll() is not None or list(folder.glob(pattern)))
    assert process.poll() is None, process.communicate()


def accepted(target: Target, changes: Changes) -> str:
    """The script's text with changes made for good."""
    variant = changes.variant()
    edits = [edit for path, edit in variant.edits if path == target.script]
    before = target.script.read_bytes()
    code = apply_edits(before, edits)
    prove(before, code, edits, allowed_names=variant.rebinds)
    return accept(code).decode()


def changed(folder: Path, text: str, apply: Callable[[Target, Changes], None]) -> str:
    """A script's text once one kind of change was made to it; the same text where there is none."""
    target, changes = target_of(folder, text), Changes()
    apply(target, changes)
    return accepted(target, changes)


def set_by(way: Way, value: Value, target: Target) -> Changes:
    """The changes that a way makes for a value."""
    changes = Changes([*target.arguments])
    way.apply(value, changes)
    return changes


#: Inference with everything switched on already, in the shape of tt-xla's guide.
INFER = """\
import os

os.environ["TT_RUNTIME_TRACE_REGION_SIZE"] = "10000000"

import torch
import torch_xla
import torch_xla.core.xla_model as xm


def main():
    model = Net().eval()
    model = model.to(dtype=torch.bfloat16)
    torch_xla.set_custom_compile_options(
        {
            # The highest one.
            "optimization_level": 2,
            "enable_trace": "true",
            "enable_bfp8_conversion": "true",
        }
    )
    model.compile(backend="tt")
    device = xm.xla_device()
    model = model.to(device)
    batch_size = 64
    infer(model, device, torch.randn((batch_size, 8), dtype=torch.bfloat16), 128)


def infer(model, device, batch, count):
    with torch.no_grad():
        for _ in range(count):
            on_device = batch.to(device)
            output = model(on_device)
            output.to("cpu")


if __name__ == "__main__":
    main()
"""
