"""Runs to compare, given as folders or by the names that the history has for them; and the gate.

A name is ``@NAME`` (pinned) or ``@last`` (the newest), with the path of a script before the ``@``
where several scripts have such a run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instrumentor.results.history import History, place_of
from instrumentor.shared import console
from instrumentor.shared.errors import RegressionFound, Undecided, UsageError
from instrumentor_analysis.shared.units import quantity

if TYPE_CHECKING:
    from instrumentor_analysis.compare.gate import Gate
    from instrumentor_analysis.compare.model import Comparison
    from instrumentor_analysis.compare.side import Side
    from instrumentor_analysis.summary.history_entry import Entry

# What stands before the last @ is a path; what may stand behind it, History.pin decides.
_NAME = re.compile(r"(?P<script>.*)@(?P<name>[\w-]+)\Z", re.DOTALL)
_LAST = "last"
#: A bound beyond which nothing is known, percent.
_OPEN_PERCENT = 1000.0
Place = tuple[str, str]


def compared(
    groups: Sequence[Sequence[str]],
    sizes: Sequence[int | None],
    history: History,
    *,
    of_region: bool = False,
) -> tuple[Comparison, ...]:
    """Compare the first run with each other one; or two groups of repeats.

    Args:
        groups: runs of one version each; two, where one has several.
        sizes: samples in a step of each run; None for what was recorded.
        of_region: conclude from the timed region, not from the iteration around it.

    Raises:
        UsageError: a name stands for no run, or for several.
        instrumentor_analysis.shared.errors.AnalysisError: a run cannot be read, or not be compared.
    """
    from instrumentor_analysis.compare.comparing import compare_all, compare_runs
    from instrumentor_analysis.summary.history_entry import conditions

    runs = [run for group in groups for run in group]
    entries = _entries(runs, history)
    with console.Narrator.during(f"reading {', '.join(runs)}"):
        each = zip(runs, sizes, strict=True)
        sides = [_side(run, entries.get(run), size, history) for run, size in each]
    if any(len(group) > 1 for group in groups):
        first = len(groups[0])
        return (compare_runs(sides[:first], sides[first:], of_region=of_region),)
    # Earlier runs of the script tell how much runs of equal code differ. The runs given are most
    # often among them; the start tells, for a folder may have been moved.
    entry, base = entries.get(runs[0]), sides[0]
    place = entry.key if entry else _place(runs[0])
    started = {str(side.summary.run.get("started")) for side in sides}
    how = conditions(base.summary.to_json())
    earlier = history.repeats(place, how, started) if place else None
    return compare_all(sides, earlier, of_region=of_region)


def _entries(runs: Sequence[str], history: History) -> dict[str, Entry]:
    """What the names of the history stand for."""
    names = {run: match for run in runs if (match := _name(run))}
    places = {run: _place(run, names.get(run)) for run in runs}
    known = [place for place in places.values() if place]
    entries: dict[str, Entry] = {}
    # Pinned names first: they tell of which script the newest run is meant.
    for run in sorted(names, key=lambda run: names[run]["name"] == _LAST):
        place = places[run] or next(iter(known), None)
        entries[run] = _named(run, names[run]["name"], place, history)
        known.append(entries[run].key)
    for run, entry in entries.items():
        if names[run]["name"] == _LAST:
            for other in Counter(runs) - Counter([run]):
                _refuse_itself(run, entry, other, entries.get(other))
    return entries


def _name(run: str) -> re.Match[str] | None:
    """``@NAME`` or ``SCRIPT@NAME``; a path that is there is a path, whatever its name."""
    match = _NAME.match(run)
    return None if match and match["script"] and Path(run).exists() else match


def _place(run: str, match: re.Match[str] | None = None) -> Place | None:
    """Project and script of a run: named before the ``@``, else as its run folder records it."""
    if match is not None:
        return place_of(Path(match["script"])) if match["script"] else None
    script = _facts(Path(run)).get("script")
    try:
        return place_of(Path(script)) if isinstance(script, str) and script else None
    except UsageError:
        return None


def _facts(run: Path) -> dict[str, Any]:
    """What is recorded of a run folder, or of that of its summary.json."""
    from instrumentor_analysis.load.run_folder import read_facts

    return read_facts(run if run.is_dir() else run.parent)[0]


def _named(run: str, name: str, place: Place | None, history: History) -> Entry:
    """The run of that name, of a script if it is known which.

    Raises:
        UsageError: there is none, or several scripts have one.
    """
    found = history.newest(place) if name == _LAST else history.pinned(name, place)
    if len(found) == 1:
        return found[0]
    if found:
        # Those below the working directory first: one of them is likely meant.
        scripts = sorted(map(_script, found), key=lambda script: Path(script).is_absolute())
        raise UsageError(
            f"{run}: several scripts have such a run ({', '.join(scripts)})",
            f"Say which: {console.quoted(f'{scripts[0]}@{name}')}",
        )
    if name == _LAST:
        of = f" of {place[1]}" if place else ""
        raise UsageError(
            f"{run}: {history.path} has no run{of}", "Measure one, as with: instrument run train.py"
        )
    of = f" for {place[1]}" if place else ""
    script = console.quoted(console.shown(Path(*place))) if place else "train.py"
    raise UsageError(
        f"{run}: no run is pinned under that name{of}",
        f"Pin the newest one: instrument history {script} --baseline {name}",
    )


def _refuse_itself(run: str, newest: Entry, other: str, named: Entry | None) -> None:
    """The newest run against itself says nothing, and an older one is not what was asked for."""
    if named is not None:
        same = named.id == newest.id
    else:
        path = Path(other)
        folder = path if path.is_dir() else path.parent
        # A later run may have taken the folder's name.
        same = str(folder.resolve()) == newest.folder and _facts(path).get("started") in (
            None,
            newest.started,
        )
    if same:
        script = _script(newest)
        meant = ""
        if run == f"@{_LAST}":
            meant = f" ({run} beside {other} means the newest run of the same script)"
        raise UsageError(
            f"{run}: the newest run of {script} is run {newest.id}, which is {other} itself{meant}",
            (f"Another script's run is SCRIPT@{_LAST}. " if meant else "")
            + f"Measure again: instrument run {console.quoted(script)}",
        )


def _script(entry: Entry) -> str:
    """Path of the script as one would give it here."""
    return console.shown(Path(entry.project, entry.script))


def _side(run: str, entry: Entry | None, size: int | None, history: History) -> Side:
    from instrumentor_analysis.compare.side import load_side, side_of_document

    if entry is None:
        return load_side(Path(run), batch_size=size)
    folder, name = Path(entry.folder), f"{run} (run {entry.id})"
    if entry.started is not None and _facts(folder).get("started") == entry.started:
        return load_side(folder, name=name, batch_size=size)
    side = side_of_document(history.summary(entry), name, run)
    return side if size is None else side.with_batch_size(size)


def judged(comparisons: Sequence[Comparison], percent: float) -> Iterator[str]:
    """Why no side is slower by more than that, a sentence each: of what it concludes from.

    Raises:
        RegressionFound: a side is slower by more than so much, for sure.
        Undecided: more runs are needed to tell.
    """
    from instrumentor_analysis.compare.comparing import judge

    gates = [(each, judge(each, percent)) for each in comparisons]
    slower = [each for each, gate in gates if gate.outcome == "regression"]
    if slower:
        raise RegressionFound(
            f"{', '.join(each.new.name for each in slower)}: slower than {slower[0].base.name} by "
            f"more than {percent:g} % ({_of(slower)}, significant)",
            "See the tables above for where the time went.",
        )
    for each, gate in gates:
        bounds = _bounds(each, gate)
        if gate.outcome == "undecided":
            raise Undecided(
                f"undecided whether {each.new.name} is slower than {each.base.name} by more than "
                f"{percent:g} % ({_of([each])}): {bounds}",
                _more_runs(each, gate),
            )
        yield (
            f"No regression by more than {percent:g} % ({_of([each])}) is shown, and one of "
            f"{gate.seen_percent:g} % or more is ruled out: {bounds}"
        )


def _of(comparisons: Sequence[Comparison]) -> str:
    """What the gate is about: ``iteration``, ``update of 4 micro-steps``, ``fwd+bwd``."""
    return " or ".join(dict.fromkeys(each.main.label for each in comparisons if each.main))


def _bounds(comparison: Comparison, gate: Gate) -> str:
    bounds = f"{gate.low_percent:+,.1f} to {quantity(gate.high_percent, '%', signed=True)}"
    if gate.high_percent > _OPEN_PERCENT:
        bounds = "these runs cannot tell"
    timing = comparison.main
    if gate.assumed or timing is None or timing.between is None:
        return f"{bounds}; one run on each side does not show how much runs differ"
    return f"{bounds}; runs differ by {quantity(timing.between.noise.percent, '%')}"


def _more_runs(comparison: Comparison, gate: Gate) -> str:
    from instrumentor_analysis.compare.in_turn import in_turn
    from instrumentor_analysis.compare.runs import MOST_RUNS

    if gate.runs is None or gate.runs > MOST_RUNS:
        return (
            f"It would take more than {MOST_RUNS} runs on each side: this machine is too noisy for "
            "the question. Quieten it, pin its clock, or allow a larger slow-down."
        )
    first = " at first" if gate.assumed else ""
    told = f"Takes {gate.runs} runs on each side{first} (--repeat {gate.runs})"
    command = in_turn(comparison.base, comparison.new, f"--fail-on-regression {gate.percent:g}")
    return f"{told}, or run both in turn: {command}" if command else f"{told}."
