"""Host time inside tt-crank: what it spends on compiling and on running programs.

tt-crank marks the hot paths of its compile and run pipeline with Tracy zones named ``tt_crank::*``
(``tt_kurbla::*`` before it was renamed). Tracy's export of all zones, tracy_ops_times.csv, holds
their begin (``ns_since_start``) and length (``exec_time_ns``) on the clock of the signposts. A zone
within another one of the same thread counts for itself, and no longer for the outer one.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from instrumentor_analysis.model import HostLayer

if TYPE_CHECKING:
    from instrumentor_analysis.window import StepMarks

ZONES = "tracy_ops_times.csv"
LAYERS = ("compile", "run", "other")
_PREFIXES = (b"tt_crank::", b"tt_kurbla::")
_COMPILE = re.compile(r"compil|pipeline|flatbuffer|lower|build", re.IGNORECASE)
_RUN = re.compile(r"run|submit|execut", re.IGNORECASE)


class Zone(Struct, frozen=True):
    """One zone; times in ns."""

    name: str
    thread: str
    start_ns: int
    end_ns: int

    @property
    def layer(self) -> str:
        """Which of :data:`LAYERS` it belongs to, by its name."""
        if _COMPILE.search(self.name):
            return "compile"
        return "run" if _RUN.search(self.name) else "other"


def layers_of_steps(zones: Path | None, marks: Sequence[StepMarks]) -> tuple[HostLayer, ...]:
    """The layers of the steps that are shown, where the run has Tracy's export of all zones."""
    borders = [(mark.start.host_ns, mark.end.host_ns) for mark in marks if mark.end is not None]
    windows = [(a, b) for a, b in borders if a is not None and b is not None]
    return host_layers(read_zones(zones), windows) if zones is not None and windows else ()


def read_zones(path: Path) -> tuple[Zone, ...]:
    """tt-crank's zones; nothing where the export has none, or other columns."""
    with path.open("rb") as stream:
        header = next(csv.reader([stream.readline().decode("utf-8", "replace")]), [])
        # The export holds every zone of tt-metal, too: only lines that may count are parsed.
        lines = [line for line in stream if line.startswith(_PREFIXES)]
    try:
        thread, start, length = map(header.index, ("thread", "ns_since_start", "exec_time_ns"))
    except ValueError:
        return ()
    found = []
    for row in csv.reader(line.decode("utf-8", "replace") for line in lines):
        if len(row) > max(thread, start, length):
            begin = int(row[start])
            name = row[0].partition("::")[2]
            found.append(Zone(name, row[thread], begin, begin + int(row[length])))
    return tuple(found)


def host_layers(zones: Iterable[Zone], windows: Sequence[tuple[int, int]]) -> tuple[HostLayer, ...]:
    """Time and count of each layer in a step, the mean over the windows; those without are absent.

    Args:
        windows: begin and end of each step that is shown, ns.
    """
    times = dict.fromkeys(LAYERS, 0)
    counts = dict.fromkeys(LAYERS, 0)
    names: dict[str, dict[str, None]] = {layer: {} for layer in LAYERS}
    inside = [zone for zone in zones if any(a <= zone.start_ns < b for a, b in windows)]
    for zone, own_ns in _own_times(inside):
        times[zone.layer] += own_ns
        counts[zone.layer] += 1
        names[zone.layer][zone.name] = None
    steps = len(windows)
    return tuple(
        HostLayer(layer, times[layer] / steps / 1e6, counts[layer] / steps, tuple(names[layer]))
        for layer in LAYERS
        if counts[layer]
    )


def _own_times(zones: Iterable[Zone]) -> list[tuple[Zone, int]]:
    """Each zone with its length less that of the zones directly within it."""
    own: dict[int, int] = {}
    ordered = sorted(zones, key=lambda zone: (zone.thread, zone.start_ns, -zone.end_ns))
    outer: list[int] = []
    for at, zone in enumerate(ordered):
        own[at] = zone.end_ns - zone.start_ns
        while outer and not _within(zone, ordered[outer[-1]]):
            outer.pop()
        if outer:
            own[outer[-1]] -= own[at]
        outer.append(at)
    return [(zone, own[at]) for at, zone in enumerate(ordered)]


def _within(zone: Zone, outer: Zone) -> bool:
    return zone.thread == outer.thread and zone.end_ns <= outer.end_ns
