"""The per-op report with every option that tt-perf-report's users know.

``per_op_report(source, options)`` returns frames; printing them is somebody else's. IDs are the
line numbers of the file, as theirs are, and survive every filter.

Every figure is that of tt-perf-report 1.4.1. What differs, and why:

* With no window named, the last complete steady step of our signposts is shown; a file without
  those is read by their rule (what follows the last signpost's name).
* A window or an ID range without an op, or a signpost that is not there, is an error that says
  what is there; theirs is empty, or passes over the name.
* A row with too few or too many cells is an error that names the line; theirs reads it shifted.
* Where theirs crashes (a matmul without memory or math fidelity, a host op or a signpost named
  like a matmul, no GLOBAL CALL COUNT or DEVICE ID column, an architecture without peaks) only
  the figures concerned are blank.
* In a file above :data:`.ops_csv.WHOLE_FILE_BYTES` the core budget of rows that report none
  is the largest of the window, not of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from instrumentor_analysis.load.run_folder import open_run
from instrumentor_analysis.load.table import Table, any_known
from instrumentor_analysis.ops.advice import GapAdvice, gap_advice, matmul_advice
from instrumentor_analysis.ops.figures import overall_dram, remarks
from instrumentor_analysis.ops.merge import DIFFERENT_OPS, merge_devices
from instrumentor_analysis.ops.per_op import per_op, with_totals
from instrumentor_analysis.ops.pooling import pool
from instrumentor_analysis.ops.report_options import ReportOptions, parse_id_range
from instrumentor_analysis.ops.roofline import Architecture
from instrumentor_analysis.ops.stacked import stacked
from instrumentor_analysis.ops.steps import DeviceSteps, read_steps, without_signposts
from instrumentor_analysis.shared.caveats import Caveat, by_weight
from instrumentor_analysis.shared.errors import BadOption, NotAnOpsFile


class Report(Struct, frozen=True):
    """Frames of a per-op report.

    Attributes:
        ops: one row per op (:data:`instrumentor_analysis.load.op_columns.COLUMNS`) plus
            ``minor``: below ``min_percentage`` and no host op, shown grey.
        stacked: see :func:`instrumentor_analysis.ops.stacked.stacked`.
        advice: sentences per matmul, by position in ``ops``.
        gaps: what tracing could save; None when no gap is above 6.5 us.
        architecture: what the figures were held against.
        window: in words, which ops these are.
        dram_gb_s, dram_percent: of all ops with a DRAM model, over all device time.
        notes: what was assumed or odd.
        pooled: steps of which ``ops`` are the mean; above 1 with the columns of
            :func:`instrumentor_analysis.ops.pooling.pool`.
        per_device: a row per op and device, not one of all devices.
    """

    ops: Table
    stacked: Table
    advice: dict[int, tuple[str, ...]]
    gaps: GapAdvice | None
    architecture: Architecture
    window: str
    dram_gb_s: float | None
    dram_percent: float | None
    notes: tuple[Caveat, ...] = ()
    pooled: int = 1
    per_device: bool = False


def per_op_report(source: Path | Sequence[Path], options: ReportOptions | None = None) -> Report:
    """Report on ops CSVs (several: the hosts of one system), or on the one of a folder.

    Args:
        source: a folder means what it means to ``instrument report``
            (:func:`instrumentor_analysis.load.run_folder.open_run`).

    Raises:
        AnalysisError: one of :mod:`.errors`; an empty window says what was found.
    """
    options = options or ReportOptions()
    options.check()
    sources = (source,) if isinstance(source, Path) else tuple(source)
    notes: tuple[Caveat, ...] = ()
    if isinstance(source, Path) and not source.is_file():
        folder = open_run(source)
        if folder.ops_csv is None:
            raise NotAnOpsFile(f"{source} holds no ops_perf_results*.csv")
        sources, notes = (folder.ops_csv,), folder.warnings
    report = report_of(read_steps(sources, options.step, options.arch, options.named), options)
    # The window in words already says that the file has no steps of ours.
    told = [each for each in (*report.notes, *notes) if each.kind != "no-steps"]
    return replace(report, notes=by_weight(told))


def report_of(device: DeviceSteps, options: ReportOptions | None = None) -> Report:
    """The per-op report of files that were read already, and of the same window.

    Args:
        options: as the window of ``device`` was chosen; a step or signposts of its own are not
            looked for.
    """
    options = options or ReportOptions()
    apart, tables = options.no_merge_devices, _tables(device, options)
    table = pool(tables, per_device=apart) if len(tables) > 1 else tables[0]
    table = _filtered(table, options)
    # Devices that are kept apart are not merged, so it does not matter that their ops differ.
    known = [each for each in device.warnings if not (apart and each.kind == DIFFERENT_OPS)]
    warnings = [*remarks(table, timed=device.timed), *known]
    if not options.tracing_mode and any_known(device.rows["trace_replay_session"]):
        text = (
            "Replays of a trace carry the host time of its capture; --tracing-mode keeps the order "
            "of the file."
        )
        warnings.append(Caveat("trace-replay", text))
    dram_gb_s, dram_percent = overall_dram(table)
    minor = (table["total_percent"] < options.min_percentage) & ~table["is_host"]
    steps, shown = device.window.steps, device.window.how
    if steps:
        several = f"mean of {len(steps)} steps, {steps[0]} .. {steps[-1]}"
        shown = several if len(steps) > 1 else f"step {steps[0]}"
    return Report(
        ops=table.assign(minor=minor),
        stacked=stacked(table, options.group_by, per_device=apart),
        advice=matmul_advice(table),
        gaps=gap_advice(table),
        architecture=device.architecture,
        window=shown,
        dram_gb_s=dram_gb_s,
        dram_percent=dram_percent,
        pooled=len(tables),
        per_device=apart,
        notes=by_weight(warnings),
    )


def _tables(device: DeviceSteps, options: ReportOptions) -> Sequence[Table]:
    """Figures per op of each part of the window; made anew where devices stay apart, or experts."""
    tables, parts, apart = device.tables, device.parts, options.no_merge_devices
    if apart or options.active_experts is not None:
        rows = parts if apart else [merge_devices(part)[0] for part in parts]
        tables = tuple(per_op(part, device.architecture, options.active_experts) for part in rows)
    if options.print_signposts or options.ignore_signposts:
        return tables
    return [without_signposts(table) for table in tables]


def _filtered(table: Table, options: ReportOptions) -> Table:
    if options.id_range is not None:
        low, high = parse_id_range(options.id_range)
        ids = table["id"]
        inside = (ids >= (low or 0)) & (ids <= (np.inf if high is None else high))
        if not inside.any():
            raise BadOption(f"no op in the ID range; the IDs run from {ids.min()} to {ids.max()}")
        table = table.take(inside)
        # What came before the first row is no longer shown, so neither is the gap to it.
        # The mask has made a copy, so that the table of the analysis keeps its gap.
        table["gap_us"][0] = np.nan
    if options.no_host_ops:
        table = table.take(~table["is_host"])
    return with_totals(table)
