"""Clock, power and temperature of the devices while a script runs, as the driver shows them.

The driver (tt-kmd) keeps them in files that anybody may read: no tool is asked, no device opened.
They are read here, in the tool's own process, beside the script: no step waits for it. Times are of
the system's monotonic clock, as is the script's `time.perf_counter` on Linux.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from instrumentor.machine.device_nodes import device_holders
from instrumentor_analysis.clock.telemetry import FILE
from instrumentor_analysis.shared.files import read_text, write_whole

CLASS_ROOT = Path("/sys/class/tenstorrent")
CLASS_ROOT_VARIABLE = "INSTRUMENT_SYSFS_ROOT"  # another one, for tests
#: Seconds between two readings, and between two looks at who has which device open.
EVERY_S, LOOK_S = 0.1, 5.0
#: Readings at most: of longer runs the first ones are let go.
MOST = 20_000
#: File within `device/hwmon/*`, key of a reading, and what its unit is divided by.
_SENSORS = (("power1_input", "power_w", 1e6), ("temp1_input", "temperature_c", 1e3))


def class_root(env: Mapping[str, str] | None = None) -> Path:
    """The folder with an entry for each device, such as ``tenstorrent!0``."""
    return Path((os.environ if env is None else env).get(CLASS_ROOT_VARIABLE) or CLASS_ROOT)


class Telemetry:
    """Reads all devices until it is stopped; nothing where the driver shows none.

    Attributes:
        used: nodes' names of devices that some process had open meanwhile.
        cards: of each of them the type of its card, such as ``n300``; '' where it is not told.
    """

    def __init__(self, devices: Path, root: Path | None = None) -> None:
        """Begin to read.

        Args:
            devices: the folder of the device nodes.
        """
        self.devices = devices
        self.folders = sorted((root or class_root()).glob("tenstorrent!*"))
        self.readings: list[dict[str, Any]] = []
        self.used: set[str] = set()
        self.cards = {_device(folder): _card(folder) for folder in self.folders}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        if self.folders:
            self._thread.start()

    def _follow(self) -> None:
        look_s = time.monotonic()
        while not self._over.is_set():
            self.readings += filter(None, map(reading, self.folders))
            del self.readings[:-MOST]
            if time.monotonic() >= look_s:
                look_s = time.monotonic() + LOOK_S
                with suppress(OSError):
                    holders = device_holders(self.devices)
                    self.used |= {node.name for each in holders for node in each.devices}
            self._over.wait(EVERY_S)

    def stop(self, folder: Path | None = None) -> None:
        """Read no more, and write what was read into a folder, if there is any."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(LOOK_S)
        if folder is not None and self.readings:
            lines = [
                {**each, "used": each["device"] in self.used, "card": self.cards[each["device"]]}
                for each in self.readings
            ]
            text = "".join(json.dumps(line) + "\n" for line in lines)
            write_whole(folder / FILE, text.encode())


def reading(folder: Path) -> dict[str, Any] | None:
    """What a device shows now, and when; None where it shows nothing.

    Keys: ``device``, ``t_s``, ``clock_mhz``, ``power_w``, ``temperature_c``.
    """
    found: dict[str, Any] = {"clock_mhz": _number(folder / "tt_aiclk")}
    for sensors in sorted(folder.glob("device/hwmon/hwmon*"))[:1]:
        for file, key, divisor in _SENSORS:
            value = _number(sensors / file)
            found[key] = None if value is None else value / divisor
    known = {key: value for key, value in found.items() if value is not None}
    if not known:
        return None
    return {"device": _device(folder), "t_s": time.monotonic(), **known}


def _device(folder: Path) -> str:
    """The name of its node."""
    return folder.name.partition("!")[2]


def _card(folder: Path) -> str:
    try:
        return read_text(folder / "tt_card_type", "replace", limit=64).strip()
    except OSError:
        return ""


def _number(path: Path) -> float | None:
    try:
        return float(read_text(path, "replace", limit=64).split()[0])
    except (OSError, ValueError, IndexError):
        return None
