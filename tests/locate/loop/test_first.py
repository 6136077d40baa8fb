"""Of several loops that run one behind the other, the first is measured, and the others named."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor import Options
from instrumentor.locate import locate_file
from instrumentor.locate.located import Declined

HEAD = """\
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--resume", action="store_true")
args = parser.parse_args()
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOOPS = """
def one(loader):
    for x in loader:
        model(x).mean().backward()
        optimizer.step()

def two(loader):
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
"""
EPOCHS = """
def main():
    for epoch in range(9):
        one(data)
        {between}
    two(data)
main()
"""
#: A flag that is known when it is asked for the first time.
FLAG = """
late = {start}
{ahead}
for epoch in range(9):
    if not late:
        one(data)
    else:
        two(data)
    if score() > 0.5:
        late = True
"""
CLASS = """
class Trainer:
    def train(self):
        for x in self.loader:
            model(x).mean().backward()
            optimizer.step()

class Probe:
    def fit(self):
        for x in self.loader:
            model(x).sum().backward()
            optimizer.step()

trainer, probe = Trainer(), Probe()
{calls}
"""
FIRST = {
    "in turn": "one(data)\ntwo(data)\n",
    "the other way round": "two(data)\none(data)\n",
    "epochs ahead": EPOCHS.format(between="print(epoch)"),
    "a later call under a test": "one(data)\nif ready():\n    two(data)\n",
    "by turns": "for epoch in range(9):\n    one(data)\n    two(data)\n",
    "by turns, the other way round": "for epoch in range(9):\n    two(data)\n    one(data)\n",
    "both ahead of either": "if ready():\n    one(data)\n    two(data)\none(data)\ntwo(data)\n",
    "on both ways": "if ready():\n    one(data)\nelse:\n    one(other)\ntwo(data)\n",
    "a flag": FLAG.format(start="False", ahead=""),
    "a flag that is set": FLAG.format(start="True", ahead=""),
    "a flag of a branch that is not taken": FLAG.format(
        start="False", ahead="if args.resume:\n    late = load()"
    ),
    "methods": CLASS.format(calls="trainer.train()\nprobe.fit()"),
}
TAKEN = {
    **dict.fromkeys(("the other way round", "by turns, the other way round"), "two"),
    **{"a flag that is set": "two", "methods": "train"},
}
IN_DOUBT = {
    "either": "if ready():\n    one(data)\nelse:\n    two(data)\n",
    "one under a test": "if ready():\n    one(data)\ntwo(data)\n",
    "one in an expression": "found = ready() and one(data)\ntwo(data)\n",
    "one in some epochs": EPOCHS.replace(
        "one(data)", "if epoch > 3:\n            one(data)"
    ).format(between="print(epoch)"),
    "an epoch may be left": EPOCHS.replace(
        "one(data)", "if ready():\n            break\n        one(data)"
    ).format(between="print(epoch)"),
    "a flag of elsewhere": FLAG.format(start="load()", ahead=""),
    "a flag that may be set": FLAG.format(start="False", ahead="if ready():\n    late = load()"),
    "a flag that a function sets": FLAG.format(
        start="False", ahead="def turn():\n    global late\n    late = True\nturn()"
    ),
    "one that is handed on": "hook(two)\none(data)\ntwo(data)\n",
    "a failure": "try:\n    one(data)\nexcept ValueError:\n    two(data)\n",
    "a method of anything": CLASS.format(
        calls="for each in registry():\n    each.fit()\ntrainer.train()\nprobe.fit()"
    ),
    "a warm-up": "for step in range(5):\n    model(data).mean().backward()\n    optimizer.step()\n"
    "one(data)\n",
}


def taken(folder: Path, body: str) -> tuple[str, list[str]]:
    """The function of the located loop, and what is said of others; '' when declined."""
    path = folder / "train.py"
    path.write_text(HEAD + LOOPS + body, encoding="utf-8")
    try:
        located = locate_file(path, Options(), [folder])
    except Declined as declined:
        assert {r.kind for r in declined.reasons} == {"several-loops"}
        return "", []
    told = [w.message for w in located.warnings if w.kind == "one-loop"]
    return getattr(located.candidate.scope, "name", "?"), told


@pytest.mark.parametrize("name", FIRST)
def test_the_loop_that_runs_first_is_taken_and_the_other_named(name: str, tmp_path: Path) -> None:
    function, told = taken(tmp_path, FIRST[name])
    assert function == TAKEN.get(name, "one")
    source = HEAD + LOOPS + FIRST[name]
    other = "model(x).mean()" if function == "two" else "model(x).sum()"
    line = source[: source.rindex(other)].count("\n")
    assert told == [
        f"Only the loop of {function}() is measured, the first that runs; the other one: "
        f"--loop train.py:{line}."
    ]


@pytest.mark.parametrize("name", IN_DOUBT)
def test_in_doubt_it_is_asked(name: str, tmp_path: Path) -> None:
    assert taken(tmp_path, IN_DOUBT[name]) == ("", [])


PROBE = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(8, 1)

    def forward(self, x):
        return self.body(x)

def main(loader, model):
    probe = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(probe.parameters(), lr=0.1)
    for x in loader:
        probe(model(x).detach()).sum().backward()
        optimizer.step()

if __name__ == "__main__":
    main(data, Net())
"""
STEPS = """\
import torch

def train(net, loader):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(9):
        for x in loader:
            net(x).mean().backward()
            optimizer.step()
"""
PROBED = """
from probe import Net, main as evaluate
from steps import train

def main():
    net = Net()
    train(net, loader)
    if wanted():
        evaluate(loader, net)

if __name__ == "__main__":
    main()
"""


def test_a_loop_of_another_module_that_the_run_ends_with(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(PROBE, encoding="utf-8")
    (tmp_path / "steps.py").write_text(STEPS, encoding="utf-8")
    function, told = taken(tmp_path, PROBED)
    assert function == "train"
    assert told[0].endswith("the other one: --loop probe.py:14.")


def test_a_module_that_trains_as_it_is_imported_may_be_first(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(PROBE.partition("if __name__")[0] + "main(data, Net())\n")
    (tmp_path / "steps.py").write_text(STEPS, encoding="utf-8")
    assert taken(tmp_path, PROBED) == ("", [])
