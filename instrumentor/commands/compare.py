"""`instrument compare BASE NEW`: which run is faster, and by how much."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from instrumentor import console
from instrumentor.commands import common
from instrumentor.commands.signature import Verb
from instrumentor.errors import RegressionFound, Undecided, UsageError
from instrumentor.option_fields import MEASURE, OUTPUT, option
from instrumentor.outputs import Replacing, refuse_outputs, write_new

if TYPE_CHECKING:
    from instrumentor.history import History
    from instrumentor_analysis.comparison.gate import Gate
    from instrumentor_analysis.comparison.model import Comparison
    from instrumentor_analysis.comparison.side import Side
    from instrumentor_analysis.past import Entry

# What stands before the last @ is a path; what may stand behind it, History.pin decides.
_NAME = re.compile(r"(?P<script>.*)@(?P<name>[\w-]+)\Z", re.DOTALL)
# In the place of `--`: no path holds it.
_AGAINST = "\0"


@dataclass(frozen=True)
class Asked(Replacing):
    """Choices of the command line alone."""

    html: Path | None = option(
        OUTPUT, None, "Write a page with the runs side by side.", metavar="FILE", once=True
    )
    markdown: Path | None = option(
        OUTPUT, None, "Write Markdown, as for a pull request.", metavar="FILE", once=True
    )
    fail_on_regression: float | None = option(
        MEASURE,
        None,
        "Exit with code 6 when a step is slower by more than this many percent, with 7 when more "
        "runs are needed to tell (it says how many), with 0 when a regression larger by 3 points "
        "is ruled out.",
        metavar="PCT",
    )
    batch_size: str = option(
        MEASURE,
        "",
        "Samples per step of each run, overriding what was recorded; - keeps it.",
        metavar="BASE,NEW",
        once=True,
    )


@Verb
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="BASE NEW [MORE...] | BASE... -- NEW...",
            help=(
                "Run folders or summary.json files; @NAME is a pinned run of the history, @last "
                "the newest one, SCRIPT@NAME and SCRIPT@last those of one script. Each is "
                "compared with the first; with -- the runs before it are repeats of one version, "
                "those after it of the other."
            ),
        ),
    ],
    *,
    asked: Asked,
    shown: common.Json,
    store: common.Store,
) -> None:
    """Compare runs, or repeats of them, with an interval."""
    from instrumentor.history import History
    from instrumentor_analysis.errors import AnalysisError

    groups = _groups(runs)
    runs = [run for group in groups for run in group]
    if len(runs) < 2:
        raise UsageError("a comparison takes two runs", "Give BASE and NEW: two run folders.")
    percent = asked.fail_on_regression
    if percent is not None and not 0 <= percent < 1e6:
        raise UsageError(f"--fail-on-regression {percent:g}: must be 0 or more percent")
    sizes = _sizes(asked.batch_size, groups)
    refuse_outputs([asked.html, asked.markdown], map(Path, runs), force=asked.force)
    try:
        comparisons = _compared(groups, sizes, History(store.history))
        _write(comparisons, asked)
        _show(comparisons, shown.json)
        if percent is not None:
            _judge(comparisons, percent)
    except AnalysisError as error:
        raise UsageError(error.message, error.hint) from error


class Command(typer.core.TyperCommand):
    """Keeps the ``--`` between two groups of runs, which would only end the options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_AGAINST if arg == "--" else arg for arg in args])


def _groups(runs: list[str]) -> list[list[str]]:
    """The runs on either side of ``--``; without it each run by itself.

    Raises:
        UsageError: there is not one such mark with runs on both sides.
    """
    if _AGAINST not in runs:
        return [[run] for run in runs]
    at = runs.index(_AGAINST)
    groups = [runs[:at], runs[at + 1 :]]
    if not all(groups) or _AGAINST in groups[1]:
        raise UsageError(
            "-- separates the runs of two versions, once", "compare A1 A2 A3 -- B1 B2 B3"
        )
    return groups


def _compared(
    groups: list[list[str]], sizes: list[int | None], history: History
) -> tuple[Comparison, ...]:
    from instrumentor_analysis.compare import compare_all, compare_runs

    runs = [run for group in groups for run in group]
    entries = _entries(runs, history)
    with console.Narrator.during(f"reading {', '.join(runs)}"):
        sides = [
            _side(run, entries.get(run), size, history)
            for run, size in zip(runs, sizes, strict=True)
        ]
    if any(len(group) > 1 for group in groups):
        first = len(groups[0])
        return (compare_runs(sides[:first], sides[first:]),)
    return compare_all(sides, _repeats(runs, entries, sides, history))


def _repeats(
    runs: list[str], entries: dict[str, Entry], sides: list[Side], history: History
) -> tuple[tuple[float, ...], ...]:
    """What earlier runs of the script say of how much runs of equal code differ."""
    entry = entries.get(runs[0])
    place = entry.key if entry else _place(Path(runs[0]))
    started = {str(side.summary.run.get("started")) for side in sides}
    how = sides[0].profiler, sides[0].summary.scope, sides[0].batch_size
    return () if place is None else history.repeats(place, how, started)


def _sizes(text: str, groups: list[list[str]]) -> list[int | None]:
    counts = [len(group) for group in groups]
    if not text:
        return [None] * sum(counts)
    parts = [part.strip() for part in text.split(",")]
    bad = [part for part in parts if part != "-" and not (part.isdigit() and int(part) > 0)]
    if bad or len(parts) != len(groups):
        raise UsageError(
            f"--batch-size {text}: takes a whole number or - for each of the {len(groups)} runs",
            "For example: --batch-size 32,64.",
        )
    sizes = [None if part == "-" else int(part) for part in parts]
    return [size for size, count in zip(sizes, counts, strict=True) for _ in range(count)]


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
    from msgspec.structs import replace

    from instrumentor_analysis.comparison.side import load_side, side_of_document

    if entry is None:
        return load_side(Path(run), batch_size=size)
    folder, name = Path(entry.folder), f"{run} (run {entry.id})"
    # A later run may have taken the folder's name.
    if entry.started is not None and _started(folder) == entry.started:
        return load_side(folder, name=name, batch_size=size)
    side = side_of_document(history.summary(entry), name, run)
    return side if size is None else replace(side, batch_size=size, batch_source="as given")


def _facts(run: Path) -> dict[str, Any]:
    """What is recorded of a run folder, or of that of its summary.json."""
    from instrumentor_analysis.run_folder import read_facts

    return read_facts(run if run.is_dir() else run.parent)[0]


def _started(run: Path) -> Any:
    return _facts(run).get("started")


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
        if named.id == entry.id if named else _holds(Path(other), entry):
            script = _shown(entry)
            raise UsageError(
                f"{run}: the newest run of {script} is run {entry.id}, which is {other} itself",
                f"Measure again: instrument run {console.quoted(script)}",
            )


def _holds(path: Path, entry: Entry) -> bool:
    """A run folder or its summary.json is that run."""
    folder = path if path.is_dir() else path.parent
    same = str(folder.resolve()) == entry.folder
    return same and _started(path) in (None, entry.started)


def _shown(entry: Entry) -> str:
    """Path of the script as one would give it here."""
    return console.shown(Path(entry.project, entry.script))


def _place_of(script: str) -> tuple[str, str] | None:
    from instrumentor.history import place_of

    return place_of(Path(script)) if script else None


def _place(run: Path) -> tuple[str, str] | None:
    """Of which script a run folder is."""
    script = _facts(run).get("script")
    try:
        return _place_of(script) if isinstance(script, str) else None
    except UsageError:
        return None


def _write(comparisons: tuple[Comparison, ...], asked: Asked) -> None:
    from instrumentor_analysis.reports.comparison import document

    for target, render in ((asked.html, document.html), (asked.markdown, document.markdown)):
        if target is not None:
            text = render(comparisons).encode("utf-8", errors="replace")
            write_new(target, text, force=asked.force)
            console.say(f"Wrote {target}")


def _show(comparisons: tuple[Comparison, ...], json: bool) -> None:
    if json:
        from instrumentor_analysis.comparison.model import document

        console.out_json(document(comparisons))
        return
    from instrumentor_analysis.reports.comparison.document import console as render

    text = render(comparisons, width=console.terminal_width(), color=console.colored(sys.stdout))
    console.out(text.rstrip("\n"))


def _judge(comparisons: tuple[Comparison, ...], percent: float) -> None:
    """Leave with code 6 for a sure regression, else with 7 where more runs are needed to tell.

    Raises:
        RegressionFound: a side is slower by more than so much, for sure.
        Undecided: that cannot be told.
    """
    from instrumentor_analysis.compare import judge

    judged = [(each, judge(each, percent)) for each in comparisons]
    slower = [each.new.name for each, gate in judged if gate.outcome == "regression"]
    if slower:
        raise RegressionFound(
            f"{', '.join(slower)}: slower than {comparisons[0].base.name} by more than "
            f"{percent:g} % (significant)",
            "See the tables above for where the time went.",
        )
    for each, gate in judged:
        told = _bounds(each, gate)
        if gate.outcome == "undecided":
            raise Undecided(
                f"undecided whether {each.new.name} is slower than {each.base.name} by more than "
                f"{percent:g} %: {told}",
                _more_runs(gate),
            )
        console.say(
            f"No regression by more than {percent:g} % is shown, one by {gate.seen_percent:g} % or "
            f"more is ruled out: {told}"
        )


def _bounds(comparison: Comparison, gate: Gate) -> str:
    bounds = f"{gate.low_percent:+.1f} .. {gate.high_percent:+.1f} %"
    timing = comparison.timing
    if gate.assumed or timing is None or timing.between is None:
        return f"{bounds}, with an assumed noise between runs: one run each does not show it"
    return f"{bounds}, with a noise between runs of {timing.between.noise.percent:.2g} %"


def _more_runs(gate: Gate) -> str:
    if gate.runs is None:
        return "More than 1,000 runs would be needed: quiet the machine first."
    first = " at first" if gate.assumed else ""
    return (
        f"Takes {gate.runs} runs on each side{first}: instrument run --repeat {gate.runs}, then "
        "instrument compare BASE... -- NEW..."
    )
