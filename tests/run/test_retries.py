"""Which attempts are followed by another one; what a second run does is tested end to end."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from instrumentor.rewrite.prepare import Prepared
from instrumentor.run.execution import Execution
from instrumentor.run.process import Finished
from instrumentor.run.profilers import TORCH, TRACY, WALLCLOCK, Artifacts, Launch, Profiler
from instrumentor.run.profilers.torch import NO_OPS
from instrumentor.run.retries import (
    RETRIES,
    Attempt,
    Run,
    room_in_the_buffers,
    wall_clock_alone,
)
from instrumentor.runtime.recorder.profiled_steps import ProfiledSteps
from instrumentor.runtime.recorder.records import Records
from instrumentor_analysis.shared.caveats import Caveat, recorded


class Noted:
    """A run that notes what is asked of it, and measures nothing."""

    may_discover = True

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.progress = SimpleNamespace(note=self.asked.append)

    def again(self, attempt: Attempt) -> Attempt:
        self.asked.append(attempt)
        return attempt


def attempt(profiler: Profiler, device: str = "cpu", **more: Any) -> Attempt:
    finished = cast(Finished, SimpleNamespace(interrupted=False))
    warned = Artifacts(warnings=(Caveat(NO_OPS, "torch.profiler wrote no operations"),))
    record = {"event": "sample", "device": device}
    execution = Execution(cast(Launch, None), finished, warned, (record,), 0, None, **more)
    return Attempt(cast(Prepared, None), profiler, "asked for", execution)


@pytest.mark.parametrize("profiler", [WALLCLOCK, TORCH, TRACY])
def test_what_went_well_stays_as_it_is(profiler: Profiler) -> None:
    run, good = Noted(), attempt(profiler)
    assert [retry(good, cast(Run, run)) for retry in RETRIES] == [None] * len(RETRIES)
    assert run.asked == []


def test_full_buffers_are_made_larger_once() -> None:
    run = Noted()
    made = room_in_the_buffers(attempt(TRACY, overflowed=True), cast(Run, run))
    assert made is not None and made.mid_run_dump and made.programs_per_read == 10_000
    assert "room for 10000 programs" in run.asked[0] and run.asked[1:] == [made]
    assert room_in_the_buffers(attempt(TORCH, overflowed=True), cast(Run, run)) is None


def test_that_torch_sees_nothing_of_xla_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSTRUMENT_RECORD", str(tmp_path / "timings.jsonl"))
    ProfiledSteps(Records()).cancel("xla")
    by_recorder = recorded(json.loads((tmp_path / "timings.jsonl").read_text()))
    made = wall_clock_alone(attempt(TORCH, "xla"), cast(Run, Noted()))
    assert made is not None and made.profiler is WALLCLOCK
    assert made.warnings == (by_recorder,)  # which the record says again to the analysis
    assert made.execution.artifacts.warnings == ()
