"""What `instrument run --repeat N` says in the end: how much the runs differ."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from instrumentor.shared import console

if TYPE_CHECKING:
    from instrumentor.run.options import RunOptions, RunResult

SCHEMA = "instrument-runs/1"


def numbered(options: RunOptions, number: int) -> RunOptions:
    """The options of one of several runs: each has a folder of its own."""
    if options.output is None or number == 1:
        return options
    return replace(options, output=Path(f"{options.output}-{number}"))


def show(results: Sequence[RunResult], *, json: bool) -> None:
    """The run whose median is in the middle, and the noise from run to run."""
    from instrumentor_analysis.clock.intervals import reach
    from instrumentor_analysis.compare.runs import noise_of

    samples = [wall.samples_ms for each in results if (wall := each.summary.wall_clock) is not None]
    timed = [run for run in samples if run and min(run) > 0]
    noise = noise_of([[*map(reach, timed)]])
    percent = None if noise is None else noise.percent
    if json:
        runs = [{**each.summary.to_json(), "folder": str(each.folder)} for each in results]
        console.out_json({"schema": SCHEMA, "noise_percent": percent, "runs": runs})
        return
    from instrumentor.cli.verbs.report import show_summary

    show_summary(sorted(results, key=_median)[(len(results) - 1) // 2].summary)
    medians = ", ".join(f"{statistics.median(run):.4g}" for run in timed)
    if percent is not None:
        console.out(f"\n{len(timed)} runs, medians {medians} ms: they differ by {percent:.2g} %")
    folders = " ".join(console.quoted(console.shown(each.folder)) for each in results)
    console.say(f"Next: instrument compare BASE... -- {folders}")


def _median(result: RunResult) -> float:
    wall = result.summary.wall_clock
    return 0.0 if wall is None or wall.median_ms is None else wall.median_ms
