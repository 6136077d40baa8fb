"""Readings of a driver's files that the test has made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instrumentor.machine import telemetry
from instrumentor.machine.device_nodes import Holder
from instrumentor.machine.telemetry import FILE, Telemetry, reading
from tests.waiting import wait_for


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """Two devices as tt-kmd shows them, the second without sensors."""
    root = tmp_path / "sys"
    for name in ("tenstorrent!0", "tenstorrent!1"):
        (root / name).mkdir(parents=True)
        (root / name / "tt_aiclk").write_text("1000\n")
    (root / "tenstorrent!0" / "tt_card_type").write_text("n300\n")
    sensors = root / "tenstorrent!0" / "device" / "hwmon" / "hwmon3"
    sensors.mkdir(parents=True)
    (sensors / "power1_input").write_text("85000000\n")
    (sensors / "temp1_input").write_text("61500\n")
    return root


def test_a_reading_has_the_units_that_its_keys_say(driver: Path) -> None:
    found = reading(driver / "tenstorrent!0")
    assert found is not None and isinstance(found.pop("t_s"), float)
    assert found == {"device": "0", "clock_mhz": 1000, "power_w": 85, "temperature_c": 61.5}
    bare = reading(driver / "tenstorrent!1")
    assert bare is not None and "power_w" not in bare


@pytest.mark.parametrize("text", ["", "n/a\n", "\0" * 100])
def test_what_is_no_number_is_not_known(driver: Path, text: str) -> None:
    for file in driver.rglob("*"):
        if file.is_file():
            file.write_text(text)
    assert reading(driver / "tenstorrent!0") is None


def test_devices_are_read_until_it_ends_and_those_in_use_are_marked(
    driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = Holder(1, "me", 1.0, "python", (Path("/dev/tenstorrent/0"),))
    monkeypatch.setattr(telemetry, "device_holders", lambda root: (holder,))
    made = Telemetry(tmp_path, driver)
    wait_for(lambda: len(made.readings) >= 4 and bool(made.used))
    made.stop(tmp_path)
    written = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    told = {(each["device"], each["used"], each["card"]) for each in written}
    assert told == {("0", True, "n300"), ("1", False, "")}
    assert not made._thread.is_alive()


def test_without_a_driver_nothing_is_written(tmp_path: Path) -> None:
    made = Telemetry(tmp_path, tmp_path / "none")
    made.stop(tmp_path)
    assert list(tmp_path.iterdir()) == []
