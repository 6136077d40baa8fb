"""Random numbers that a data set draws for its samples in the process that trains."""

from __future__ import annotations

import textwrap

import pytest

from tests.locate.cases import looped, plan_of, rewritten
from tests.warned import texts

HEAD = """
import argparse
import functools
import random

import numpy as np
import torch
import torchvision
from torch.utils.data import DataLoader, Dataset, Subset
from torchvision import transforms as T


class Flip:
    def __call__(self, x):
        return -x if np.random.rand() < 0.5 else x


class Halve:
    def __call__(self, x):
        return x / 2


class Rows(Dataset):
    def __init__(self, rows=(), transform=None, train=True):
        self.rows, self.noise = rows, train
        self.transform = transform
        self.generator = np.random.default_rng(0)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        x = self.read(index)
        if self.transform is not None:
            x = self.transform(x)
        return x, index

    def read(self, index):
        return torch.ones(4)


def check(model, loader):
    model.eval()
    total = 0
    with torch.no_grad():
        for x, y in loader:
            total += model(x).sum().item()
    print(total)
    model.train()
"""
STEP = """
criterion(model(x), y).backward()
optimizer.step()
"""


def told(data: str) -> list[str]:
    """What is said of random numbers where an evaluation walks over a loader ahead of the loop."""
    plan = plan_of(looped(STEP, HEAD + textwrap.dedent(data) + "check(model, held_out)\n"))
    assert plan["skipped_validation"], "kept"
    return texts([w for w in plan["warnings"] if w["kind"] == "random-numbers"])


DRAWS = {
    "a transform of the program's own": "DataLoader(Rows(transform=Flip()))",
    "with workers told to be none": "DataLoader(Rows(transform=Flip()), num_workers=0)",
    "among others": "DataLoader(Rows(transform=T.Compose([Halve(), Flip()])), batch_size=2)",
    "of torchvision": "DataLoader(Rows(transform=T.Compose([T.ToTensor(), T.RandomCrop(32)])))",
    "a set of torchvision": "DataLoader(torchvision.datasets.MNIST('', transform=T.AugMix()))",
    "a part of one": "DataLoader(Subset(Rows(transform=Flip()), [0, 1]))",
    "a collate function": "DataLoader(Rows(), collate_fn=shuffled)",
    "a partial one": "DataLoader(Rows(), collate_fn=functools.partial(shuffled))",
    "a lambda": "DataLoader(Rows(transform=T.Lambda(lambda x: x + torch.rand(4))))",
    "a method": "DataLoader(Noisy())",
    "for training alone": "DataLoader(Phased(train=True))",
    "a generator of its own": "DataLoader(Own())",
    "a data set of a data set": "DataLoader(Around(Rows(transform=Flip())))",
    "options that have no workers": "DataLoader(Rows(transform=Flip()), num_workers=args.workers)",
    "workers only with a device": "DataLoader(Rows(transform=Flip()), **extra)",
}
DRAWS_NOT = {
    "nothing": "DataLoader(Rows())",
    "transforms that do not": "DataLoader(Rows(transform=T.Compose([Halve(), T.ToTensor()])))",
    "in workers": "DataLoader(Rows(transform=Flip()), num_workers=2)",
    "in as many as the options say": "DataLoader(Rows(transform=Flip()), num_workers=args.some)",
    "in workers by position": "DataLoader(Rows(transform=Flip()), 8, True, None, None, 2)",
    "in workers by a table": "DataLoader(Rows(transform=Flip()), **{'num_workers': 2})",
    "not in this phase": "DataLoader(Phased(train=False))",
    "not in this phase by name": "DataLoader(Phased(train='test'))",
    "one of two, which is not told": "DataLoader(Rows(transform=Flip() if flag else Halve()))",
    "the transform of another one": "DataLoader(Rows(transform=Halve()), batch_size=2)",
}
MORE = """
class Noisy(Rows):
    def read(self, index):
        return torch.ones(4) + torch.randn(4)


class Phased(Rows):
    def __init__(self, train):
        super().__init__(transform=Halve())
        self.train = train == True

    def read(self, index):
        return self.read_more(index)

    def read_more(self, index):
        if self.train:
            return torch.ones(4) * random.random()
        return torch.ones(4)


class Own(Rows):
    def read(self, index):
        return torch.ones(4) * self.generator.random()


class Around(Dataset):
    def __init__(self, inner):
        self.inner = inner

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.inner[index]


def shuffled(batch):
    random.shuffle(batch)
    return torch.utils.data.default_collate(batch)


parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--some", type=int, default=4)
args = parser.parse_args()
extra = {"num_workers": 1} if torch.cuda.is_available() else {}
loader = DataLoader(Rows(transform=Flip()))
"""


@pytest.mark.parametrize("made", DRAWS.values(), ids=DRAWS)
def test_what_a_data_set_draws_is_told_before_a_run(made: str) -> None:
    (said,) = told(f"{MORE}held_out = {made}\n")
    assert "random numbers" in said
    assert "--keep-validation" in said


@pytest.mark.parametrize("made", DRAWS_NOT.values(), ids=DRAWS_NOT)
def test_nothing_is_told_of_samples_that_draw_nothing_here(made: str) -> None:
    assert not told(f"{MORE}held_out = {made}\n")


def test_the_seeds_of_the_loader_are_drawn_all_the_same() -> None:
    source = looped(STEP, f"{HEAD}{MORE}held_out = {DRAWS['a lambda']}\ncheck(model, held_out)\n")
    assert b"_instrument.drawn(held_out, told=True)" in rewritten(source).code


@pytest.mark.parametrize("read", ["np.random.get_state()", "random.getstate()"])
def test_reading_how_far_a_generator_is_draws_nothing(read: str) -> None:
    body = f"{STEP}torch.save({read}, 'state.pt')\n"
    plan = plan_of(looped(body, "import random\nimport numpy as np"))
    assert plan["skipped_checkpoints"]
    assert not [w for w in plan["warnings"] if w["kind"] == "random-numbers"]
