"""``profile_log_device.csv``: zones keyed by device, core, RISC and zone name.

tt-metal writes a line with architecture and clock, a line of column names, then one row a marker.
Begin and end are paired per key as a stack, so that nested zones of one name stay apart. The
device keeps at most 125 markers a core: what is beyond is dropped silently, which shows in
unequal counts of begins and ends.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from instrumentor_analysis.errors import DamagedFile
from instrumentor_analysis.kernels.model import LineCycles, Machine, Operation
from instrumentor_analysis.kernels.text import integer

#: Zones that a RISC of a core keeps; more are dropped without a word.
ZONE_LIMIT = 125
_COLUMNS = {
    "device": ("PCIe slot", "device"),
    "x": ("core_x",),
    "y": ("core_y",),
    "risc": ("RISC processor type",),
    "time": ("time[cycles since reset]",),
    "program": ("run host ID", "run ID"),
    "zone": ("zone name",),
    "phase": ("zone phase", "type"),
}
_AUTO = re.compile(r"^line_(?P<line>\d{1,9})(?:_(?P<rest>.+?))?(?:_(?:before|after))?$")
_BEGIN, _END = ("ZONE_START", "begin"), ("ZONE_END", "end")
_INTERNAL = ("BRISC-KERNEL", "NCRISC-KERNEL", "TRISC-KERNEL")


@dataclass(frozen=True, order=True)
class ZoneKey:
    """Where a zone was measured; ``x`` and ``y`` are the core's coordinates."""

    device: int
    x: int
    y: int
    risc: str
    zone: str


@dataclass(frozen=True)
class Zone:
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


@dataclass(frozen=True)
class DeviceLog:
    """The zones of a file.

    Attributes:
        span: first and last time stamp, cycles since reset; None without rows.
        kept: per (device, x, y) the zones that its fullest RISC kept.
        skipped: rows that are none (cut or of another kind), with the first one's line.
    """

    machine: Machine
    zones: tuple[Zone, ...]
    span: tuple[int, int] | None = None
    kept: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    skipped: int = 0
    first_skipped_line: int | None = None

    def unpaired(self) -> tuple[Zone, ...]:
        """Zones with unequal numbers of begins and ends."""
        return tuple(zone for zone in self.zones if zone.begins != zone.ends)

    def core_cycles(self) -> dict[tuple[int, int, int], int]:
        """Cycles of the longest kernel zone per (device, x, y)."""
        longest: dict[tuple[int, int, int], int] = {}
        for zone in self.zones:
            if zone.key.zone in _INTERNAL and zone.cycles:
                core = (zone.key.device, zone.key.x, zone.key.y)
                longest[core] = max(longest.get(core, 0), zone.total)
        return longest

    def at_limit(self) -> tuple[tuple[int, int, int], ...]:
        """Cores of which a RISC kept as many zones as it can."""
        return tuple(core for core, count in self.kept.items() if count >= ZONE_LIMIT)


def read_device_log(path: Path) -> DeviceLog:
    """Read the file.

    Raises:
        DamagedFile: it cannot be read, or has not the columns of a device log.
    """
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as stream:
            return _read(path, stream)
    except (OSError, csv.Error) as error:
        raise DamagedFile(path, f"cannot be read: {error}") from error


def _read(path: Path, stream: Iterable[str]) -> DeviceLog:
    rows = csv.reader(line.replace("\0", "") for line in stream)
    head: list[str] = []
    machine = Machine()
    for row in rows:
        if row and row[0].strip().startswith("ARCH"):
            machine = _machine(",".join(row))
            continue
        head = row
        break
    places = _places(path, head)
    return _Reader(machine, places).read(rows, first_line=rows.line_num + 1)


def _machine(line: str) -> Machine:
    def found(pattern: str) -> str:
        match = re.search(pattern, line)
        return match[1] if match else ""

    return Machine(
        found(r"ARCH:\s*(\w+)"),
        integer(found(r"CHIP_FREQ\[MHz\]:\s*(\d+)")),
        integer(found(r"Max Compute Cores:\s*(\d+)")),
    )


def _places(path: Path, head: list[str]) -> dict[str, int]:
    names = {name.strip(): at for at, name in enumerate(head)}
    places = {}
    for field_name, spellings in _COLUMNS.items():
        at = next((names[s] for s in spellings if s in names), None)
        if at is None and field_name not in ("device", "program"):
            raise DamagedFile(path, f"no column {spellings[0]!r}: not a device log", line=1)
        if at is not None:
            places[field_name] = at
    return places


class _Reader:
    def __init__(self, machine: Machine, places: Mapping[str, int]) -> None:
        self.machine = machine
        self.places = places
        self.open: dict[ZoneKey, list[int]] = defaultdict(list)
        self.pairs: dict[ZoneKey, list[int]] = defaultdict(list)
        self.begins: dict[ZoneKey, int] = defaultdict(int)
        self.ends: dict[ZoneKey, int] = defaultdict(int)
        self.kept: dict[tuple[int, int, int, str], int] = defaultdict(int)
        self.skipped = 0
        self.first_skipped: int | None = None
        self.times: list[int] = []

    def read(self, rows: Iterator[list[str]], first_line: int) -> DeviceLog:
        low: int | None = None
        high = 0
        for number, row in enumerate(rows, first_line):
            if not row:
                continue
            time = self._take(row)
            if time is None:
                self.skipped += 1
                self.first_skipped = self.first_skipped or number
                continue
            low = time if low is None else min(low, time)
            high = max(high, time)
        keys = sorted({*self.begins, *self.ends})
        zones = tuple(
            Zone(key, tuple(self.pairs[key]), self.begins[key], self.ends[key]) for key in keys
        )
        kept: dict[tuple[int, int, int], int] = {}
        for (device, x, y, _), count in self.kept.items():
            kept[device, x, y] = max(kept.get((device, x, y), 0), count)
        span = None if low is None else (low, high)
        return DeviceLog(self.machine, zones, span, kept, self.skipped, self.first_skipped)

    def _take(self, row: list[str]) -> int | None:
        cells = {name: row[at].strip() for name, at in self.places.items() if at < len(row)}
        time = integer(cells.get("time", ""))
        device, x, y = (integer(cells.get(name, "0")) for name in ("device", "x", "y"))
        phase = cells.get("phase")
        if time is None or x is None or y is None or phase is None or not cells.get("risc"):
            return None
        key = ZoneKey(device or 0, x, y, cells["risc"], cells.get("zone", ""))
        if phase in _BEGIN:
            self.begins[key] += 1
            self.kept[key.device, x, y, key.risc] += 1
            self.open[key].append(time)
        elif phase in _END:
            self.ends[key] += 1
            if self.open[key]:
                self.pairs[key].append(time - self.open[key].pop())
        return time


def line_cycles(log: DeviceLog, core: tuple[int, int, int] | None = None) -> list[LineCycles]:
    """The auto-profiler's zones as lines, of one core or of the slowest one.

    The printed report adds all cores up without saying so; here one core is taken.
    """
    if core is None:
        totals: dict[tuple[int, int, int], int] = defaultdict(int)
        for zone in log.zones:
            if _AUTO.match(zone.key.zone):
                totals[zone.key.device, zone.key.x, zone.key.y] += zone.total
        if not totals:
            return []
        core = max(totals, key=lambda one: totals[one])
    parts: dict[tuple[str, int], list[Operation]] = defaultdict(list)
    for zone in log.zones:
        match = _AUTO.match(zone.key.zone)
        if match is None or (zone.key.device, zone.key.x, zone.key.y) != core or not zone.cycles:
            continue
        name = match["rest"] or ""
        implicit = name.startswith("implicit_")
        operation = Operation(
            name.removeprefix("implicit_"), zone.total, len(zone.cycles), implicit
        )
        parts[zone.key.risc, int(match["line"])].append(operation)
    whole: dict[str, int] = defaultdict(int)
    for (risc, _), operations in parts.items():
        whole[risc] += sum(operation.cycles for operation in operations)
    return [
        LineCycles(
            thread=risc,
            function="",
            line=line,
            source="",
            cycles=(cycles := sum(operation.cycles for operation in operations)),
            percent=cycles / whole[risc] * 100 if whole[risc] else 0.0,
            count=max(operation.count for operation in operations),
            operations=tuple(operation for operation in operations if operation.name),
        )
        for (risc, line), operations in sorted(parts.items())
    ]
