"""What each module's forward takes, from extra steps: times of most, FLOPs of the first."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from instrumentor_analysis.model import ModuleTime, ModuleTree

#: Numbers in names: layers of one kind differ in them alone.
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")

#: Place of the caller, name, class, calls, milliseconds, FLOPs.
Row = tuple[int, str, str, int, float, int]
Path = tuple[str, ...]


class Called(Struct, frozen=True):
    """The modules of one extra step, by the names of the record; callers first."""

    what: Literal["time", "flops"] = "time"
    rows: tuple[Row, ...] = ()
    uncounted: tuple[str, ...] = ()

    def paths(self) -> list[Path]:
        """Of each row the names from the outermost caller on."""
        found: list[Path] = []
        for at, row in enumerate(self.rows):
            found.append((*(found[row[0]] if 0 <= row[0] < at else ()), row[1]))
        return found

    def own_ms(self) -> list[float]:
        """Of each row the time without what it calls."""
        own = [row[4] for row in self.rows]
        for row in self.rows:
            if 0 <= row[0] < len(own):
                own[row[0]] -= row[4]
        return [max(0.0, each) for each in own]


def modules(steps: Sequence[Called]) -> ModuleTree | None:
    """The tree of the timed steps; None without one.

    What a module takes by itself is the median of the steps; with what it calls, the sum of theirs:
    so all of it adds up.
    """
    timed = [each for each in steps if each.what == "time" and each.rows]
    if not timed:
        return None
    own: dict[Path, list[float]] = {}
    for each in timed:
        for path, ms in zip(each.paths(), each.own_ms(), strict=True):
            own.setdefault(path, []).append(ms)
    shown = max(timed, key=lambda each: len(each.rows))
    counted = next((each for each in steps if each.what == "flops"), Called())
    flops = dict(zip(counted.paths(), (row[5] for row in counted.rows), strict=True))
    self_ms = [statistics.median(own[path]) for path in shown.paths()]
    whole_ms = list(self_ms)
    for at in reversed(range(len(whole_ms))):
        caller = shown.rows[at][0]
        if 0 <= caller < at:
            whole_ms[caller] += whole_ms[at]
    total = sum(ms for ms, row in zip(whole_ms, shown.rows, strict=True) if row[0] < 0)
    return ModuleTree(
        steps=len(timed),
        ms=total,
        uncounted=counted.uncounted,
        modules=tuple(
            ModuleTime(
                name=row[1],
                kind=row[2],
                parent=row[0] if row[0] >= 0 else None,
                calls=row[3],
                ms=ms,
                self_ms=mine,
                percent=ms / total * 100 if total else 0.0,
                flops=flops.get(path),
            )
            for row, ms, mine, path in zip(
                shown.rows, whole_ms, self_ms, shown.paths(), strict=True
            )
        ),
    )


def starred(name: str) -> str:
    """A name with a star for each number: what layers of one kind have in common."""
    return _NUMBER.sub("*", name)


def alike(found: ModuleTree) -> tuple[ModuleTime, ...]:
    """Modules that differ in their numbers alone as one, those of most time of their own first."""
    groups: dict[tuple[str, str], list[ModuleTime]] = {}
    for each in found.modules:
        groups.setdefault((starred(each.name), each.kind), []).append(each)
    merged = (_together(name, kind, group) for (name, kind), group in groups.items())
    return tuple(sorted(merged, key=lambda each: -each.self_ms))


def _together(name: str, kind: str, group: Sequence[ModuleTime]) -> ModuleTime:
    counts = [each.flops for each in group]
    return ModuleTime(
        name=name,
        kind=kind,
        parent=None,
        calls=sum(each.calls for each in group),
        ms=sum(each.ms for each in group),
        self_ms=sum(each.self_ms for each in group),
        percent=sum(each.percent for each in group),
        flops=None if None in counts else sum(count or 0 for count in counts),
    )
