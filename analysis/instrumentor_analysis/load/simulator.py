"""Whether ops come from a simulated device, by what their CSV itself shows.

`instrument` writes it into DEVICE ARCH. A CSV that was made elsewhere looks like one of the chip
that was simulated, and so does the device's log, but for the clocks. A chip's runs beside the
host's, by some 10^9 cycles a second (0.98 and 1.35 per nanosecond in recorded traces); a functional
simulator's counts little more than the instructions, while the host waits for it (10^-7 to 10^-4).
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from instrumentor_analysis.load.schema import SIMULATED
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.files import opened_text
from instrumentor_analysis.shared.units import quantity

#: Rows of a file that are looked at.
_FIRST_ROWS = 1000
#: Below this many cycles per nanosecond of the host's no clock of a chip runs.
SLOWEST = 0.01
#: Over less of the host's time the clocks are not held against each other, ns.
LEAST_HOST_NS = 1e6
_NO_TIMES = "Ops have no times, and there is no verdict. Run it on a device for figures"
_CLOCKS = (
    *("HOST START TS", "HOST DURATION [ns]"),
    *("DEVICE FW START CYCLE", "DEVICE FW END CYCLE"),
)


def source_of(ops_csvs: Sequence[Path], arch: str | None) -> tuple[str | None, tuple[Caveat, ...]]:
    """The architecture to read files by: as asked for, or that they are of a simulated device.

    Args:
        ops_csvs: the files of one system.
        arch: what was asked for; it counts for more than clocks, and less than DEVICE ARCH.

    Returns:
        The architecture, None where nothing says one; and what to tell of it.
    """
    first = [_first_rows(path) for path in ops_csvs]
    if any(row.get("DEVICE ARCH") == SIMULATED for rows in first for row in rows):
        return SIMULATED, (no_times(),)
    if arch == SIMULATED:
        return arch, (no_times(),)
    clocks = next(filter(None, map(_clocks, first)), "")
    if clocks and arch is None:
        return SIMULATED, (no_times(clocks),)
    if clocks:
        text = (
            f"{clocks}, as only a simulator's does: no time here was measured on a device, "
            f"whatever --arch {arch} says."
        )
        return arch, (Caveat("architecture", text[0].upper() + text[1:]),)
    return arch, ()


def no_times(clocks: str = "") -> Caveat:
    """That the device was simulated, and by what clocks that was seen."""
    if clocks:
        text = f"The device was simulated, because {clocks}. {_NO_TIMES}; if this is wrong, give "
        return Caveat("simulated", f"{text}--arch NAME.")
    text = "The device was simulated: results are real, but no time here was measured on a device."
    return Caveat("simulated", f"{text} {_NO_TIMES}.")


def _first_rows(path: Path) -> list[dict[str, str]]:
    try:
        with opened_text(path, "replace", newline="") as stream:
            return list(islice(csv.DictReader(stream), _FIRST_ROWS))
    except (OSError, csv.Error):  # whoever reads all of it says what is wrong
        return []


def _clocks(rows: Iterable[Mapping[str, str]]) -> str:
    """In words, that a device's clock ran far slower than any chip's; else nothing."""
    devices: dict[str, list[tuple[float, ...]]] = {}
    for row in rows:
        times = tuple(_figures(row))
        if len(times) == len(_CLOCKS):
            devices.setdefault(row.get("DEVICE ID") or "", []).append(times)
    return next(filter(None, map(_slow, devices.values())), "")


def _figures(row: Mapping[str, str]) -> Iterator[float]:
    for name in _CLOCKS:
        try:
            yield float(row.get(name) or "")
        except (TypeError, ValueError):
            return


def _slow(times: Sequence[tuple[float, ...]]) -> str:
    """Of one device: from the end of the host's first call to the begin of its last one.

    An op starts after its call, and the first one, before which nothing waits, soon after its
    call has ended. So the device's clock runs at least for as long, compilations included.
    """
    first, last = min(times), max(times)
    host_ns = last[0] - (first[0] + first[1])
    cycles = max(each[3] for each in times) - min(each[2] for each in times)
    if not host_ns > LEAST_HOST_NS or not 0 <= cycles < SLOWEST * host_ns:
        return ""
    host = quantity(host_ns / 1e9, "s")
    return f"the clock of the device ran for {cycles:,.0f} cycles in {host} of the host's"
