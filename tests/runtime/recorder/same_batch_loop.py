"""A loop below SameBatch of the joined recorder, for interpreters that lack the tests' packages."""

import sys
import time
from contextlib import suppress

import _instrument_recorder as made

now_s = [100.0]
time.perf_counter = lambda: now_s[0]
asked = []
records = made.Records()
marks = made.Marks()
barrier = made.Barrier(records)
barrier.device = "cpu"
iterations = made.Iterations(records, marks)
same = made.SameBatch(barrier, iterations, made.Phases(records, marks, barrier, 3))
same.start()


def loader():
    """Items of a second each."""
    while True:
        asked.append(len(asked))
        now_s[0] += 1.0
        yield asked[-1], {"x": "host"}


def train():
    """Steps of 50 ms."""
    seen = []
    for at, (number, batch) in enumerate(loader()):
        same.enter(sys._getframe())
        seen.append((at, number, batch["x"]))
        batch["x"] = "device"
        with suppress(KeyError):
            iterations.begin(time.perf_counter(), 0.0)
            same.begin(sys._getframe())
            now_s[0] += 0.05
            same.end(())
        try:
            same.finishing()
        finally:
            number = batch = None
        if same.enough():
            break
    same.stop()
    return seen


seen = train()
expected = [(at, at, "host") for at in range(made.GROUPS) for _ in range(made.GROUP)]
print("alike" if seen == expected else seen, len(asked))
