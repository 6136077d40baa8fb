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
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

    @property
    def core(self) -> tuple[int, int, int]:
        """Device and the core's coordinates."""
        return self.device, self.x, self.y


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
                longest[zone.key.core] = max(longest.get(zone.key.core, 0), zone.total)
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
        self.span: tuple[int, int] | None = None

    def read(self, rows: Iterator[list[str]], first_line: int) -> DeviceLog:
        for number, row in enumerate(rows, first_line):
            if row and not self._take(row):
                self.skipped += 1
                self.first_skipped = self.first_skipped or number
        zones = tuple(
            Zone(key, tuple(self.pairs[key]), self.begins[key], self.ends[key])
            for key in sorted({*self.begins, *self.ends})
        )
        kept: dict[tuple[int, int, int], int] = {}
        for (*core, _), count in self.kept.items():
            place = (core[0], core[1], core[2])
            kept[place] = max(kept.get(place, 0), count)
        return DeviceLog(self.machine, zones, self.span, kept, self.skipped, self.first_skipped)

    def _take(self, row: list[str]) -> bool:
        """Take a marker; False for a row that is none."""
        cells = {name: row[at].strip() for name, at in self.places.items() if at < len(row)}
        time = integer(cells.get("time", ""))
        device, x, y = (integer(cells.get(name, "0")) for name in ("device", "x", "y"))
        phase = cells.get("phase")
        if time is None or x is None or y is None or phase is None or not cells.get("risc"):
            return False
        low, high = self.span or (time, time)
        self.span = min(low, time), max(high, time)
        key = ZoneKey(device or 0, x, y, cells["risc"], cells.get("zone", ""))
        if phase in _BEGIN:
            self.begins[key] += 1
            self.kept[key.device, x, y, key.risc] += 1
            self.open[key].append(time)
        elif phase in _END:
            self.ends[key] += 1
            if self.open[key]:
                self.pairs[key].append(time - self.open[key].pop())
        return True


def line_cycles(log: DeviceLog, core: tuple[int, int, int] | None = None) -> list[LineCycles]:
    """The auto-profiler's zones as lines, of one core or of the slowest one.

    The printed report adds all cores up without saying so; here one core is taken.
    """
    core = core or _slowest(log)
    parts: dict[tuple[str, int], list[Operation]] = defaultdict(list)
    whole: dict[str, int] = defaultdict(int)
    for zone in log.zones:
        match = _AUTO.match(zone.key.zone)
        if match is None or zone.key.core != core or not zone.cycles:
            continue
        name = match["rest"] or ""
        part = name.removeprefix("implicit_")
        operation = Operation(part, zone.total, len(zone.cycles), implicit=part != name)
        parts[zone.key.risc, int(match["line"])].append(operation)
        whole[zone.key.risc] += zone.total
    return [_line(*key, parts[key], whole[key[0]]) for key in sorted(parts)]


def _slowest(log: DeviceLog) -> tuple[int, int, int] | None:
    """The core with most cycles in the auto-profiler's zones."""
    totals: dict[tuple[int, int, int], int] = defaultdict(int)
    for zone in log.zones:
        if _AUTO.match(zone.key.zone):
            totals[zone.key.core] += zone.total
    return max(totals, key=lambda one: totals[one], default=None)


def _line(risc: str, line: int, operations: Sequence[Operation], whole: int) -> LineCycles:
    cycles = sum(operation.cycles for operation in operations)
    return LineCycles(
        thread=risc,
        function="",
        line=line,
        source="",
        cycles=cycles,
        percent=cycles / whole * 100 if whole else 0.0,
        count=max(operation.count for operation in operations),
        operations=tuple(operation for operation in operations if operation.name),
    )
