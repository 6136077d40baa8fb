"""Write a run's reports into its folder.

Each file is written beside its place and renamed into it, so that a reader never sees half of
one and a failed write leaves the earlier one. Into a run folder only
:data:`instrumentor_analysis.reports.FILES` are ever written, and tt-perf-report's tables; a run
folder may be somebody else's, so no link in it is followed, whenever it is put there.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from instrumentor_analysis import reports
from instrumentor_analysis.model import Summary
from instrumentor_analysis.reports import detail as details
from instrumentor_analysis.reports.detail import Detail
from instrumentor_analysis.shared.errors import NothingMeasured
from instrumentor_analysis.shared.files import (
    becoming,
    copy,
    read_bytes,
    refuse_links,
    write_below,
    write_whole,
)

if TYPE_CHECKING:
    from instrumentor_analysis.load.run_folder import RunFolder
    from instrumentor_analysis.ops.op_report import Report
    from instrumentor_analysis.summary.analysis import Analysis

#: What a format makes: the content of a file, or files of a folder, of which large ones are only
#: named.
Content = bytes | Mapping[str, bytes | Path]
#: Largest file that is shown as source code, bytes.
_LARGEST_SOURCE = 2_000_000


class _Job(Struct, frozen=True):
    """What every writer may need; see :func:`write_to`.

    Attributes:
        source: what was read: a folder, or an ops CSV.
    """

    summary: Summary
    detail: Detail
    source: Path
    report: Report | None = None
    raw_op_codes: bool = False
    advice: bool = True
    classic_colors: bool = False


def write_all(
    summary: Summary,
    folder: Path,
    *,
    analysis: Analysis | None = None,
    source_root: Path | None = None,
    formats: Sequence[str] = tuple(reports.FILES),
) -> Mapping[str, Path]:
    """Write the reports of a summary into its run folder.

    Args:
        folder: of the run; it must exist.
        analysis: what the summary came from, for the formats that show single ops.
        source_root: folder of the user's project, to show source lines with their code.
        formats: of :data:`instrumentor_analysis.reports.FILES`.

    Returns:
        Format name to the path written.

    Raises:
        OSError: the folder cannot be written to.
    """
    found = {name: reports.FILES[name] for name in formats}
    # Reports that list the run's files must name those of this call too, themselves included.
    summary = structs.replace(summary, artifacts={**summary.artifacts, **found})
    run = None if analysis is None else analysis.folder
    detail = details.of(analysis, None, read_sources(summary, source_root, run))
    written = {name: folder / file for name, file in found.items()}
    _write(_Job(summary, detail, folder), written, within=folder)
    return written


def write_to(
    targets: Mapping[str, Path],
    analysis: Analysis,
    *,
    report: Report | None = None,
    source_root: Path | None = None,
    replace: bool = True,
    raw_op_codes: bool = False,
    advice: bool = True,
    classic_colors: bool = False,
    within: Path | None = None,
) -> tuple[Path, ...]:
    """Write reports where the user wants them; each is there whole or not at all.

    Args:
        targets: ``html``, ``plots``, ``csv`` (of ops), ``stacked`` (its sums), ``chart`` (of
            those), ``perfetto`` or ``visualizer`` to file or folder.
        replace: what is there; else FileExistsError, also for a folder that holds anything.
        raw_op_codes, advice: columns of ``csv``.
        classic_colors: of ``chart``, a colour per op instead of its category's.
        within: a folder that no link may lead out of; else targets are the user's own words.

    Returns:
        What was written.

    Raises:
        NothingMeasured: a format was asked for that the run has nothing for.
        FileExistsError: something is there already, and must not be replaced.
        OSError: a file cannot be written.
    """
    sources = read_sources(analysis.summary, source_root, analysis.folder)
    detail = details.of(analysis, report, sources)
    # Checked before the first file is written, so that either all are written or none.
    for target in targets.values():
        taken = any(target.iterdir()) if target.is_dir() else target.exists()
        if taken and not replace:
            raise FileExistsError(errno.EEXIST, "exists", str(target))
    job = _Job(
        analysis.summary,
        detail,
        analysis.folder.path,
        report,
        raw_op_codes=raw_op_codes,
        advice=advice,
        classic_colors=classic_colors,
    )
    _write(job, targets, within)
    return tuple(targets.values())


def with_stacked(targets: Mapping[str, Path], *, stacked: bool = True) -> dict[str, Path]:
    """The targets, with table and chart of the stacked report as tt-perf-report writes them.

    Args:
        stacked: also beside the CSV of the ops.
    """
    found, csv = dict(targets), targets.get("csv")
    if csv is not None and stacked:
        found.setdefault("stacked", csv.with_name(f"{csv.stem}_stacked.csv"))
    if "stacked" in found:
        table = found.pop("stacked")
        # A name without an ending gets one, as tt-perf-report's users expect.
        table = table if table.suffix else table.with_name(f"{table.name}.csv")
        found |= {"stacked": table, "chart": table.with_suffix(".png")}
    return found


def _write(job: _Job, targets: Mapping[str, Path], within: Path | None) -> None:
    # All contents are made before the first file is written, so that an error leaves no half of a
    # set.
    made = {target: _MAKERS[name](job) for name, target in targets.items()}
    for target, content in made.items():
        if not content:
            raise NothingMeasured(f"there is nothing to plot for {target}")
        if within is not None:
            refuse_links(within, target)
    for target, content in made.items():
        if isinstance(content, bytes):
            # Also where its owner puts a link there in this very moment.
            write_whole(target, content) if within is None else write_below(within, target, content)
            continue
        target.mkdir(parents=True, exist_ok=True)
        for name, part in content.items():
            if isinstance(part, Path):
                _put(part, target / name)
            else:
                write_whole(target / name, part)


def read_sources(
    summary: Summary, root: Path | None, run: RunFolder | None = None
) -> dict[str, str | None]:
    """Text of the Python files that the summary's source lines name; only files below the root.

    Both may be named by somebody else's run: of other files (a key, a password) nothing is shown on
    a page that is given on.

    Args:
        run: what is known of the files as they ran. One that was changed since has no text: its
            lines are not those that were measured.
    """
    if root is None or summary.locations is None:
        return {}
    found: dict[str, str | None] = {}
    root = root.resolve()
    for name in dict.fromkeys(line.file for line in summary.locations.lines):
        path = (root / PurePosixPath(name)).resolve()
        shown = path.is_relative_to(root) and path.suffix == ".py" and path.is_file()
        if shown and path.stat().st_size < _LARGEST_SOURCE:
            data = read_bytes(path)
            changed = run is not None and _changed(name, data, path.stat().st_mtime, run)
            found[name] = None if changed else data.decode("utf-8", errors="replace")
    return found


def _changed(name: str, data: bytes, modified_s: float, run: RunFolder) -> bool:
    """Whether a file changed since the run: by its hash where the run took one, else by time."""
    then = run.mapping("source_hashes").get(name)
    if isinstance(then, str):
        return hashlib.sha256(data).hexdigest() != then
    try:
        started = datetime.fromisoformat(run.text("started") or "")
    except ValueError:
        return False
    # It is recorded in whole seconds, rounded down.
    return modified_s >= started.timestamp() + 1


def _text(module: str, function: str, *parts: str) -> Callable[[_Job], bytes]:
    """A writer that hands the summary and these parts of a job to a function of the reports."""

    def make(job: _Job) -> bytes:
        render = getattr(import_module(f"instrumentor_analysis.reports.{module}"), function)
        text: str = render(job.summary, *(getattr(job, part) for part in parts))
        return text.encode("utf-8", errors="replace")

    return make


def _plots(job: _Job) -> Content:
    from instrumentor_analysis.reports import plots

    return {
        f"{name}.{kind}": plots.encode(figure, kind)
        for name, figure in plots.figures(job.summary, job.detail).items()
        for kind in plots.KINDS
    }


def _csv(job: _Job) -> Content:
    from instrumentor_analysis.reports import csv

    ops = _ops(job, "write as CSV")
    text = csv.render(ops, raw_op_codes=job.raw_op_codes, advice=job.advice)
    return text.encode("utf-8", errors="replace")


def _stacked(job: _Job) -> Content:
    from instrumentor_analysis.reports import csv

    return csv.render_stacked(_ops(job, "sum")).encode("utf-8", errors="replace")


def _chart(job: _Job) -> Content:
    from instrumentor_analysis.reports import plots
    from instrumentor_analysis.reports.stacked_chart import stacked

    figure = stacked(_ops(job, "sum").stacked, classic=job.classic_colors)
    return plots.encode(figure, "png")


def _ops(job: _Job, use: str) -> Report:
    if job.report is None:
        raise NothingMeasured(f"there are no device ops to {use}", "Profile with tracy.")
    return job.report


def _visualizer(job: _Job) -> Content:
    from instrumentor_analysis.reports import visualizer

    found = visualizer.contents(job.source)
    if found.missing:
        raise NothingMeasured(
            f"ttnn-visualizer needs {', '.join(found.missing)}, which the run does not have",
            "It comes from a Tracy run with device profiling, in tracy_profile/reports.",
        )
    return found.files


_MAKERS: Mapping[str, Callable[[_Job], Content]] = {
    "json": _text("json", "render"),
    "markdown": _text("summary", "markdown"),
    "html": _text("summary", "html", "detail"),
    "plots": _plots,
    "csv": _csv,
    "stacked": _stacked,
    "chart": _chart,
    "perfetto": _text("perfetto", "render", "detail"),
    "visualizer": _visualizer,
    "openmetrics": _text("exports", "openmetrics"),
    "tt-xla": _text("exports", "benchmark"),
    "blacksmith": _text("exports", "blacksmith"),
}


def _put(source: Path, target: Path) -> None:
    """A second name for a file, where the file system can; else a copy. Traces are large."""
    with becoming(target) as temporary:
        try:
            # Of what a link leads to: the link would lead elsewhere from there.
            os.link(source.resolve(), temporary)
        except OSError:
            copy(source, temporary)
