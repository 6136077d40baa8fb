"""What does it add to a timed step that extra steps are to follow?

Usage: python tests/benchmarks/bench_extra_steps.py [--blocks 200] [--steps 200]

Two recorders in one process, one that has extra steps to take (phases, the same batch, modules) and
one that has none, take blocks of tiny steps in turn: the CPU time of a step with each, and the
difference as a share of a step of 1 ms. The goal is less than 0.5 %; whole runs differ by far more
than that. That nothing of the extra steps is in force while samples are taken is a test:
tests/end_to_end/test_phases.py.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from pathlib import Path

import torch

from instrumentor.runtime.recorder.recorder import Recorder

STEP_S = 0.001

MODEL = torch.nn.Linear(2, 2)
OPTIMIZER = torch.optim.SGD(MODEL.parameters(), lr=0.0)
BATCH = torch.ones(1, 2)


def block(recorder: Recorder, steps: int) -> float:
    """CPU seconds of a step.

    Raises:
        SystemExit: the recorder has ended.
    """
    started_s = time.process_time()
    for _ in range(steps):
        recorder.enter()
        recorder.begin(BATCH)
        loss = MODEL(BATCH).sum()
        loss.backward()
        recorder.end(loss)
        OPTIMIZER.step()
        recorder.finished()
    if recorder.done:
        raise SystemExit("the recorder has ended: nothing was measured")
    return (time.process_time() - started_s) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--blocks", type=int, default=200)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(1)
    taken: list[list[float]] = [[], []]
    with tempfile.TemporaryDirectory() as name, Path(os.devnull).open("w") as nothing:
        made = []
        for at, phases in enumerate((None, 0)):
            os.environ["INSTRUMENT_RECORD"] = str(Path(name) / f"{at}.jsonl")
            made.append(Recorder(10**9, 3, "wallclock", phases=phases))
        with contextlib.redirect_stdout(nothing):
            for turn in range(options.blocks + 1):
                for at in (0, 1) if turn % 2 else (1, 0):
                    taken[at].append(block(made[at], options.steps))
    added_s = statistics.median(a - b for a, b in list(zip(*taken, strict=True))[1:])
    print(
        f"CPU time of a step: {statistics.median(taken[0]) * 1e6:.1f} us with extra steps to come, "
        f"{statistics.median(taken[1]) * 1e6:.1f} us without; median difference "
        f"{added_s * 1e6:+.2f} us, {added_s / STEP_S:+.2%} of a step of 1 ms; goal below 0.5 %",
        flush=True,
    )
    os._exit(0)  # the recorders would sum up


if __name__ == "__main__":
    main()
