"""What else went on during a run: CPU time of others, load, clock, holders of the device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from instrumentor.machine import load as machine_load
from instrumentor.machine.load import MachineLoad, busy_lately

BURN = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Times that the test sets: of all CPUs, of ours, and on the wall."""
    times = {"busy": 100.0, "own": 10.0, "wall": 0.0}
    monkeypatch.setattr(machine_load, "_busy_s", lambda: times["busy"])
    monkeypatch.setattr(machine_load, "_own_s", lambda: times["own"])
    monkeypatch.setattr(machine_load.time, "monotonic", lambda: times["wall"])
    return times


def test_cpu_time_that_is_not_ours_is_that_of_others(
    clock: dict[str, float], tmp_path: Path
) -> None:
    load = MachineLoad(tmp_path / "none")
    clock.update(busy=118.0, own=16.0, wall=8.0)
    facts = load.facts()
    assert facts["other_cpus"] == 1.5
    assert facts["device_holders"] == 0
    assert facts["cpus"] >= 1


def test_clocks_of_different_ticks_never_make_it_negative(
    clock: dict[str, float], tmp_path: Path
) -> None:
    load = MachineLoad(tmp_path)
    clock.update(busy=100.5, own=11.0, wall=1.0)
    assert load.facts()["other_cpus"] == 0.0


def test_a_process_of_ours_is_not_another(tmp_path: Path) -> None:
    before = machine_load._own_s()
    subprocess.run([sys.executable, "-c", BURN], check=True)
    assert machine_load._own_s() - before >= 0.5


def test_the_clock_of_the_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = iter((SimpleNamespace(current=3400.04), None))
    monkeypatch.setattr(psutil, "cpu_freq", lambda: next(found))
    facts = MachineLoad(tmp_path).facts()
    assert (facts["frequency_mhz_before"], facts["frequency_mhz_after"]) == (3400.0, None)


def test_who_has_the_device_open(tmp_path: Path) -> None:
    node = tmp_path / "0"
    node.touch()
    with node.open():
        assert MachineLoad(tmp_path).facts()["device_holders"] == 1
    assert MachineLoad(tmp_path).facts()["device_holders"] == 0


def test_a_busy_last_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.setattr("os.getloadavg", lambda: (2.9, 9.0, 9.0))
    assert busy_lately() == ""
    monkeypatch.setattr("os.getloadavg", lambda: (3.0, 0.0, 0.0))
    assert "a load of 3.0 on 4 CPUs" in busy_lately()

    def unknown() -> None:
        raise OSError

    monkeypatch.setattr("os.getloadavg", unknown)
    assert busy_lately() == ""


@pytest.mark.parametrize(
    ("cpuinfo", "has"),
    [
        ("model name\t: X\nflags\t\t: fpu avx512_bf16 amx_tile\n", True),
        ("flags\t\t: fpu avx2\nvmx flags\t: avx512_bf16\n", False),
        ("Features\t: fp asimd bf16\n", True),
        ("", None),
    ],
)
def test_bfloat16_by_the_flags_of_the_processor(
    cpuinfo: str, has: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_load, "read_text", lambda *_: cpuinfo)
    assert machine_load.computes_bfloat16() is has
