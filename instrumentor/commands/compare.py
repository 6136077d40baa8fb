"""`instrument compare BASE NEW`: which run is faster, and by how much for sure."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from instrumentor import console
from instrumentor.commands import common
from instrumentor.commands.history import Store
from instrumentor.errors import RegressionFound, UsageError
from instrumentor.outputs import refuse_existing, write_new

if TYPE_CHECKING:
    from instrumentor.history import Entry, History
    from instrumentor_analysis.comparison.model import Comparison
    from instrumentor_analysis.comparison.side import Side

# What stands before the last @ is a path; what may stand behind it, History.pin decides.
_NAME = re.compile(r"(?P<script>.*)@(?P<name>[\w-]+)\Z", re.DOTALL)


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="BASE NEW [MORE...]",
            help=(
                "Run folders or summary.json files; @NAME is a pinned run of the history, @last "
                "the newest one, SCRIPT@NAME and SCRIPT@last those of one script. Each is "
                "compared with the first."
            ),
        ),
    ],
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page with the runs side by side."),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="FILE", help="Write Markdown, as for a pull request."),
    ] = None,
    fail_on_regression: Annotated[
        float | None,
        typer.Option(
            "--fail-on-regression",
            envvar="INSTRUMENT_FAIL_ON_REGRESSION",
            metavar="PCT",
            help=(
                "End with code 6 when a step is slower by more than this many percent for sure: "
                "the whole 95 % interval lies above it."
            ),
        ),
    ] = None,
    batch_size: Annotated[
        str,
        typer.Option(
            "--batch-size",
            metavar="BASE,NEW",
            help="Samples in a step of each run, over what was recorded; - keeps that.",
        ),
    ] = "",
    force: common.Force = False,
    json: common.Json = False,
    history: Store = None,
) -> None:
    """Compare runs with a first one, with an interval."""
    from instrumentor.history import History
    from instrumentor_analysis.compare import compare_all
    from instrumentor_analysis.errors import AnalysisError

    if len(runs) < 2:
        raise UsageError("one run is no comparison", "Give BASE and NEW: two run folders.")
    if fail_on_regression is not None and not 0 <= fail_on_regression < 1e6:
        raise UsageError(f"--fail-on-regression {fail_on_regression:g}: must be 0 or more percent")
    sizes = _sizes(batch_size, len(runs))
    if not force:
        refuse_existing([html, markdown])
    try:
        comparisons = compare_all(_sides(runs, sizes, History(history)))
        _write(comparisons, html, markdown, force=force)
        _show(comparisons, json)
        if fail_on_regression is not None:
            _judge(comparisons, fail_on_regression)
    except AnalysisError as error:
        raise UsageError(error.message, error.hint) from error


def _sizes(text: str, runs: int) -> list[int | None]:
    if not text:
        return [None] * runs
    parts = [part.strip() for part in text.split(",")]
    bad = [part for part in parts if part != "-" and not (part.isdigit() and int(part) > 0)]
    if bad or len(parts) != runs:
        raise UsageError(
            f"--batch-size {text}: takes a whole number or - for each of the {runs} runs",
            "For example: --batch-size 32,64.",
        )
    return [None if part == "-" else int(part) for part in parts]


def _sides(runs: list[str], sizes: list[int | None], history: History) -> list[Side]:
    entries = _entries(runs, history)
    return [
        _side(run, entries.get(run), size, history) for run, size in zip(runs, sizes, strict=True)
    ]


def _entries(runs: list[str], history: History) -> dict[str, Entry]:
    """What the names of the history stand for.

    They are read in an order in which each tells of which script the next one is.
    """
    names = {run: match for run in runs if (match := _name(run))}
    places = {
        run: _place_of(match["script"]) if (match := names.get(run)) else _place(Path(run))
        for run in runs
    }
    place = next(filter(None, places.values()), None)
    entries: dict[str, Entry] = {}
    for run in sorted(names, key=lambda run: names[run]["name"] == "last"):
        entries[run] = _named(run, names[run]["name"], places[run] or place, history)
        place = place or entries[run].key
    for at, run in enumerate(runs):
        if run in names and names[run]["name"] == "last":
            _refuse_itself(entries[run], run, [*runs[:at], *runs[at + 1 :]], entries)
    return entries


def _name(run: str) -> re.Match[str] | None:
    """``@NAME`` or ``SCRIPT@NAME``; a path that is there is a path, whatever its name."""
    match = _NAME.match(run)
    return None if match and match["script"] and Path(run).exists() else match


def _side(run: str, entry: Entry | None, size: int | None, history: History) -> Side:
    from dataclasses import replace

    from instrumentor_analysis.compare import load_side, side_of_document

    if entry is None:
        return load_side(Path(run), batch_size=size)
    folder = Path(entry.folder)
    name = f"{run} (run {entry.id})"
    if folder.is_dir() and (folder / "run.json").is_file() and _is_of(folder, entry):
        return load_side(folder, name=name, batch_size=size)
    side = side_of_document(history.summary(entry), name, run)
    return side if size is None else replace(side, batch_size=size, batch_source="as given")


def _is_of(folder: Path, entry: Entry) -> bool:
    """The folder is that run's still, not a later one's of the same name."""
    started = _facts(folder).get("started")
    return started is not None and started == entry.started


def _facts(folder: Path) -> dict[str, Any]:
    """What run.json says; nothing without a readable one."""
    import json

    try:
        facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _named(run: str, name: str, place: tuple[str, str] | None, history: History) -> Entry:
    """The run of that name, of a script if it is known which.

    Raises:
        UsageError: there is none, or several scripts have one.
    """
    last = name == "last"
    found = history.newest(place) if last else history.pinned(name, place)
    if len(found) == 1:
        return found[0]
    if found:
        scripts = [_shown(entry) for entry in found]
        raise UsageError(
            f"{run}: several scripts have such a run ({', '.join(scripts)})",
            f"Say which: {console.quoted(f'{scripts[0]}@{name}')}",
        )
    if last:
        raise UsageError(
            f"{run}: {history.path} has no run" + (f" of {place[1]}" if place else ""),
            "Measure one: instrument run SCRIPT.",
        )
    raise UsageError(
        f"{run}: no run is pinned under that name" + (f" for {place[1]}" if place else ""),
        f"Pin one: instrument history SCRIPT --baseline {name}.",
    )


def _refuse_itself(entry: Entry, run: str, others: list[str], entries: dict[str, Entry]) -> None:
    """The newest run against itself says nothing, and an older one is not what was asked for."""
    for other in others:
        named = entries.get(other)
        same = _holds(Path(other), entry) if named is None else named.id == entry.id
        if same:
            script = _shown(entry)
            raise UsageError(
                f"{run}: the newest run of {script} is run {entry.id}, which is {other} itself",
                f"Measure again: instrument run {console.quoted(script)}",
            )


def _holds(path: Path, entry: Entry) -> bool:
    """A run folder or its summary.json is that run."""
    folder = path if path.is_dir() else path.parent
    if str(folder.resolve()) != entry.folder:
        return False
    return _facts(folder).get("started", entry.started) == entry.started


def _shown(entry: Entry) -> str:
    """Path of the script as one would give it here."""
    return console.shown(Path(entry.project, entry.script))


def _place_of(script: str) -> tuple[str, str] | None:
    from instrumentor.history import place_of

    return place_of(Path(script)) if script else None


def _place(run: Path) -> tuple[str, str] | None:
    """Of which script a run folder is."""
    script = _facts(run if run.is_dir() else run.parent).get("script")
    try:
        return _place_of(script) if isinstance(script, str) else None
    except UsageError:
        return None


def _write(
    comparisons: tuple[Comparison, ...], html: Path | None, markdown: Path | None, *, force: bool
) -> None:
    for target, kind in ((html, "html"), (markdown, "markdown")):
        if target is None:
            continue
        if kind == "html":
            from instrumentor_analysis.reports.comparison.html import render
        else:
            from instrumentor_analysis.reports.comparison.markdown import render
        write_new(target, render(comparisons).encode("utf-8", errors="replace"), force=force)
        console.say(f"Wrote {target}")


def _show(comparisons: tuple[Comparison, ...], json: bool) -> None:
    if json:
        from instrumentor_analysis.reports.comparison.json import document

        console.out_json(document(comparisons))
        return
    from instrumentor_analysis.reports.comparison.console import render

    text = render(comparisons, width=console.terminal_width(), color=console.colored(sys.stdout))
    console.out(text.rstrip("\n"))


def _judge(comparisons: tuple[Comparison, ...], percent: float) -> None:
    """Leave with code 6 for a sure regression; say so when one is likely but not sure.

    Raises:
        RegressionFound: a run is slower by more than so much, for sure.
    """
    from instrumentor_analysis.compare import regressed

    slower = [each for each in comparisons if regressed(each, percent)]
    for each in comparisons:
        timing = each.timing
        if each not in slower and timing is not None and timing.change_percent > percent:
            console.warn(
                f"{each.new.name} may be slower by more than {percent:g} %, but these samples are "
                "not sure; take more steps"
            )
    if slower:
        names = ", ".join(each.new.name for each in slower)
        raise RegressionFound(
            f"{names}: slower than {comparisons[0].base.name} by more than {percent:g} % for sure",
            "See the tables above for where the time went.",
        )
