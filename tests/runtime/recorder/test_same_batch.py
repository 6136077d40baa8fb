"""A loop is sent back into its body without its next item; real loops, a clock that stands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from instrumentor.runtime.bundle import module_text
from instrumentor.runtime.recorder.barrier import Barrier
from instrumentor.runtime.recorder.iterations import Iterations
from instrumentor.runtime.recorder.phases import OTHER, Phases
from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.same_batch import (
    ASTRAY,
    GROUP,
    GROUP_LEAD,
    GROUPS,
    SAME_S,
    SameBatch,
    variables,
)
from instrumentor.runtime.recorder.torch_marks import Marks
from instrumentor.shared.options import Options
from tests.runtime.recorder.tensors import events


class Steps:
    """The recorder's calls around a step, as inserted lines make them, and a clock."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("INSTRUMENT_RECORD", str(folder / "record.jsonl"))
        monkeypatch.setattr(time, "perf_counter", lambda: self.now_s)
        self.folder, self.now_s, self.asked = folder, 100.0, 0
        records, marks = Records(), Marks()
        barrier = Barrier(records)
        barrier.device = "cpu"
        self.iterations = Iterations(records, marks)
        self.phases = Phases(records, marks, barrier, 3)
        self.same = SameBatch(barrier, self.iterations, self.phases)
        self.same.start()

    def loader(self, items: list[Any]) -> Iterator[Any]:
        """Items that take a second each."""
        while True:
            for item in items:
                self.asked += 1
                self.now_s += 1.0
                yield item

    def enter(self) -> None:
        self.same.enter(sys._getframe(1))

    def begin(self) -> None:
        self.iterations.begin(time.perf_counter(), 0.0)
        self.same.begin(sys._getframe(1))

    def end(self) -> None:
        self.now_s += 0.030
        self.same.end(())
        self.now_s += 0.020  # the optimizer

    def finished(self) -> bool:
        if not self.same.enough():
            self.same.finishing()
            return False
        self.same.stop()
        return True

    @property
    def written(self) -> list[float]:
        return [round(each["ms"], 6) for each in events(self.folder, "same_batch")]


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    before = sys.gettrace()
    sys.settrace(None)
    yield Steps(tmp_path, monkeypatch)
    sys.settrace(before)


def test_iterations_that_wait_for_no_batch(steps: Steps) -> None:
    seen = []
    for at, (x, y) in enumerate(steps.loader([(1, 2), (3, 4)])):
        steps.enter()
        seen.append((at, x, y))
        x = y = None  # the script's own use of its variables
        steps.begin()
        steps.end()
        if steps.finished():
            break
    groups = [(at, *((1, 2), (3, 4))[at % 2]) for at in range(GROUPS)]
    assert seen == [each for each in groups for _ in range(GROUP)]
    assert steps.asked == GROUPS
    assert steps.written == [50.0] * (GROUP - GROUP_LEAD - 1) * GROUPS
    assert not events(steps.folder, "iteration")


def test_a_region_that_begins_the_body(steps: Steps) -> None:
    for _x in steps.loader([1]):
        steps.begin()
        steps.end()
        if steps.finished():
            break
    assert steps.asked == GROUPS
    assert set(steps.written) == {50.0}


def test_a_container_is_given_as_the_loader_left_it(steps: Steps) -> None:
    seen = []
    for batch in steps.loader([{"x": "host"}]):
        steps.enter()
        seen.append(batch["x"])
        batch = {**batch}
        batch["x"] = "device"
        steps.begin()
        steps.end()
        if steps.finished():
            break
    assert seen == ["host"] * GROUP * GROUPS


def test_what_the_script_puts_into_its_batch_is_not_there_again(steps: Steps) -> None:
    seen = []
    for batch in ({"x": "host"} for _ in steps.loader([1])):
        steps.enter()
        seen.append(batch["x"])
        batch["x"] = "device"
        steps.begin()
        steps.end()
        if steps.finished():
            break
    assert seen == ["host"] * GROUP * GROUPS


def test_a_script_that_does_not_ask_whether_it_is_finished(steps: Steps) -> None:
    for x in steps.loader([1]):
        steps.enter()
        assert x
        steps.begin()
        steps.end()
        if steps.same.enough():
            break
    steps.same.stop()
    assert steps.asked == GROUPS
    assert set(steps.written) == {50.0}


def test_the_module_s_own_loop_and_its_variables(steps: Steps) -> None:
    code = """
seen = []
for x, *rest in steps.loader([(1, 2, 3)]):
    steps.enter()
    seen.append((x, rest))
    x = rest = None
    steps.begin()
    steps.end()
    if steps.finished():
        break
"""
    names: dict[str, Any] = {"steps": steps}
    exec(compile(code, "train.py", "exec"), names)
    assert names["seen"] == [(1, [2, 3])] * GROUP * GROUPS and steps.asked == GROUPS


def test_a_loop_that_fetches_in_its_body_is_left_alone(steps: Steps) -> None:
    taken, batches = 0, steps.loader([1])
    while taken < 10:
        next(batches)
        steps.enter()
        steps.begin()
        steps.end()
        taken += 1
        if steps.finished():
            break
    assert not steps.same.on and steps.asked == taken < ASTRAY
    assert not steps.written


def test_a_time_limit(steps: Steps) -> None:
    for _x in steps.loader([1]):
        steps.enter()
        steps.begin()
        steps.now_s += SAME_S / 4
        steps.end()
        if steps.finished():
            break
    assert len(steps.written) < GROUP


def test_a_function_that_asks_which_of_its_variables_have_a_value(steps: Steps) -> None:
    """From CPython 3.12 on, a frame that goes to another line has None in all of them."""

    def train() -> int:
        unbound = 0
        for _x in steps.loader([1]):
            steps.enter()
            unbound += "best" not in locals()
            steps.begin()
            steps.end()
            if steps.finished():
                break
        best = unbound
        return best

    train()
    assert steps.asked == (GROUPS if sys.version_info < (3, 12) else 2)


def test_variables_that_may_have_no_value_where_they_are_read(steps: Steps) -> None:
    def train(late: bool) -> int:
        for _x in steps.loader([1]):
            steps.enter()
            try:
                best += 1  # type: ignore[has-type]
            except NameError:
                if late:
                    best = 0
            steps.begin()
            steps.end()
            if steps.finished():
                break
        return best if late else 0

    train(late=False)
    assert steps.asked == (GROUPS if sys.version_info < (3, 12) else 2)


@pytest.mark.parametrize(
    ("waited_s", "kinds", "rank", "edge", "due"),
    [
        (0.5, [(0,), (0,)], None, "forward", True),
        (0.001, [(0,), (0,)], None, "forward", False),  # nothing to hide
        (0.5, [(), (0,)], None, "forward", False),  # an update every other time
        (0.5, [(0,)], 0, "forward", False),  # the other ranks would wait
        (0.5, [(0,)], None, OTHER, False),  # no inserted lines
    ],
)
def test_when_they_are_taken(
    steps: Steps, waited_s: float, kinds: list[Any], rank: int | None, edge: str, due: bool
) -> None:
    steps.phases.data_s, steps.phases.all_s, steps.phases.edge = waited_s, 1.0, edge
    steps.iterations.taken = {str(at): (1.0, kind) for at, kind in enumerate(kinds)}
    steps.iterations.records.rank = rank
    assert steps.same.due("fwd+bwd", automatic=True) is due


def test_variables_of_a_loop() -> None:
    code = """
def train(loader, state):
    for a in loader:
        for step, (x, y) in enumerate(
            loader
        ):
            state.enter()
            a = [b for b in x]
    for state.x in loader:
        state.enter()
    for x in loader: state.enter()
"""
    body = next(each for each in compile(code, "t", "exec").co_consts if hasattr(each, "co_code"))
    assert variables(body, 7)[0] == ["step", "x", "y"]
    assert variables(body, 4)[0] == ["a"]  # the inner loop's line is the first of the outer body
    assert variables(body, 10)[0] is None and variables(body, 11)[0] is None
    assert variables(body, 8)[0] is None
    assert json.dumps(variables(body, 7)[1]) in ("4", "5")


def test_the_versions_of_python_that_can_go_there(interpreter: Path, tmp_path: Path) -> None:
    """3.8 cannot, and takes its batches from the loader."""
    (tmp_path / "_instrument_recorder.py").write_text(module_text(Options()), encoding="utf-8")
    made = subprocess.run(
        [interpreter, Path(__file__).with_name("same_batch_loop.py")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    old = "3.8" in str(interpreter)
    assert made.stdout.splitlines()[-1] == (
        "[(0, 0, 'host'), (1, 1, 'host')] 2" if old else f"alike {GROUPS}"
    ), made.stderr
