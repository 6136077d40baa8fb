"""Ways to walk over loaders in an evaluation: what they draw is drawn in its place, or told of."""

from __future__ import annotations

import textwrap

import pytest

from tests.locate.cases import looped, plan_of, rewritten

STEP = "loss = criterion(model(x), y)\nloss.backward()\noptimizer.step()\n"
BEFORE = """\
import collections
import functools
import itertools
from torch.utils.data import DataLoader
from tqdm import tqdm

def make():
    return {"val": DataLoader(data, 8), "test": DataLoader(data, 8)}, 2

val_loader, other_loader = DataLoader(data, 8), DataLoader(data, 4)
pairs, ready = [val_loader, other_loader], iter(other_loader)
loaders, classes = make()

def walk(batches):
    for x, y in batches:
        print(x.sum())

def give():
    return val_loader

def each(batches):
    yield from batches

def named(split):
    walk(loaders[split])

def several(*given, **more):
    for one in given:
        walk(one)
    for key in more:
        walk(more[key])

class Kept:
    def __init__(self, items):
        self.items = items
    def __len__(self):
        return len(self.items)
    def __iter__(self):
        return iter(self.items)

class Holder:
    def __init__(self):
        self.loader = val_loader
    def walk(self):
        walk(self.loader)
    def make(self):
        self.made = DataLoader(data, 8)
        walk(self.made)

class Other(Holder):
    def __init__(self):
        self.own = other_loader
    def walk(self):
        walk(self.own)

def swap():
    global current
    current = other_loader
    walk(current)

current = val_loader
kept, holder, either = Kept(val_loader), Holder(), [Holder(), Other()]

def validate(model):
    model.eval()
    with torch.no_grad():
        print(model(x))
        ____WALK
    model.train()

validate(model)
"""

#: what is walked over, and what is drawn in its place; nothing where that is told of
DRAWN = {
    "walk(loaders['test'])": "loaders['test']",
    "named('val')": "loaders['val']",
    "walk(pairs[1])": "pairs[1]",
    "walk(give())": "val_loader",
    "walk(tqdm(val_loader))": "val_loader",
    "for batch in itertools.chain(val_loader, other_loader):\n    print(batch)": (
        "val_loader, other_loader"
    ),
    "walk(itertools.chain(val_loader))": "val_loader",
    "print(functools.reduce(max, val_loader))": "val_loader",
    "print(collections.deque(val_loader, 1))": "val_loader",
    "print(list(itertools.zip_longest(val_loader, other_loader)))": "val_loader, other_loader",
    "print(next(itertools.cycle(val_loader)))": "val_loader",
    "holder.walk()": "holder.loader",
    "print(len(kept), len(val_loader))": "",
    "print([batch for batch in [val_loader.dataset]])": "",
    "walk(each(val_loader))": "val_loader",
}
TOLD = (
    "walk(itertools.chain(val_loader, other_loader))",
    "for batch in itertools.chain(val_loader, other_loader):\n    break",
    "walk(itertools.chain(*pairs))",
    "walk(itertools.chain.from_iterable(pairs))",
    "for one in pairs:\n    walk(one)",
    "print([walk(val_loader) for _ in range(2)])",
    "walk(val_loader) if quick else print()",
    "quick and walk(val_loader)",
    "print(list(map(walk, pairs)))",
    "functools.partial(walk, val_loader)()",
    "walk(loaders.get('val'))",
    "walk(loaders[quick])",
    "several(val_loader)",
    "several(one=val_loader)",
    "print(list(val_loader.sampler))",
    "print(list(itertools.product(val_loader, [1])))",
    "print(next(ready))",
    "walk(Kept(val_loader))",
    "either[quick].walk()",
    "holder.make()",
    "swap()",
)


def drawn(walked: str) -> tuple[list[str], bool]:
    """What is drawn in the place of an evaluation, and whether others are told of."""
    setup = BEFORE.replace("____WALK", textwrap.indent(walked, " " * 8).lstrip())
    source = looped(STEP, before=setup)
    plan = plan_of(source)
    assert plan["skipped_validation"], plan["warnings"]
    lines = rewritten(source).code.decode().splitlines()
    found = [line.partition("drawn(")[2].partition(")  #")[0] for line in lines if "drawn(" in line]
    return found, "random-numbers" in [w["kind"] for w in plan["warnings"]]


@pytest.mark.parametrize("walked", DRAWN)
def test_what_a_walk_draws_is_drawn_in_its_place(walked: str) -> None:
    assert drawn(walked) == ([DRAWN[walked]] if DRAWN[walked] else [], False)


@pytest.mark.parametrize("walked", TOLD)
def test_what_cannot_be_drawn_in_its_place_is_told_of(walked: str) -> None:
    assert drawn(walked)[1]
