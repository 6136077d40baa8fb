"""Modules without parameters make data of a batch, and a part of the forward of what is trained."""

from __future__ import annotations

import pytest

from tests.locate.cases import lines_of, looped, plan_of

BEFORE = """
import kornia.augmentation as K
import library
import torchaudio
from torch import nn
from torchvision import transforms

class Flip(nn.Module):
    def __init__(self, chance=0.5):
        super().__init__()
        self.chance = chance
    def forward(self, x):
        return mirrored(x) if torch.rand(1) < self.chance else x

def mirrored(x):
    return x.flip(-1)

class Crops(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.parts = nn.Sequential(nn.ReflectionPad2d(4), K.RandomCrop((size, size)))
        self.register_buffer("mean", torch.zeros(3))
    @torch.no_grad()
    def forward(self, x):
        return self.parts(x) - self.mean

class Steered(Crops):
    def __init__(self, size):
        super().__init__(size)
        self.amount = nn.Parameter(torch.zeros(3))
    def forward(self, x):
        return self.parts(x) * self.amount

class Nested(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.pool = inner, nn.AvgPool2d(2)
    def forward(self, x):
        return self.pool(self.inner(x))

def chosen(count):
    parts = [K.RandomCrop((32, 32))]
    if count:
        parts.append(K.RandomHorizontalFlip())
    return nn.Sequential(*parts)
"""
OF_DATA = [
    "nn.Sequential(K.RandomCrop((32, 32)), K.Normalize(0.5, 0.5)).to(device)",
    "nn.Sequential(transforms.RandomCrop(32), Flip())",
    "torch.jit.script(nn.Sequential(transforms.RandomCrop(32)))",
    "K.AugmentationSequential(K.RandomCrop((32, 32)), data_keys=['input'])",
    "nn.Sequential(torchaudio.transforms.MelSpectrogram(), torchaudio.transforms.AmplitudeToDB())",
    "nn.Upsample(scale_factor=2)",
    "Crops(32)",
    "Nested(Flip())",
    "chosen(2)",
]
WITH_PARAMETERS = [
    "nn.Sequential(nn.Conv2d(3, 3, 3), nn.ReLU())",
    "nn.Sequential(library.Crop(32), K.Normalize(0.5, 0.5))",
    "nn.Sequential(Flip(), Steered(32))",
    "nn.Sequential(library.PARTS)",
    "Nested(nn.Linear(4, 4))",
    "Nested(library.Stem())",
    "Steered(32)",
]
BODY = (
    "x = x.cuda()\nx = first(x)\nloss = criterion(model(x), y)\nloss.backward()\noptimizer.step()"
)


@pytest.mark.parametrize("made", OF_DATA)
def test_what_prepares_the_batch_is_ahead_of_the_step(made: str) -> None:
    source = looped(BODY, f"{BEFORE}\nfirst = {made}")
    assert plan_of(source)["region"]["start_line"] == lines_of(source, "loss = criterion")[0]


@pytest.mark.parametrize("made", WITH_PARAMETERS)
def test_what_has_parameters_or_cannot_be_read_is_the_forward(made: str) -> None:
    source = looped(BODY, f"{BEFORE}\nfirst = {made}")
    assert plan_of(source)["region"]["start_line"] == lines_of(source, "x = first(x)")[0]


def test_a_part_that_is_added_later_may_have_parameters() -> None:
    added = "first = nn.Sequential(Flip())\nfirst.append(library.Stem())"
    source = looped(BODY, f"{BEFORE}\n{added}")
    assert plan_of(source)["region"]["start_line"] == lines_of(source, "x = first(x)")[0]


@pytest.mark.parametrize("made", OF_DATA)
def test_of_what_is_trained_it_makes_a_part_of_the_step(made: str) -> None:
    """Ahead of the model that sees it, and behind one."""
    before = f"{BEFORE}\nfirst = {made}\nimage = torch.zeros(3, requires_grad=True)"
    for given in ("image", "model(x)"):
        source = looped(BODY.replace("first(x)", f"first({given})"), before)
        assert plan_of(source)["region"]["start_line"] == lines_of(source, "x = first(")[0]
