"""What an analysis gives: the summary, and the frames behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from instrumentor_analysis.model import Summary
from instrumentor_analysis.run_folder import RunFolder
from instrumentor_analysis.timings import Timings

if TYPE_CHECKING:
    from instrumentor_analysis.steps import DeviceSteps
    from instrumentor_analysis.table import Table


class Analysis(Struct, frozen=True):
    """A summary and the frames behind it.

    Attributes:
        ops: per op of the window: :data:`.device.COLUMNS` under tracy, the columns of
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
