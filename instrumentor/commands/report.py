"""`instrument report SOURCE...`: analyse and render what was measured earlier."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from instrumentor import console
from instrumentor.commands import common
from instrumentor.errors import UsageError

if TYPE_CHECKING:
    from instrumentor.reporting import Reported
    from instrumentor_analysis.model import Summary
    from instrumentor_analysis.report_options import ReportOptions
    from instrumentor_analysis.stacked import GroupBy

_GROUPS: tuple[GroupBy, ...] = ("op", "memory", "category")


def _option(name: str, text: str, metavar: str | None = None, *, once: bool = False) -> Any:
    """An option; what is of one report only has no environment variable."""
    variable = "INSTRUMENT_" + name.partition("/")[0].strip("-").upper().replace("-", "_")
    return typer.Option(name, help=text, metavar=metavar, envvar=None if once else variable)


def report(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...",
            help=(
                "A run folder, a report folder of Tracy (or the folder it was told to write "
                "into), or ops CSVs: several are the hosts of one system."
            ),
        ),
    ],
    step: Annotated[
        str, _option("--step", "Show this step (0: the compile step), or with all the mean of "
                     "the steady ones; else the last complete steady one.", "N|all", once=True),
    ] = "",
    start_signpost: Annotated[
        str, _option("--start-signpost", "Show what comes after this signpost.", "NAME", once=True)
    ] = "",
    end_signpost: Annotated[
        str, _option("--end-signpost", "Show what comes before this signpost.", "NAME", once=True)
    ] = "",
    signpost: Annotated[
        str, _option("--signpost", "The same as --start-signpost.", "NAME", once=True)
    ] = "",
    ignore_signposts: Annotated[
        bool, _option("--ignore-signposts", "Show the whole file.", once=True)
    ] = False,
    print_signposts: Annotated[
        bool, _option("--print-signposts", "Show the signposts of the window as rows.")
    ] = False,
    tracing_mode: Annotated[
        bool, _option("--tracing-mode", "Keep the order of the file: replays of a trace bear the "
                      "time of its capture."),
    ] = False,
    id_range: Annotated[
        str, _option("--id-range", "Show only these ops in table, stacked report and advice: "
                     "5-10, 31- or -12.", "RANGE", once=True),
    ] = "",
    min_percentage: Annotated[
        float, _option("--min-percentage", "Grey ops below this share of the time, percent.", "PCT")
    ] = 0.5,
    hide_below: Annotated[
        float | None,
        _option("--hide-below", "Leave ops below this share out of the table, percent.", "PCT"),
    ] = None,
    no_host_ops: Annotated[
        bool, _option("--no-host-ops", "Leave host ops out of table and stacked report.")
    ] = False,
    arch: Annotated[
        str, _option("--arch", "Compare against this architecture's peaks: wormhole, blackhole, "
                     "p150, p100, bh20, n1; else what the file names.", "NAME"),
    ] = "",
    group_by: Annotated[
        str, _option("--group-by", "Stacked report by op, memory (op and place of its first "
                     "input) or category.", "op|memory|category"),
    ] = "memory",
    no_stack_by_in0: Annotated[
        bool, _option("--no-stack-by-in0", "The same as --group-by op.", once=True)
    ] = False,
    raw_op_codes: Annotated[
        bool, _option("--raw-op-codes", "Op codes as in the file; in a CSV as one more column.")
    ] = False,
    no_merge_devices: Annotated[
        bool, _option("--no-merge-devices", "One row per op and device.")
    ] = False,
    active_experts: Annotated[
        int | None,
        _option("--active-experts", "Active experts per input batch group, of sparse matmuls that "
                "do not say.", "N"),
    ] = None,
    flops: Annotated[
        float | None,
        _option("--flops", "FLOPs of one sample, in what was timed: adds the model FLOPs "
                "utilisation.", "N", once=True),
    ] = None,
    peak_tflops: Annotated[
        float | None,
        _option("--peak-tflops", "Peak of all devices together, for --flops; else the "
                "architecture's.", "N"),
    ] = None,
    ops: Annotated[
        bool, _option("--ops", "Show every op; of a CSV they are shown anyway.", once=True)
    ] = False,
    no_advice: Annotated[bool, _option("--no-advice", "Leave the advice out.")] = False,
    no_summary: Annotated[
        bool, _option("--no-summary", "Only the ops: neither summary nor stacked report.")
    ] = False,
    no_stacked_report: Annotated[
        bool, _option("--no-stacked-report", "Leave the stacked report out.", once=True)
    ] = False,
    color: Annotated[
        bool | None,
        _option("--color/--no-color", "Colours always or never; else on a terminal."),
    ] = None,
    csv: Annotated[
        Path | None, _option("--csv", "Write the ops as tt-perf-report does instead of showing "
                             "them; the stacked report as FILE_stacked.csv and .png.", "FILE",
                             once=True),
    ] = None,
    summary_file: Annotated[
        Path | None, _option("--summary-file", "Write the stacked report as CSV, and as PNG "
                             "beside it.", "FILE", once=True),
    ] = None,
    stacked_csv: Annotated[
        Path | None, _option("--stacked-csv", "The same as --summary-file.", "FILE", once=True)
    ] = None,
    classic_colors: Annotated[
        bool, _option("--classic-colors", "In the picture of the stacked report a colour per op "
                      "instead of its category's."),
    ] = False,
    html: Annotated[
        Path | None, _option("--html", "Write a page with everything.", "FILE", once=True)
    ] = None,
    plots: Annotated[
        Path | None, _option("--plots", "Write the charts as PNG and SVG.", "DIR", once=True)
    ] = None,
    perfetto: Annotated[
        Path | None, _option("--perfetto", "Write a trace for ui.perfetto.dev.", "FILE", once=True)
    ] = None,
    visualizer: Annotated[
        Path | None, _option("--visualizer", "Write the folder that ttnn-visualizer loads.", "DIR",
                             once=True),
    ] = None,
    force: common.Force = False,
    json: common.Json = False,
) -> None:  # fmt: skip
    """Analyse and render an earlier run, or ops CSVs of Tracy."""
    _start_lean()
    from instrumentor.reporting import ReportFiles
    from instrumentor.reporting import report as make_report
    from instrumentor_analysis.report_options import ReportOptions

    if start_signpost and signpost and start_signpost != signpost:
        raise UsageError("--signpost is --start-signpost: give one of them")
    if summary_file and stacked_csv and summary_file != stacked_csv:
        raise UsageError("--stacked-csv is --summary-file: give one of them")
    if step and (start_signpost or signpost or end_signpost or ignore_signposts):
        raise UsageError("--step and signposts are two windows", "Give one of them.")
    options = ReportOptions(
        start_signpost=start_signpost or signpost or None,
        end_signpost=end_signpost or None,
        ignore_signposts=ignore_signposts,
        print_signposts=print_signposts,
        step=_step(step),
        id_range=id_range or None,
        min_percentage=min_percentage,
        no_host_ops=no_host_ops,
        arch=arch or None,
        group_by=_group("op" if no_stack_by_in0 and group_by == "memory" else group_by),
        tracing_mode=tracing_mode,
        raw_op_codes=raw_op_codes,
        no_merge_devices=no_merge_devices,
        active_experts=active_experts,
    )
    stacked = not no_summary and not no_stacked_report
    files = ReportFiles(
        csv=csv,
        summary_file=summary_file or stacked_csv,
        html=html,
        perfetto=perfetto,
        plots=plots,
        visualizer=visualizer,
        raw_op_codes=raw_op_codes,
        advice=not no_advice,
        stacked=stacked,
        classic_colors=classic_colors,
        force=force,
    )
    found = make_report(sources, options, files, flops=flops, peak_tflops=peak_tflops)
    asked = ops or no_summary or hide_below is not None or bool(id_range) or print_signposts
    if asked and found.ops is None:
        raise UsageError(
            f"{sources[0]} holds no ops of a device to show",
            "A profile by torch is shown in report.html; for a device, profile with tracy.",
        )
    if json:
        console.out_json(_document(found, with_ops=ops))
    else:
        # What goes to a file is not shown besides, unless that is asked for.
        table = ops or (csv is None and (asked or not found.is_run))
        text = _text(
            found, options, hide_below, table, not no_advice, not no_summary, stacked, color
        )
        if text:
            console.out(text.rstrip("\n"), painted=color)
    if found.unrefreshed:
        console.warn(found.unrefreshed)
    for path in found.written:
        console.say(f"Wrote {path}")


def _start_lean() -> None:
    """Load numpy and what builds on it for one short report: half of its time is imports.

    They make no garbage, and frames are freed by their counts. Of the matrix library, which
    nothing here uses, no workers are started: each waits 0.1 s for work at full load.
    """
    gc.disable()
    variable = "OPENBLAS_NUM_THREADS"
    before = os.environ.get(variable)
    os.environ.setdefault(variable, "1")
    importlib.import_module("numpy")

    if before is None:
        del os.environ[variable]


def _group(text: str) -> GroupBy:
    for known in _GROUPS:
        if text == known:
            return known
    raise UsageError(f"--group-by {text}: must be one of {', '.join(_GROUPS)}")


def _step(text: str) -> Any:
    """A number, ``"all"`` or None."""
    if text in ("", "all"):
        return text or None
    if not text.isdigit():
        raise UsageError(f"--step {text}: must be a number or all")
    return int(text)


def _text(
    found: Reported,
    options: ReportOptions,
    hide_below: float | None,
    table: bool,
    advice: bool,
    summary: bool,
    stacked: bool,
    color: bool | None,
) -> str:
    """The ops, and the summary last: that is what stays on the screen."""
    from dataclasses import replace

    colored = console.colored(sys.stdout) if color is None else color
    blocks: list[str] = []
    if table and found.ops is not None:
        from instrumentor_analysis.reports.ops_console import render_ops

        # What the summary says as well is said there.
        known = found.summary.warnings if summary else ()
        notes = tuple(note for note in found.ops.notes if note not in known)
        blocks.append(
            render_ops(
                replace(found.ops, notes=notes),
                width=console.terminal_width(),
                color=colored,
                advice=advice,
                stacked=stacked,
                raw_op_codes=options.raw_op_codes,
                hide_below=hide_below,
            )
        )
    if summary:
        from instrumentor_analysis.reports.console import render

        blocks.append(render(found.summary, width=console.terminal_width(), color=colored))
    return "\n".join(blocks)


def _document(found: Reported, *, with_ops: bool) -> dict[str, Any]:
    """The document of summary.json; on demand with the ops, None where there is no figure."""
    from instrumentor_analysis.model import plain

    document = found.summary.to_json()
    if with_ops and found.ops is not None:
        document["ops"] = [
            {key: plain(value) for key, value in record.items()}
            for record in found.ops.ops.records()
        ]
    return document


def show_summary(summary: Summary, *, notes: bool = False) -> None:
    """The console's summary of a run; with warnings of weight ``note`` on demand."""
    from instrumentor_analysis.reports.console import render

    colored = console.colored(sys.stdout)
    text = render(summary, width=console.terminal_width(), color=colored, notes=notes)
    console.out(text.rstrip("\n"))
