"""Devices with their clocks as a table."""

from __future__ import annotations

from instrumentor_analysis.model import DeviceTelemetry, Telemetry
from instrumentor_analysis.reports.telemetry import section


def test_a_throttled_device_is_marked() -> None:
    fine = DeviceTelemetry("0", 9, 1000, 1000, 1000, 0.0, 50.0, 60.0)
    slow = DeviceTelemetry("1", 9, 900, 700, 1000, 40.0, 90.0, 92.0)
    (table,) = section(Telemetry((fine, slow))).tables
    assert table.columns[0].texts == ["0", "1"]
    assert table.columns[2].colours == ["", "bad"]


def test_nothing_where_the_driver_showed_none() -> None:
    assert section(None).tables == ()
