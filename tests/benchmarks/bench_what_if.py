"""Does the interval of "no wait for data" hold what is measured when the input is hidden?

Usage: python tests/benchmarks/bench_what_if.py [--pairs 20] [--python PYTHON] [--xla]

Each pair is a training script on torch's CPU (torch_xla's with --xla), once with a loader that
takes a while, once with the same batches made ahead; size of the model and the loader's time come
from the pair's number. The first run predicts, from its iterations with the same batch again, the
second is the truth, and they take turns at going first. A quiet machine is needed: of a busy one
nothing is predicted, and such pairs are counted by themselves. Nothing is asserted; the goal is
90 %.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SCRIPT = """\
import time

import torch
{imports}
torch.manual_seed(0)
torch.set_num_threads(1)
device = {device}
model = torch.nn.Sequential(
    torch.nn.Linear({width}, {width}), torch.nn.ReLU(), torch.nn.Linear({width}, 8)
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
made = [torch.randn(64, {width}).to(device) for _ in range(8)]


def batches():
    for number in range(100_000):
        if {wait_s}:
            time.sleep({wait_s})
        yield made[number % 8]


for x in batches():
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
{end}"""
CHANGE = "no wait for data"
CPU = {"imports": "", "device": '"cpu"', "end": ""}
XLA = {
    "imports": "import torch_xla\n",
    "device": "torch_xla.device()",
    "end": "    torch_xla.sync()\n",
}


def run(
    folder: Path, python: str, *more: str, out: str = "out", **values: object
) -> dict[str, Any]:
    """The summary of a run of that script.

    Args:
        more: options.
        out: folder of the run.
        values: of the script.
    """
    (folder / "train.py").write_text(SCRIPT.format(**values), encoding="utf-8")
    command = (sys.executable, "-m", "instrumentor", "run", "--json", "--no-history")
    options = ("--profiler", "wallclock", "--python", python, *more, "-o", out, "train.py")
    done = subprocess.run(
        [*command, *options], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def pair(seed: int, python: str, on: dict[str, str]) -> tuple[str, bool | None, bool]:
    """A line about it, whether the interval holds the truth (None: no prediction), a busy run."""
    chance = random.Random(seed)
    width, wait_s = chance.choice((256, 512, 1024)), round(chance.uniform(0.002, 0.03), 4)
    waits = [wait_s, 0.0] if seed % 2 else [0.0, wait_s]
    more = ("--phases", "10") if on is XLA else ()  # which compiles for each of them
    with tempfile.TemporaryDirectory() as name:
        made = {
            wait: run(Path(name), python, *more, out=f"out-{wait}", width=width, wait_s=wait, **on)
            for wait in waits
        }
    slow, truth = made[wait_s], made[0.0]
    truth_ms = truth["wall_clock_ms"]["iteration"]["median_ms"]
    busy = any(each["code"] == "W201" for run in made.values() for each in run["warnings"])
    told = next((each for each in slow["what_if"] if each["change"] == CHANGE), None)
    start = f"{seed:3d}  width {width:4d}  wait {wait_s * 1e3:5.1f} ms  truth {truth_ms:7.3f} ms"
    if told is None or told["interval_ms"] is None:
        why = "busy" if busy else "at most" if told is not None else "none"
        return f"{start}  no prediction ({why})", None, busy
    low, high = told["interval_ms"]["low"], told["interval_ms"]["high"]
    holds = low <= truth_ms <= high
    said = "" if holds else "  MISSED"
    return f"{start}  predicted {told['ms']:.3f} ({low:.3f} to {high:.3f}){said}", holds, busy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--xla", action="store_true", help="on torch_xla's CPU")
    options = parser.parse_args()
    found = []
    busy = 0
    for seed in range(options.pairs):
        line, holds, was_busy = pair(seed, options.python, XLA if options.xla else CPU)
        print(line, flush=True)
        busy += was_busy
        if holds is not None:
            found.append(holds)
    share = f"{sum(found) / len(found):.0%}" if found else "none"
    print(f"held {sum(found)} of {len(found)} ({share}); goal 90 %; busy pairs: {busy}")


if __name__ == "__main__":
    main()
