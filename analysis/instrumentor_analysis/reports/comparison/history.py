"""Runs of one script over time: as a table for a terminal, and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.document import Column
from instrumentor_analysis.reports.terminal import painter, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BAR = 14
_MUTED, _TEXT = "#616770", "#1d2025"


@dataclass(frozen=True)
class Point:
    """One run.

    Attributes:
        number: in the store.
        name: label, with the names under which it is pinned.
        commit: short, ``+`` behind it for uncommitted changes; empty without git.
        when: start, to the minute.
        how: profiler and scope; only runs alike in it are drawn in one line.
        other_cpus: CPUs that other processes kept busy meanwhile.
        value: median milliseconds of a step, ``low`` and ``high`` its interval.
    """

    number: int
    name: str
    commit: str
    when: str
    how: str
    value: float | None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    device_ms: float | None = None
    other_cpus: float | None = None


def render(points: Sequence[Point], *, width: int = 100, color: bool = False) -> str:
    """A table with a bar per run, oldest first."""
    most = max((p.value for p in points if p.value is not None), default=0.0) or 1.0
    bars = [words.bar(None if p.value is None else p.value / most * 100, _BAR) for p in points]
    device = [p.device_ms for p in points]
    columns = [
        Column("run", [str(p.number) for p in points]),
        Column("when", [words.visible(p.when) for p in points], right=False, optional=True),
        Column("commit", [words.visible(p.commit) for p in points], right=False),
        Column("label", [words.visible(p.name) for p in points], right=False, least=10, comfort=24),
        Column("how", [words.visible(p.how) for p in points], right=False, least=8, comfort=18),
        Column("steps", [str(p.samples) for p in points], optional=True),
        Column("median", words.column([p.value for p in points], "ms")),
    ]
    if any(value is not None for value in device):
        columns.append(Column("device time", words.column(device, "ms")))
    if any(p.other_cpus for p in points):
        busy = [words.ABSENT if p.other_cpus is None else f"{p.other_cpus:.1f}" for p in points]
        columns.append(Column("CPUs of others", busy, optional=True))
    columns.append(Column("", bars, right=False, colours="cyan", optional=True))
    return "\n".join(table(columns, width=width, paint=painter(color))) + "\n"


def figure(points: Sequence[Point], title: str) -> Figure | None:
    """Medians with their intervals in order of the runs, a line per way of measuring; None
    without any median.
    """
    from matplotlib.figure import Figure

    drawn = [(at, p) for at, p in enumerate(points) if p.value is not None]
    if not drawn:
        return None
    made = Figure(
        figsize=(max(6.0, min(16.0, 2.5 + 0.55 * len(points))), 4.0), layout="constrained"
    )
    axes = made.add_subplot()
    for how in dict.fromkeys(p.how for _, p in drawn):
        line = [(at, p, p.value) for at, p in drawn if p.how == how and p.value is not None]
        values = [value for _, _, value in line]
        errors = [
            [value - (value if p.low is None else p.low) for _, p, value in line],
            [(value if p.high is None else p.high) - value for _, p, value in line],
        ]
        places = [at for at, _, _ in line]
        axes.errorbar(places, values, yerr=errors, marker="o", capsize=3, label=_plain(how))
    names = [_plain(" ".join(part for part in (p.commit, p.name) if part)) for p in points]
    axes.set_xticks(range(len(points)), names, rotation=45, ha="right", fontsize=8)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("median of a step, ms", color=_MUTED)
    axes.set_title(_plain(title), loc="left", fontsize=11, color=_TEXT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return made


def _plain(text: str) -> str:
    """Foreign text, not matplotlib's mathematics."""
    return words.visible(text).replace("$", r"\$")
