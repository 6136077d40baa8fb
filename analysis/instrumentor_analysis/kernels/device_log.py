"""``profile_log_device.csv``: zones keyed by device, core, RISC and zone name.

tt-metal writes a line with architecture and clock, a line of column names, then one row a marker.
Begin and end are paired per key as a stack, so that nested zones of one name stay apart. The
device keeps at most 125 markers a core: what is beyond is dropped silently, which shows in
unequal counts of begins and ends.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct, field

from instrumentor_analysis.kernels.model import Machine
from instrumentor_analysis.kernels.text import integer
from instrumentor_analysis.shared.errors import DamagedFile
from instrumentor_analysis.shared.files import opened_text

#: Zones that a RISC of a core keeps; more are dropped without a word.
ZONE_LIMIT = 125
#: The columns that are read, in their spellings; only the device may be missing.
_COLUMNS = {
    "PCIe slot": "device",
    "device": "device",
    "core_x": "x",
    "core_y": "y",
    "RISC processor type": "risc",
    "time[cycles since reset]": "time",
    "zone name": "zone",
    "zone phase": "phase",
    "type": "phase",
}
_MACHINE = tuple(
    re.compile(word)
    for word in (r"ARCH:\s*(\w+)", r"CHIP_FREQ\[MHz\]:\s*(\d+)", r"Max Compute Cores:\s*(\d+)")
)
_BEGIN, _END = ("ZONE_START", "begin"), ("ZONE_END", "end")
#: tt-metal's own zones around the whole kernel; the three TRISCs share one name.
_INTERNAL = ("BRISC-KERNEL", "NCRISC-KERNEL", "TRISC-KERNEL")


class ZoneKey(Struct, frozen=True, order=True):
    """Where a zone was measured; ``x`` and ``y`` are the core's coordinates."""

    device: int
    x: int
    y: int
    risc: str
    zone: str

    @property
    def core(self) -> tuple[int, int, int]:
        """Device and the core's coordinates."""
        return self.device, self.x, self.y


class Zone(Struct, frozen=True):
    """All occurrences of one zone on one RISC of one core.

    Attributes:
        cycles: of each begin-end pair, in the order of their ends.
        begins, ends: markers found; unequal when markers were dropped.
    """

    key: ZoneKey
    cycles: tuple[int, ...]
    begins: int
    ends: int

    @property
    def total(self) -> int:
        """Sum of the pairs, cycles."""
        return sum(self.cycles)


class DeviceLog(Struct, frozen=True):
    """The zones of a file.

    Attributes:
        skipped: lines that hold no row (cut or of another kind).
    """

    machine: Machine
    zones: tuple[Zone, ...]
    skipped: tuple[int, ...] = ()

    def unpaired(self) -> tuple[Zone, ...]:
        """Zones with unequal numbers of begins and ends."""
        return tuple(zone for zone in self.zones if zone.begins != zone.ends)

    def core_cycles(self) -> dict[tuple[int, int, int], int]:
        """Cycles of the longest kernel zone per (device, x, y)."""
        longest: dict[tuple[int, int, int], int] = {}
        for zone in self.zones:
            if zone.key.zone in _INTERNAL and zone.cycles:
                longest[zone.key.core] = max(longest.get(zone.key.core, 0), zone.total)
        return longest

    def at_limit(self) -> tuple[tuple[int, int, int], ...]:
        """Cores of which a RISC kept as many zones as it can."""
        kept: Counter[tuple[tuple[int, int, int], str]] = Counter()
        for zone in self.zones:
            kept[zone.key.core, zone.key.risc] += zone.begins
        return tuple(dict.fromkeys(core for (core, _), n in kept.items() if n >= ZONE_LIMIT))


def read_device_log(path: Path) -> DeviceLog:
    """Read the file.

    Raises:
        DamagedFile: it cannot be read, or has not the columns of a device log.
    """
    try:
        with opened_text(path, "replace", newline="") as stream:
            return _read(path, stream)
    except (OSError, csv.Error) as error:
        raise DamagedFile(path, f"cannot be read: {error}") from error


def _read(path: Path, stream: Iterable[str]) -> DeviceLog:
    # The csv module of Python 3.10 raises an error on a NUL byte.
    rows = csv.reader(line.replace("\0", "") for line in stream)
    head = next(rows, [])
    machine = Machine()
    if head and head[0].strip().startswith("ARCH"):
        machine, head = _machine(",".join(head)), next(rows, [])
    names = [_COLUMNS.get(name.strip(), "") for name in head]
    for spelling, name in _COLUMNS.items():
        if name not in (*names, "device"):
            raise DamagedFile(path, f"no column {spelling!r}: not a device log", line=1)
    marks: dict[ZoneKey, _Marks] = defaultdict(_Marks)
    skipped = []
    for number, row in enumerate(rows, rows.line_num + 1):
        cells = {name: cell.strip() for name, cell in zip(names, row, strict=False)}
        if row and not _take(marks, cells):
            skipped.append(number)
    zones = (Zone(key, tuple(m.cycles), m.begins, m.ends) for key, m in sorted(marks.items()))
    return DeviceLog(machine, tuple(z for z in zones if z.begins or z.ends), tuple(skipped))


def _take(marks: dict[ZoneKey, _Marks], cells: Mapping[str, str]) -> bool:
    """Add a row to its zone; False for a row that is no marker."""
    time, x, y = (integer(cells.get(name, "")) for name in ("time", "x", "y"))
    phase, risc = cells.get("phase"), cells.get("risc")
    if time is None or x is None or y is None or phase is None or not risc:
        return False
    device = integer(cells.get("device", "")) or 0
    marks[ZoneKey(device, x, y, risc, cells.get("zone", ""))].take(phase, time)
    return True


def _machine(line: str) -> Machine:
    found = (word.search(line) for word in _MACHINE)
    arch, mhz, cores = ("" if each is None else each[1] for each in found)
    return Machine(arch, integer(mhz), integer(cores))


class _Marks(Struct):
    """The markers of one zone so far; ``open`` are the times of the begins without an end."""

    begins: int = 0
    ends: int = 0
    open: list[int] = field(default_factory=list)
    cycles: list[int] = field(default_factory=list)

    def take(self, phase: str, time: int) -> None:
        if phase in _BEGIN:
            self.begins += 1
            self.open.append(time)
        elif phase in _END:
            self.ends += 1
            if self.open:
                self.cycles.append(time - self.open.pop())
