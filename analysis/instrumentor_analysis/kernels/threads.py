"""The auto-profiler's report: lines of a thread, THREAD SUMMARY, ROOFLINE ANALYSIS."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from instrumentor_analysis.kernels.model import (
    COMPUTERS,
    MOVERS,
    LineCycles,
    Operation,
    Roofline,
    ThreadCycles,
)
from instrumentor_analysis.kernels.text import DECIMAL, NUMBER, count, decimal

_CYCLES_WIDTH = 10
HEAD = re.compile(
    rf"^\W*THREAD:\s*(?P<thread>\w+)\s*(?:\[(?P<function>[^\]]*)\])?\s*"
    rf"\((?P<operations>{NUMBER}) ops?, (?P<cycles>{NUMBER}) cycles"
)
_SUMMARY_ROW = re.compile(
    rf"^\W*(?P<thread>[A-Z]\w*)\s+(?:\[(?P<function>[^\]]*)\]\s+)?(?P<cycles>{NUMBER}) cycles\s*"
    rf"\(\s*(?P<operations>{NUMBER}) ops?\)\s*\[\s*(?P<percent>{DECIMAL})%\]"
)
_LINE_ROW = re.compile(
    rf"^(?P<line>\d{{1,9}})\s+(?P<percent>{DECIMAL})%\s+"
    rf"(?P<low>{NUMBER})(?:-(?P<high>{NUMBER}))? ?(?P<source>.*)$"
)
_MANY = re.compile(rf"\s+\(x(?P<count>{NUMBER}), avg=[\d.,]+, total=(?P<total>{NUMBER})\)\s*$")
_SAME = re.compile(rf"\s+\(x(?P<count>{NUMBER}) = (?P<total>{NUMBER}) cycles\)\s*$")
_PART = re.compile(
    rf"^\W*(?P<cycles>{NUMBER}) (?P<name>[A-Za-z_]\w*)(?P<implicit> \(implicit\))?"
    rf"(?: \(x(?P<count>{NUMBER})\))?\s*$"
)
_VERDICT = re.compile(rf"^\W*(?P<percent>{DECIMAL})% (?P<bound>memory|compute) bound")
_WORK_ROW = re.compile(
    rf"^\W*(?P<thread>[A-Z]\w*)\s+(?P<total>{NUMBER})\s+-\s+(?P<waits>{NUMBER})\s+=\s+{NUMBER}"
)
_SIDE = re.compile(rf"^\W*(?P<side>Memory|Compute):\s+(?P<cycles>{NUMBER}) cycles")


def read_summary(lines: Sequence[str]) -> list[ThreadCycles]:
    """Rows of THREAD SUMMARY; lines of any other kind are passed over."""
    return [
        ThreadCycles(
            row["thread"],
            (row["function"] or "").strip(),
            count(row["cycles"]),
            count(row["operations"]),
            decimal(row["percent"]),
        )
        for row in filter(None, map(_SUMMARY_ROW.match, lines))
    ]


def read_lines(head: re.Match[str], lines: Sequence[str]) -> list[LineCycles]:
    """The line-by-line table of one thread.

    Args:
        head: match of :data:`HEAD`.
        lines: what follows it.
    """
    thread, function = head["thread"], (head["function"] or "").strip()
    found: list[LineCycles] = []
    for line in lines:
        row, part = _LINE_ROW.match(line), _PART.match(line)
        if row is not None:
            found.append(_row(thread, function, row))
        elif part is not None and part["name"] != "cycles" and found:
            found[-1] = replace(found[-1], operations=(*found[-1].operations, _part(part)))
    return found


def _row(thread: str, function: str, match: re.Match[str]) -> LineCycles:
    low = count(match["low"])
    high = count(match["high"]) if match["high"] else None
    width = match.end("high" if match["high"] else "low") - match.start("low")
    padding = max(_CYCLES_WIDTH - width, 0)  # of the column, before the source's own indentation
    source = match["source"]
    source = source[len(source[:padding]) - len(source[:padding].lstrip()) :]
    line, percent = int(match["line"]), decimal(match["percent"])
    many = _MANY.search(source) or _SAME.search(source)
    if many is None:
        return LineCycles(thread, function, line, source.rstrip(), low, percent)
    times, total = count(many["count"]), count(many["total"])
    spread = low, low if high is None else high
    text = source[: many.start()].rstrip()
    return LineCycles(thread, function, line, text, total, percent, times, *spread)


def _part(match: re.Match[str]) -> Operation:
    times = count(match["count"] or "1")
    return Operation(match["name"], count(match["cycles"]), times, match["implicit"] is not None)


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
            total[row["thread"]], waits[row["thread"]] = count(row["total"]), count(row["waits"])
        elif side is not None:
            sides.setdefault(side["side"], count(side["cycles"]))
        else:
            printed = printed or _verdict(line)
    memory = sides.get("Memory", _busiest(total, waits, MOVERS))
    compute = sides.get("Compute", _busiest(total, waits, COMPUTERS))
    if printed is None and memory is not None and compute is not None:
        printed = bound_of(memory, compute)
    return printed and Roofline(*printed, memory, compute, total, waits)


def _verdict(line: str) -> tuple[float, str] | None:
    match = _VERDICT.match(line)
    if match is not None:
        return decimal(match["percent"]), match["bound"]
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
