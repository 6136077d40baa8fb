"""The auto-profiler's report: lines of a thread, THREAD SUMMARY, ROOFLINE ANALYSIS."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from instrumentor_analysis.kernels.model import (
    COMPUTERS,
    MOVERS,
    LineCycles,
    Operation,
    Roofline,
    ThreadCycles,
)
from instrumentor_analysis.kernels.text import decimal, integer

_CYCLES_WIDTH = 10
_NUMBER = r"\d[\d,]*"
HEAD = re.compile(
    rf"^\W*THREAD:\s*(?P<thread>\w+)\s*(?:\[(?P<function>[^\]]*)\])?\s*"
    rf"\((?P<operations>{_NUMBER}) ops?, (?P<cycles>{_NUMBER}) cycles"
)
_SUMMARY_ROW = re.compile(
    rf"^\W*(?P<thread>[A-Z]\w*)\s+(?:\[(?P<function>[^\]]*)\]\s+)?(?P<cycles>{_NUMBER}) cycles\s*"
    rf"\(\s*(?P<operations>{_NUMBER}) ops?\)\s*\[\s*(?P<percent>[\d.]+)%\]"
)
_LINE_ROW = re.compile(
    rf"^(?P<line>\d{{1,9}})\s+(?P<percent>\d+(?:\.\d+)?)%\s+"
    rf"(?P<low>{_NUMBER})(?:-(?P<high>{_NUMBER}))? ?(?P<source>.*)$"
)
_MANY = re.compile(rf"\s+\(x(?P<count>{_NUMBER}), avg=[\d.,]+, total=(?P<total>{_NUMBER})\)\s*$")
_SAME = re.compile(rf"\s+\(x(?P<count>{_NUMBER}) = (?P<total>{_NUMBER}) cycles\)\s*$")
_PART = re.compile(
    rf"^\W*(?P<cycles>{_NUMBER}) (?P<name>[A-Za-z_]\w*)(?P<implicit> \(implicit\))?"
    rf"(?: \(x(?P<count>{_NUMBER})\))?\s*$"
)
_VERDICT = re.compile(r"^\W*(?P<percent>\d+(?:\.\d+)?)% (?P<bound>memory|compute) bound")
_WORK_ROW = re.compile(
    rf"^\W*(?P<thread>[A-Z]\w*)\s+(?P<total>{_NUMBER})\s+-\s+(?P<waits>{_NUMBER})\s+=\s+{_NUMBER}"
)
_SIDE = re.compile(rf"^\W*(?P<side>Memory|Compute):\s+(?P<cycles>{_NUMBER}) cycles")


def read_summary(lines: Sequence[str]) -> list[ThreadCycles]:
    """Rows of THREAD SUMMARY; lines of any other kind are passed over."""
    found = []
    for line in lines:
        match = _SUMMARY_ROW.match(line)
        if match is None:
            continue
        cycles, operations = integer(match["cycles"]), integer(match["operations"])
        percent = decimal(match["percent"])
        if cycles is not None and operations is not None and percent is not None:
            name = (match["function"] or "").strip()
            found.append(ThreadCycles(match["thread"], name, cycles, operations, percent))
    return found


def read_lines(head: re.Match[str], lines: Sequence[str]) -> list[LineCycles]:
    """The line-by-line table of one thread.

    Args:
        head: match of :data:`HEAD`.
        lines: what follows it.
    """
    thread, function = head["thread"], (head["function"] or "").strip()
    found: list[LineCycles] = []
    for line in lines:
        match = _LINE_ROW.match(line)
        if match is not None:
            row = _row(thread, function, match)
            if row is not None:
                found.append(row)
            continue
        part = _part(line)
        if part is not None and found:
            last = found[-1]
            found[-1] = replace(last, operations=(*last.operations, part))
    return found


def _row(thread: str, function: str, match: re.Match[str]) -> LineCycles | None:
    line, low, percent = integer(match["line"]), integer(match["low"]), decimal(match["percent"])
    if line is None or low is None or percent is None:
        return None
    high = integer(match["high"]) if match["high"] else None
    width = match.end("high" if match["high"] else "low") - match.start("low")
    padding = max(_CYCLES_WIDTH - width, 0)  # of the column, before the source's own indentation
    source = match["source"]
    source = source[len(source[:padding]) - len(source[:padding].lstrip()) :]
    many = _MANY.search(source) or _SAME.search(source)
    count, total = 1, low
    if many is not None:
        source = source[: many.start()]
        count, total = integer(many["count"]) or 1, integer(many["total"]) or low
        high = low if high is None else high
    spread = many is not None
    return LineCycles(
        thread, function, line, source.rstrip(), total, percent, count,
        low if spread else None, high if spread else None,
    )  # fmt: skip


def _part(line: str) -> Operation | None:
    match = _PART.match(line)
    if match is None or match["name"] == "cycles":
        return None
    cycles = integer(match["cycles"])
    if cycles is None:
        return None
    count = integer(match["count"]) if match["count"] else 1
    return Operation(match["name"], cycles, count or 1, match["implicit"] is not None)


def read_roofline(lines: Sequence[str]) -> Roofline | None:
    """The verdict ``n% memory|compute bound`` with the work of the threads, where printed.

    Without a printed verdict it is worked out: the larger side's excess over the smaller one,
    percent of the larger, which is what the printed ones come to.
    """
    total: dict[str, int] = {}
    waits: dict[str, int] = {}
    sides: dict[str, int] = {}
    printed: tuple[float, str] | None = None
    for line in lines:
        row, side = _WORK_ROW.match(line), _SIDE.match(line)
        if row is not None:
            whole, waiting = integer(row["total"]), integer(row["waits"])
            if whole is not None and waiting is not None:
                total[row["thread"]], waits[row["thread"]] = whole, waiting
        elif side is not None:
            sides.setdefault(side["side"], integer(side["cycles"]) or 0)
        else:
            printed = printed or _verdict(line)
    memory = sides.get("Memory", _busiest(total, waits, MOVERS))
    compute = sides.get("Compute", _busiest(total, waits, COMPUTERS))
    if printed is None and memory is not None and compute is not None:
        printed = bound_of(memory, compute)
    return printed and Roofline(*printed, memory, compute, total, waits)


def _verdict(line: str) -> tuple[float, str] | None:
    match = _VERDICT.match(line)
    percent = decimal(match["percent"]) if match is not None else None
    if match is not None and percent is not None:
        return percent, match["bound"]
    return (0.0, "balanced") if "Perfectly balanced" in line else None


def bound_of(memory: int, compute: int) -> tuple[float, str]:
    """How much one side's cycles exceed the other's, percent of the larger, and which it is."""
    most = max(memory, compute)
    if most <= 0 or memory == compute:
        return 0.0, "balanced"
    return abs(memory - compute) / most * 100, "memory" if memory > compute else "compute"


def _busiest(total: dict[str, int], waits: dict[str, int], names: Sequence[str]) -> int | None:
    work = [max(total[name] - waits[name], 0) for name in names if name in total]
    return max(work) if work else None
