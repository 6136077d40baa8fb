"""Tables with a row a thread: lines of source, THREAD SUMMARY, ROOFLINE ANALYSIS, signposts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from instrumentor_analysis.kernels.model import (
    LineCycles,
    Operation,
    Roofline,
    SignpostRow,
    ThreadCycles,
)
from instrumentor_analysis.kernels.text import DECIMAL, NUMBER, count, decimal

_CYCLES_WIDTH = 10  # of the column, which is padded with blanks in front of the source
HEAD = re.compile(
    rf"^\W*THREAD:\s*(?P<thread>\w+)\s*(?:\[(?P<function>[^\]]*)\]\s*)?"
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
_TIMES = re.compile(
    rf"\s{{1,99}}\(x(?P<count>{NUMBER})(?:, avg=[\d.,]+, total=| = )(?P<total>{NUMBER})"
    r"(?: cycles)?\)\s*$"
)
# `123 cb_wait`, and not the `123 cycles` that other lines end in.
_PART = re.compile(
    rf"^\W*(?P<cycles>{NUMBER}) (?P<name>(?!cycles\b)[A-Za-z_]\w*)(?P<implicit> \(implicit\))?"
    rf"(?: \(x(?P<count>{NUMBER})\))?\s*$"
)
_VERDICT = re.compile(
    rf"^\W*(?:(?P<percent>{DECIMAL})% (?P<bound>memory|compute) bound|Perfectly balanced)"
)
_WORK_ROW = re.compile(
    rf"^\W*(?P<thread>[A-Z]\w*)\s+(?P<total>{NUMBER})\s+-\s+(?P<waits>{NUMBER})\s+=\s+{NUMBER}"
)
_SIDE = re.compile(rf"^\W*(?P<side>Memory|Compute):\s+(?P<cycles>{NUMBER}) cycles")
# One number: cycles of one occurrence. Five: count, total, average, minimum, maximum. Names may
# hold blanks, so that only RISC in the next word shows where the thread begins.
_SIGNPOST = re.compile(
    rf"^\s*(?P<name>\S+(?:\s+\S+)*?)\s+(?P<thread>(?=\S*RISC)[^a-z\s]+)"
    rf"(?P<numbers>\s+{NUMBER}|(?:\s+{NUMBER}){{5}})\s*$"
)


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
    found: list[tuple[LineCycles, list[Operation]]] = []
    for line in lines:
        match, part = _LINE_ROW.match(line), _PART.match(line)
        if match is not None:
            found.append((_line(thread, function, match), []))
        elif part is not None and found:
            times, implicit = count(part["count"] or "1"), part["implicit"] is not None
            one = Operation(part["name"], count(part["cycles"]), times, implicit)
            found[-1][1].append(one)
    return [replace(line, operations=tuple(operations)) for line, operations in found]


def _line(thread: str, function: str, match: re.Match[str]) -> LineCycles:
    low = count(match["low"])
    high = count(match["high"]) if match["high"] else None
    width = match.end("high" if match["high"] else "low") - match.start("low")
    padding = max(_CYCLES_WIDTH - width, 0)
    source = match["source"]
    source = source[len(source[:padding]) - len(source[:padding].lstrip()) :]
    line, percent = int(match["line"]), decimal(match["percent"])
    many = _TIMES.search(source)
    if many is None:
        return LineCycles(thread, function, line, source.rstrip(), low, percent)
    times, total = count(many["count"]), count(many["total"])
    spread = low, low if high is None else high
    text = source[: many.start()].rstrip()
    return LineCycles(thread, function, line, text, total, percent, times, *spread)


def read_roofline(lines: Sequence[str]) -> Roofline | None:
    """The verdict ``n% memory|compute bound`` with the work of the threads, where printed."""
    work = {m["thread"]: m for m in map(_WORK_ROW.match, lines) if m is not None}
    sides = {m["side"]: count(m["cycles"]) for m in map(_SIDE.match, lines) if m is not None}
    verdict = next(filter(None, map(_VERDICT.match, lines)), None)
    if verdict is None:
        return None
    return Roofline(
        decimal(verdict["percent"] or "0"),
        verdict["bound"] or "balanced",
        sides.get("Memory"),
        sides.get("Compute"),
        {thread: count(match["total"]) for thread, match in work.items()},
        {thread: count(match["waits"]) for thread, match in work.items()},
    )


def read_signposts(lines: Sequence[str]) -> list[SignpostRow]:
    """Rows of SIGNPOST PROFILE: one a name with statistics, or one an occurrence, put together."""
    merged: dict[tuple[str, str], SignpostRow] = {}
    for match in filter(None, map(_SIGNPOST.match, lines)):
        numbers = [count(number) for number in match["numbers"].split()]
        columns = numbers if len(numbers) > 1 else [1, *numbers * 4]
        key = " ".join(match["name"].split()), match["thread"]
        one = SignpostRow(*key, *columns)
        merged[key] = _together(merged[key], one) if key in merged else one
    return list(merged.values())


def _together(one: SignpostRow, other: SignpostRow) -> SignpostRow:
    times, total = one.count + other.count, one.total + other.total
    least, most = min(one.least, other.least), max(one.most, other.most)
    average = total // times if times else 0
    return SignpostRow(one.name, one.thread, times, total, average, least, most)
