"""A whole log: its sections found by their headings, each read by its own parser.

Sections come in any order, several times, in older and newer spellings, with the script's own
output between them. Nothing in a log makes the reading fail: what cannot be read is told by the
section's ``problem``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from instrumentor_analysis.kernels import graphs, programs, threads
from instrumentor_analysis.kernels.model import KernelLog, Section
from instrumentor_analysis.kernels.text import clean_lines

# \W* passes over tree characters and the = or - around a heading.
_MARKERS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("threads", re.compile(r"^\W*THREAD SUMMARY\W*$")),
    ("thread-lines", threads.HEAD),
    ("roofline", re.compile(r"^\W*ROOFLINE ANALYSIS\W*$")),
    ("programs", re.compile(r"^\W*(?:PERF|NOC PROFILER) SUMMARY\W*$")),
    ("programs", programs.HEAD),
    ("flow", re.compile(r"^\W*(?:CB|DFB) FLOW GRAPH\W*$")),
    ("pipes", re.compile(r"^\W*PIPE GRAPH\W*$")),
    ("signposts", re.compile(r"^\W*SIGNPOST PROFILE\W*$")),
    # Has no reader: it only ends the section before it.
    ("report", re.compile(r"^\W*TTLANG AUTO-PROFILE REPORT\W*$")),
)
_RULE = re.compile(r"^={20,}$")


def parse_log(text: str) -> KernelLog:
    """Everything that tt-lang's profilers printed into a log. Never raises for its content."""
    lines = clean_lines(text)
    starts = _headings(lines)
    ends = [*(at for _, at in starts[1:]), len(lines)]
    found: dict[str, Any] = {}
    # A log without any heading has one end and no start.
    for (kind, start), end in zip(starts, ends, strict=False):
        if kind in _READERS:
            part = _Part(lines, start, end)
            told, problem = _READERS[kind](part)
            told["sections"] = [part.section(kind, told, problem)]
            for name, value in told.items():
                if isinstance(value, list):
                    found.setdefault(name, []).extend(value)
                elif value:  # the last one that says anything
                    found[name] = value
    whole: dict[str, Any] = {
        n: tuple(value) if isinstance(value, list) else value for n, value in found.items()
    }
    return KernelLog(**whole, warnings=tuple(_warnings(whole.get("sections", ()), lines)))


#: What a section holds, by the field of :class:`KernelLog`; and where and why reading stopped.
_Read: TypeAlias = tuple[dict[str, Any], str]


class _Part:
    """The lines from one heading to the next."""

    def __init__(self, lines: Sequence[str], start: int, end: int) -> None:
        self.heading = lines[start]
        self.start = start + 1
        self.body = lines[start + 1 : end]
        self.taken = len(self.body)
        self.last = end == len(lines)
        self.end = len(lines)

    def section(self, kind: str, told: Mapping[str, Any], problem: str) -> Section:
        """How far it was read."""
        title = self.heading.strip().strip("= -").partition("(")[0].strip() or kind
        lists = [value for value in told.values() if isinstance(value, list)]
        read = len(lists[0]) if lists else sum(value is not None for value in told.values())
        end = self.start + self.taken
        return Section(kind, title, self.start, end, read, not problem, problem)

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
    """The kind of each section, and where it begins."""
    found: list[tuple[str, int]] = []
    for at, line in enumerate(lines):
        pattern, kind = next(((p, k) for k, p in _MARKERS if p.match(line)), (None, ""))
        # Program blocks belong to the summary that they follow.
        of_summary = pattern is programs.HEAD and found and found[-1][0] == "programs"
        if pattern is not None and not of_summary:
            found.append((kind, at))
    return found


def _threads(part: _Part) -> _Read:
    read = threads.read_summary(part.body)
    whole = read and (not part.last or part.closed)
    problem = "" if whole else part.cut("its closing line")
    return {"threads": read, "roofline": threads.read_roofline(part.body)}, problem


def _thread_lines(part: _Part) -> _Read:
    head = threads.HEAD.match(part.heading)
    assert head is not None
    problem = part.cut("the THREAD SUMMARY that follows") if part.last else ""
    return {"lines": threads.read_lines(head, part.body)}, problem


def _roofline(part: _Part) -> _Read:
    found = threads.read_roofline(part.body)
    return {"roofline": found}, part.cut("its verdict") if found is None else ""


def _programs(part: _Part) -> _Read:
    # A summary whose heading was lost begins with its first program.
    body = [part.heading, *part.body] if programs.HEAD.match(part.heading) else part.body
    found, announced = programs.read_programs(body)
    told = {"programs": found, "machine": programs.read_machine(body)}
    if announced > len(found):
        end = f"; the log ends at line {part.end}" if part.last else ""
        return told, f"{len(found)} of {announced} programs were printed{end}"
    if found and found[-1].duration_cycles is None and found[-1].dram_read is None:
        return told, part.cut(f"the figures of program {found[-1].number}")
    return told, "" if found else part.cut("any program")


def _flow(part: _Part) -> _Read:
    document = graphs.read_document(part.body)
    part.taken = document.lines if document is not None else part.taken
    if document is None:
        return {"buffers": []}, "no JSON follows"
    return {"buffers": graphs.read_buffers(document.value)}, document.problem


def _pipes(part: _Part) -> _Read:
    document = graphs.read_document(part.body)
    part.taken = document.lines if document is not None else 0
    if document is None:  # a kernel without pipes prints the heading alone
        return {"pipes": []}, ""
    return {"pipes": graphs.read_pipes(document.value)}, document.problem


def _signposts(part: _Part) -> _Read:
    read = threads.read_signposts(part.body)
    return {"signposts": read}, "" if read and part.closed else part.cut("its closing line")


_READERS: Mapping[str, Callable[[_Part], _Read]] = {
    "threads": _threads,
    "thread-lines": _thread_lines,
    "roofline": _roofline,
    "programs": _programs,
    "flow": _flow,
    "pipes": _pipes,
    "signposts": _signposts,
}


def _warnings(sections: Sequence[Section], lines: Sequence[str]) -> Iterator[str]:
    for section in sections:
        if section.problem:
            yield (
                f"{section.title} (line {section.line}): {section.problem}; "
                f"{section.read} entries were read"
            )
    if any("buffers were full, markers were dropped" in line for line in lines):
        yield "the device profiler dropped markers: cycles of lines and signposts are too low"
