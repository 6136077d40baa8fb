"""Programs that a stand-in for ttnn tells of; no device, no real time."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instrumentor.runtime.recorder import programs as module
from instrumentor.runtime.recorder.barrier import Barrier
from instrumentor.runtime.recorder.programs import (
    PROGRAM_STEPS,
    Programs,
    by_chip,
    by_kernel,
    known,
)
from instrumentor.runtime.recorder.records import Records
from tests.runtime.recorder.tensors import events


def record(chip: int = 0, start: int = 0, ns: int = 1000, name: str = "bmm", **more: Any) -> Any:
    sources = [f"/ttnn/kernels/dataflow/reader_{name}.cpp", f"/ttnn/kernels/compute/{name}.cpp"]
    values = {"frequency": 1.0, "kernel_sources": sources, **more}
    return SimpleNamespace(chip_id=chip, start_timestamp=start, end_timestamp=start + ns, **values)


class Ttnn:
    """ttnn.device as it is asked, and what it was asked."""

    def __init__(self, *, active: bool = True, raises: str = "") -> None:
        self.active, self.raises, self.calls = active, raises, list[str]()
        self.callback: Any = None

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name == self.raises:
            raise RuntimeError("TT_FATAL")

    def IsProgramRealtimeProfilerActive(self) -> bool:
        self._called("active")
        return self.active

    def RegisterProgramRealtimeProfilerCallback(self, callback: Any) -> int:
        self._called("register")
        self.callback = callback
        return 3

    def UnregisterProgramRealtimeProfilerCallback(self, handle: int) -> None:
        assert handle == 3
        self._called("unregister")


def made(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ttnn: Ttnn, *, opened: bool = True
) -> Programs:
    monkeypatch.setenv("INSTRUMENT_RECORD", str(folder / "record.jsonl"))
    monkeypatch.setitem(sys.modules, "ttnn", SimpleNamespace(device=ttnn))
    monkeypatch.setattr(module, "ttnn_opened", lambda: opened)
    monkeypatch.setattr(module, "QUIET_S", 0.0)
    records = Records()
    return Programs(records, Barrier(records), wanted=True)


def step(programs: Programs, ttnn: Ttnn, *told: Any, rest: Any = ()) -> None:
    programs.begin(None)
    for each in told:
        ttnn.callback(each)
    programs.end(())
    for each in rest:
        ttnn.callback(each)


def batch(*records: Any, dropped: int = 0) -> Any:
    return SimpleNamespace(records=list(records), dropped=dropped)


def test_a_step_holds_what_ran_in_its_region_and_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ttnn = Ttnn()
    programs = made(tmp_path, monkeypatch, ttnn)
    assert programs.due("fwd+bwd", automatic=False)
    programs.start()
    several = batch(record(), record(start=2000, ns=3000, name="exp"))
    step(programs, ttnn, several, rest=[batch(record(ns=500_000))])
    programs.begin(None)
    (only,) = events(tmp_path, "programs")
    assert only["chips"]["0"] == {"programs": 2, "ms": 0.004, "busy_ms": 0.004, "untimed": 0}
    assert only["rest"]["0"]["ms"] == 0.5 and only["dropped"] == 0
    assert [row[0] for row in only["kernels"]] == ["exp", "bmm"]


def test_older_versions_call_back_with_one_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ttnn = Ttnn()
    programs = made(tmp_path, monkeypatch, ttnn)
    programs.start()
    step(programs, ttnn, record())
    programs.begin(None)
    assert events(tmp_path, "programs")[0]["chips"]["0"]["programs"] == 1


def test_lost_records_are_counted_in_the_step_that_lost_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ttnn = Ttnn()
    programs = made(tmp_path, monkeypatch, ttnn)
    programs.start()
    step(programs, ttnn, batch(record(), dropped=5))
    step(programs, ttnn, batch(record()))
    programs.begin(None)
    assert [each["dropped"] for each in events(tmp_path, "programs")] == [5, 0]


def test_it_listens_for_some_steps_and_asks_nothing_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ttnn = Ttnn()
    programs = made(tmp_path, monkeypatch, ttnn)
    programs.start()
    for _ in range(PROGRAM_STEPS):
        step(programs, ttnn, batch(record()))
        assert not programs.enough() and "unregister" not in ttnn.calls
    programs.begin(None)
    assert programs.enough() and ttnn.calls[-1] == "unregister"
    programs.stop()
    ttnn.callback(batch(record()))
    assert programs.came == [] and ttnn.calls.count("unregister") == 1


def test_a_script_that_ends_early_is_asked_nothing_when_its_device_may_be_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ttnn = Ttnn()
    programs = made(tmp_path, monkeypatch, ttnn)
    programs.start()
    step(programs, ttnn, batch(record()))
    programs.stop()
    assert ttnn.calls == ["register"]


@pytest.mark.parametrize(
    ("ttnn", "said"),
    [
        (Ttnn(active=False), "is not active"),
        (Ttnn(raises="active"), "cannot be asked"),
        (Ttnn(raises="register"), "could not be listened to"),
    ],
)
def test_what_goes_wrong_is_said_and_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ttnn: Ttnn, said: str
) -> None:
    programs = made(tmp_path, monkeypatch, ttnn)
    if programs.due("fwd+bwd", automatic=True):
        programs.start()
        assert programs.enough()
    (warning,) = events(tmp_path, "warning")
    assert said in warning["text"] and warning["kind"] == "no-programs"


def test_without_an_open_device_nothing_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ttnn = Ttnn()
    assert not made(tmp_path, monkeypatch, ttnn, opened=False).due("fwd+bwd", automatic=True)
    assert ttnn.calls == []


def test_programs_that_overlap_are_busy_once_and_chips_apart() -> None:
    ran = [known(record(0, 0, 1000)), known(record(0, 500, 1000)), known(record(1, 0, 7000))]
    chips = by_chip(ran)
    assert (chips["0"]["ms"], chips["0"]["busy_ms"]) == (0.002, 0.0015)
    assert chips["1"]["busy_ms"] == 0.007


def test_a_record_without_a_frequency_has_no_time() -> None:
    ran = [known(record(frequency=0.0)), known(record(ns=-5))]
    assert by_chip(ran)["0"] == {"programs": 0, "ms": 0, "busy_ms": 0, "untimed": 2}
    assert by_kernel(ran) == []
