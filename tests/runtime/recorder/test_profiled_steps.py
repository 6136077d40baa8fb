"""Steps under a profiler that the script's end cuts short."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instrumentor.runtime.recorder import profiled_steps, runtimes
from instrumentor.runtime.recorder.profiled_steps import ProfiledSteps
from instrumentor.runtime.recorder.recorder import Recorder
from instrumentor.runtime.recorder.runtimes import of_torch
from tests.runtime.recorder.tensors import events


class Records(SimpleNamespace):
    """A record in memory."""

    rank = None

    def __init__(self) -> None:
        super().__init__(warned=[])

    def warn(self, text: str, *_: str) -> None:
        self.warned.append(text)

    def write(self, *_: object, **__: object) -> None:
        """What else there is."""


@pytest.mark.parametrize("failing", [False, True])
def test_a_profiler_does_not_run_on_when_the_interpreter_closes(failing: bool) -> None:
    """It may crash it then, and hide the exception that ended the script."""
    stopped: list[bool] = []

    def stop() -> None:
        stopped.append(True)
        if failing:
            raise RuntimeError("not started")

    records: Any = Records()
    step = ProfiledSteps(records)
    step.abandon()
    step.profile = SimpleNamespace(stop=stop)
    step.abandon()
    step.abandon()
    assert stopped == [True] and len(records.warned) == failing


def test_the_peak_ahead_of_the_first_such_step_is_kept(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the profiler needs stays in the process: the samples behind it hold it, too."""
    peaks = iter((380, 424))
    monkeypatch.setattr(profiled_steps, "peak_resident", lambda: next(peaks))
    step = recorder.profiled
    step.functions = {"open_profile": lambda _: None}
    for _ in range(2):
        step.open()
        step.taken += 1
    recorder.complete()
    (told,) = events(tmp_path, "resident")
    assert told["before_profiled"] == 380 < told["bytes"]


@pytest.mark.parametrize("device", ["cpu", "cuda", "xla", "mylib", "unknown"])
def test_a_profile_counts_where_the_row_of_the_runtime_says_so(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A further runtime whose operations torch.profiler sees is a row, and nothing else."""
    mine = of_torch("mylib", profiled=True)
    monkeypatch.setattr(runtimes, "RUNTIMES", (*runtimes.RUNTIMES, mine))
    done: list[str] = []
    records: Any = Records()
    step = ProfiledSteps(records)
    step.hook, step.running = "hook.py", True
    step.profile = SimpleNamespace(stop=lambda: done.append("stopped"))
    step.functions = {"close_profile": lambda _, device, number: done.append(device)}
    step.close("step_profiled", 1.0, device)
    seen = device in ("cpu", "cuda", "mylib")
    assert done == ([device] if seen else ["stopped"])
    assert [device in text for text in records.warned] == ([] if seen else [True])
