"""Host time inside tt-crank and tt-metal: compiling, dispatching, replaying, running programs.

tt-crank marks the hot paths of its compile and run pipeline with Tracy zones named ``tt_crank::*``
(``tt_kurbla::*`` before it was renamed); tt-metal's zones are sorted as tt-blacksmith's own report
sorts them: ``compile``, ``dispatch_host``, ``trace``. Tracy's export of all zones,
tracy_ops_times.csv, holds their begin (``ns_since_start``) and length (``exec_time_ns``) on the
clock of the signposts. A zone within another one of the same thread counts for itself, and no
longer for the outer one.
"""

from __future__ import annotations

import csv
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from instrumentor_analysis.model import HostLayer
from instrumentor_analysis.shared.errors import DamagedFile
from instrumentor_analysis.shared.files import lines_of, opened

if TYPE_CHECKING:
    from instrumentor_analysis.ops.window import StepMarks

ZONES = "tracy_ops_times.csv"
#: By software, in the order in which they are shown.
LAYERS = {
    "tt-crank": ("compile", "run", "other"),
    "tt-metal": ("compile", "dispatch_host", "trace"),
}
#: tt-metal's zones by tt-blacksmith's buckets; a name may be qualified.
_METAL = {
    "compile": re.compile(r"(.*::)?(JitBuild|BuildKernel|GenerateBinaries)"),
    "dispatch_host": re.compile(r"(.*::)?(EnqueueProgram|CommandQueue::)"),
    "trace": re.compile(r"(.*::)?(ReplayTrace|BeginTrace|EndTrace)"),
}
_CRANK, _TT_METAL = "tt-crank", "tt-metal"
#: Lines that may be of such a zone: its name stands first.
_WANTED = re.compile(
    rb"tt_crank::|tt_kurbla::|(?:[\w:]*::)?(?:JitBuild|BuildKernel|GenerateBinaries|"
    rb"EnqueueProgram|CommandQueue::|ReplayTrace|BeginTrace|EndTrace)"
)
_COMPILE = re.compile(r"compil|pipeline|flatbuffer|lower|build", re.IGNORECASE)
_RUN = re.compile(r"run|submit|execut", re.IGNORECASE)
_NS = re.compile(r"-?[0-9]{1,19}")


class Zone(Struct, frozen=True):
    """One zone; times in ns.

    Attributes:
        of: the software.
    """

    name: str
    thread: str
    start_ns: int
    end_ns: int
    of: str = _CRANK

    @property
    def layer(self) -> str:
        """Which of :data:`LAYERS` it belongs to, by its name."""
        if self.of == _TT_METAL:
            return next(layer for layer, names in _METAL.items() if names.match(self.name))
        if _COMPILE.search(self.name):
            return "compile"
        return "run" if _RUN.search(self.name) else "other"


def layers_of_steps(zones: Path | None, marks: Sequence[StepMarks]) -> tuple[HostLayer, ...]:
    """The layers of the steps that are shown, where the run has Tracy's export of all zones."""
    borders = [(mark.start.host_ns, mark.end.host_ns) for mark in marks if mark.end is not None]
    windows = [(a, b) for a, b in borders if a is not None and b is not None]
    return host_layers(read_zones(zones), windows) if zones is not None and windows else ()


def read_zones(path: Path) -> tuple[Zone, ...]:
    """The zones of these; nothing where the export has none, or other columns.

    Raises:
        DamagedFile: it is no CSV.
    """
    with opened(path) as stream:
        # The export holds one zone for each op, too: only lines that may count are parsed.
        every = lines_of(stream)
        lines = [next(every, b""), *(line for line in every if _WANTED.match(line))]
    rows = csv.DictReader(line.decode("utf-8", "replace") for line in lines)
    try:
        if not {"name", "thread", "ns_since_start", "exec_time_ns"} <= {*(rows.fieldnames or ())}:
            return ()
        return tuple(zone for row in rows if (zone := _zone(row)))
    except csv.Error as error:
        raise DamagedFile(path, str(error)) from error


def _zone(row: Mapping[str, str | None]) -> Zone | None:
    """The zone of a row; None where it is cut short, or its times are none."""
    times = [row["ns_since_start"] or "", row["exec_time_ns"] or ""]
    if not row["thread"] or not all(_NS.fullmatch(time) for time in times):
        return None
    start, length = map(int, times)
    name, of = row["name"] or "", _TT_METAL
    if name.startswith(("tt_crank::", "tt_kurbla::")):
        name, of = name.partition("::")[2], _CRANK
    return Zone(name, row["thread"], start, start + length, of)


def host_layers(zones: Iterable[Zone], windows: Sequence[tuple[int, int]]) -> tuple[HostLayer, ...]:
    """Time and count of each layer in a step, the mean over the windows; those without are absent.

    Args:
        windows: begin and end of each step that is shown, ns.
    """
    layers: dict[tuple[str, str], list[tuple[Zone, int]]] = {
        (of, layer): [] for of, every in LAYERS.items() for layer in every
    }
    parts = _parts(windows)
    begins = [begin for begin, _ in parts]
    inside = [
        zone
        for zone in zones
        if (at := bisect_right(begins, zone.start_ns)) and zone.start_ns < parts[at - 1][1]
    ]
    for zone, own_ns in _own_times(inside):
        layers[zone.of, zone.layer].append((zone, own_ns))
    steps = len(windows)
    return tuple(
        HostLayer(
            layer,
            sum(own_ns for _, own_ns in found) / steps / 1e6,
            len(found) / steps,
            tuple(dict.fromkeys(zone.name for zone, _ in found)),
            of,
        )
        for (of, layer), found in layers.items()
        if found
    )


def _parts(windows: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """What windows cover together, in order: no two of these have anything in common."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(windows):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def _own_times(zones: Iterable[Zone]) -> list[tuple[Zone, int]]:
    """Each zone with its length less that of the zones directly within it."""
    # Of zones that begin together the longer one is the outer one.
    ordered = sorted(zones, key=lambda zone: (zone.thread, zone.start_ns, -zone.end_ns))
    own = [zone.end_ns - zone.start_ns for zone in ordered]
    outer: list[int] = []
    for at, zone in enumerate(ordered):
        while outer and not _within(zone, ordered[outer[-1]]):
            outer.pop()
        if outer:
            own[outer[-1]] -= zone.end_ns - zone.start_ns
        outer.append(at)
    return list(zip(ordered, own, strict=True))


def _within(zone: Zone, outer: Zone) -> bool:
    return zone.thread == outer.thread and zone.end_ns <= outer.end_ns
