"""What `instrument run --repeat N` says in the end: how much the runs differ."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
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


def show(results: Sequence[RunResult], *, json: bool) -> RunResult:
    """The run whose median is in the middle, then each run's figures and how much they differ.

    Returns:
        the run in the middle.
    """
    from instrumentor_analysis.clock.intervals import reach
    from instrumentor_analysis.compare.runs import noise_of

    figure, timed = _timed(results)
    noise = noise_of([[*map(reach, timed)]])
    percent = None if noise is None else noise.percent
    middle = sorted(results, key=_median)[(len(results) - 1) // 2]
    if json:
        runs = [{**each.summary.to_json(), "folder": str(each.folder)} for each in results]
        told = {"figure": figure, "noise_percent": percent}
        console.out_json({"schema": SCHEMA, **told, "runs": runs})
        return middle
    from instrumentor_analysis.reports import brief

    console.show(brief.console, middle.summary)
    console.out(f"\n{len(results)} runs; the report above is that of {_name(middle)}")
    for line in _table(results):
        console.out(f"  {line}")
    if len(timed) > 1:
        console.out(_differ(figure, timed))
    return middle


def closing(results: Sequence[RunResult], middle: RunResult) -> None:
    """Where the runs are, and what to type next."""
    folders = [console.quoted(console.shown(each.folder)) for each in results]
    fates = ", ".join(dict.fromkeys(each.users_files.fate for each in results))
    console.say(f"Wrote {', '.join(f'{folder}/' for folder in folders)} ({fates})")
    page = middle.folder / "report.html"
    if page.is_file():
        console.say(f"Page: {page.resolve().as_uri()}")
    if middle.summary.run.get("script"):
        script = console.quoted(console.shown(Path(str(middle.summary.run["script"]))))
        console.say(f"Next: instrument history {script}  # these runs beside earlier ones")
    console.say(f"After a change and another run: instrument compare {' '.join(folders)} -- @last")


def _name(result: RunResult) -> str:
    return result.folder.name


def _table(results: Sequence[RunResult]) -> Iterator[str]:
    """A line for each run: its median, the interval of it, its iteration, and what to doubt."""
    from instrumentor_analysis.clock.neighbours import is_busy
    from instrumentor_analysis.reports.formatting import ms
    from instrumentor_analysis.reports.headline import between, step_word

    width = max(len(_name(each)) for each in results)
    for each in results:
        wall = each.summary.wall_clock
        if wall is None or wall.median_ms is None:
            yield f"{_name(each):<{width}}  nothing was timed"
            continue
        interval, whole = wall.median_interval_ms, wall.iteration
        told = [f"{wall.label} {ms(wall.median_ms)}"]
        if interval is not None:
            told.append(f"95 % {between(interval, wall.median_ms)}")
        told.append(f"{wall.samples} {step_word(wall)}s")
        told += [] if whole is None else [f"{whole.word} {ms(whole.median_ms)}"]
        told += ["machine busy"] if is_busy(each.summary.run.get("machine")) else []
        yield f"{_name(each):<{width}}  {', '.join(told)}"


def _timed(results: Sequence[RunResult]) -> tuple[str, list[tuple[float, ...]]]:
    """What the runs are held against each other by, the iteration first, and its times."""
    from instrumentor_analysis.compare.side import iterations_ms

    walls = [wall for each in results if (wall := each.summary.wall_clock) is not None]
    whole = [iterations_ms(wall) for wall in walls]
    figures = {name for name, _, _ in whole}
    if len(figures) == 1 and "" not in figures:
        figure, found = figures.pop(), [values for _, _, values in whole]
    else:
        figure, found = (walls[0].label if walls else ""), [wall.samples_ms for wall in walls]
    return figure, [run for run in found if run and min(run) > 0]


def _differ(figure: str, timed: Sequence[Sequence[float]]) -> str:
    """How far the slowest median is above the fastest."""
    from instrumentor_analysis.reports.formatting import ms
    from instrumentor_analysis.shared.units import quantity

    medians = [statistics.median(run) for run in timed]
    low, high = min(medians), max(medians)
    percent = quantity((high / low - 1) * 100, "%")
    return f"Runs differ by {percent} ({figure}: medians from {ms(low)} to {ms(high)})"


def _median(result: RunResult) -> float:
    wall = result.summary.wall_clock
    if wall is not None and wall.iteration is not None:
        return wall.iteration.median_ms
    return 0.0 if wall is None or wall.median_ms is None else wall.median_ms
