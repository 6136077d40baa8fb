"""Write a run's reports into its folder.

Each file is written beside its place and renamed into it, so that a reader never sees half of
one and a failed write leaves the earlier one. Into a run folder only
:data:`instrumentor_analysis.reports.FILES` are ever written.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from instrumentor_analysis import reports
from instrumentor_analysis.errors import NothingMeasured
from instrumentor_analysis.model import Summary
from instrumentor_analysis.reports import detail as details
from instrumentor_analysis.reports.detail import Detail

if TYPE_CHECKING:
    from instrumentor_analysis.analysis import Analysis
    from instrumentor_analysis.report_options import Report
    from instrumentor_analysis.run_folder import RunFolder

Writer = Callable[["_Job", Path], bool]
#: Larger source files are no source files.
_LARGEST_SOURCE = 2_000_000


class Choices(Struct, frozen=True):
    """How files that a user names are written.

    Attributes:
        replace: over what is there; else FileExistsError, also for a folder that holds anything.
        raw_op_codes, advice: columns of the CSV.
        stacked: with the stacked report beside it, as CSV and as a picture.
        classic_colors: of that picture, a colour per op instead of its category's.
        ops_csv: what was read, where it is no run folder's.
    """

    replace: bool = True
    raw_op_codes: bool = False
    advice: bool = True
    stacked: bool = True
    classic_colors: bool = False
    ops_csv: Path | None = None


class _Job(Struct, frozen=True):
    """What every writer may need."""

    summary: Summary
    detail: Detail
    report: Report | None
    folder: Path
    choices: Choices


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
    # What lists files names those of this call, itself included.
    summary = replace(summary, artifacts={**summary.artifacts, **found})
    run = None if analysis is None else analysis.folder
    detail = details.of(analysis, None, read_sources(summary, source_root, run))
    job = _Job(summary, detail, None, folder, Choices())
    for name, file in found.items():
        _WRITERS[name](job, folder / file)
    return {name: folder / file for name, file in found.items()}


def write_to(
    targets: Mapping[str, Path],
    analysis: Analysis,
    *,
    report: Report | None = None,
    source_root: Path | None = None,
    choices: Choices | None = None,
) -> tuple[Path, ...]:
    """Write reports where the user wants them; each is there whole or not at all.

    Args:
        targets: ``html``, ``plots``, ``csv`` (of ops), ``stacked`` (its sums), ``perfetto`` or
            ``visualizer`` to file or folder.

    Returns:
        What was written.

    Raises:
        NothingMeasured: a format was asked for that the run has nothing for.
        FileExistsError: something is there already, and must not be replaced.
        OSError: a file cannot be written.
    """
    choices = choices or Choices()
    choices = replace(choices, stacked=choices.stacked and "stacked" not in targets)
    sources = read_sources(analysis.summary, source_root, analysis.folder)
    detail = details.of(analysis, report, sources)
    job = _Job(analysis.summary, detail, report, analysis.folder.path, choices)
    written = claimed(targets, stacked=choices.stacked)
    # Before the first is written, so that there are all or none.
    for target in written:
        taken = any(target.iterdir()) if target.is_dir() else target.exists()
        if taken and not choices.replace:
            raise FileExistsError(errno.EEXIST, "exists", str(target))
    # What may turn out to have nothing to show goes first: then nothing is written at all.
    first = ("visualizer", "plots")
    for name in sorted(targets, key=lambda name: first.index(name) if name in first else 2):
        if not _WRITERS[name](job, targets[name]):
            raise NothingMeasured(f"there is nothing to plot for {targets[name]}")
    return written


def claimed(targets: Mapping[str, Path], *, stacked: bool = True) -> tuple[Path, ...]:
    """The files and folders that :func:`write_to` writes."""
    found = [path for name, path in targets.items() if name != "stacked"]
    if "stacked" in targets:
        found += _stacked_files(targets["stacked"])
    elif "csv" in targets and stacked:
        found += _stacked_files(_beside_csv(targets["csv"]))
    return tuple(found)


def _beside_csv(target: Path) -> Path:
    return target.with_name(f"{target.stem}_stacked.csv")


def _stacked_files(target: Path) -> tuple[Path, Path]:
    """Table and picture; a name without an ending gets them, as tt-perf-report's users expect."""
    table = target if target.suffix else target.with_name(f"{target.name}.csv")
    return table, table.with_suffix(".png")


def read_sources(
    summary: Summary, root: Path | None, run: RunFolder | None = None
) -> dict[str, str | None]:
    """Text of the files that the summary's source lines name; only files below the root.

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
        if path.is_relative_to(root) and path.is_file() and path.stat().st_size < _LARGEST_SOURCE:
            data = path.read_bytes()
            changed = run is not None and _changed(name, data, path.stat().st_mtime, run)
            found[name] = None if changed else data.decode("utf-8", errors="replace")
    return found


def _changed(name: str, data: bytes, modified_s: float, run: RunFolder) -> bool:
    """By its hash where the run took one, else by its time; unchanged where there is neither."""
    then = run.mapping("source_hashes").get(name)
    if isinstance(then, str):
        return hashlib.sha256(data).hexdigest() != then
    try:
        started = datetime.fromisoformat(run.text("started") or "")
    except ValueError:
        return False
    # It is recorded in whole seconds, rounded down.
    return modified_s >= started.timestamp() + 1


def _text(module: str, function: str, *parts: str) -> Writer:
    """Writes what a function of the reports makes of the summary, and of these parts of a job."""

    def write(job: _Job, target: Path) -> bool:
        render = getattr(import_module(f"instrumentor_analysis.reports.{module}"), function)
        replace_text(target, render(job.summary, *(getattr(job, part) for part in parts)))
        return True

    return write


def _plots(job: _Job, target: Path) -> bool:
    from instrumentor_analysis import plots

    drawn = plots.figures(job.summary, job.detail)
    if drawn:
        target.mkdir(exist_ok=True)
    for name, figure in drawn.items():
        for kind in plots.KINDS:
            replace_bytes(target / f"{name}.{kind}", plots.encode(figure, kind))
    return bool(drawn)


def _csv(job: _Job, target: Path) -> bool:
    from instrumentor_analysis.reports import csv

    if job.report is None:
        raise NothingMeasured("there are no device ops to write as CSV", "Profile with tracy.")
    choices = job.choices
    text = csv.render(job.report, raw_op_codes=choices.raw_op_codes, advice=choices.advice)
    replace_text(target, text)
    return not choices.stacked or _stacked(job, _beside_csv(target))


def _stacked(job: _Job, target: Path) -> bool:
    from instrumentor_analysis import plots
    from instrumentor_analysis.reports import csv
    from instrumentor_analysis.reports.stacked_chart import stacked

    if job.report is None:
        raise NothingMeasured("there are no device ops to sum", "Profile with tracy.")
    table, picture = _stacked_files(target)
    replace_text(table, csv.render_stacked(job.report))
    figure = stacked(job.report.stacked, classic=job.choices.classic_colors)
    replace_bytes(picture, plots.encode(figure, "png"))
    return True


def _visualizer(job: _Job, target: Path) -> bool:
    from instrumentor_analysis.reports import visualizer

    found = visualizer.contents(job.folder, job.choices.ops_csv)
    if found.missing:
        raise NothingMeasured(
            f"ttnn-visualizer needs {', '.join(found.missing)}, which the run does not have",
            "It comes from a Tracy run with device profiling, in tracy_profile/reports.",
        )
    target.mkdir(parents=True, exist_ok=True)
    for name, source in found.files.items():
        _put(source, target / name)
    return True


_WRITERS: Mapping[str, Writer] = {
    "json": _text("json", "render"),
    "markdown": _text("summary", "markdown"),
    "html": _text("summary", "html", "detail"),
    "plots": _plots,
    "csv": _csv,
    "stacked": _stacked,
    "perfetto": _text("perfetto", "render", "detail"),
    "visualizer": _visualizer,
}


def replace_text(target: Path, text: str) -> None:
    """Put a text file in place at once; UTF-8, newlines as they are."""
    replace_bytes(target, text.encode("utf-8", errors="replace"))


def replace_bytes(target: Path, content: bytes) -> None:
    """Put a file in place at once: the old content or the new, never part of one."""
    # Opened as any file is, not by tempfile: its 0600 would hide the report from colleagues.
    with _becoming(target) as temporary, temporary.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _put(source: Path, target: Path) -> None:
    """A second name for a file, where the file system can; else a copy. Traces are large."""
    with _becoming(target) as temporary:
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)


@contextmanager
def _becoming(target: Path) -> Iterator[Path]:
    """A new file beside a target, put in its place at the end; errors name the target."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        temporary.replace(target)
    except OSError as error:
        if error.filename not in (None, str(temporary), temporary):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
