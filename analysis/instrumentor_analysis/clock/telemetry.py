"""Clock, power and temperature of the devices during the steady steps, and what a step costs.

A reading belongs to the steps when it was taken between the begin of the first steady one and the
end of the last: a device idles at another clock. Only devices that a process had open count.

A node is a chip, and the driver shows that chip alone: of a card with a second chip behind it there
is no power of the whole, and so no energy of a step.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from instrumentor_analysis.model import DeviceTelemetry, Sample, Telemetry, WallClock
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.documents import fitted, parsed
from instrumentor_analysis.shared.files import read_text

FILE = "telemetry.jsonl"
#: A clock below this share of the highest one of the steps is a slower one,
SLOWER_SHARE = 0.95
#: and the device is throttled when it is that in so many of the readings, percent.
THROTTLED_PERCENT = 10.0
#: Cards whose node is of one of their two chips.
OF_TWO_CHIPS = ("n300",)
#: Fewer readings than that say nothing.
FEWEST = 3


class Reading(Struct, frozen=True):
    """One reading of one device, by the names of the record."""

    device: str = ""
    t_s: float = 0.0
    clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    used: bool = False
    card: str = ""


def readings(folder: Path) -> tuple[Reading, ...]:
    """What was read during a run; nothing where nothing was."""
    path = folder / FILE
    if not path.is_file():
        return ()
    found = []
    for line in read_text(path, "replace").split("\n"):
        try:
            document = parsed(line)
        except ValueError:  # the end of a line that was cut short
            continue
        if isinstance(document, dict):
            found.append(fitted(document, Reading))
    return tuple(found)


def telemetry(
    read: Sequence[Reading], samples: Sequence[Sample], wall: WallClock | None
) -> Telemetry | None:
    """Each used device during the steady steps; None where too little was read.

    Args:
        samples: all of the run.
        wall: of the main label: its iteration is what a step's energy is of.
    """
    inside = _inside(read, samples)
    of_device: dict[str, list[Reading]] = {}
    for each in inside:
        of_device.setdefault(each.device, []).append(each)
    rows = [_device(name, of_device[name]) for name in _names(inside)]
    devices = tuple(each for each in rows if each is not None)
    if not devices:
        return None
    powers = [each.power_w for each in devices]
    power_w = None if None in powers or hidden(devices) else sum(each or 0.0 for each in powers)
    step_j, sample_j = (None, None) if power_w is None or wall is None else _energy(power_w, wall)
    return Telemetry(devices, power_w, step_energy_j=step_j, sample_energy_j=sample_j)


def hidden(devices: Sequence[DeviceTelemetry]) -> bool:
    """Whether a card has a chip of which the driver shows nothing."""
    return any(each.card in OF_TWO_CHIPS for each in devices)


def _inside(read: Sequence[Reading], samples: Sequence[Sample]) -> list[Reading]:
    """The readings of used devices during the steady steps."""
    steady = [
        (each.start_s, each.start_s + each.ms / 1e3)
        for each in samples
        if each.kind == "steady" and each.start_s is not None
    ]
    begin_s = min((begin for begin, _ in steady), default=0.0)
    end_s = max((end for _, end in steady), default=0.0)
    return [each for each in read if steady and each.used and begin_s <= each.t_s <= end_s]


def _energy(power_w: float, wall: WallClock) -> tuple[float | None, float | None]:
    """Joules of an iteration (of a step, where iterations were not seen) and of a sample."""
    whole = wall.iteration
    if whole is None:
        return None if wall.median_ms is None else power_w * wall.median_ms / 1e3, None
    rate = whole.samples_per_s
    return power_w * whole.median_ms / 1e3, power_w / rate if rate else None


def _names(read: Sequence[Reading]) -> list[str]:
    return sorted({each.device for each in read}, key=lambda name: (len(name), name))


def _device(name: str, read: Sequence[Reading]) -> DeviceTelemetry | None:
    if len(read) < FEWEST:
        return None
    clocks = [each.clock_mhz for each in read if each.clock_mhz is not None]
    powers = [each.power_w for each in read if each.power_w is not None]
    degrees = [each.temperature_c for each in read if each.temperature_c is not None]
    slow = SLOWER_SHARE * max(clocks, default=0.0)
    slower = [clock for clock in clocks if clock < slow]
    return DeviceTelemetry(
        device=name,
        readings=len(read),
        clock_mhz=statistics.median(clocks) if clocks else None,
        lowest_clock_mhz=min(clocks, default=None),
        highest_clock_mhz=max(clocks, default=None),
        slower_percent=len(slower) / len(clocks) * 100 if clocks else None,
        power_w=statistics.fmean(powers) if powers else None,
        highest_temperature_c=max(degrees, default=None),
        card=read[0].card,
    )


def throttled(found: Telemetry | None) -> tuple[DeviceTelemetry, ...]:
    """The devices whose clock fell during the steps."""
    every = () if found is None else found.devices
    return tuple(x for x in every if (x.slower_percent or 0.0) >= THROTTLED_PERCENT)


def throttling(device: DeviceTelemetry) -> str:
    """That a device was throttled, behind its name; without the sentence's end."""
    state = [
        f"{device.highest_temperature_c:.0f} °C at most" if device.highest_temperature_c else "",
        f"{device.power_w:.0f} W on average" if device.power_w else "",
    ]
    why = ", ".join(filter(None, state))
    return (
        "was throttled: its clock fell from "
        f"{device.highest_clock_mhz or 0:.0f} to {device.lowest_clock_mhz or 0:.0f} MHz in "
        f"{device.slower_percent or 0:.0f} % of the readings" + (f" ({why})" if why else "")
    )


def slower(found: Telemetry | None) -> tuple[Caveat, ...]:
    """A warning for each throttled device."""
    return tuple(
        Caveat(
            "throttled",
            f"Device {each.device} {throttling(each)}",
            hint="Cool it; measure again.",
        )
        for each in throttled(found)
    )
