"""A whole log: its sections found by their headings, each read by its own parser.

Sections come in any order, several times, in older and newer spellings, with the script's own
output between them. Nothing in a log makes the reading fail: what cannot be read is told by the
section's ``problem``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from instrumentor_analysis.kernels import graphs, programs, signposts, threads
from instrumentor_analysis.kernels.model import KernelLog, Machine, Roofline, Section
from instrumentor_analysis.kernels.text import clean_lines

_MARKERS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("threads", re.compile(r"^\W*THREAD SUMMARY\W*$")),
    ("thread-lines", threads.HEAD),
    ("roofline", re.compile(r"^\W*ROOFLINE ANALYSIS\W*$")),
    ("programs", re.compile(r"^\W*(?:PERF|NOC PROFILER) SUMMARY\W*$")),
    ("programs", programs.HEAD),
    ("flow", re.compile(r"^\W*(?:CB|DFB) FLOW GRAPH\W*$")),
    ("pipes", re.compile(r"^\W*PIPE GRAPH\W*$")),
    ("signposts", re.compile(r"^\W*SIGNPOST PROFILE\W*$")),
    ("report", re.compile(r"^\W*TTLANG AUTO-PROFILE REPORT\W*$")),
)
_RULE = re.compile(r"^={20,}$")
# The words that a heading must hold: most lines of a log are told apart by them.
_WORDS = ("SUMMARY", "THREAD:", "ANALYSIS", "Program ", "GRAPH", "PROFILE")


def parse_log(text: str) -> KernelLog:
    """Everything that tt-lang's profilers printed into a log. Never raises for its content."""
    lines = clean_lines(text)
    starts = _headings(lines)
    ends = [*(at for _, at in starts[1:]), len(lines)]
    found = _Found()
    for (kind, start), end in zip(starts, ends, strict=False):
        section = _Section(lines, start, end)
        if kind in _READERS:
            read, problem = _READERS[kind](found, section)
            taken = start + 1 + section.taken
            found.add(
                "sections",
                [
                    Section(
                        kind, section.title or kind, start + 1, taken, read, not problem, problem
                    )
                ],
            )
    lists = {name: tuple(values) for name, values in found.lists.items()}
    return KernelLog(
        found.machine, roofline=found.roofline, warnings=tuple(_warnings(lists, lines)), **lists
    )


class _Found:
    """What the sections read so far hold; lists by the field of :class:`KernelLog`."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.roofline: Roofline | None = None
        self.lists: dict[str, list[Any]] = {}

    def add(self, field: str, values: Sequence[Any]) -> int:
        """Append to a field; returns how many."""
        self.lists.setdefault(field, []).extend(values)
        return len(values)


class _Section:
    """The lines from one heading to the next."""

    def __init__(self, lines: Sequence[str], start: int, end: int) -> None:
        self.heading = lines[start]
        self.title = self.heading.strip().strip("= -").partition("(")[0].strip()
        self.body = lines[start + 1 : end]
        self.taken = len(self.body)
        self.last = end == len(lines)
        self.end = len(lines)

    def cut(self, missing: str) -> str:
        """Why something is missing."""
        if self.last:
            return f"the log ends at line {self.end} without {missing}"
        return f"another section begins before {missing}"

    @property
    def closed(self) -> bool:
        """Whether a rule stands behind the rows: the one right below the heading does not count."""
        return any(at > 0 for at, line in enumerate(self.body) if _RULE.match(line))


def _headings(lines: Sequence[str]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for at, line in enumerate(lines):
        if not any(word in line for word in _WORDS):
            continue
        for kind, pattern in _MARKERS:
            if not pattern.match(line):
                continue
            # Program blocks belong to the summary that they follow.
            if pattern is not programs.HEAD or not found or found[-1][0] != "programs":
                found.append((kind, at))
            break
    return found


def _threads(into: _Found, section: _Section) -> tuple[int, str]:
    read = into.add("threads", threads.read_summary(section.body))
    into.roofline = threads.read_roofline(section.body) or into.roofline
    whole = read and (not section.last or section.closed)
    return read, "" if whole else section.cut("its closing line")


def _thread_lines(into: _Found, section: _Section) -> tuple[int, str]:
    head = threads.HEAD.match(section.heading)
    assert head is not None
    read = into.add("lines", threads.read_lines(head, section.body))
    return read, section.cut("the THREAD SUMMARY that follows") if section.last else ""


def _roofline(into: _Found, section: _Section) -> tuple[int, str]:
    found = threads.read_roofline(section.body)
    into.roofline = found or into.roofline
    return (1, "") if found is not None else (0, section.cut("its verdict"))


def _programs(into: _Found, section: _Section) -> tuple[int, str]:
    # A summary whose heading was lost begins with its first program.
    headless = programs.HEAD.match(section.heading)
    body = [section.heading, *section.body] if headless else section.body
    found, announced = programs.read_programs(body)
    machine = programs.read_machine(body)
    into.machine = machine if machine != Machine() else into.machine
    read = into.add("programs", found)
    if announced > read:
        end = f"; the log ends at line {section.end}" if section.last else ""
        return read, f"{read} of {announced} programs were printed{end}"
    if found and found[-1].duration_cycles is None and found[-1].dram_read is None:
        return read, section.cut(f"the figures of program {found[-1].number}")
    return read, "" if found else section.cut("any program")


def _flow(into: _Found, section: _Section) -> tuple[int, str]:
    document = graphs.read_document(section.body)
    if document is None:
        return 0, "no JSON follows"
    section.taken = document.lines
    return into.add("buffers", graphs.read_buffers(document.value)), document.problem


def _pipes(into: _Found, section: _Section) -> tuple[int, str]:
    document = graphs.read_document(section.body)
    section.taken = document.lines if document is not None else 0
    if document is None:  # a kernel without pipes prints the heading alone
        return 0, ""
    return into.add("pipes", graphs.read_pipes(document.value)), document.problem


def _signposts(into: _Found, section: _Section) -> tuple[int, str]:
    read = into.add("signposts", signposts.read_signposts(section.body))
    return read, "" if read and section.closed else section.cut("its closing line")


#: What reads a section's lines: returns how many entries, and where and why reading stopped.
_READERS: Mapping[str, Callable[[_Found, _Section], tuple[int, str]]] = {
    "threads": _threads,
    "thread-lines": _thread_lines,
    "roofline": _roofline,
    "programs": _programs,
    "flow": _flow,
    "pipes": _pipes,
    "signposts": _signposts,
}


def _warnings(lists: Mapping[str, Sequence[Any]], lines: Sequence[str]) -> Iterator[str]:
    for section in lists.get("sections", ()):
        if section.problem:
            yield (
                f"{section.title} (line {section.line}): {section.problem}; "
                f"{section.read} entries were read"
            )
    if any("buffers were full, markers were dropped" in line for line in lines):
        yield "the device profiler dropped markers: cycles of lines and signposts are too low"
