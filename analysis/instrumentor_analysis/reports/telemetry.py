"""Clock, power and temperature of the devices: a row each."""

from __future__ import annotations

from instrumentor_analysis.clock.telemetry import hidden, throttled
from instrumentor_analysis.model import Telemetry
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.document import Column, Section, Table


def section(found: Telemetry | None) -> Section:
    """The devices in use during the steady steps; nothing where the driver showed none."""
    if found is None:
        return Section("")
    rows, slow = found.devices, throttled(found)
    tones = ["bad" if each in slow else "" for each in rows]
    cards = [each.card for each in rows]
    columns = (
        Column("device", [each.device for each in rows]),
        *([Column("card", cards, right=False)] if any(cards) else []),
        Column("clock", formatting.column([each.clock_mhz for each in rows], "MHz")),
        Column("lowest", formatting.column([x.lowest_clock_mhz for x in rows], "MHz"),
               colours=tones),
        Column("slower", [formatting.share(each.slower_percent) for each in rows], colours=tones),
        Column("power", formatting.column([each.power_w for each in rows], "W")),
        Column("hottest", formatting.column([x.highest_temperature_c for x in rows], "°C")),
    )  # fmt: skip
    note = (
        "During the steady steps, as the driver shows it. Slower: share of the readings below "
        "95 % of the highest clock."
    )
    if hidden(rows):
        note += (
            " Of a card with two chips the driver shows only the one with the device node, so the "
            "power of all chips and the energy of a step are unknown."
        )
    return Section("Clock, power, temperature", (Table(columns, note),))
