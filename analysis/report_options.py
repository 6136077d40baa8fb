"""The per-op report with every option that tt-perf-report's users know.

``per_op_report(source, options)`` returns frames; printing them is somebody else's. IDs are the
line numbers of the file, as theirs are, and survive every filter.

Every figure is that of tt-perf-report 1.4.1. What differs, and why:

* With no window named, the last complete steady step of our signposts is shown; a file without
  those is read by their rule (what follows the last signpost's name).
* A window or an ID range without an op is an error that says what is there; theirs is empty.
* A row with too few or too many cells is an error that names the line; theirs reads it shifted.
* Where theirs crashes (a matmul without memory or math fidelity, a host op or a signpost named
  like a matmul, no GLOBAL CALL COUNT or DEVICE ID column) only the figures concerned are blank.
* In a file above :data:`analysis.load.WHOLE_FILE_BYTES` the core budget of rows that report none
  is the largest of the window, not of the file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis import window
from analysis.advice import GapAdvice, gap_advice, matmul_advice
from analysis.device import per_op, with_totals
from analysis.errors import BadOption, EmptyWindow, NotAnOpsFile
from analysis.figures import overall_dram, remarks
from analysis.load import SIGNPOST, WHOLE_FILE_BYTES, Ops, Region, load, load_hosts
from analysis.merge import device_ids, merge_devices
from analysis.roofline import Architecture, resolve
from analysis.scan import scan
from analysis.stacked import GroupBy, stacked

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ReportOptions:
    """What to report, named after tt-perf-report's options.

    Attributes:
        start_signpost, end_signpost: borders of the window. With neither, the last complete
            steady step of our signposts; in a file without those, tt-perf-report's rule (see
            :func:`analysis.window.select`).
        ignore_signposts: the whole file.
        print_signposts: keep the signposts in the window as rows.
        step: another of our steps, by number (0: the compile step).
        id_range: ``5-10``, ``31-`` or ``-12``.
        min_percentage: rows below this share of the total are of no interest (``minor``).
        no_host_ops: leave host ops out.
        arch: architecture to hold the figures against.
        group_by: of the stacked report.
        tracing_mode: keep the order of the file (trace replays carry their capture's time).
        raw_op_codes: kept for the command line; the frame always has ``op_code``.
        no_merge_devices: one row per device.
        active_experts: per input batch group, for sparse matmuls that do not say.
    """

    start_signpost: str | None = None
    end_signpost: str | None = None
    ignore_signposts: bool = False
    print_signposts: bool = False
    step: int | None = None
    id_range: str | None = None
    min_percentage: float = 0.5
    no_host_ops: bool = False
    arch: str | None = None
    group_by: GroupBy = "memory"
    tracing_mode: bool = False
    raw_op_codes: bool = False
    no_merge_devices: bool = False
    active_experts: int | None = None


@dataclass(frozen=True)
class Report:
    """Frames of a per-op report.

    Attributes:
        ops: one row per op (:data:`analysis.device.COLUMNS`) plus ``minor``: below
            ``min_percentage`` and no host op, shown grey.
        stacked: see :func:`analysis.stacked.stacked`.
        advice: sentences per matmul, by position in ``ops``.
        gaps: what tracing could save; None when no gap is above 6.5 us.
        architecture: what the figures were held against.
        window: in words, which ops these are.
        dram_gb_s, dram_percent: of all ops with a DRAM model, over all device time.
        device_ops, host_ops, signposts: number of rows of each kind in the window, before the
            ID range and the host filter.
        notes: what was assumed or odd.
    """

    ops: pd.DataFrame
    stacked: pd.DataFrame
    advice: dict[int, tuple[str, ...]]
    gaps: GapAdvice | None
    architecture: Architecture
    window: str
    dram_gb_s: float | None
    dram_percent: float | None
    device_ops: int
    host_ops: int
    signposts: int
    notes: tuple[str, ...] = ()


def find_sources(source: Path) -> tuple[Path, ...]:
    """The ops CSVs of a path: itself, a report folder's, or those of the newest report below.

    Raises:
        NotAnOpsFile: there is none.
    """
    if source.is_file():
        return (source,)
    here = sorted(source.glob("ops_perf_results*.csv"))
    picked = source / "tracy_perf" / "ops_perf_results.csv"
    if picked.is_file():
        return (picked,)
    if here:
        return tuple(here)
    below = sorted(source.rglob("ops_perf_results*.csv"), key=lambda path: path.stat().st_mtime)
    if below:
        return (below[-1],)
    raise NotAnOpsFile(source, f"{source} holds no ops_perf_results*.csv")


def parse_id_range(text: str) -> tuple[int | None, int | None]:
    """``5-10``, ``31-``, ``-12`` to inclusive bounds.

    Raises:
        BadOption: anything else.
    """
    found = re.fullmatch(r"\s*([\d,]*)\s*-\s*([\d,]*)\s*", text)
    low, high = (found.group(i).replace(",", "") for i in (1, 2)) if found else ("", "")
    if not low and not high:
        raise BadOption(f"{text!r} is no range of IDs", "Write 5-10, 31- or -12.")
    return (int(low) if low else None), (int(high) if high else None)


def per_op_report(source: Path | Sequence[Path], options: ReportOptions | None = None) -> Report:
    """Report on ops CSVs (several: the hosts of one system), or on a folder that holds one.

    Raises:
        AnalysisError: one of :mod:`analysis.errors`; an empty window says what was found.
    """
    options = options or ReportOptions()
    if options.active_experts is not None and options.active_experts <= 0:
        raise BadOption("the number of active experts must be positive")
    bounds = None if options.id_range is None else parse_id_range(options.id_range)
    sources = find_sources(source) if isinstance(source, Path) else tuple(source)
    ops, rows, how = _window(sources, options)
    arch, notes = resolve(ops, options.arch)
    warnings = [*ops.warnings, *notes]
    window.require_ops(rows, ops.frame, how)
    if options.no_merge_devices and device_ids(rows).nunique() > 1:
        merged = rows
    else:
        merged, odd = merge_devices(rows)
        warnings += odd
    table = per_op(merged, arch, options.active_experts)
    counts = (
        int((~table["is_host"] & ~table["is_signpost"]).sum()),
        int(table["is_host"].sum()),
        int(table["is_signpost"].sum()),
    )
    table = _filtered(table, bounds, options.no_host_ops)
    warnings += remarks(table)
    if not options.tracing_mode and rows["trace_replay_session"].notna().any():
        warnings.append(
            "replays of a trace bear the host time of its capture; --tracing-mode keeps the order "
            "of the file"
        )
    return Report(
        ops=table.assign(
            minor=(table["total_percent"] < options.min_percentage) & ~table["is_host"]
        ),
        stacked=stacked(
            table,
            options.group_by,
            per_device=options.no_merge_devices,
        ),
        advice=matmul_advice(table),
        gaps=gap_advice(table),
        architecture=arch,
        window=how,
        **dict(zip(("dram_gb_s", "dram_percent"), overall_dram(table), strict=True)),
        device_ops=counts[0],
        host_ops=counts[1],
        signposts=counts[2],
        notes=tuple(dict.fromkeys(warnings)),
    )


def _window(sources: Sequence[Path], options: ReportOptions) -> tuple[Ops, pd.DataFrame, str]:
    """The rows that the options ask for; cut out of the bytes where that gives the same."""
    named = options.start_signpost or options.end_signpost or options.ignore_signposts
    if not named and len(sources) == 1:
        ops, mark = load_step(sources[0], options.step)
        if mark is not None:
            return ops, ops.frame, f"step {mark.name}"
    else:
        cut = _cut(sources, options)
        if cut is not None:
            return cut
        ops = load_hosts(sources)
    rows = ops.frame if options.tracing_mode else window.by_host_time(ops.frame)
    rows, how = window.select(
        rows,
        options.start_signpost,
        options.end_signpost,
        ignore=options.ignore_signposts,
        keep_signposts=options.print_signposts,
    )
    return ops, rows, how


def _cut(sources: Sequence[Path], options: ReportOptions) -> tuple[Ops, pd.DataFrame, str] | None:
    """A window between two named signposts, without parsing the rest of the file.

    None where the whole file has to be read: a small file, several files, a quote in the file, a
    border that is missing, or borders the wrong way round.

    The one thing that the rest of the file could change is the core budget of rows that report
    none: it is the largest one of the window then, not of the file.
    """
    start, end = options.start_signpost, options.end_signpost
    if len(sources) != 1 or not start or not end or start == end or options.ignore_signposts:
        return None
    if sources[0].stat().st_size <= WHOLE_FILE_BYTES:
        return None
    scanned = scan(sources[0])
    if not window.ordered_by_host(scanned):
        return None
    first = next((p for p in scanned.signposts if p.name == start), None)
    last = next((p for p in scanned.signposts if p.name == end), None)
    if first is None or last is None or last.line <= first.line:
        return None
    region = Region(first.end, last.start, first.line + 1)
    ops = load(sources[0], region, scanned)
    rows = ops.frame if options.tracing_mode else window.by_host_time(ops.frame)
    if not options.print_signposts:
        rows = rows[rows["op_type"] != SIGNPOST]
    if rows.empty:
        return None
    return ops, rows, f"ops after {start!r}, before {end!r}"


def load_step(path: Path, number: int | None = None) -> tuple[Ops, window.StepMarks | None]:
    """The ops of one step, in file order and without signposts; the cheapest way to them.

    Args:
        number: of the step; None for the last complete steady one.

    Returns:
        The step's ops, or the whole file and None when it has no steps of ours.

    Raises:
        NoSuchStep: the step is not complete or not there.
        EmptyWindow: the step holds no op.
    """
    scanned = scan(path)
    whole = load(path, scanned=scanned) if scanned.quoted else None
    posts = scanned.signposts if whole is None else window.signposts_of(whole.frame)
    marks = window.steps(posts)
    mark = window.choose(marks, number)
    if mark is None:
        return (load(path, scanned=scanned) if whole is None else whole), None
    region = mark.region
    if whole is None and region is not None:
        part = load(path, region, scanned)
        frame = part.frame[part.frame["op_type"] != SIGNPOST]
    else:
        part = whole or load(path, scanned=scanned)
        frame = window.between(part.frame, mark)
    if frame.empty:
        raise EmptyWindow(
            f"step {mark.name} holds no ops; the trace has {window.describe(marks)}",
            "Was the device used between the two signposts? Choose another step with --step.",
        )
    return Ops(frame, part.format, part.sources, part.warnings), mark


def _filtered(
    table: pd.DataFrame, bounds: tuple[int | None, int | None] | None, no_host_ops: bool
) -> pd.DataFrame:
    if bounds is not None:
        low, high = bounds
        inside = table["id"] == table["id"]
        if low is not None:
            inside &= table["id"] >= low
        if high is not None:
            inside &= table["id"] <= high
        if not inside.any():
            ends = f"{table['id'].min()} to {table['id'].max()}"
            raise BadOption(f"no op in the ID range; the IDs run from {ends}")
        table = table[inside].reset_index(drop=True)
        # What came before the first row is no longer shown, so neither is the gap to it.
        table.loc[0, "gap_us"] = float("nan")
    if no_host_ops:
        table = table[~table["is_host"]].reset_index(drop=True)
    return with_totals(table)
