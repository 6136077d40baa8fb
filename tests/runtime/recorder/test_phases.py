"""Borders of phases on a clock that the test moves; whole scripts: tests/end_to_end/test_phases."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instrumentor.runtime.recorder.barrier import Barrier
from instrumentor.runtime.recorder.phases import MOST_EXTRA, NO_MORE, WHOLE_STEP, Phases
from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.torch_marks import CLOSURE, DATA, OPTIMIZER, Marks
from instrumentor.runtime.recorder.waits import Way
from instrumentor.runtime.recorder.watch import Event
from tests.runtime.recorder.tensors import events


class Script:
    """Moves the clock as a script would, in milliseconds."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, wanted: int | None = 3
    ) -> None:
        monkeypatch.setenv("INSTRUMENT_RECORD", str(folder / "record.jsonl"))
        monkeypatch.setattr(time, "perf_counter", lambda: self.now_ms / 1000)
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
        self.folder, self.now_ms = folder, 1000.0
        self.marks, records = Marks(), Records()
        self.barrier = Barrier(records)
        self.barrier.device = "cpu"
        self.phases = Phases(records, self.marks, self.barrier, wanted)

    def passes(self, ms: float) -> None:
        self.now_ms += ms

    def marked(self, kind: str, ms: float) -> None:
        """Something between torch's marks."""
        self.phases.marked(kind, True)
        self.passes(ms)
        if kind == OPTIMIZER:
            self.marks.stepped = [*self.marks.stepped, 0]
        self.phases.marked(kind, False)

    def backward(self, ms: float) -> None:
        self.phases.seen(Event("backward", [], (), False))
        self.passes(ms)
        self.phases.seen(Event("backward done", [], None, False))

    @property
    def written(self) -> list[dict[str, float]]:
        return [
            {name: round(ms, 6) for name, ms in each["parts"].items() if ms}
            for each in events(self.folder, "phases")
        ]

    @property
    def frame(self) -> Any:
        return SimpleNamespace(f_lineno=1, f_trace=None)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    monkeypatch.setattr(sys, "settrace", lambda _: None)
    return Script(tmp_path, monkeypatch)


def test_each_border_ends_one_phase_and_begins_the_next(script: Script) -> None:
    script.phases.due("fwd+bwd", automatic=False)
    for _ in range(2):
        script.marked(DATA, 60)
        script.passes(3)  # to the device
        script.phases.begin(script.frame)
        script.passes(10)
        script.backward(25)
        script.passes(2)  # clipping
        script.phases.end(())
        script.marked(OPTIMIZER, 4)
        script.passes(7)  # logging
    (only,) = script.written
    assert only == {
        "forward": 10, "backward": 25, "other": 9, "optimizer": 4, "data": 60, "prepare": 3,
    }  # fmt: skip


@pytest.mark.parametrize("calls", [1, 3])
def test_a_closure_of_the_optimizer_s_step_is_forward_and_backward(
    script: Script, calls: int
) -> None:
    script.phases.due("step", automatic=False)
    for _ in range(2):
        script.phases.begin(script.frame)
        script.phases.marked(OPTIMIZER, True)
        script.passes(1)
        for _ in range(calls):
            script.phases.marked(CLOSURE, True)
            script.marked("clearing", 2)
            script.passes(30)
            script.backward(50)
            script.passes(3)  # logging
            script.phases.marked(CLOSURE, False)
            script.passes(8)
        script.phases.marked(OPTIMIZER, False)
        script.phases.end(())
    assert script.written == [
        {
            "forward": 30.0 * calls,
            "backward": 50.0 * calls,
            "other": 3.0 * calls,
            "optimizer": 1 + 10.0 * calls,
        }
    ]


def test_a_barrier_s_wait_is_the_phase_s_that_left_the_work(script: Script) -> None:
    pending = [0.0]

    def wait(*_: Any) -> None:
        script.passes(pending.pop() if pending else 0.0)

    script.barrier.device, script.barrier.ways = "tt", [Way("waiting", wait)]
    script.phases.begin(script.frame)
    script.passes(1)  # enqueues the forward
    pending.append(30.0)
    script.backward(2)
    script.phases.end(())
    script.phases.begin(script.frame)
    (only,) = script.written
    assert only == {"forward": 31, "backward": 2}


def test_a_gradient_within_another_backward_is_no_border(script: Script) -> None:
    script.phases.begin(script.frame)
    script.phases.seen(Event("backward", [], (), False))
    script.passes(5)
    script.phases.seen(Event("backward", [], (), True))
    script.phases.seen(Event("backward done", [], None, True))
    script.passes(5)
    script.phases.seen(Event("backward done", [], None, False))
    script.phases.end(())
    script.phases.begin(script.frame)
    assert script.written == [{"backward": 10}]


def test_a_whole_step_begins_behind_the_update(script: Script) -> None:
    script.marks.spent_s[DATA] = 1.0
    assert script.phases.due(WHOLE_STEP, automatic=True)
    for _ in range(2):
        script.phases.end(())
        script.phases.begin(script.frame)
        script.passes(6)  # logging
        script.marked(DATA, 20)
        script.passes(11)
        script.backward(12)
        script.marked(OPTIMIZER, 3)
    assert script.written[0] == {
        "other": 6, "data": 20, "forward": 11, "backward": 12, "optimizer": 3,
    }  # fmt: skip


def test_iterations_until_a_whole_cycle_is_there(script: Script) -> None:
    script.phases.begin(script.frame)
    for at in range(5):
        assert not script.phases.enough()
        script.passes(10)
        if at == 4:
            script.marked(OPTIMIZER, 1)
        else:
            script.marks.stepped = script.marks.stepped or [0]
        script.phases.end(())
        script.phases.begin(script.frame)
    assert script.phases.enough() and len(script.written) == 5


def test_what_only_compiles_ends(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter(range(10 * NO_MORE))
    monkeypatch.setattr(
        "instrumentor.runtime.recorder.phases.counted", lambda: {"torch_xla": next(counts)}
    )
    for _ in range(NO_MORE):
        assert not script.phases.enough()
        script.phases.begin(script.frame)
        script.phases.end(())
    script.phases.begin(script.frame)
    assert script.phases.enough()
    assert all(each["compiled"] for each in events(script.folder, "phases"))


@pytest.mark.parametrize(
    ("wanted", "label", "device", "automatic", "due"),
    [
        (None, "fwd+bwd", "cpu", True, True),
        (None, "fwd+bwd", "cpu", False, False),  # a number of steps is exactly so many
        (None, "fwd+bwd", "xla", True, False),  # which would compile each phase
        (3, "fwd+bwd", "xla", False, True),
        (0, "fwd+bwd", "cpu", True, False),
        (3, "region", "cpu", True, False),
        (3, WHOLE_STEP, "cpu", True, False),  # no loader of torch's was seen
    ],
)
def test_when_extra_steps_are_taken(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wanted: int | None,
    label: str,
    device: str,
    automatic: bool,
    due: bool,
) -> None:
    script = Script(tmp_path, monkeypatch, wanted)
    script.barrier.device = device
    assert script.phases.due(label, automatic=automatic) is due


def test_how_many_where_nobody_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(ms: float) -> int:
        script = Script(tmp_path, monkeypatch, None)
        script.phases.started_s = time.perf_counter()
        while not script.phases.enough():
            script.phases.begin(script.frame)
            script.passes(ms)
            script.phases.end(())
        return script.phases.all

    assert [taken(ms) for ms in (1.0, 500.0, 4000.0, 60000.0)] == [MOST_EXTRA, 5, 2, 1]
