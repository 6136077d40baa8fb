"""What ttnn told of its devices: a row for each of several chips, and the kernels of most time."""

from __future__ import annotations

from instrumentor_analysis.model import DevicePrograms
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.document import Column, Figures, Line, Section, Table

TITLE = "Programs on the device"


def figures(found: DevicePrograms, *lines: Line) -> Figures:
    """The figures of the steps in which ttnn told of its devices.

    Args:
        lines: those that every device time has.
    """
    steps = formatting.plural(found.steps, "extra step")
    count = max((each.programs for each in found.chips), default=0)
    own = (
        Line("programs", formatting.count(count), "of the busiest chip, per step"),
        Line("device, the rest", formatting.ms(found.rest_ms), "after the timed region"),
    )
    return Figures(f"Device, {steps} with ttnn's real-time profiler", (*lines, *own))


def section(found: DevicePrograms | None, most: int) -> Section:
    """Chips and kernels; nothing where ttnn told nothing."""
    if found is None:
        return Section("")
    kernels = found.kernels[:most]
    of_kernels = Table(
        (
            Column("kernel", [x.name for x in kernels], right=False, foreign=True, least=16),
            Column("programs", [formatting.number(each.programs) for each in kernels]),
            Column("time", formatting.column([each.ms for each in kernels], "ms")),
            Column("share", [formatting.share(each.percent) for each in kernels]),
            Column("", shares=[x.percent for x in kernels], right=False, colours="cyan"),
        ),
        "A program's time is from its start to its end on the dispatch core, some microseconds "
        "longer than Tracy's kernel duration. Its name is that of its compute kernel.",
    )
    return Section(TITLE, (*_chips(found), of_kernels))


def _chips(found: DevicePrograms) -> tuple[Table, ...]:
    """A row for each chip, where there are several."""
    chips = found.chips
    if len(chips) < 2:
        return ()
    return (
        Table(
            (
                Column("chip", [each.chip for each in chips]),
                Column("programs", [formatting.count(each.programs) for each in chips]),
                Column("busy", formatting.column([each.busy_ms for each in chips], "ms")),
                Column("sum", formatting.column([each.programs_ms for each in chips], "ms")),
            ),
        ),
    )
