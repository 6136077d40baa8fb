"""Looking through all objects leaves the script's heap as it is: its page faults are counted."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from instrumentor.runtime.recorder.living import PIECE, living
from tests.conftest import RepoFactory, RunCli

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="counts glibc's page faults")

FEWEST = 256  # a megabyte; 0 where the heap keeps the blocks
#: Eight blocks of a megabyte a step, all given back: 2 MiB at the top of the heap are the most that
#: glibc keeps once such a block was mapped, so that each step takes others anew.
BLOCKS = """\
import ctypes
import resource

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


def faults_of_a_step():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [libc.malloc(1 << 20) for _ in range(8)]
    for block in blocks:
        ctypes.memset(block, 1, 1 << 20)
    for block in blocks:
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


"""
MANY = """\
from instrumentor.runtime.recorder.living import living

kept = [[] for _ in range(600_000)]  # a list of them has 5 MB
steps = [faults_of_a_step() for _ in range(5)]
assert living(lambda each: each is kept) == [kept]
steps += [faults_of_a_step() for _ in range(5)]
print(*steps)
"""
TRAINING = """\
import os

import torch

torch.set_num_threads(1)
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
kept = [[] for _ in range(600_000)]
for _ in range(12):
    optimizer.zero_grad()
    loss = model(torch.ones(4, 8)).pow(2).mean()
    loss.backward()
    optimizer.step()
    with open(os.environ["FAULTS"], "a") as stream:
        print(faults_of_a_step(), file=stream)
"""


def environment(**more: str) -> dict[str, str]:
    """Without what sets glibc's measures by hand, which then stay as they are."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    return {**own, **more}


def test_every_object_is_looked_at() -> None:
    kept = [[index] for index in range(2 * PIECE)]
    wanted = {id(each) for each in kept}
    assert {id(each) for each in living(lambda each: id(each) in wanted)} == wanted
    assert living(lambda each: each is kept) == [kept] and kept in gc.get_objects()


@glibc
def test_the_heap_goes_on_giving_back_what_it_gave_back() -> None:
    printed = subprocess.check_output(
        [sys.executable, "-c", BLOCKS + MANY], env=environment(), text=True
    )
    steps = [int(word) for word in printed.split()]
    assert min(steps[1:5]) > FEWEST, "the premise: a page fault for each of most pages"
    assert min(steps[6:]) > FEWEST, steps


@glibc
def test_a_copy_has_the_page_faults_of_the_script(
    run_cli: RunCli, git_repo: RepoFactory, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="needs torch: make test installs it")
    repo = git_repo({"train.py": BLOCKS + TRAINING})
    plain, copied = tmp_path / "plain", tmp_path / "copied"
    command = [sys.executable, "train.py"]
    subprocess.check_call(command, cwd=repo, env=environment(FAULTS=str(plain)))
    made = run_cli(
        *("run", "--profiler", "wallclock", "--steps", "5", "--phases", "0", "--no-history"),
        *("--python", sys.executable, "train.py"),
        cwd=repo,
        env=environment(FAULTS=str(copied)),
    )
    assert made.returncode == 0, made.stderr
    for counted in (plain, copied):
        later = [int(line) for line in counted.read_text().split()][2:]
        assert len(later) > 1 and median(later) > FEWEST, (counted.name, later)
