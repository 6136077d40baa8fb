"""Device time by line of the user's source.

MLIR locations (``loc("train.py":12:3)``, named, call sites, fused; the writer of the CSV may have
turned ``,`` into ``;``) name lines of the *instrumented* file; the run's diff turns them back
into lines of the original.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct, field

from instrumentor_analysis.load.perf_trace import DEVICE_BITS, read_messages
from instrumentor_analysis.load.table import Categorical, Floats, Groups, Mask, Table, total
from instrumentor_analysis.model import Locations, Module, SourceLine
from instrumentor_analysis.ops.figures import by_time, evaluates_constants
from instrumentor_analysis.ops.stacked import kinds
from instrumentor_analysis.shared.files import read_text

NO_LOCATIONS = (
    "no source locations in this trace: a compiler writes them (tt-mlir built with perf tracing, "
    "and under torch_xla XLA_HLO_DEBUG=1); ops that a script calls itself, as by ttnn, have none"
)
#: Of Tracy's logs, the one with messages of the compiler.
MESSAGES = "tracy_ops_data.csv"
#: What stands for the modules of all constants together.
CONSTANTS = "(constants, evaluated once)"
_FILE_LINE = re.compile(r'"((?:[^"\\]|\\.){1,4000})"\s*:\s*(\d+)(?:\s*:\s*\d+)?')
# Frontends without structured locations write them into the name: `Linear[fc]/model.py:45/mm`.
_IN_NAME = re.compile(r"([\w./\\-]{1,1000}\.py)(?::|\",?\s*line\s+)(\d+)")
# A torch module in a name: its class, and the attribute that holds it.
_MODULE = re.compile(r"\b([A-Za-z_]\w{0,200}\[[\w.]{1,1000}\])")
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_LIBRARY = ("site-packages", "dist-packages", "lib/python", "<frozen", "torch_xla/")


class Place(Struct, frozen=True):
    """One file and 1-based line, as a location names it."""

    file: str
    line: int


class LineMap(Struct, frozen=True):
    """Lines of instrumented files to those of the originals, out of a unified diff.

    Attributes:
        files: by path in the diff: (first new line, old line of it) at every shift, rising.
        inserted: by path: new lines that the original does not have, each with the original line
            of the same code when one was taken out (a moved statement), else None.
    """

    files: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    inserted: Mapping[str, Mapping[int, int | None]] = field(default_factory=dict)

    def original(self, place: Place) -> Place:
        """The place in the user's file; of an inserted line, where its code stood or the line
        before it.

        A file that the diff does not name is returned as it is.
        """
        posix = place.file.replace("\\", "/")
        path = next((p for p in self.files if posix == p or posix.endswith(f"/{p}")), None)
        if path is None:
            return place
        line = place.line
        moved = self.inserted[path].get(line)
        if moved is not None:
            return Place(path, moved)
        while line > 1 and line in self.inserted[path]:
            line -= 1
        shifts = self.files[path]
        # Finds the last shift at or before this line: 1 << 60 exceeds any old line.
        new, old = shifts[bisect_right(shifts, (line, 1 << 60)) - 1]
        return Place(path, max(1, old + line - new))


class _FileDiff(Struct):
    """What the hunks of one file say.

    Attributes:
        shifts: from which line after on, and to which line before, the two run alike.
        inserted, removed: code by its line after, and before.
    """

    shifts: list[tuple[int, int]] = field(default_factory=lambda: [(1, 1)])
    inserted: dict[int, str] = field(default_factory=dict)
    removed: dict[int, str] = field(default_factory=dict)


def read_diff(text: str) -> LineMap:
    """Read the unified diff of an instrumentation (original to instrumented)."""
    files: dict[str, _FileDiff] = {}
    diff = _FileDiff()
    old = new = old_left = new_left = 0
    for line in text.splitlines():
        # "\ No newline at end of file" belongs to neither side.
        if line.startswith("\\"):
            continue
        if old_left > 0 or new_left > 0:
            before, after = not line.startswith("+"), not line.startswith("-")
            if not before:
                diff.inserted[new] = _code(line[1:])
            if not after:
                diff.removed[old] = _code(line[1:])
            old, old_left, new, new_left = (
                old + before,
                old_left - before,
                new + after,
                new_left - after,
            )
            diff.shifts.append((new, old))
        elif line.startswith("+++ "):
            name = line[4:].split("\t")[0].strip().strip('"')
            diff = files[name.removeprefix("b/")] = _FileDiff()
        elif hunk := _HUNK.match(line):
            old_left, new_left = int(hunk[2] or 1), int(hunk[4] or 1)
            # A hunk without lines on one side names the line before it.
            old, new = int(hunk[1]) + (old_left == 0), int(hunk[3]) + (new_left == 0)
            diff.shifts.append((new, old))
    return LineMap(
        {path: tuple(each.shifts) for path, each in files.items()},
        {path: _moved(each.inserted, each.removed) for path, each in files.items()},
    )


def _code(line: str) -> str:
    """A line without indentation, and without a marker comment at its end."""
    return line.split("# [instrument]")[0].strip()


def _moved(inserted: Mapping[int, str], removed: Mapping[int, str]) -> dict[int, int | None]:
    """Where the code of each inserted line stood; a removed line is taken once."""
    left = {old: code for old, code in removed.items() if code}
    found: dict[int, int | None] = {}
    for new, code in inserted.items():
        found[new] = next((old for old, text in left.items() if text == code), None)
        left.pop(found[new] or 0, None)
    return found


def places(location: str) -> tuple[Place, ...]:
    """Every file and line of an MLIR location, innermost call first, each once."""
    found = [Place(m[1], int(m[2])) for m in _FILE_LINE.finditer(location)]
    found += [Place(m[1], int(m[2])) for m in _IN_NAME.finditer(location)]
    return tuple(dict.fromkeys(place for place in found if place.line > 0))


def user_place(location: str, lines: LineMap) -> Place | None:
    """The place a user would look at: innermost in an instrumented file, else in no library."""
    candidates = places(location)
    mapped = [(place, lines.original(place)) for place in candidates]
    for _, original in mapped:
        if original.file in lines.files:
            return original
    own = [o for p, o in mapped if not any(part in p.file for part in _LIBRARY)]
    python = [o for o in own if PurePosixPath(o.file).suffix == ".py"]
    return next(iter(python or own or [o for _, o in mapped]), None)


def module_name(location: str, place: Place | None) -> str | None:
    """The chain of torch modules that a location names, else the file of its place."""
    chain = list(dict.fromkeys(_MODULE.findall(location)))
    if chain:
        return ".".join(chain)
    return None if place is None else place.file


def located(ops: Table, messages: Path | None) -> Table:
    """A per-op frame with its locations; from Tracy's messages where the CSV has none."""
    if "location" in ops or messages is None:
        return ops
    described = {count >> DEVICE_BITS: told for count, told in read_messages(messages).items()}
    if not any(told["LOC"] for told in described.values()):
        return ops
    calls = [-1 if c != c else int(c) >> DEVICE_BITS for c in ops["global_call_count"].tolist()]
    told = [described.get(call, {}) for call in calls]
    return ops.assign(
        location=Categorical.of([each.get("LOC", "").strip() or None for each in told]),
        const_eval=Categorical.of([each.get("CONST_EVAL_OP") or None for each in told]),
    )


def by_source_line(ops: Table, diff: Path | None = None, pooled: int = 1) -> Locations:
    """Device time per source line of a per-op frame, most first; const-eval ops apart.

    Args:
        diff: the instrumentation's unified diff; without it lines are of the file that ran.
        pooled: number of steps in the frame; times and counts are of one.
    """
    if "location" not in ops or not ops["location"].known().any():
        return Locations(note=NO_LOCATIONS)
    text = read_text(diff, "replace") if diff and diff.is_file() else ""
    lines = read_diff(text)
    location = ops["location"]
    where = [None if loc is None else user_place(str(loc), lines) for loc in location.values]
    modules = [
        None if loc is None else module_name(str(loc), place)
        for loc, place in zip(location.values, where, strict=True)
    ]
    time = ops["device_time_us"]
    const = evaluates_constants(ops)
    place, module = location.map(where), location.map(modules)
    known = place.known()
    whole = total(time)
    return Locations(
        lines=_lines(ops.take(known), place[known], const[known], whole, pooled),
        modules=_modules(module, time, const, whole, pooled),
        unlocated_ms=total(time[~known]) / 1000 / pooled,
        unlocated_count=round(int((~known).sum()) / pooled),
        note=None if known.any() else NO_LOCATIONS,
    )


def _modules(
    module: Categorical, time: Floats, const: Mask, whole: float, pooled: int
) -> tuple[Module, ...]:
    """Modules by device time; last the constants, which are no module's work in a step."""

    def named(name: str, us: float, count: int, const: bool = False) -> Module:
        percent = us / whole * 100 if whole else None
        return Module(name, us / 1000 / pooled, percent, round(count / pooled), const)

    known = module.known()
    once, own = known & const, known & ~const
    found = by_time(Groups(module[own]), module[own], time[own]) if own.any() else []
    modules = [named(each.name, each.us, each.count) for each in found]
    constants = named(CONSTANTS, total(time[once]), int(once.sum()), const=True)
    return (*modules, *([constants] if once.any() else []))


def _lines(
    ops: Table, place: Categorical, const: Mask, whole: float, pooled: int
) -> tuple[SourceLine, ...]:
    if not len(ops):
        return ()
    time, op = ops["device_time_us"], kinds(ops, "op")
    found: list[SourceLine] = []
    for rows in Groups(place, const).rows():
        where: Place = place.values[place.codes[rows[0]]]
        spent = total(time[rows])
        by_op = by_time(Groups(op[rows]), op[rows], time[rows])
        found.append(
            SourceLine(
                file=where.file,
                line=where.line,
                device_time_ms=spent / 1000 / pooled,
                percent=spent / whole * 100 if whole else None,
                op_count=round(len(rows) / pooled),
                const_eval=bool(const[rows[0]]),
                ops=tuple(each.name for each in by_op[:5]),
            )
        )
    return tuple(sorted(found, key=lambda e: (-e.device_time_ms, e.file, e.line, e.const_eval)))
