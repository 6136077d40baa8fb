"""Which ops are meant: the steps between signposts, and the one that is shown.

Our signposts come in pairs ``<name>_start``, ``<name>_end``. A file without such steps is read
as tt-perf-report 1.4.1 reads it (:meth:`Named.select`).

Order: the writer of the file sorts by the time at which an op was issued, and a trace replay
keeps the time of its *capture* in HOST START TS; so a step is always taken in file order, while
that sorts by HOST START TS unless told not to, as tt-perf-report does.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from instrumentor_analysis.load.ops_csv import SIGNPOST
from instrumentor_analysis.load.scan import Region, Scan, Signpost
from instrumentor_analysis.load.table import Mask, Table, concat
from instrumentor_analysis.shared.documents import listed
from instrumentor_analysis.shared.errors import EmptyWindow, NoSuchSignpost, NoSuchStep

# Kinds of steps in the recorder's names, such as step_steady_1.
_STEADY = re.compile(r"(^|_)steady(_|$)")
_COMPILE = re.compile(r"(^|_)compile(_|$)")
_OURS = re.compile(r"(^|_)(steady|compile|warmup|profiled)(_|$)")
_NUMBER = re.compile(r"_(\d+)$")
#: Names that an error lists before it counts the others.
_LISTED = 12

StepChoice = int | Literal["all"] | None


class Named(Struct, frozen=True):
    """A window by names of signposts instead of by steps, as tt-perf-report takes it.

    Attributes:
        start, end: signposts; see :meth:`select`.
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

    def ordered(self, frame: Table) -> Table:
        """The rows sorted by HOST START TS, as tt-perf-report sorts; unchanged without times."""
        times = frame["host_start_ns"]
        if self.file_order or np.isnan(times).all() or (times[1:] >= times[:-1]).all():
            return frame
        return frame.take(np.argsort(times, kind="stable"))

    def select(self, frame: Table) -> tuple[Table, str]:
        """The rows that tt-perf-report 1.4.1 would take, signposts among them; in words, which.

        After the first signpost named ``start`` and before the first named ``end`` (the second
        when both are the same name), by position in the file. With neither, everything after the
        *first* signpost that bears the *last* one's name.

        Args:
            frame: a whole file.

        Raises:
            NoSuchSignpost: a name is not there, which tt-perf-report passes over in silence.
            EmptyWindow: no op is left.
        """
        frame = self.ordered(frame)
        inside, how = self._inside(frame)
        window = frame.take(inside)
        _require_ops(window, frame, how)
        return window, how

    def _inside(self, frame: Table) -> tuple[Mask, str]:
        everything = np.ones(len(frame), np.bool_)
        if self.ignore:
            return everything, "the whole file (signposts ignored)"
        posts = frame.take(frame["op_type"].equals(SIGNPOST))
        lower = _line_of(posts, self.start) if self.start else -1
        again = 1 if self.start == self.end else 0
        upper = _line_of(posts, self.end, nth=again) if self.end else np.inf
        if not len(posts):
            return everything, "the whole file (no signposts)"
        if not self.start and not self.end:
            last = posts["op_code"].tolist()[-1]
            # tt-perf-report looks the last one up by its name, and finds where that stands first.
            first = int(np.argmax(frame["op_code"].equals(last)))
            how = f"ops after the first signpost named {str(last)!r}, the name of the last one"
            return np.arange(len(frame)) > first, how
        lines = frame["line"]
        return (lines > lower) & (lines < upper), f"ops {self.in_words}"

    def region(self, scan: Scan) -> Region | None:
        """The bytes between two borders; None where only the whole file says which rows are meant.

        That is where a border is missing, they stand the wrong way round, or host times do not
        rise with the lines.
        """
        # Backwards, so that of equal names the first one stays.
        named = {post.name: post for post in reversed(scan.signposts)}
        first, last = named.get(self.start or ""), named.get(self.end or "")
        if self.ignore or first is None or last is None or first.line >= last.line:
            return None
        stamps = [post.host_ns for post in scan.signposts if post.host_ns is not None]
        if any(a > b for a, b in itertools.pairwise(stamps)):
            return None
        return Region(first.end, last.start, first.line + 1)

    @property
    def in_words(self) -> str:
        """The signposts at both ends, as reports name them."""
        borders = (("after", self.start), ("before", self.end))
        return ", ".join(f"{side} {name!r}" for side, name in borders if name)


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
        """A steady step by its name: neither the compile step nor a warm-up."""
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
        # -1: signposts of a parsed file, without offsets.
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
            # The files lie one behind the other, per_host steps of this name in each.
            first, *others = same[nth::per_host]
            found.append(replace(first, elsewhere=tuple(others)))
    return tuple(sorted(found, key=lambda mark: mark.start.line))


def choose(
    marks: Sequence[StepMarks], step: StepChoice = None, unfit: Collection[str] = ()
) -> list[int]:
    """Positions of the complete steps that are meant.

    Args:
        step: ``"all"`` steady ones; the last of a number (0: compile); None for the last steady
            one, or, where no steady step is complete, the last of ours of any kind (check
            :attr:`StepMarks.steady`), or none in a file without a step of ours.
        unfit: names of steps that stand for no other (:func:`.timings.unfit_steps`);
            taken only by number, or when all steady ones are.

    Raises:
        NoSuchStep: the step asked for, or every step, is not complete; lists what is there.
    """
    ours = [at for at, mark in enumerate(marks) if mark.ours]
    complete = [at for at in ours if marks[at].complete]
    steady = [at for at in complete if marks[at].steady]
    usual = [at for at in steady if marks[at].name not in unfit] or steady
    if step == "all":
        found, what = usual, "no steady step is complete"
    elif step is None:
        found, what = (usual or complete)[-1:], "no step is complete"
    else:
        found = [at for at in complete if marks[at].number == step][-1:]
        there = any(marks[at].number == step for at in ours)
        what = f"step {step} is not complete" if there else f"there is no step {step}"
    if not found and (ours or step is not None):
        number = marks[complete[-1]].number if complete else None
        hint = "" if number is None else f"Use --step {number}."
        raise NoSuchStep(f"{what}; the trace has {describe(marks)}", hint)
    return found


def describe(marks: Sequence[StepMarks]) -> str:
    """The steps of a file in words: names, and which are not complete."""
    if not marks:
        return "no steps"
    names = [m.name if m.complete else f"{m.name} (not complete)" for m in marks]
    return listed(names, _LISTED)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_LISTED]) + (" ..." if names[_LISTED:] else "")


def between(frame: Table, mark: StepMarks) -> Table:
    """The ops of a step out of a whole file: by position in the file, signposts left out."""
    # Cut out, as lines rise: a mask over the whole file for each step is its length times them.
    lines, parts = frame["line"], list[Table]()
    for part in (mark, *mark.elsewhere):
        if part.end is None:
            raise NoSuchStep(f"step {mark.name} is not complete")
        first, last = np.searchsorted(lines, (part.start.line + 1, part.end.line))
        parts.append(frame.take(slice(first, last)))
    found = concat(parts)
    return found.take(~found["op_type"].equals(SIGNPOST))


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


def _require_ops(window: Table, whole: Table, how: str) -> None:
    """Refuse a window without ops; say what the file holds instead, and which signposts."""
    if not window["op_type"].equals(SIGNPOST).all():
        return
    posts = [str(name) for name in whole["op_code"][whole["op_type"].equals(SIGNPOST)]]
    count = len(whole) - len(posts)
    found = f"{count} ops and {len(posts)} signposts" + (f" ({_listed(posts)})" if posts else "")
    hint = "Name a window with --start-signpost and --end-signpost, or use --ignore-signposts."
    if not count:
        hint = "The profiler recorded no ops: was the device used between the signposts?"
    raise EmptyWindow(f"no ops in the window ({how}); the file holds {found}", hint)
