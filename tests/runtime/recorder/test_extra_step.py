"""Steps under a profiler that the script's end cuts short."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from instrumentor.runtime.recorder.extra_step import ExtraStep


class Records(SimpleNamespace):
    """A record in memory."""

    rank = None

    def __init__(self) -> None:
        super().__init__(warned=[])

    def warn(self, text: str, *_: str) -> None:
        self.warned.append(text)


@pytest.mark.parametrize("failing", [False, True])
def test_a_profiler_does_not_run_on_when_the_interpreter_closes(failing: bool) -> None:
    """It may crash it then, and hide the exception that ended the script."""
    stopped: list[bool] = []

    def stop() -> None:
        stopped.append(True)
        if failing:
            raise RuntimeError("not started")

    records: Any = Records()
    step = ExtraStep(records)
    step.abandon()
    step.profile = SimpleNamespace(stop=stop)
    step.abandon()
    step.abandon()
    assert stopped == [True] and len(records.warned) == failing
