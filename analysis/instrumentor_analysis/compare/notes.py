"""What to doubt in a comparison, beside the environments that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from instrumentor_analysis.clock.memory import peak_of
from instrumentor_analysis.clock.neighbours import BUSY, doubts, other_cpus
from instrumentor_analysis.compare.differences import differences
from instrumentor_analysis.compare.in_turn import in_turn
from instrumentor_analysis.compare.model import Comparison, Timing
from instrumentor_analysis.compare.side import Side
from instrumentor_analysis.model import WallClock
from instrumentor_analysis.shared.caveats import Caveat

#: What tells one code from another, beside what may explain a difference by itself.
_CODE = ("commit", "script", "arguments")


def notes(
    shown: tuple[Side, Side],
    groups: tuple[Sequence[Side], Sequence[Side]],
    comparison: Comparison,
    unusable: int,
) -> tuple[str, ...]:
    """What to doubt, beside the differences of the environments.

    Args:
        shown: the run of each side that is shown.
        groups: all runs of each side.
    """
    base, new = shown
    # A run alone has a name here that tells it from the other side's.
    alone = (
        [side] if len(group) == 1 else group for side, group in zip(shown, groups, strict=True)
    )
    every, timing = [*chain(*alone)], comparison.main
    found = [
        f"{side.name}: {each.labelled}"
        for side in every
        for each in side.summary.warnings
        if each.kind == "run-json"
        or (each.kind == "several-kinds" and side.name in comparison.mixed)
    ]
    if timing is not None and timing.between is None:
        found.append(_single(comparison))
    found += _mixed(groups)
    untraced = [side.name for side in shown if side.untraced]
    if untraced:
        found.append(
            f"The wall clock of {' and '.join(untraced)} is that of the run without Tracy; device "
            "time, overhead and ops are of the one with it."
        )
    # The statement names what was busy itself, unless the runs on either side tell all the same.
    told = timing is not None and (timing.between is None or not timing.real)
    found += [*_doubted(every, but=BUSY if told else ""), *_not_steady(every, timing)]
    # Of many repeats the outliers of those that are shown.
    found += [f"{side.name}: {each.labelled}" for side in shown for each in _said(side, "outlier")]
    for side, other in ((base, new), (new, base)) if comparison.timings else ():
        missing = [label for label in side.labels() if label not in other.labels()]
        found += [f"{', '.join(missing)} was timed in {side.name} only."] if missing else []
    if unusable:
        found.append("A step took 0 ms, so its clock cannot be compared.")
    found += _peaks(base, new)
    commits = {side.summary.environment.get("git_commit") for side in shown} - {None}
    if comparison.lines and len(commits) > 1:
        found.append(
            "The commits differ, so a source line may have another number on the other side."
        )
    return tuple(found)


def _peaks(base: Side, new: Side) -> list[str]:
    """That the peaks of memory are of different stretches of a run, or hold a profiler's own."""
    sides = [(side.name, side.summary.memory, side.summary.profiler) for side in (base, new)]
    of = {name: peak_of(memory, profiler) for name, memory, profiler in sides}
    if len(set(of.values())) < 2 or any(
        memory is None or memory.resident_bytes is None for _, memory, _ in sides
    ):
        return []
    told = ", ".join(f"{name} {what or 'of the whole run'}" for name, what in of.items())
    return [f"The peaks of memory are not of the same: {told}."]


def _single(comparison: Comparison) -> str:
    """That one run each tells little, and the command that tells more."""
    told = "There is only one run on each side, so run-to-run variation is unknown."
    command = in_turn(comparison.base, comparison.new)
    if command:
        return f"{told} This runs both in turn until it is known which is faster: {command}"
    return (
        f"{told} Run each side several times (--repeat 3) and compare all of them, with -- between "
        "the two sides."
    )


def _mixed(groups: tuple[Sequence[Side], Sequence[Side]]) -> Iterator[str]:
    """That runs of one side are not of one kind: they differ by more than noise."""
    for first, *others in groups:
        every = (each for other in others for each in differences(first, other))
        what = [each.what for each in every if each.weight == "doubt" or each.what in _CODE]
        if what:
            names = ", ".join(dict.fromkeys(what))
            yield (
                f"The runs on the side of {first.name} differ ({names}), so they are not repeats "
                "of one another."
            )


def _doubted(sides: Sequence[Side], but: str) -> list[str]:
    """What the machine gives reason to doubt: of several runs once, of the busiest.

    Args:
        but: a kind of doubt that is told already.
    """
    machines = {side.name: side.summary.run.get("machine") for side in sides}
    every = {
        name: [each.labelled for each in doubts(machine) if each.kind != but]
        for name, machine in machines.items()
    }
    return _once(every, len(sides), lambda name: other_cpus(machines[name]) or 0.0)


def _not_steady(sides: Sequence[Side], timing: Timing | None) -> list[str]:
    """Which runs drifted, as their reports say it: of several once, of the one that did most."""
    every = {side.name: [each.labelled for each in _said(side, "not-steady")] for side in sides}
    walls = {side.name: side.main_wall for side in sides}
    found = _once(every, len(sides), lambda name: abs(_trend_percent(walls[name])))
    by_steps = timing is not None and timing.between is None and timing.told
    widened = ["The interval is widened by what the runs drifted."] if found and by_steps else []
    return [*found, *widened]


def _said(side: Side, kind: str) -> list[Caveat]:
    """The warnings of a kind that a run's own report shows."""
    return [each for each in side.summary.warnings if each.kind == kind]


def _trend_percent(wall: WallClock | None) -> float:
    return 0.0 if wall is None else wall.trend_percent or 0.0


def _once(
    every: Mapping[str, Sequence[str]], count: int, weight: Callable[[str], float]
) -> list[str]:
    """What is said of runs, by their names; of three or more only of the one that weighs most."""
    told = {name: texts for name, texts in every.items() if texts}
    # A line for each of many repeats would bury the other notes.
    if len(told) < 3:
        return [f"{name}: {text}" for name, texts in told.items() for text in texts]
    worst = max(told, key=weight)
    return [f"{len(told)} of {count} runs, such as {worst}: {text}" for text in told[worst]]
