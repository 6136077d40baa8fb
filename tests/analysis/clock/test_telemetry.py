"""Devices during the steady steps, out of readings."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from instrumentor_analysis.clock.telemetry import Reading, readings, slower, telemetry, throttled
from instrumentor_analysis.model import Iteration, Sample, Summary, WallClock
from instrumentor_analysis.reports.summary import console
from instrumentor_analysis.summary.summarise import summarise
from tests.analysis.records import run_folder, steady_events

STEADY = [Sample(f"step_steady_{n}", "steady", "fwd+bwd", 100.0, n, 10 + n / 10) for n in range(9)]
WALL = WallClock(label="fwd+bwd", samples=9, median_ms=100.0)


def at(t_s: float, clock: float | None = 1000.0, power: float | None = 50.0) -> Reading:
    return Reading("0", t_s, clock, power, 70.0, used=True)


def test_only_readings_within_the_steady_steps_count() -> None:
    read = [at(1, 500, 20), *(at(10 + n / 10) for n in range(8)), at(99, 500, 20)]
    found = telemetry(read, STEADY, WALL)
    assert found is not None
    (row,) = found.devices
    assert (row.readings, row.lowest_clock_mhz, row.power_w) == (8, 1000, 50)
    assert not throttled(found) and slower(found) == ()


def test_energy_is_power_times_the_iteration() -> None:
    whole = Iteration(8, 200.0, 190.0, 210.0, samples_per_s=320.0)
    read = [at(10 + n / 10) for n in range(8)]
    found = telemetry(read, STEADY, WALL)
    assert found is not None and found.step_energy_j == 5.0 and found.sample_energy_j is None
    found = telemetry(read, STEADY, WallClock(label="fwd+bwd", samples=9, iteration=whole))
    assert found is not None
    assert (found.step_energy_j, found.sample_energy_j) == (10.0, 50.0 / 320.0)


def test_a_clock_that_falls_is_throttling_and_is_named() -> None:
    read = [at(10 + n / 10, 1000.0 if n < 6 else 700.0) for n in range(9)]
    found = telemetry(read, STEADY, WALL)
    (caveat,) = slower(found)
    assert caveat.message.startswith("Device 0 was throttled: its clock fell from 1000 to 700 MHz")
    assert caveat.code == "W220"


def test_one_slow_reading_of_many_is_none() -> None:
    read = [at(10 + n / 100, 900.0 if n == 5 else 1000.0) for n in range(50)]
    assert not throttled(telemetry(read, STEADY, WALL))


def test_unused_devices_and_too_few_readings_say_nothing() -> None:
    idle = [Reading("1", 10.1, 500.0, 10.0, 40.0, used=False)] * 9
    assert telemetry(idle, STEADY, WALL) is None
    assert telemetry([at(10.1), at(10.2)], STEADY, WALL) is None
    assert telemetry([at(10.1)] * 5, [], WALL) is None


def test_without_power_there_is_no_energy() -> None:
    found = telemetry([at(10.1, power=None)] * 5, STEADY, WALL)
    assert found is not None and found.step_energy_j is None


def test_a_chip_that_the_driver_does_not_show_leaves_no_power_of_all() -> None:
    """An n300 has one node: its second chip takes power of which nothing is known."""
    board = [replace(at(10 + n / 10), card="n300") for n in range(8)]
    other = [replace(each, device="1", card="n150") for each in board]
    found = telemetry([*board, *other], STEADY, WALL)
    assert found is not None and found.power_w is None and found.step_energy_j is None
    assert [(each.card, each.power_w) for each in found.devices] == [("n300", 50), ("n150", 50)]
    text = console(Summary("wallclock", telemetry=found), width=120)
    assert "the energy of a step are unknown" in " ".join(text.split()) and "n300" in text
    single = telemetry(other, STEADY, WALL)
    assert single is not None and single.step_energy_j == 5.0


def test_a_report_names_throttling_first_and_in_the_verdict(tmp_path: Path) -> None:
    events = steady_events(*[100.0] * 9)
    for number, each in enumerate(events):
        each["start_s"] = 10 + number / 10
    told = {"event": "programs", "pid": 1, "ms": 100.0, "dropped": 0,
            "chips": {"0": {"programs": 1, "ms": 90.0, "busy_ms": 90.0}}}  # fmt: skip
    run = run_folder(tmp_path / "run", *events, told, profiler="wallclock")
    lines = [
        f'{{"device": "0", "t_s": {10 + n / 10}, "clock_mhz": {1000 if n < 5 else 600}, '
        f'"power_w": 80, "temperature_c": 91, "used": true}}\n'
        for n in range(9)
    ]
    (run / "telemetry.jsonl").write_text("".join(lines) + '{"device": "0", "t_')
    assert len(readings(run)) == 9
    summary = summarise(run)
    assert summary.verdict is not None and "throttled" in summary.verdict.reason
    assert summary.verdict.levers[0].what == "cooling"
    text = console(summary, width=120)
    assert "Clock, power, temperature" in text and "91.0" in text and "W220" in text
    assert "energy" in text


@pytest.mark.usefixtures("no_hang")
def test_many_devices_and_many_readings_take_a_time_that_grows_with_them() -> None:
    planted = [replace(at(10.0), device=str(n)) for n in range(60_000)]
    found = telemetry([*planted, *(at(10.0, 1000.0 + n) for n in range(60_000))], STEADY, WALL)
    assert found is not None and [each.readings for each in found.devices] == [60_001]
