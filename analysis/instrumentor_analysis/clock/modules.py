"""What each module's forward takes, from extra steps: times of most, FLOPs of the first."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from instrumentor_analysis.model import Busy, ModuleTime, ModuleTree

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


def modules(steps: Sequence[Called], busy: Busy | None = None) -> ModuleTree | None:
    """The tree of the timed steps; None without one.

    Args:
        busy: the machine meanwhile.

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
        busy=busy,
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


def pattern(name: str) -> str:
    """A name with a star for each number: what layers of one kind may have in common."""
    return _NUMBER.sub("*", name)


def common(names: Sequence[str]) -> str:
    """Names of one pattern as one, with a star for each number in which they differ."""
    parts = zip(*(name.split(".") for name in names), strict=True)
    return ".".join(each[0] if len(set(each)) == 1 else "*" for each in parts)


def alike(found: ModuleTree) -> tuple[ModuleTime, ...]:
    """Modules of one class, one size and the same modules within as one row, most own time first.

    They differ in their numbers alone. Where one row would be left beside the outermost modules,
    each has its own.
    """
    likes = _likes(found.modules)
    groups: dict[tuple[str, int], list[ModuleTime]] = {}
    for each, like in zip(found.modules, likes, strict=True):
        groups.setdefault((pattern(each.name), like), []).append(each)
    every = list(groups.values())
    if sum(group[0].parent is not None for group in every) == 1:
        every = [[each] for each in found.modules]
    merged = (_together(common([x.name for x in group]), group[0].kind, group) for group in every)
    return tuple(sorted(merged, key=lambda each: -each.self_ms))


def _likes(found: Sequence[ModuleTime]) -> list[int]:
    """Of each module a number that those have in common whose calls are the same.

    The same class, and so many FLOPs a call, which tell the size; and what they call is alike.
    """
    inner: list[list[tuple[str, int]]] = [[] for _ in found]
    likes = [0] * len(found)
    known: dict[object, int] = {}
    for at in range(len(found) - 1, -1, -1):  # callers are ahead of what they call
        each = found[at]
        flops = None if each.flops is None else each.flops / max(1, each.calls)
        key = each.kind, flops, tuple(inner[at])
        likes[at] = known.setdefault(key, len(known))
        if each.parent is not None and 0 <= each.parent < at:
            inner[each.parent].append((each.name.rpartition(".")[2], likes[at]))
    return likes


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
