"""Reports of what was measured earlier: a run folder's files refreshed, others where asked for.

``report`` is what `instrument report` does. Only a folder that `instrument run` made is ever
written into by itself; everything else goes where the caller says, and replaces nothing unless
told to.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from instrumentor.errors import UsageError
from instrumentor.option_fields import OUTPUT, option
from instrumentor.outputs import Replacing, exists, refuse_outputs
from instrumentor.project import find_project
from instrumentor_analysis.caveats import Caveat

if TYPE_CHECKING:
    import pandas as pd

    from instrumentor_analysis.analysis import Analysis
    from instrumentor_analysis.model import Summary
    from instrumentor_analysis.report_options import Report, ReportOptions


@dataclass(frozen=True)
class ReportFiles(Replacing):
    """What to write, and where; None is not written."""

    csv: Path | None = option(
        OUTPUT,
        None,
        "Write the ops as tt-perf-report does instead of showing them; the stacked report as "
        "FILE_stacked.csv and .png.",
        metavar="FILE",
        once=True,
    )
    summary_file: Path | None = option(
        OUTPUT,
        None,
        "Write the stacked report as CSV, and as PNG beside it.",
        *("--summary-file", "--stacked-csv"),
        metavar="FILE",
        once=True,
    )
    html: Path | None = option(
        OUTPUT, None, "Write the full report as an HTML page.", metavar="FILE", once=True
    )
    plots: Path | None = option(
        OUTPUT, None, "Write the charts as PNG and SVG.", metavar="DIR", once=True
    )
    perfetto: Path | None = option(
        OUTPUT, None, "Write a trace for ui.perfetto.dev.", metavar="FILE", once=True
    )
    visualizer: Path | None = option(
        OUTPUT, None, "Write the folder that ttnn-visualizer loads.", metavar="DIR", once=True
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
        """Format to path, of what is to be written."""
        named = {
            "csv": self.csv,
            "stacked": self.summary_file,
            "html": self.html,
            "perfetto": self.perfetto,
            "plots": self.plots,
            "visualizer": self.visualizer,
        }
        return {name: path for name, path in named.items() if path is not None}


@dataclass(frozen=True)
class Reported:
    """What a report says.

    Attributes:
        summary: wall clock, device, verdict.
        ops: the per-op report; None without ops of a device.
        analysis: the frames behind the summary.
        written: files and folders that were asked for.
        is_run: the source is a folder that `instrument run` made.
        unrefreshed: why the files of that folder are as they were, where they could not be
            written; else empty.
    """

    summary: Summary
    ops: Report | None
    analysis: Analysis
    written: tuple[Path, ...] = ()
    is_run: bool = False
    unrefreshed: str = ""

    def frame(self) -> pd.DataFrame:
        """The ops as a data frame, one row per op; empty without ops of a device.

        Columns and units are those of :data:`instrumentor_analysis.device.COLUMNS`.
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
    from instrumentor_analysis.errors import AnalysisError
    from instrumentor_analysis.report_options import ReportOptions

    given = [source] if isinstance(source, (str, Path)) else source
    sources = [Path(each) for each in given]
    if not sources:
        raise UsageError("nothing to report on", "Give a run folder or an ops CSV.")
    options, files = options or ReportOptions(), files or ReportFiles()
    try:
        _refuse(files, sources)
        return _report(sources, options, files, flops, peak_tflops)
    except AnalysisError as error:
        raise UsageError(error.message, error.hint) from error
    except FileExistsError as error:
        raise exists(Path(error.filename)) from error
    except OSError as error:
        raise UsageError(_why(error)) from error


def _report(
    sources: list[Path],
    options: ReportOptions,
    files: ReportFiles,
    flops: float | None,
    peak_tflops: float | None,
) -> Reported:
    from instrumentor_analysis.errors import NothingMeasured
    from instrumentor_analysis.report_options import report_of
    from instrumentor_analysis.run_folder import open_run
    from instrumentor_analysis.summary import analyse

    options.check()
    is_run = len(sources) == 1 and open_run(sources[0]).is_run
    passing = not is_run or options.named.given or options.step is not None
    named = options.named if passing else None
    analysis = analyse(sources, options.step, options.arch, named)
    analysis = _with_mfu(analysis, flops, peak_tflops, options.arch)
    unrefreshed = ""
    if not passing:
        try:
            analysis = _refreshed(analysis, sources[0])
        except OSError as error:
            unrefreshed = f"{sources[0]}: its files could not be refreshed ({_why(error)})"
    ops = None if analysis.device is None else report_of(analysis.device, options)
    targets = files.targets
    if targets:
        from instrumentor_analysis.render import Choices, write_to

        if ops is None and ("csv" in targets or "stacked" in targets):
            raise NothingMeasured(
                f"{sources[0]} holds no device ops to write as CSV", "Profile with tracy."
            )
        choices = Choices(
            replace=files.force,
            raw_op_codes=files.raw_op_codes,
            advice=files.advice,
            stacked=files.stacked,
            classic_colors=files.classic_colors,
            ops_csv=sources[0] if sources[0].is_file() else None,
        )
        root = _source_root(sources[0]) if is_run else None
        written = write_to(targets, analysis, report=ops, source_root=root, choices=choices)
        return Reported(analysis.summary, ops, analysis, written, is_run, unrefreshed)
    return Reported(analysis.summary, ops, analysis, is_run=is_run, unrefreshed=unrefreshed)


def _why(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _refuse(files: ReportFiles, sources: Sequence[Path]) -> None:
    if not files.targets:
        return
    from instrumentor_analysis.render import claimed

    written = claimed(files.targets, stacked=files.stacked)
    refuse_outputs(written, sources, force=files.force)


def _with_mfu(
    analysis: Analysis, flops: float | None, peak_tflops: float | None, arch: str | None = None
) -> Analysis:
    if flops is None and peak_tflops is None:
        return analysis
    from instrumentor_analysis.mfu import with_mfu

    return with_mfu(analysis, flops, peak_tflops, arch)


def refresh(folder: Path) -> Analysis:
    """Analyse a run folder and write summary.json, summary.md, report.html and tt-perf-report's.

    Raises:
        instrumentor_analysis.errors.AnalysisError: nothing in it can be analysed.
        OSError: it cannot be written to.
    """
    from instrumentor_analysis.summary import analyse

    return _refreshed(analyse(folder), folder)


def _refreshed(analysis: Analysis, folder: Path) -> Analysis:
    """Write the files of a run folder anew; the analysis with them in its summary."""
    from instrumentor_analysis.render import write_all

    summary = analysis.summary
    ops = folder / "tracy_perf" / "ops_perf_results.csv"
    if ops.is_file() and summary.window is not None:
        start, end = summary.window.start, summary.window.end
        made, failed = _tables_there(folder, ops, start, end), ""
        if not made:
            made, failed = tt_perf_report(ops, start, end)
        summary = with_artifacts(summary, folder, made)
        texts = (failed, _another_step(analysis) if made else "")
        warned = [Caveat("tt-perf-report", text) for text in texts if text]
        summary = replace(summary, warnings=(*summary.warnings, *warned))
    written = write_all(summary, folder, analysis=analysis, source_root=_source_root(folder))
    return replace(analysis, summary=with_artifacts(summary, folder, written))


def _another_step(analysis: Analysis) -> str:
    """What to say when tt-perf-report, which goes by names, shows another step of the same one."""
    device = analysis.device
    if device is None or len(device.chosen) != 1:
        return ""
    mark = device.marks[device.chosen[0]]
    if mark.occurrence == 1:
        return ""
    return (
        f"{mark.name} occurs {mark.occurrence} times up to the one shown here; the tables of "
        "tt-perf-report are of the first, because it selects by signpost name"
    )


def with_artifacts(summary: Summary, folder: Path, files: Mapping[str, Path]) -> Summary:
    """The summary with more files of its folder."""
    named = {name: os.path.relpath(path, folder) for name, path in files.items()}
    return replace(summary, artifacts={**summary.artifacts, **named})


def _source_root(folder: Path) -> Path | None:
    """The project of a run's script, where it is still there: source lines are shown from it."""
    try:
        script = Path(json.loads((folder / "run.json").read_text(encoding="utf-8"))["script"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return find_project(script).root if script.is_file() else None


def _tables(ops_csv: Path) -> dict[str, Path]:
    return {
        "tt_perf_report": ops_csv.with_name("tt_perf_report.csv"),
        "tt_perf_report_stacked": ops_csv.with_name("tt_perf_report_stacked.csv"),
        "tt_perf_report_chart": ops_csv.with_name("tt_perf_report_stacked.png"),
    }


def _tables_there(
    folder: Path, ops_csv: Path, start: str | None, end: str | None
) -> dict[str, Path]:
    """tt-perf-report's files of this very window, when they are newer than the ops; else none."""
    tables = _tables(ops_csv)
    try:
        known = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["window"]
        made = ops_csv.stat().st_mtime_ns
        newer = all(path.stat().st_mtime_ns >= made for path in tables.values())
        same = (known["start"], known["end"]) == (start, end)
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return tables if newer and same else {}


def tt_perf_report(
    ops_csv: Path, start: str | None, end: str | None
) -> tuple[dict[str, Path], str]:
    """Call tt-perf-report for one window; its files, and a sentence when it failed."""
    made = _tables(ops_csv)
    for old in ops_csv.parent.glob("tt_perf_report*"):
        old.unlink()
    command = [
        sys.executable,
        "-c",
        "from tt_perf_report.perf_report import main; main()",
        str(ops_csv),
    ]
    if start and end:
        command += ["--start-signpost", start, "--end-signpost", end]
    command += ["--no-advice", "--csv", str(made["tt_perf_report"])]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env={**os.environ, "MPLBACKEND": "Agg"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {}, f"tt-perf-report did not run: {error}"
    files = {name: path for name, path in made.items() if path.is_file()}
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return files, f"tt-perf-report failed on this CSV ({last}); no figure here depends on it"
    return files, ""
