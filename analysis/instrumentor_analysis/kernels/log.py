"""A whole log: its sections found by their headings, each read by its own parser.

Sections come in any order, several times, in older and newer spellings, with the script's own
output between them. Nothing in a log makes the reading fail: what cannot be read is told by the
section's ``problem``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from instrumentor_analysis.kernels import graphs, programs, signposts, threads
from instrumentor_analysis.kernels.model import (
    Buffer,
    KernelLog,
    LineCycles,
    Machine,
    Pipe,
    Program,
    Roofline,
    Section,
    SignpostRow,
    ThreadCycles,
)
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


@dataclass
class _Gathered:
    machine: Machine = field(default_factory=Machine)
    threads: list[ThreadCycles] = field(default_factory=list)
    lines: list[LineCycles] = field(default_factory=list)
    roofline: Roofline | None = None
    programs: list[Program] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    pipes: list[Pipe] = field(default_factory=list)
    signposts: list[SignpostRow] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def parse_log(text: str) -> KernelLog:
    """Everything that tt-lang's profilers printed into a log. Never raises for its content."""
    lines = clean_lines(text)
    starts = _headings(lines)
    gathered = _Gathered()
    for number, (kind, start) in enumerate(starts):
        last = number + 1 == len(starts)
        end = len(lines) if last else starts[number + 1][1]
        _read(gathered, kind, lines, start, end, last=last)
    _warn(gathered, lines)
    return KernelLog(
        gathered.machine,
        tuple(gathered.threads),
        tuple(gathered.lines),
        gathered.roofline,
        tuple(gathered.programs),
        tuple(gathered.buffers),
        tuple(gathered.pipes),
        tuple(gathered.signposts),
        tuple(gathered.sections),
        tuple(gathered.warnings),
    )


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


def _read(
    into: _Gathered, kind: str, lines: Sequence[str], start: int, end: int, *, last: bool
) -> None:
    body = lines[start + 1 : end]
    read, problem, taken = 0, "", len(body)
    if kind == "report":
        return
    if kind == "threads":
        rows = threads.read_summary(body)
        into.threads.extend(rows)
        into.roofline = threads.read_roofline(body) or into.roofline
        read = len(rows)
        whole = bool(rows) and (not last or _closed(body))
        problem = "" if whole else _cut(lines, last, "its closing line")
    elif kind == "thread-lines":
        head = threads.HEAD.match(lines[start])
        assert head is not None
        table = threads.read_lines(head, body)
        into.lines.extend(table)
        read = len(table)
        problem = _cut(lines, last, "the THREAD SUMMARY that follows") if last else ""
    elif kind == "roofline":
        roofline = threads.read_roofline(body)
        into.roofline = roofline or into.roofline
        read = int(roofline is not None)
        problem = "" if read else _cut(lines, last, "its verdict")
    elif kind == "programs":
        read, problem = _programs(into, lines, start, end, last=last)
    elif kind in ("flow", "pipes"):
        read, problem, taken = _graph(into, kind, body)
    elif kind == "signposts":
        found = signposts.read_signposts(body)
        into.signposts.extend(found)
        read = len(found)
        whole = bool(found) and _closed(body)
        problem = "" if whole else _cut(lines, last, "its closing line")
    title = lines[start].strip().strip("= -").partition("(")[0].strip() or kind
    into.sections.append(
        Section(kind, title, start + 1, start + 1 + taken, read, not problem, problem)
    )


def _programs(
    into: _Gathered, lines: Sequence[str], start: int, end: int, *, last: bool
) -> tuple[int, str]:
    # A summary whose heading was lost begins with its first program.
    body = lines[start if programs.HEAD.match(lines[start]) else start + 1 : end]
    found, announced = programs.read_programs(body)
    machine = programs.read_machine(body)
    if machine != Machine():
        into.machine = machine
    into.programs.extend(found)
    if announced > len(found):
        return len(found), f"{len(found)} of {announced} programs were printed" + (
            f"; the log ends at line {len(lines)}" if last else ""
        )
    if found and found[-1].duration_cycles is None and found[-1].dram_read is None:
        return len(found), _cut(lines, last, f"the figures of program {found[-1].number}")
    return len(found), "" if found else _cut(lines, last, "any program")


def _graph(into: _Gathered, kind: str, body: Sequence[str]) -> tuple[int, str, int]:
    document = graphs.read_document(body)
    if document is None:
        empty = kind == "pipes"  # a kernel without pipes prints the heading alone
        return 0, "" if empty else "no JSON follows", 0 if empty else len(body)
    if kind == "flow":
        buffers = graphs.read_buffers(document.value)
        into.buffers.extend(buffers)
        return len(buffers), document.problem, document.lines
    pipes = graphs.read_pipes(document.value)
    into.pipes.extend(pipes)
    return len(pipes), document.problem, document.lines


def _closed(body: Sequence[str]) -> bool:
    """Whether a rule stands behind the rows: the one right below the heading does not count."""
    return any(at > 0 for at, line in enumerate(body) if _RULE.match(line))


def _cut(lines: Sequence[str], last: bool, missing: str) -> str:
    if last:
        return f"the log ends at line {len(lines)} without {missing}"
    return f"another section begins before {missing}"


def _warn(gathered: _Gathered, lines: Sequence[str]) -> None:
    for section in gathered.sections:
        if section.problem:
            gathered.warnings.append(
                f"{section.title} (line {section.line}): {section.problem}; "
                f"{section.read} entries were read"
            )
    if any("buffers were full, markers were dropped" in line for line in lines):
        gathered.warnings.append(
            "the device profiler dropped markers: cycles of lines and signposts are too low"
        )
