"""Reports of what was measured earlier: a run folder's files refreshed, others where asked for.

``report`` is what `instrument report` does. Only a folder that `instrument run` made is ever
written into by itself; everything else goes where the caller says, and replaces nothing unless
told to.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from instrumentor.results.tracking import TRACKERS, Tracker, log
from instrumentor.shared.errors import UsageError
from instrumentor.shared.option_fields import OUTPUT, Checked, option, output_file
from instrumentor.shared.outputs import Replacing, exists, refuse_outputs
from instrumentor.shared.project import find_project
from instrumentor_analysis.ops.report_options import ReportOptions
from instrumentor_analysis.shared.documents import object_in, read

if TYPE_CHECKING:
    import pandas as pd

    from instrumentor_analysis.model import Summary, Window
    from instrumentor_analysis.ops.op_report import Report
    from instrumentor_analysis.summary.analysis import Analysis


@dataclass(frozen=True)
class ReportFiles(Checked, Replacing):
    """What to write, and where; None is not written."""

    csv: Path | None = output_file(
        "Write the ops as tt-perf-report does instead of showing them; the stacked report as "
        "FILE_stacked.csv and .png."
    )
    summary_file: Path | None = output_file(
        "Write the stacked report as CSV, and as PNG beside it.", "--summary-file", "--stacked-csv"
    )
    html: Path | None = output_file("Write the full report as an HTML page.")
    plots: Path | None = output_file("Write the charts as PNG and SVG.", metavar="DIR")
    perfetto: Path | None = output_file("Write a trace for ui.perfetto.dev.")
    visualizer: Path | None = output_file(
        "Write the folder that ttnn-visualizer loads.", metavar="DIR"
    )
    openmetrics: Path | None = output_file(
        "Write the figures as OpenMetrics text, for the dashboard of a CI."
    )
    tt_xla_json: Path | None = output_file("Write the figures as the JSON of tt-xla's benchmarks.")
    blacksmith_json: Path | None = output_file(
        "Write the figures of the step as tt-blacksmith's perf_summary.json."
    )
    export: Tracker | None = option(
        OUTPUT,
        None,
        f"Log the figures with a tracker of experiments ({', '.join(TRACKERS)}), where it is "
        "installed beside this tool, into the run's folder; over a network only where "
        "MLFLOW_TRACKING_URI or WANDB_MODE=online is set.",
        type=str,
        metavar="TRACKER",
        choices=TRACKERS,
        once=True,
    )
    raw_op_codes: bool = option(
        OUTPUT, False, "Op codes as in the file; in a CSV as one more column."
    )
    advice: bool = option(OUTPUT, True, "Leave the advice out.", "--no-advice")
    stacked: bool = option(
        OUTPUT, True, "Leave the stacked report out.", "--no-stacked-report", variable=False
    )
    classic_colors: bool = option(
        OUTPUT,
        False,
        "Colour the plot of the stacked report by op, not by category.",
    )

    @property
    def targets(self) -> dict[str, Path]:
        """Format to path, of what is to be written; with what goes beside."""
        named = {
            "csv": self.csv,
            "stacked": self.summary_file,
            "html": self.html,
            "perfetto": self.perfetto,
            "plots": self.plots,
            "visualizer": self.visualizer,
            "openmetrics": self.openmetrics,
            "tt-xla": self.tt_xla_json,
            "blacksmith": self.blacksmith_json,
        }
        given = {name: path for name, path in named.items() if path is not None}
        if not given:
            return {}
        from instrumentor_analysis.reports.write import with_stacked

        return with_stacked(given, stacked=self.stacked)


@dataclass(frozen=True)
class Reported:
    """What a report says.

    Attributes:
        summary: wall clock, device, verdict.
        ops: the per-op report; None without ops of a device.
        analysis: the frames behind the summary.
        written: files and folders that were asked for.
        is_run: the source is a folder that `instrument run` made.
        logged: where a tracker of experiments has the figures; empty where none was asked for.
        unrefreshed: why the files of that folder are as they were, where they could not be
            written; else empty.
    """

    summary: Summary
    ops: Report | None
    analysis: Analysis
    written: tuple[Path, ...] = ()
    is_run: bool = False
    logged: str = ""
    unrefreshed: str = ""

    def frame(self) -> pd.DataFrame:
        """The ops as a data frame, one row per op; empty without ops of a device.

        Columns and units are those of :data:`instrumentor_analysis.load.op_columns.COLUMNS`.
        """
        import pandas as pd

        return pd.DataFrame() if self.ops is None else self.ops.ops.to_pandas()


def report(
    source: Path | str | Sequence[Path | str],
    options: ReportOptions | None = None,
    files: ReportFiles | None = None,
    *,
    flops: float | None = None,
    peak_tflops: float | None = None,
) -> Reported:
    """Analyse and render what was measured earlier.

    The files of a run folder are refreshed, unless another step or window is asked for: a passing
    look leaves them alone. A folder that cannot be written to is reported on all the same.

    Args:
        source: a run folder, a report folder of Tracy (or one that holds some: the newest counts),
            or ops CSVs, several of which are the hosts of one system.
        options: window and columns, named after tt-perf-report's options.
        files: what to write beside.
        flops: of one sample, in what the run times: adds the model FLOPs utilisation.
        peak_tflops: what to hold it against; None is the architecture's.

    Raises:
        UsageError: the source cannot be read (with line and column), the window is empty, a file
            is there already or cannot be written, two of them share a place.
    """
    from instrumentor_analysis.shared.errors import AnalysisError

    given = [source] if isinstance(source, (str, Path)) else source
    sources = [Path(each) for each in given]
    if not sources:
        raise UsageError("nothing to report on", "Give a run folder or an ops CSV.")
    options, files = options or ReportOptions(), files or ReportFiles()
    try:
        refuse_outputs(files.targets.values(), sources, force=files.force)
        options.check()
        found = _analysed(sources, options, flops, peak_tflops)
        # First what may be refused: then nothing was written.
        logged = _logged(found, sources[0], files.export)
        return replace(found, logged=logged, written=_written(found, sources[0], files))
    except AnalysisError as error:
        raise UsageError(error.message, error.hint) from error
    except FileExistsError as error:
        raise exists(Path(error.filename)) from error
    except OSError as error:
        raise UsageError(_why(error)) from error


def _analysed(
    sources: list[Path], options: ReportOptions, flops: float | None, peak_tflops: float | None
) -> Reported:
    """What there is to say; a run folder's files are made anew, unless this is a passing look."""
    from instrumentor_analysis.load.run_folder import open_run
    from instrumentor_analysis.ops.op_report import report_of
    from instrumentor_analysis.summary.summarise import analyse

    is_run = len(sources) == 1 and open_run(sources[0]).is_run
    # A passing look at another step must not leave its figures in the run's own files.
    passing = not is_run or options.named.given or options.step is not None
    analysis = analyse(sources, options.step, options.arch, options.named if passing else None)
    if flops is not None or peak_tflops is not None:
        from instrumentor_analysis.summary.mfu import with_mfu

        analysis = with_mfu(analysis, flops, peak_tflops, options.arch)
    unrefreshed = ""
    if not passing:
        try:
            analysis = _refreshed(analysis, sources[0])
        except OSError as error:
            unrefreshed = f"{sources[0]}: its files could not be refreshed ({_why(error)})"
    ops = None if analysis.device is None else report_of(analysis.device, options)
    return Reported(analysis.summary, ops, analysis, is_run=is_run, unrefreshed=unrefreshed)


def _written(found: Reported, source: Path, files: ReportFiles) -> tuple[Path, ...]:
    """The files that were asked for, made."""
    from instrumentor_analysis.reports.write import write_to
    from instrumentor_analysis.shared.errors import NothingMeasured

    targets = files.targets
    if not targets:
        return ()
    if found.ops is None and ("csv" in targets or "stacked" in targets):
        profile = found.analysis.folder.torch_csv
        hint = "Only a run under tracy has some." if profile is None else f"Its own ops: {profile}"
        raise NothingMeasured(f"{source} holds no device ops to write as CSV", hint)
    return write_to(
        targets,
        found.analysis,
        report=found.ops,
        source_root=_source_root(source) if found.is_run else None,
        replace=files.force,
        raw_op_codes=files.raw_op_codes,
        advice=files.advice,
        classic_colors=files.classic_colors,
    )


def _logged(found: Reported, source: Path, export: Tracker | None) -> str:
    """Where a tracker has the figures now; empty where none was asked for."""
    if export is None:
        return ""
    if not found.is_run:
        raise UsageError(f"--export {export}: {source} is no folder of a run", "Give that.")
    from instrumentor_analysis.reports.exports import tracked

    return log(export, tracked(found.summary), source)


def _why(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def refresh(folder: Path) -> Analysis:
    """Analyse a run folder and write summary.json, summary.md, report.html and tt-perf-report's.

    Raises:
        instrumentor_analysis.shared.errors.AnalysisError: nothing in it can be analysed.
        OSError: it cannot be written to.
    """
    from instrumentor_analysis.summary.summarise import analyse

    return _refreshed(analyse(folder), folder)


def _refreshed(analysis: Analysis, folder: Path) -> Analysis:
    """Write the files of a run folder anew; the analysis with them in its summary."""
    from instrumentor_analysis.reports.write import write_all

    summary = with_artifacts(analysis.summary, folder, _tables(analysis, folder))
    written = write_all(summary, folder, analysis=analysis, source_root=_source_root(folder))
    return structs.replace(analysis, summary=with_artifacts(summary, folder, written))


def _tables(analysis: Analysis, folder: Path) -> dict[str, Path]:
    """tt-perf-report's files of the window, made unless they are there; none without Tracy's ops.

    Drawing the chart takes longer than the whole report.
    """
    from instrumentor_analysis.load.schema import SIMULATED
    from instrumentor_analysis.ops.op_report import report_of
    from instrumentor_analysis.reports.write import with_stacked, write_to

    ops = folder / "tracy_perf" / "ops_perf_results.csv"
    if analysis.device is None or analysis.summary.window is None or not ops.is_file():
        return {}
    timed = analysis.summary.architecture != SIMULATED  # else there is no time to stack
    files = with_stacked({"csv": ops.with_name("tt_perf_report.csv")}, stacked=timed)
    if not _are_of_the_window(files.values(), analysis.summary.window, ops):
        report = report_of(analysis.device)
        write_to(files, analysis, report=report, advice=False, within=folder)
    ends = {"csv": "", "stacked": "_stacked", "chart": "_chart"}
    return {f"tt_perf_report{ends[name]}": path for name, path in files.items()}


def _are_of_the_window(files: Iterable[Path], window: Window, ops: Path) -> bool:
    """Whether files are newer than the ops, and were made of this very window."""
    try:
        known = read(ops.parent.parent / "summary.json")["window"]
        made = ops.stat().st_mtime_ns
        newer = all(path.stat().st_mtime_ns >= made for path in files)
        return newer and (known["start"], known["end"]) == (window.start, window.end)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def with_artifacts(summary: Summary, folder: Path, files: Mapping[str, Path]) -> Summary:
    """The summary with more files of its folder."""
    named = {name: os.path.relpath(path, folder) for name, path in files.items()}
    return structs.replace(summary, artifacts={**summary.artifacts, **named})


def _source_root(folder: Path) -> Path | None:
    """The project of a run's script, where it is still there: source lines are shown from it."""
    named = object_in(folder / "run.json").get("script")
    if not isinstance(named, str):
        return None
    script = Path(named)
    return find_project(script).root if script.is_file() else None
