"""What reports show beyond the summary: the single ops, the hardware, the record of the clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from instrumentor_analysis.clock.timings import Timings
    from instrumentor_analysis.load.table import Table
    from instrumentor_analysis.ops.op_report import Report
    from instrumentor_analysis.ops.roofline import Architecture
    from instrumentor_analysis.summary.analysis import Analysis


class Detail(Struct, frozen=True):
    """Frames behind a summary; every part may be missing.

    Attributes:
        ops: per op of the window: :data:`.op_columns.COLUMNS`, or the columns of a torch
            profile's ops.csv.
        architecture: what the ops were held against.
        timings: every sample with its start.
        steps: name and ops of each pooled step; empty for a single one.
        merged_devices: number of devices that a row stands for; 1 when each has its own.
        sources: text of the user's files, by the names that the summary's source lines use; None
            of a file that was changed since the run.
    """

    ops: Table | None = None
    architecture: Architecture | None = None
    timings: Timings | None = None
    steps: tuple[tuple[str, Table], ...] = ()
    merged_devices: int = 1
    sources: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def device_ops(self) -> Table | None:
        """Ops of a Tracy trace without its signposts; None for those of torch."""
        # Op-to-op gaps are what only Tracy's tables have.
        if self.ops is None or "gap_us" not in self.ops:
            return None
        return self.ops.take(~self.ops["is_signpost"])

    @property
    def torch_ops(self) -> Table | None:
        """Ops of a torch profile; None for those of Tracy."""
        if self.ops is None or "gap_us" in self.ops:
            return None
        return self.ops


def of(
    analysis: Analysis | None = None,
    report: Report | None = None,
    sources: Mapping[str, str | None] | None = None,
) -> Detail:
    """The detail of an analysis; a report's ops (its own window and options) win over it."""
    device = None if analysis is None else analysis.device
    ops = None if analysis is None else analysis.ops
    architecture = None if device is None else device.architecture
    if report is not None:
        ops, architecture = report.ops, report.architecture
    steps: tuple[tuple[str, Table], ...] = ()
    devices = 1
    if device is not None:
        if device.pooled > 1:
            steps = tuple(zip(device.window.steps, device.tables, strict=True))
        if report is None or not report.per_device:
            devices = device.devices
    timings = None if analysis is None else analysis.timings
    return Detail(ops, architecture, timings, steps, max(devices, 1), sources or {})
