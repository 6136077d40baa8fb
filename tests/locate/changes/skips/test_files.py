"""A save whose files are read back stays; other files are told apart by what is written out."""

from __future__ import annotations

import textwrap

import pytest

from tests.locate.cases import HEAD, looped, plan_of, rewritten
from tests.warned import texts

STEP = """
criterion(model(x), y).backward()
optimizer.step()
"""
BEFORE = """
import csv
import glob
import os
import pickle
import random
import shutil
from pathlib import Path

import cv2
import numpy as np
import pandas as pd

folder = "runs"
unknown = input()
weights = model.state_dict()
cached, others = None, None
if unknown:
    cached = sorted(glob.glob(os.path.join(unknown, "train", "*.data")))


def named(epoch, ending=".pt"):
    return os.path.join(folder, f"m{epoch}{ending}")


def save(state, path):
    torch.save(state, path)


def put(name, **more):
    if not os.path.isabs(name):
        name = os.path.join(unknown, name)
    state = {"x": x}
    state.update(more)
    torch.save(state, name)


def keep(name):
    if not os.path.isabs(name):
        name = os.path.join(unknown, name)
    shutil.copy(name, os.path.join(unknown, "old", "%s.pt" % x))


def keep_all(folder):
    shutil.copytree(folder, "b")


def load_all(paths):
    for path in paths if isinstance(paths, list) else [paths]:
        torch.load(path)


last, best = Path(unknown) / "last.pt", Path(unknown) / "best.pt"


def choose(path, best=False):
    if best:
        torch.load(path)


log = open("m.csv", "a")
table = csv.writer(log)


def note(name):
    table.writerow([name])
    log.flush()
    torch.save(weights, name)


def show(name):
    cv2.imwrite("m.png", x)
    torch.save(weights, name)


class Keeper:
    def __init__(self, where):
        self.where = Path(where)
        self.last = self.where / "last.pt"

    def save(self):
        with self.last.open("wb") as file:
            torch.save(weights, file)

    def load(self):
        return torch.load(self.where / "best.pt")


keeper = Keeper(unknown)
"""
#: what is written, what is read in the same loop
OTHERS = {
    "a name": ("torch.save(weights, 'a.pt')", "torch.load('b.pt')"),
    "a folder": ("torch.save(weights, 'a/m.pt')", "torch.load('b/m.pt')"),
    "an ending": ("torch.save(weights, unknown + '.pt')", "torch.load(unknown + '.data')"),
    "a formatted ending": (
        "torch.save(weights, 'm_{:03d}.pt'.format(x))",
        "torch.load('m_%d.data' % x)",
    ),
    "a formatted folder": ("torch.save(weights, f'runs/{x}.pt')", "torch.load(f'data/{x}.pt')"),
    "a joined folder": (
        "torch.save(weights, os.path.join(folder, f'm{x}.pt'))",
        "torch.load(os.path.join('data', f'm{x}.pt'))",
    ),
    "what is globbed": ("torch.save(weights, 'm.pt')", "torch.load(random.choice(cached))"),
    "what is walked over": (
        "torch.save(weights, 'm.pt')",
        "for each in cached:\n    torch.load(each)",
    ),
    "a path made by a function": ("torch.save(weights, named(3))", "torch.load('m3.data')"),
    "a path that a function is given": (
        "save(weights, 'runs/m.pt')\nsave(weights, 'runs/n.pt')",
        "torch.load('runs/data.pt')",
    ),
    "a path of an object": ("keeper.save()", "keeper.load()"),
    "an open file": (
        "with open('m.pkl', 'wb') as file:\n    torch.save(weights, file)",
        "with open('rows.pkl', 'rb') as file:\n    rows = pickle.load(file)",
    ),
    "another format": ("torch.save(weights, unknown)", "np.load(unknown)"),
    "a text": ("torch.save(weights, unknown)", "with open(unknown) as file:\n    file.read()"),
    "a table": ("torch.save(weights, unknown)", "pd.read_csv(unknown)"),
    "a name, from elsewhere": (
        "torch.save(weights, 'a.pt')",
        "os.chdir('c')\ntorch.load('b.pt')",
    ),
    "a process": ("torch.save(weights, unknown)", "os.popen('stty size').read()"),
    "what a list holds": (
        "torch.save(weights, 'm.pt')",
        "load_all(['a.pt', last])\nload_all(best)",
    ),
    "one of two that are walked over": (
        "torch.save(weights, 'm.pt')",
        "for one in (last, best) if x else (last):\n    load_all(one)",
    ),
    "a name that a file had before": (
        "torch.save(weights, 'm.pt')",
        "with open('rows.txt') as one:\n    one.read()\nfor one in last, best:\n    load_all(one)",
    ),
    "what a constant leaves out": ("torch.save(weights, 'm.pt')", "choose('m.pt')"),
    "a copy of it": ("torch.save(weights, 'm.pt')\nshutil.copy('m.pt', 'n.pt')", "pass"),
    "a copy of another one": ("put('m.pt', state=weights)", "keep('best.pt')"),
    "one of several that a function is given": (
        "put('m.pt', state=weights)",
        "put('best.pt', state=weights)\nkeep('best.pt')",
    ),
    "another one that takes its name": (
        "torch.save(weights, 'm.pt')",
        "shutil.copyfile('best.pt', 'm.pt')",
    ),
    "rows of a table": ("note('m.pt')", "torch.load(unknown + '.npz')"),
    "a picture": ("show('m.pt')", "cv2.imread(unknown + '.jpg')"),
    "a folder that is made": ("os.makedirs('runs')\nsave(weights, 'm')", "torch.load('runs/a.pt')"),
}
ONE = {
    "what a list holds": ("torch.save(weights, 'm.pt')", "load_all(['a.pt', 'm.pt'])"),
    "what a list may hold": ("torch.save(weights, 'm.pt')", "load_all(cached)\nload_all(unknown)"),
    "what a list is filled with": (
        "torch.save(weights, 'm.pt')",
        "names = ['a.pt']\nnames.append('m.pt')\nfor one in names:\n    torch.load(one)",
    ),
    "one of two that are walked over": (
        "torch.save(weights, 'last.pt')",
        "for one in (last, best) if x else (last):\n    load_all(one)",
    ),
    "what a constant leads to": ("torch.save(weights, 'm.pt')", "choose('m.pt', True)"),
    "a name": ("torch.save(weights, 'a.pt')", "torch.load('a.pt')"),
    "a name in a folder": ("torch.save(weights, 'a.pt')", "torch.load('./a.pt')"),
    "an absolute one": ("torch.save(weights, 'a.pt')", "torch.load('/work/a.pt')"),
    "unknown": ("torch.save(weights, 'a.pt')", "torch.load(unknown)"),
    "rows of a table": ("note('m.pt')", "open(unknown + '.csv').read()"),
    "a picture": ("show('m.pt')", "cv2.imread(unknown + '.png')"),
    "unknown in a folder": ("torch.save(weights, 'a.pt')", "torch.load(unknown + '/a.pt')"),
    "unknown behind a folder": (
        "torch.save(weights, 'a/m.pt')",
        "torch.load(os.path.join('b', unknown))",
    ),
    "up again": ("torch.save(weights, f'a/{x}.pt')", "torch.load(f'b/../a/{x}.pt')"),
    "an ending": ("torch.save(weights, f'm{x}.pt')", "torch.load(unknown + 'm1.pt')"),
    "one of several": (
        "torch.save(weights, 'a.pt' if x else 'b.pt')",
        "torch.load('b.pt')",
    ),
    "a path that a function is given": ("save(weights, 'runs/n.pt')", "torch.load('runs/n.pt')"),
    "one of two that a function is given": (
        "for one in 'runs/m.pt', 'runs/n.pt':\n    save(weights, one)",
        "torch.load('runs/n.pt')",
    ),
    "one of two that it is given in a statement": (
        "save(weights, 'runs/m.pt'), save(weights, 'runs/n.pt')",
        "torch.load('runs/n.pt')",
    ),
    "a path made by a function": ("torch.save(weights, named(3))", "torch.load(named(1))"),
    "a name that grows": ("p = 'a'\np += '.pt'\ntorch.save(weights, p)", "torch.load('a.pt')"),
    "an open file": (
        "torch.save(weights, 'm.pkl')",
        "with open('m.pkl', 'rb') as file:\n    rows = pickle.load(file)",
    ),
    "by another name": (
        "torch.save(weights, 'a.pt')\nos.replace('a.pt', 'b.pt')",
        "torch.load('b.pt')",
    ),
    "from elsewhere": ("torch.save(weights, 'b/a.pt')", "os.chdir('c')\ntorch.load('a.pt')"),
    "a copy of it": ("put('m.pt', state=weights)", "keep('m.pt')"),
    "a copy of it by name": (
        "torch.save(weights, 'm.pt')\nshutil.copy(dst='n.pt', src='m.pt')",
        "torch.load('n.pt')",
    ),
    "a copy of its folder": ("torch.save(weights, 'a/m.pt')", "keep_all('a')"),
    "a copy of it that is read": (
        "torch.save(weights, 'm.pt')\nshutil.copy('m.pt', 'n.pt')",
        "torch.load('n.pt')",
    ),
    "a copy, in a folder": (
        "torch.save(weights, 'm.pt')\nshutil.copy('m.pt', 'b')",
        "torch.load('b/m.pt')",
    ),
    "by a link": ("torch.save(weights, 'a.pt')", "os.symlink('a.pt', 'b.pt')\ntorch.load('b.pt')"),
    "a text with what is no text": (
        "torch.save(weights, unknown)",
        "with open(unknown, errors='ignore') as file:\n    file.read()",
    ),
}


def plan(writes: str, reads: str) -> tuple[str, dict[str, object]]:
    body = f"{reads}\n{STEP}if x.sum() > 0:\n{textwrap.indent(writes, '    ')}\n"
    source = looped(body, BEFORE)
    return source, plan_of(source)


@pytest.mark.parametrize(("writes", "reads"), OTHERS.values(), ids=OTHERS)
def test_a_save_goes_where_another_file_is_read(writes: str, reads: str) -> None:
    _, found = plan(writes, reads)
    assert found["skipped_checkpoints"]


@pytest.mark.parametrize(("writes", "reads"), ONE.values(), ids=ONE)
def test_a_save_stays_where_its_file_may_be_read_back(writes: str, reads: str) -> None:
    _, found = plan(writes, reads)
    assert found["skipped_checkpoints"] == []
    assert "read back" in str(texts(found["warnings"]))


#: what is done with a file behind a save of it, and whether the save goes
NEEDED = {
    "uploaded": ("api.upload(path='m.pt')", False),
    "one of several that are uploaded": ("api.upload_files(['n.pt', 'm.pt'])", False),
    "another one that is uploaded": ("api.upload(path='n.pt')", True),
    "asked how large it is": ("print(os.path.getsize('m.pt'))", False),
    "given to what nobody knows": ("subprocess.run(['convert', 'm.pt'])", False),
    "removed, which goes along": ("os.remove('m.pt')", True),
    "removed by a function": ("remove('m.pt')", False),
    "removed if it is there": ("if os.path.exists('m.pt'):\n    os.remove('m.pt')", True),
    "removed as far as it is there": (
        "try:\n    os.remove('m.pt')\nexcept OSError:\n    pass",
        True,
    ),
    "written again": ("torch.save(weights, 'm.pt')", True),
    "named in a line of a log": ("logging.info('saved m.pt')\nprint('m.pt')", True),
    "shown to a logger, which goes along": ("wandb.save('m.pt')", True),
    "handed to another function": ("hand_on('m.pt')", False),
}


@pytest.mark.parametrize(("does", "goes"), NEEDED.values(), ids=NEEDED)
def test_a_save_stays_where_its_file_has_to_be_there(does: str, goes: bool) -> None:
    before = "import logging\nimport subprocess\nimport wandb\nimport api\n\n"
    before += "def hand_on(path):\n    api.upload(path)\n"
    before += "def remove(path):\n    os.remove(path)\n"
    body = f"{STEP}if x.sum() > 0:\n    torch.save(weights, 'm.pt')\n{does}\n"
    source = looped(body, BEFORE + before)
    found = plan_of(source)
    assert bool(found["skipped_checkpoints"]) is goes
    code = rewritten(source).code.decode()
    assert ("off| wandb.save" in code) is ("wandb" in does)


FOLDERS = """\
from os import path as osp
class Log:
    def __init__(self, folder, other):
        self.folder, self.other = folder, other
        {makes}
    def note(self, x):
        with open(os.path.join(self.folder, "{name}"), "a") as file:
            file.write(str(x))
log = Log(unknown, unknown)
def validate(model):
    model.eval()
    with torch.no_grad():
        for x, y in val_loader:
            total = model(x).sum()
    os.makedirs(os.path.join(unknown, "pictures"), exist_ok=True)
    torch.save(total, os.path.join(unknown, "pictures", "a.pt"))
    model.train()
"""


@pytest.mark.parametrize(
    ("change", "goes"),
    [
        ({}, True),
        ({"makes": "if not os.path.exists(self.folder): os.makedirs(self.folder)"}, True),
        ({"makes": "if not osp.exists(self.folder): os.makedirs(self.folder)"}, True),
        ({"makes": "if not osp.exists(self.other): os.makedirs(self.folder)"}, False),
        ({"makes": "pass"}, False),
        ({"makes": "os.makedirs(self.other)"}, False),
        ({"makes": "if folder: os.makedirs(self.folder)"}, False),
        ({"makes": "os.makedirs(self.folder); self.folder = other"}, False),
        ({"name": "pictures/log.txt"}, False),
    ],
)
def test_an_evaluation_that_makes_a_folder_goes_where_others_have_made_theirs(
    change: dict[str, str], *, goes: bool
) -> None:
    known = {"makes": "os.makedirs(self.folder)", "name": "log.txt"}
    before = BEFORE + FOLDERS.format(**{**known, **change})
    source = looped(f"{STEP}validate(model)\nlog.note(y)\n", before)
    assert bool(plan_of(source)["skipped_validation"]) is goes


def test_a_folder_of_a_function_is_made_before_its_file() -> None:
    write = "def note(folder, x):\n    {}\n    cv2.imwrite(os.path.join(folder, 'a.png'), x)\n"
    for makes, goes in (("os.makedirs(folder)", True), ("pass", False)):
        before = BEFORE + FOLDERS.format(makes="pass", name="a") + "import cv2\n"
        source = looped(f"{STEP}validate(model)\nnote(unknown, y)\n", before + write.format(makes))
        assert bool(plan_of(source)["skipped_validation"]) is goes


def test_the_line_that_reads_is_named() -> None:
    reads = "for row in range(3):\n    if row:\n        torch.load('a.pt')"
    source, found = plan("torch.save(weights, 'a.pt')", reads)
    line = next(n for n, s in enumerate(source.splitlines(), 1) if "torch.load('a.pt')" in s)
    assert f"read back at train.py:{line}." in str(texts(found["warnings"]))


#: what stands ahead of the loop behind a save, and in the function with the loop
AHEAD = {
    "nothing": ("", "", True),
    "another file": ("state = torch.load('n.pt')", "", True),
    "it": ("state = torch.load('m.pt')", "", False),
    "it, in a call": ("print(torch.load('m.pt'))", "", False),
    "it, in the function": ("", "state = torch.load('m.pt')", False),
    "another one, in the function": ("", "state = torch.load('n.pt')", True),
    "it, ahead": ("", "", True),
}


@pytest.mark.parametrize(("behind", "inside", "goes"), AHEAD.values(), ids=AHEAD)
def test_a_save_ahead_of_the_first_sample_goes_unless_it_is_read(
    behind: str, inside: str, goes: bool
) -> None:
    loop = f"def train():\n    {inside or 'pass'}\n    for x, y in loader:\n"
    source = HEAD + loop + textwrap.indent(STEP, "        ")
    source += f"def main():\n    torch.save(model.state_dict(), 'm.pt')\n    {behind or 'pass'}\n"
    source += "    train()\nstate = torch.load('m.pt')\nmain()\n"
    assert bool(plan_of(source)["skipped_checkpoints"]) is goes


def test_what_makes_data_and_saves_them_ahead_is_not_called_a_save() -> None:
    before = "def rows():\n    torch.save(model, 'm.pt')\n    return [1]\nrows = rows()\n"
    found = plan_of(looped(STEP, before))
    assert found["skipped_checkpoints"] == []
    assert "Checkpoint" not in str(texts(found["warnings"]))


def test_a_copy_of_the_best_goes_with_the_save_that_goes_with_an_evaluation() -> None:
    body = """
        with torch.no_grad():
            value = model(x).mean().item()
        if value <= best:
            best = value
            torch.save(model.state_dict(), "best.pt")
        if epoch % 2 == 0:
            shutil.copyfile("best.pt", "copy.pt")
        """
    before = f"{BEFORE}best, epoch = 9.0, 1\n"
    code = rewritten(looped(STEP + textwrap.dedent(body), before)).code.decode()
    for line in ("value = model(x)", "torch.save(", "shutil.copyfile("):
        assert f"off| {line}" in code or f"off|     {line}" in code, line
