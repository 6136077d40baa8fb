"""Which ops are meant: the steps between signposts, and the one that is shown.

Our signposts come in pairs ``<name>_start``, ``<name>_end``. A file without such steps is read
as tt-perf-report 1.4.1 reads it (:func:`select`).

Order: the writer of the file sorts by the time at which an op was issued, and a trace replay
keeps the time of its *capture* in HOST START TS; so a step is always taken in file order, while
:func:`select` sorts by HOST START TS unless told not to, as tt-perf-report does.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from instrumentor_analysis.errors import EmptyWindow, NoSuchSignpost, NoSuchStep
from instrumentor_analysis.load import SIGNPOST, Region
from instrumentor_analysis.scan import Scan, Signpost
from instrumentor_analysis.table import Table

_STEADY = re.compile(r"(^|_)steady(_|$)")
_COMPILE = re.compile(r"(^|_)compile(_|$)")
_OURS = re.compile(r"(^|_)(steady|compile|warmup|profiled)(_|$)")
_NUMBER = re.compile(r"_(\d+)$")
_LISTED = 12


class Named(Struct, frozen=True):
    """A window by names of signposts instead of by steps, as tt-perf-report takes it.

    Attributes:
        start, end: signposts; see :func:`select`.
        ignore: the whole file.
        file_order: as the rows lie in the file, not by host time.
    """

    start: str | None = None
    end: str | None = None
    ignore: bool = False
    file_order: bool = False

    @property
    def given(self) -> bool:
        """Some border is named."""
        return bool(self.start or self.end or self.ignore)

    def rows(self, frame: Table, *, keep_signposts: bool = False) -> tuple[Table, str]:
        """The rows of a whole file, and in words which."""
        ordered = frame if self.file_order else by_host_time(frame)
        return select(
            ordered, self.start, self.end, ignore=self.ignore, keep_signposts=keep_signposts
        )


class StepMarks(Struct, frozen=True):
    """One step by its signposts; ``end`` is None when the step was never finished.

    Attributes:
        elsewhere: the same step in the files of the other hosts.
    """

    name: str
    start: Signpost
    end: Signpost | None
    elsewhere: tuple[StepMarks, ...] = ()

    @property
    def complete(self) -> bool:
        """Both signposts are there, on every host."""
        return self.end is not None and all(mark.complete for mark in self.elsewhere)

    @property
    def steady(self) -> bool:
        """By its name neither the compile step nor a warm-up."""
        return _STEADY.search(self.name) is not None

    @property
    def ours(self) -> bool:
        """Named as the recorder names steps, not by somebody's own signposts."""
        return _OURS.search(self.name) is not None

    @property
    def number(self) -> int | None:
        """The number at the end of the name; 0 for the compile step."""
        if _COMPILE.search(self.name):
            return 0
        found = _NUMBER.search(self.name)
        return int(found.group(1)) if found else None

    @property
    def region(self) -> Region | None:
        """The bytes between the two signposts; None when unknown or not complete."""
        if self.end is None or self.start.end <= 0:
            return None
        return Region(self.start.end, self.end.start, self.start.line + 1)


def signposts_of(frame: Table) -> tuple[Signpost, ...]:
    """The signposts of a parsed file, in file order (byte offsets unknown: -1)."""
    rows = frame.take(frame["op_type"].equals(SIGNPOST))
    names, lines, hosts = (rows[c].tolist() for c in ("op_code", "line", "host_start_ns"))
    return tuple(
        Signpost(str(name), line, -1, -1, int(host) if host == host else None)
        for name, line, host in zip(names, lines, hosts, strict=True)
    )


def steps(signposts: Sequence[Signpost]) -> tuple[StepMarks, ...]:
    """Pair the signposts, in the order in which the steps began.

    A start that is followed by another start of the same name was never finished; an end
    without a start is no step.
    """
    open_starts: dict[str, Signpost] = {}
    found: list[StepMarks] = []
    for post in signposts:
        if post.name.endswith("_start"):
            name = post.name.removesuffix("_start")
            if name in open_starts:
                found.append(StepMarks(name, open_starts[name], None))
            open_starts[name] = post
        elif post.name.endswith("_end"):
            name = post.name.removesuffix("_end")
            start = open_starts.pop(name, None)
            if start is not None:
                found.append(StepMarks(name, start, post))
    found += [StepMarks(name, start, None) for name, start in open_starts.items()]
    return tuple(sorted(found, key=lambda mark: mark.start.line))


def over_hosts(marks: Sequence[StepMarks], hosts: int) -> tuple[StepMarks, ...]:
    """The steps of several hosts' files, read one behind the other, as steps of one system.

    The n-th step of a name on each host is one step. A step that some host lacks is not complete.
    """
    by_name: dict[str, list[StepMarks]] = {}
    for mark in marks:
        by_name.setdefault(mark.name, []).append(mark)
    found: list[StepMarks] = []
    for same in by_name.values():
        per_host, odd = divmod(len(same), hosts)
        if odd:
            found.append(replace(same[0], end=None))
            continue
        for nth in range(per_host):
            first, *others = same[nth::per_host]
            found.append(replace(first, elsewhere=tuple(others)))
    return tuple(sorted(found, key=lambda mark: mark.start.line))


def choose(
    marks: Sequence[StepMarks], number: int | None = None, unfit: Collection[str] = ()
) -> StepMarks | None:
    """The last complete steady step, or the complete step of that number (0: compile).

    Where no steady step is complete, the last complete step of ours of any kind: check
    :attr:`StepMarks.steady` of the result. None when the file has no step of ours at all.

    Args:
        unfit: names of steps that stand for no other (:func:`.timings.unfit_steps`);
            taken only by number, or when all steady ones are.

    Raises:
        NoSuchStep: the step asked for, or every step, is not complete; lists what is there.
    """
    ours = [mark for mark in marks if mark.ours]
    if number is None and not ours:
        return None
    what, complete = "no step is complete", [mark for mark in ours if mark.complete]
    if number is None:
        complete = _usual(complete, unfit) or complete
    else:
        complete = [mark for mark in complete if mark.number == number]
        there = any(mark.number == number for mark in ours)
        what = f"step {number} is not complete" if there else f"there is no step {number}"
    if not complete:
        raise NoSuchStep(f"{what}; the trace has {describe(marks)}", _hint(marks))
    return complete[-1]


def _usual(complete: Sequence[StepMarks], unfit: Collection[str]) -> list[StepMarks]:
    """The steady ones that stand for the others; all steady ones where none does."""
    steady = [mark for mark in complete if mark.steady]
    return [mark for mark in steady if mark.name not in unfit] or steady


def describe(marks: Sequence[StepMarks]) -> str:
    """The steps of a file in words: names, and which are not complete."""
    if not marks:
        return "no steps"
    names = [m.name if m.complete else f"{m.name} (not complete)" for m in marks]
    return _listed(names, f" and {len(names) - _LISTED} more")


def _listed(names: Sequence[str], more: str = " ...") -> str:
    return ", ".join(names[:_LISTED]) + (more if len(names) > _LISTED else "")


def _hint(marks: Sequence[StepMarks]) -> str:
    complete = [m for m in marks if m.complete]
    return f"Use --step {complete[-1].number}." if complete and complete[-1].number else ""


def ordered_by_host(scan: Scan) -> bool:
    """The signposts lie in the file in the order of their host times."""
    stamps = [post.host_ns for post in scan.signposts if post.host_ns is not None]
    return all(a <= b for a, b in itertools.pairwise(stamps))


def between(frame: Table, mark: StepMarks) -> Table:
    """The ops of a step out of a whole file: by position in the file, signposts left out."""
    lines = frame["line"]
    inside = np.zeros(len(lines), np.bool_)
    for part in (mark, *mark.elsewhere):
        if part.end is None:
            raise NoSuchStep(f"step {mark.name} is not complete")
        inside |= (lines > part.start.line) & (lines < part.end.line)
    return frame.take(inside & ~frame["op_type"].equals(SIGNPOST))


def by_host_time(frame: Table) -> Table:
    """The rows sorted by HOST START TS, as tt-perf-report sorts; unchanged without times."""
    times = frame["host_start_ns"]
    if np.isnan(times).all() or (times[1:] >= times[:-1]).all():
        return frame
    return frame.take(np.argsort(times, kind="stable"))


def select(
    frame: Table,
    start: str | None = None,
    end: str | None = None,
    *,
    ignore: bool = False,
    keep_signposts: bool = False,
) -> tuple[Table, str]:
    """The rows that tt-perf-report 1.4.1 would take, and in words which.

    After the first signpost named ``start`` and before the first named ``end`` (the second when
    both are the same name), by position in the file. With neither, everything after the *first*
    signpost that bears the *last* one's name.

    Args:
        frame: a whole file, in the order in which the result is wanted.
        ignore: take every row, signposts among them.
        keep_signposts: leave the signposts within the window in it.

    Raises:
        NoSuchSignpost: a name is not there, which tt-perf-report passes over in silence.
    """
    if ignore:
        return frame, "the whole file (signposts ignored)"
    is_post = frame["op_type"].equals(SIGNPOST)
    posts = frame.take(is_post)
    lower: int | None = None
    upper: int | None = None
    notes: list[str] = []
    if start:
        lower = _line_of(posts, start)
        notes.append(f"after {start!r}")
    if end:
        upper = _line_of(posts, end, nth=1 if start == end else 0)
        notes.append(f"before {end!r}")
    if not len(posts):
        return frame, "the whole file (no signposts)"
    lines = frame["line"]
    if lower is None and upper is None:
        last = posts["op_code"].tolist()[-1]
        notes.append(f"after the first signpost named {str(last)!r}, the name of the last one")
        inside = np.arange(len(frame)) > int(np.argmax(frame["op_code"].equals(last)))
    else:
        inside = lines > (-1 if lower is None else lower)
        if upper is not None:
            inside &= lines < upper
    return frame.take(inside if keep_signposts else inside & ~is_post), "ops " + ", ".join(notes)


def _line_of(posts: Table, name: str, nth: int = 0) -> int:
    """Line of a signpost, the first of that name (or the one ``nth`` after it)."""
    matching = posts["line"][posts["op_code"].equals(name)]
    if nth < len(matching):
        return int(matching[nth])
    names = [str(each) for each in posts["op_code"].distinct()]
    again = " a second time" if nth else ""
    raise NoSuchSignpost(
        f"no signpost {name!r}{again} in the file",
        f"It has: {_listed(names)}." if names else "It has no signposts: use --ignore-signposts.",
    )


def require_ops(window: Table, whole: Table, how: str) -> None:
    """Refuse a window without ops.

    Raises:
        EmptyWindow: says what the file holds instead, and which signposts.
    """
    if not window["op_type"].equals(SIGNPOST).all():
        return
    posts = [str(name) for name in whole["op_code"][whole["op_type"].equals(SIGNPOST)]]
    count = len(whole) - len(posts)
    found = f"{count} ops and {len(posts)} signposts" + (f" ({_listed(posts)})" if posts else "")
    hint = "Name a window with --start-signpost and --end-signpost, or use --ignore-signposts."
    if not count:
        hint = "The profiler recorded no ops: was the device used between the signposts?"
    raise EmptyWindow(f"no ops in the window ({how}); the file holds {found}", hint)
