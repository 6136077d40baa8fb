"""`instrument history SCRIPT`: what was measured of a script, over its commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from msgspec.structs import replace

from instrumentor.cli import common
from instrumentor.cli.signature import Verb
from instrumentor.shared import console
from instrumentor.shared.errors import InstrumentError, UsageError
from instrumentor.shared.option_fields import MEASURE, option, output_file
from instrumentor.shared.outputs import Replacing, refuse_outputs, write_new
from instrumentor_analysis.reports.formatting import plural
from instrumentor_analysis.summary.history_entry import Failed

if TYPE_CHECKING:
    from instrumentor.results.history import History
    from instrumentor.run.options import RunResult
    from instrumentor_analysis.summary.history_entry import Entry

SCHEMA = "instrument-history/1"
#: Rows of the table, the newest; a store may hold far more than anybody reads.
MOST_ROWS = 1000
_PLOTS: dict[str, Literal["png", "svg", "pdf"]] = {".png": "png", ".svg": "svg", ".pdf": "pdf"}


@dataclass(frozen=True)
class Asked(Replacing):
    """Choices of the command line alone."""

    baseline: str = option(
        MEASURE,
        "",
        "Pin a run under this name: compare @NAME ... finds it again.",
        metavar="NAME",
        once=True,
    )
    run: int | None = option(
        MEASURE, None, "The run to pin; default: the newest.", metavar="NUMBER", once=True
    )
    plot: Path | None = output_file("Plot the medians: .png, .svg or .pdf.")


@Verb
def history(
    script: Annotated[
        Path | None,
        typer.Argument(help="A script that was measured; without one, all are listed."),
    ] = None,
    *,
    asked: Asked,
    shown: common.Json,
    store: common.Store,
) -> None:
    """List the runs of a script, draw them, or pin one."""
    from instrumentor.results.history import History, place_of
    from instrumentor_analysis.reports.comparison import history as reports
    from instrumentor_analysis.shared.documents import plain

    kept = History(store.history)
    if script is None:
        _show_all(kept, asked, json=shown.json)
        return
    _refuse(asked)
    place = place_of(script)
    entries, failed = kept.of_script(place), kept.failed(place)
    if not entries:
        incomplete = f"no complete run of {script}: {_incomplete(failed)}" if failed else ""
        raise UsageError(
            f"{kept.path} has {incomplete or f'no run of {script}'}",
            f"Measure one: instrument run {console.quoted(script)}",
        )
    if asked.run is not None and not asked.baseline:
        raise UsageError("--run NUMBER says which run to pin", "Give --baseline NAME with it.")
    if asked.baseline:
        _pin(kept, _chosen(entries, asked.run, script), asked.baseline)
        entries = kept.of_script(place)
    if asked.plot is not None:
        _draw(entries, asked.plot, place[1], force=asked.force)
    if shown.json:
        head = {"schema": SCHEMA, "project": place[0], "script": place[1]}
        console.out_json({**head, "runs": plain(entries), "failed": plain(failed)})
        return
    console.show(reports.console, entries[-MOST_ROWS:])
    if len(entries) > MOST_ROWS:
        earlier = len(entries) - MOST_ROWS
        console.say(f"Earlier runs that are not shown: {earlier}; --json lists all")
    if entries[0].id != 1:
        console.say("Numbers are counted over the runs of all scripts")
    if failed:
        console.say(f"Not listed: {_incomplete(failed)}")
    _show_noise(kept, entries[-1])


def _refuse(asked: Asked) -> None:
    """Say what cannot be done of what was asked, before anything is."""
    if asked.plot is not None and asked.plot.suffix not in _PLOTS:
        raise UsageError(
            f"--plot {asked.plot}: the name has to end in {', '.join(_PLOTS)}",
            "For example: --plot medians.png",
        )
    refuse_outputs([asked.plot], force=asked.force)


def _pin(kept: History, pinned: Entry, baseline: str) -> None:
    kept.pin(pinned, baseline)
    console.say(f"Run {pinned.id} is now @{baseline}")
    if pinned.busy:
        console.warn(
            f"Other programs kept the machine busy during run {pinned.id}: nothing can be "
            "concluded against it. Pin one of a quiet machine with --run NUMBER."
        )


def _incomplete(failed: Sequence[Failed]) -> str:
    """``3 incomplete runs: interrupted (2), the script ended with code 1 (1)``, and where.

    Such a run may have figures of the steps that it took.
    """
    counts = Counter(each.why for each in failed).most_common()
    reasons = ", ".join(f"{why} ({count})" if len(failed) > 1 else why for why, count in counts)
    newest = console.shown(Path(failed[-1].folder))
    last = f"the newest is {newest}" if len(failed) > 1 else newest
    return f"{plural(len(failed), 'incomplete run')}: {reasons} ({last})"


def _show_all(kept: History, asked: Asked, *, json: bool) -> None:
    """The newest run of each script, and what the project of the working folder left incomplete."""
    from instrumentor_analysis.reports.comparison import history as reports
    from instrumentor_analysis.shared.documents import plain

    if asked.plot is not None or asked.baseline or asked.run is not None:
        raise UsageError(
            "Only the runs of one script can be drawn or pinned",
            "Name it, for example: instrument history train.py",
        )
    entries, failed = kept.newest(), kept.failed()
    if json:
        console.out_json({"schema": SCHEMA, "runs": plain(entries), "failed": plain(failed)})
        return
    if entries:
        console.show(reports.console, [*map(_from_here, entries)])
        script = console.shown(Path(*entries[-1].key))
        words = console.quoted(script)
        console.say(
            f"The newest run of each script. For all runs of one: instrument history {words}"
        )
    here = Path.cwd().resolve()
    of_this = [each for each in failed if here.is_relative_to(each.project)]
    if of_this:
        console.say(f"Not listed of this project: {_incomplete(of_this)}")
    elif not entries:
        console.say(
            f"{kept.path} has no run yet. Measure one, for example: instrument run train.py"
        )


def _from_here(entry: Entry) -> Entry:
    """The entry with its script as it is typed in the working folder, where it lies below that."""
    here, script = Path.cwd().resolve(), Path(*entry.key)
    if not script.is_relative_to(here):
        return entry
    return replace(entry, project=str(here), script=str(script.relative_to(here)))


def _chosen(entries: tuple[Entry, ...], number: int | None, script: Path) -> Entry:
    if number is None:
        return entries[-1]
    for entry in entries:
        if entry.id == number:
            return entry
    known = ", ".join(str(entry.id) for entry in entries[-10:])
    raise UsageError(f"--run {number}: no run of {script}", f"There are: {known}.")


def _show_noise(kept: History, like: Entry) -> None:
    """How much runs of equal code differ, of those measured as the newest was."""
    from instrumentor_analysis.compare.runs import noise_of
    from instrumentor_analysis.shared.units import quantity

    # Of runs measured in the same way only: other arguments or steps are another noise.
    figure = like.headline.figure
    groups = kept.repeats(like.key, like.conditions).get(figure, ())
    noise = noise_of(medians=groups)
    if noise is not None:
        runs = sum(len(group) for group in groups)
        console.out(
            f"\nSpread of runs with this commit and label: {quantity(noise.percent, '%')} "
            f"({', '.join(filter(None, (f'{runs} runs', like.way)))})"
        )


def _draw(entries: tuple[Entry, ...], target: Path, script: str, *, force: bool) -> None:
    from instrumentor_analysis.reports import plots
    from instrumentor_analysis.reports.comparison.history import figure

    drawn = figure(entries, script)
    if drawn is None:
        raise UsageError(
            "no run has a steady step: there is nothing to plot",
            "Measure one of more --steps.",
        )
    write_new(target, plots.encode(drawn, _PLOTS[target.suffix]), force=force)
    console.say(f"Wrote {target}")


def remember(result: RunResult, script: Path, store: common.Remembered, why: str = "") -> None:
    """Add a run; whatever happens here is a warning at most.

    Args:
        why: it failed; what it left is no figure to compare with.
    """
    if store.no_history:
        return
    from instrumentor.results.history import History, place_of

    summary, kept = result.summary, History(store.history)
    if not why and summary.wall_clock is None and summary.op_count is None:
        why = "nothing was measured"
    try:
        place = place_of(script)
        if not why:
            kept.add(result.folder, summary.to_json(), place)
            return
        started = str(summary.run.get("started") or "") or None
        kept.add_failed(Failed(*place, started, str(result.folder.resolve()), why))
    except InstrumentError as error:
        console.warn(f"not added to the history: {error.message} ({error.hint})")
