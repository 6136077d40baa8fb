"""What lies between two samples, on a clock that the test moves."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from instrumentor.runtime.recorder.iterations import Iterations
from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.torch_marks import DATA, OPTIMIZER, Marks
from tests.runtime.recorder.tensors import events


class Script:
    """Moves the clock as a script and its recorder would, in milliseconds."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("INSTRUMENT_RECORD", str(folder / "record.jsonl"))
        monkeypatch.setattr(time, "perf_counter", lambda: self.now_ms / 1000)
        self.folder, self.now_ms = folder, 1000.0
        self.marks = Marks()
        self.iterations = Iterations(Records(), self.marks)

    def passes(self, ms: float) -> None:
        self.now_ms += ms

    def marked(self, kind: str, ms: float) -> None:
        """Something between torch's marks."""
        self.marks.since_s = time.perf_counter()
        self.passes(ms)
        if kind == OPTIMIZER:
            self.marks.seen, self.marks.stepped = ["it"], [*self.marks.stepped, 0]
        self.marks.close(kind)

    def region(self, ms: float, *, pending: float = 0.0, inside: float = 0.0) -> None:
        """A sample of so many milliseconds, behind work that was pending on the device."""
        called_s = time.perf_counter()
        self.passes(pending)
        self.iterations.begin(called_s, pending / 1000)
        self.passes(5)  # the recorder's own
        if inside:
            self.marked(DATA, inside)
        self.passes(ms - inside)
        self.passes(7)  # the recorder's own
        self.iterations.end(name=f"step_{self.now_ms}", index=0, ms=ms)

    @property
    def written(self) -> list[dict[str, object]]:
        wanted = (
            *("ms", "data_ms", "optimizer_ms", "inside_data_ms", "next_ms", "lead_ms", "stepped"),
            *("kept", "kept_ms"),
        )
        return [
            {
                key: round(value, 6) if isinstance(value, float) else value
                for key, value in each.items()
                if key in wanted and value != 0
            }
            for each in events(self.folder, "iteration")
        ]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    return Script(tmp_path, monkeypatch)


def test_the_parts_of_an_iteration_and_nothing_of_the_recorder_s_own(script: Script) -> None:
    for _ in range(2):
        script.marked(DATA, 60)
        script.iterations.enter()
        script.passes(3)  # to the device
        script.region(10)
        script.marked(OPTIMIZER, 4)
        script.passes(2)  # logging
    (only,) = script.written
    assert only == {
        "ms": 79.0, "data_ms": 60.0, "optimizer_ms": 4.0, "lead_ms": 3.0, "stepped": [0],
    }  # fmt: skip


def test_a_loop_whose_iterator_is_none_of_torch_s(script: Script) -> None:
    for _ in range(2):
        script.iterations.enter()
        script.region(10)
        script.marked(OPTIMIZER, 4)
        script.passes(30)  # logging, the next batch
    (only,) = script.written
    assert only == {"ms": 44.0, "optimizer_ms": 4.0, "next_ms": 30.0, "stepped": [0]}


def test_what_the_device_has_left_is_the_optimizer_s(script: Script) -> None:
    script.region(10)
    script.marked(OPTIMIZER, 1)
    script.region(10, pending=8)
    (only,) = script.written
    assert only == {"ms": 19.0, "optimizer_ms": 9.0, "stepped": [0]}


def test_what_the_device_has_left_is_nobody_s_where_no_optimizer_stepped(script: Script) -> None:
    script.region(10)
    script.region(10, pending=8)
    (only,) = script.written
    assert only == {"ms": 18.0, "stepped": []}


def test_a_loader_within_the_region_is_told_apart(script: Script) -> None:
    script.region(10, inside=6)
    script.region(10)
    (only,) = script.written
    assert only == {"ms": 10.0, "inside_data_ms": 6.0, "stepped": []}


def test_a_region_that_was_left_has_no_iteration(script: Script) -> None:
    script.region(10)
    script.iterations.begin(time.perf_counter(), 0.0)
    script.passes(500)
    script.iterations.begin(time.perf_counter(), 0.0)
    assert len(script.written) == 1


def test_what_the_script_keeps_between_samples_is_told_apart_from_the_wait_for_a_batch(
    script: Script,
) -> None:
    """With its own loader's waits, and what else is kept within it; also ahead of the region."""
    script.iterations.keep("validation")  # ahead of the first sample
    script.iterations.keep("")
    for at in range(3):
        script.iterations.enter()
        script.passes(3)
        if at == 2:
            script.iterations.keep("checkpoint")
            script.passes(30)
            script.iterations.keep("")
        script.region(10)
        script.marked(OPTIMIZER, 4)
        if at == 0:
            script.iterations.keep("validation")
            script.marked(DATA, 20)
            script.iterations.keep("checkpoint")
            script.passes(80)
            script.iterations.keep("")
            script.iterations.keep("")
        script.passes(1)
    held, ahead = script.written
    same = {"optimizer_ms": 4.0, "next_ms": 1.0, "lead_ms": 3.0, "stepped": [0]}
    assert held == {**same, "ms": 118.0, "kept": "validation", "kept_ms": 100.0}
    assert ahead == {**same, "ms": 48.0, "kept": "checkpoint", "kept_ms": 30.0}


def test_a_kept_piece_that_the_script_left_ends_with_the_next_sample(script: Script) -> None:
    script.region(10)
    script.iterations.keep("validation")
    script.passes(50)  # and `continue`
    script.region(10)
    script.region(10)
    held, plain = script.written
    assert held == {"ms": 60.0, "kept": "validation", "kept_ms": 50.0, "stepped": []}
    assert plain == {"ms": 10.0, "stepped": []}
