"""`instrument report SOURCE...`: analyse and render what was measured earlier."""

from __future__ import annotations

import gc
import importlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import structs

from instrumentor.cli import common
from instrumentor.cli.signature import Verb
from instrumentor.results.reporting import ReportFiles
from instrumentor.shared import console
from instrumentor.shared.errors import UsageError
from instrumentor.shared.option_fields import MEASURE, OUTPUT, Checked, option
from instrumentor.shared.outputs import TUNING, are_pairs
from instrumentor_analysis.ops.report_options import ReportOptions

if TYPE_CHECKING:
    from instrumentor.results.reporting import Reported
    from instrumentor_analysis.model import Summary
    from instrumentor_analysis.ops.stacked import GroupBy


def _step(text: str) -> Any:
    """A number, or ``"all"``."""
    if text == "all":
        return text
    if not text.isdigit():
        raise UsageError(f"--step {text}: must be a number or all")
    return int(text)


@dataclass(frozen=True)
class Asked(Checked, common.Notes, ReportOptions):
    """What to report, with what is shown of it.

    Attributes:
        summary: and the stacked report.
    """

    step: Any = option(
        MEASURE,
        None,
        "The step to show (0: the compile step), or all for the mean of the steady ones; default: "
        "the last complete steady one.",
        metavar="N|all",
        convert=_step,
        once=True,
    )
    start_signpost: str | None = option(
        MEASURE,
        None,
        "Show only what follows this signpost.",
        *("--start-signpost", "--signpost"),
        metavar="NAME",
        once=True,
    )
    end_signpost: str | None = option(
        MEASURE, None, "Show only what precedes this signpost.", metavar="NAME", once=True
    )
    ignore_signposts: bool = option(MEASURE, False, "Show the whole file.", once=True)
    print_signposts: bool = option(OUTPUT, False, "Show the signposts of the window as rows.")
    tracing_mode: bool = option(
        MEASURE,
        False,
        "Keep the order of the file: replays of a trace carry the time of its capture.",
    )
    id_range: str | None = option(
        MEASURE,
        None,
        "Show only these ops in table, stacked report and advice: 5-10, 31- or -12.",
        metavar="RANGE",
        once=True,
    )
    min_percentage: float = option(
        OUTPUT, 0.5, "Grey ops below this share of the time, percent.", metavar="PCT"
    )
    hide_below: float | None = option(
        OUTPUT, None, "Leave ops below this share out of the table, percent.", metavar="PCT"
    )
    no_host_ops: bool = option(OUTPUT, False, "Leave host ops out of table and stacked report.")
    arch: str | None = option(
        MEASURE,
        None,
        "Compare against this chip's peaks: wormhole, n300, blackhole, p100, p150, "
        "blackhole_galaxy; simulated: its cycles are no times; default: the one the file names.",
        metavar="NAME",
    )
    group_by: GroupBy = option(
        OUTPUT,
        "memory",
        "Stacked report by op, memory (op and place of its first input) or category.",
        type=str,
        metavar="BY",
        choices=("op", "memory", "category"),
    )
    no_stack_by_in0: bool = option(OUTPUT, False, "The same as --group-by op.", variable=False)
    no_merge_devices: bool = option(OUTPUT, False, "One row per op and device.")
    active_experts: int | None = option(
        MEASURE,
        None,
        "Active experts per input batch group, for sparse matmuls that do not say.",
        metavar="N",
    )
    flops: float | None = option(
        MEASURE,
        None,
        "FLOPs of one sample in the timed region: adds the model FLOPs utilisation (MFU).",
        metavar="N",
        once=True,
    )
    peak_tflops: float | None = option(
        MEASURE,
        None,
        "Peak of all devices together, for --flops; default: the architecture's.",
        metavar="N",
    )
    ops: bool = option(OUTPUT, False, "Show every op (always shown for a CSV).", once=True)
    summary: bool = option(
        OUTPUT, True, "Show only the ops, without summary and stacked report.", "--no-summary"
    )
    color: bool | None = option(
        OUTPUT, None, "Use colour always or never; default: on a terminal.", "--color/--no-color"
    )

    @property
    def of_ops(self) -> bool:
        """Whether something was asked for that only ops can show."""
        few = bool(self.id_range) or self.hide_below is not None or self.print_signposts
        return self.ops or not self.summary or few


@Verb
def report(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...",
            help=(
                "A run folder, a folder of `compare` or `tune`, a report folder of Tracy (or "
                "the folder it was told to write into), or ops CSVs: several are the hosts of one "
                "system."
            ),
        ),
    ],
    *,
    asked: Asked,
    files: ReportFiles,
    shown: common.Json,
) -> None:
    """Analyse and render an earlier run, or ops CSVs of Tracy."""
    if len(sources) == 1 and are_pairs(sources[0]):
        _show_pairs(sources[0], asked, files, json=shown.json)
        return
    if len(sources) == 1 and (sources[0] / TUNING).is_file():
        _show_tuning(sources[0], asked, files, json=shown.json)
        return
    _start_lean()
    from instrumentor.results.reporting import report as make_report

    files = replace(files, stacked=files.stacked and asked.summary)
    if asked.no_stack_by_in0 and asked.group_by == "memory":
        asked = replace(asked, group_by="op")
    rates = {"flops": asked.flops, "peak_tflops": asked.peak_tflops}
    with console.Narrator.during(f"reading {', '.join(map(console.shown, sources))}"):
        found = make_report(sources, asked, files, **rates)
    if asked.of_ops and found.ops is None:
        _refuse_without_ops(found, asked, sources[0])
    if shown.json:
        console.out_json(_document(found, with_ops=asked.ops))
    else:
        _show(found, asked, files)
    if found.unrefreshed:
        console.warn(found.unrefreshed)
    for path in found.written:
        console.say(f"Wrote {path}")
    if found.logged:
        console.say(found.logged)


def _show_pairs(folder: Path, asked: Asked, files: ReportFiles, *, json: bool) -> None:
    """Pairs that `compare` ran; what else is asked for is of one of their runs."""
    from instrumentor.cli.compare_versions import show_earlier

    if asked.of_ops or files.targets or files.export:
        run = console.quoted(folder / "01_base")
        raise UsageError(
            f"{folder} holds pairs of runs, and ops belong to a single run",
            f"The first, for example: instrument report {run}",
        )
    show_earlier(folder, json=json)


def _show_tuning(folder: Path, asked: Asked, files: ReportFiles, *, json: bool) -> None:
    """What `tune` found; what else is asked for is of one of its trials."""
    from instrumentor.cli.verbs.tune import first_run, show_earlier

    if asked.of_ops or files.targets or files.export:
        run = console.quoted(first_run(folder))
        raise UsageError(
            f"{folder} holds a tuning, and ops belong to a single run",
            f"That of the script as it is: instrument report {run}",
        )
    show_earlier(folder, json=json)


def _refuse_without_ops(found: Reported, asked: Asked, source: Path) -> None:
    """Raise unless the ops of a torch profile can stand for those of a device.

    Raises:
        UsageError: there are no ops, or what was asked for only a device's ops have.
    """
    if found.analysis.ops is None:
        hint = "A run with --profiler torch records its ops."
        raise UsageError(f"{source} holds no ops to show", hint)
    if asked.id_range or asked.print_signposts:
        hint = (
            f"It holds those of a torch profile: instrument report {console.quoted(source)} --ops"
        )
        raise UsageError(f"{source} holds no device ops, which alone have IDs and signposts", hint)


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

    # OpenBLAS has read it while it was loaded; children get the user's environment.
    if before is None:
        del os.environ[variable]


def _show(found: Reported, asked: Asked, files: ReportFiles) -> None:
    """The ops, and the summary last: that is what stays on the screen."""
    # What goes to a file is not shown besides, unless that is asked for.
    table = asked.ops or (files.csv is None and (asked.of_ops or not found.is_run))
    if table and found.ops is not None:
        from instrumentor_analysis.reports.ops_console import render_ops

        # What the summary says as well is said there.
        known = found.summary.warnings if asked.summary else ()
        notes = tuple(note for note in found.ops.notes if note not in known)
        console.show(
            render_ops,
            structs.replace(found.ops, notes=notes),
            painted=asked.color,
            advice=files.advice,
            stacked=files.stacked,
            raw_op_codes=files.raw_op_codes,
            hide_below=asked.hide_below,
            notes=asked.verbose,
        )
        if asked.summary:
            console.out()
    elif found.ops is None and asked.of_ops and found.analysis.ops is not None:
        from instrumentor_analysis.reports.ops_console import render_torch_ops

        ops, least = found.analysis.ops, asked.hide_below
        console.show(render_torch_ops, ops, painted=asked.color, hide_below=least)
        if asked.summary:
            console.out()
    if asked.summary:
        show_summary(found.summary, notes=asked.verbose, painted=asked.color)


def _document(found: Reported, *, with_ops: bool) -> dict[str, Any]:
    """The document of summary.json; on demand with the ops, None where there is no figure."""
    from instrumentor_analysis.shared.documents import plain

    document = found.summary.to_json()
    ops = found.analysis.ops if found.ops is None else found.ops.ops
    if with_ops and ops is not None:
        document["ops"] = plain([*ops.records()])
    return document


def show_summary(summary: Summary, *, notes: bool = False, painted: bool | None = None) -> None:
    """The console's summary of a run; with warnings of weight ``note`` on demand."""
    from instrumentor_analysis.reports import summary as reports

    console.show(reports.console, summary, painted=painted, notes=notes)
