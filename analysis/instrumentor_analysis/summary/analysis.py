"""What an analysis gives: the summary, and the frames behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from instrumentor_analysis.clock.timings import Timings
from instrumentor_analysis.load.run_folder import RunFolder
from instrumentor_analysis.model import Summary

if TYPE_CHECKING:
    from instrumentor_analysis.load.table import Table
    from instrumentor_analysis.ops.steps import DeviceSteps


class Analysis(Struct, frozen=True):
    """A summary and the frames behind it.

    Attributes:
        ops: per op of the window: :data:`.op_columns.COLUMNS` under tracy, the columns of
            ops.csv (and ``torch_category``) under torch; None without ops.
        device: the device's half under tracy, with all steps; None otherwise.
        timings: the record of the wall clock.
        folder: where it all lies.
    """

    summary: Summary
    timings: Timings
    folder: RunFolder
    ops: Table | None = None
    device: DeviceSteps | None = None
