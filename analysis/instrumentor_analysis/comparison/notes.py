"""What to doubt in a comparison, beside the environments that differ."""

from __future__ import annotations

from instrumentor_analysis.comparison.model import Comparison
from instrumentor_analysis.comparison.side import Side, as_number


def notes(base: Side, new: Side, comparison: Comparison, unusable: int) -> tuple[str, ...]:
    """What to doubt, beside the differences of the environments."""
    found: list[str] = []
    untraced = [side.name for side in (base, new) if side.untraced]
    if untraced:
        found.append(
            f"the wall clock of {' and '.join(untraced)} is that of the run without Tracy; device "
            "time, overhead and ops are of the one with it"
        )
    for side in (base, new):
        trend = as_number(side.main_wall.get("trend_percent"))
        if trend is not None and side.main_wall.get("drifts") is True:
            found.append(
                f"{side.name} has not reached steady state: its steps change by {trend:+.1f} % "
                "from the first to the last; the interval is widened by that (more --warmup)"
            )
        slow = _outliers(side)
        if slow:
            found.append(
                f"{side.name} has {len(slow)} steady step{'s' if len(slow) > 1 else ''} far above "
                f"the others ({', '.join(slow[:3])}): the medians bear it, but look for "
                "recompilations"
            )
    for only, other in ((base, new), (new, base)):
        missing = [label for label in only.labels() if label not in other.labels()]
        if missing and comparison.timings:
            found.append(f"{', '.join(missing)} was timed in {only.name} only")
    if unusable:
        found.append("a step of 0 ms: its clock cannot be compared")
    if comparison.timing is not None and comparison.ops and comparison.ops.time == "self time":
        found.append(
            "the times of single ops are self times of one step under torch.profiler: they show "
            "where to look, not how much is won"
        )
    if comparison.lines and _commits_differ(base, new):
        found.append("the commits differ: a source line may have another number on the other side")
    return tuple(found)


def _outliers(side: Side) -> list[str]:
    found = side.main_wall.get("outliers")
    entries = found if isinstance(found, list) else []
    return [str(entry.get("name")) for entry in entries if isinstance(entry, dict)]


def _commits_differ(base: Side, new: Side) -> bool:
    old, now = (side.mapping("environment").get("git_commit") for side in (base, new))
    return old is not None and now is not None and old != now
