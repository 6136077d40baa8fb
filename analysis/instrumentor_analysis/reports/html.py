"""report.html: everything about one run on one page, opened offline.

One file without external resources. Charts are SVG and tables made here and drawn by the
template (autoescape on); a small script sorts, filters and scrolls the ops, which stand as JSON
in a script element.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from instrumentor_analysis.documents import in_words
from instrumentor_analysis.model import GAP_THRESHOLD_US, SourceLine, Summary
from instrumentor_analysis.reports import breakdown, charts, page, words
from instrumentor_analysis.reports.detail import Detail
from instrumentor_analysis.reports.document import Column, Table
from instrumentor_analysis.reports.files import listed
from instrumentor_analysis.reports.headline import (
    Figures,
    Line,
    evidence,
    figures,
    is_inference,
    step_figures,
    subtitle,
    title,
    wall_clock_figures,
    warnings,
)
from instrumentor_analysis.reports.ops_data import OpsTable, ops_table, script_safe
from instrumentor_analysis.reports.roofline_chart import roofline

_TEMPLATE = "report.html.j2"
_SCRIPT = "report.js.j2"
#: Widths of the op table's columns, pixels.
_WIDTHS = {
    "id": 70, "device": 78, "time": 122, "category": 92, "bound": 72, "share": 74, "gap": 122,
    "cores": 68, "dram": 78, "flops": 82, "saves": 94, "dram_gbs": 96, "fidelity": 190,
    "location": 320, "shapes": 220, "source": 260,
}  # fmt: skip
_WIDTH = 132
#: Of the names of ops: of a character, and of the column at least and at most.
_NAME_WIDTH, _NARROWEST, _WIDEST = 7.3, 200, 560
MOST_MODULES = 40
#: Of these the highest that the samples tell is a headline figure of inference.
_STEP_TILES = (
    "wall clock",
    "device time",
    "op self time",
    "overhead",
    "dispatch per op",
    "ops",
    "matmul FLOPs",
)
_LATENCIES = ("latency p99", "latency p95", "latency p90")
MOST_SAVINGS = 12
MOST_ROWS = 100
#: Lines shown around a line that ops come from.
CONTEXT_LINES = 3


class CodeLine(Struct, frozen=True):
    """One line of a source file and the device time of its ops; a gap when ``number`` is None."""

    number: int | None
    text: str = ""
    time: str = ""
    share: str = ""
    percent: float = 0.0
    ops: str = ""


class SourceFile(Struct, frozen=True):
    """The lines of one file that ops come from, with their surroundings where its text is known.

    Attributes:
        changed: since the run, so that its text is not that of the lines.
    """

    name: str
    lines: tuple[CodeLine, ...]
    has_text: bool
    changed: bool = False


def render(summary: Summary, detail: Detail | None = None) -> str:
    """The page.

    Args:
        detail: the single ops and what belongs to them; without it the page shows less.
    """
    from markupsafe import Markup

    script = (Path(__file__).parent / _SCRIPT).read_text("utf-8").strip()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return page.render(
        _TEMPLATE,
        **context(summary, detail or Detail()),
        script=Markup(script),
        # The browser runs this script and no other, should a text ever get out of its place.
        script_source=f"'sha256-{digest}'",
    )


def context(summary: Summary, detail: Detail) -> dict[str, Any]:
    """What the template draws."""
    from markupsafe import Markup

    table = ops_table(detail)
    return {
        "title": title(summary),
        "subtitle": subtitle(summary),
        "verdict": summary.verdict,
        "evidence": evidence(summary),
        "tiles": tiles(summary),
        "figures": [f for f in figures(summary) if any(e.tone != "absent" for e in f.lines)],
        "steps": charts.steps(summary),
        "step_table": _step_table(summary),
        "breakdown": charts.breakdown(summary),
        "categories": breakdown.categories(summary),
        "slow_ops": breakdown.slow_ops(summary, len(summary.slow_ops)),
        "roofline": roofline(detail),
        "gaps": charts.gap_table(summary.gaps),
        "gap_threshold": GAP_THRESHOLD_US,
        "devices": breakdown.devices(summary.devices, MOST_ROWS),
        "savings": breakdown.savings(summary, MOST_SAVINGS),
        "varying": breakdown.variation(summary, MOST_ROWS),
        "varying_steps": max((each.steps for each in breakdown.varying(summary)), default=0),
        "sources": source_files(summary, detail.sources),
        "modules": breakdown.modules(summary, MOST_MODULES),
        "unlocated": _unlocated(summary),
        "source_note": None if summary.locations is None else summary.locations.note,
        "warnings": warnings(summary),
        "facts": facts(summary),
        "files": [(name, path, _link(path)) for name, path in listed(summary.artifacts)],
        "table": table,
        "widths": _widths(table),
        # Safe by construction: see script_safe.
        "data": Markup(script_safe({**table.for_script(), "gap": GAP_THRESHOLD_US})),
    }


def _widths(table: OpsTable) -> dict[str, int]:
    """Pixels of each column that is shown; names of ops are not cut where they can be helped."""
    shown = [column for column in table.columns if column.key != "grid"]
    widths = {column.key: _WIDTHS.get(column.key, _WIDTH) for column in shown}
    for column in shown:
        if column.key == "op":
            longest = max((words.width(name) for name in column.names or ()), default=0)
            widths["op"] = min(max(round(longest * _NAME_WIDTH) + 20, _NARROWEST), _WIDEST)
    return widths


def tiles(summary: Summary) -> tuple[Figures, ...]:
    """The few figures at the top: a row of all steady steps, and one of the step that is shown.

    Never two steps in one row: the device time of one says nothing of the median of all.
    """
    whole, step = wall_clock_figures(summary)[0], step_figures(summary)
    rates = ("throughput", "token throughput")
    if is_inference(summary.wall_clock):
        told = {line.name for line in whole.lines if line.tone != "absent"}
        latency = [name for name in _LATENCIES if name in told][:1]
        names: tuple[str, ...] = (*rates, "median", *latency, "MFU")
    else:
        names = ("median", *rates, "MFU")
    steady = "" if summary.wall_clock is None else f"of {summary.wall_clock.label}"
    rows = (
        Figures(whole.title, tuple(_tile(line, steady) for line in _named(whole, names))),
        Figures(step.title, _named(step, _STEP_TILES)),
    )
    return tuple(row for row in rows if row.lines)


def _named(section: Figures, names: Sequence[str]) -> tuple[Line, ...]:
    """Its lines of these names; that there is no device time is news, what follows is not."""
    found = {line.name: line for line in section.lines}
    shown = [found[name] for name in names if name in found]
    return tuple(line for line in shown if line.tone != "absent" or line.name == "device time")


def _tile(line: Line, label: str) -> Line:
    return Line("wall clock, median", line.value, label) if line.name == "median" else line


def facts(summary: Summary) -> tuple[tuple[str, str], ...]:
    """What is known of the run and the machine."""
    every = {**summary.run, **summary.environment}
    if summary.loop:
        every["loop"] = ":".join(
            str(summary.loop[k]) for k in ("file", "line") if k in summary.loop
        )
    if summary.script_exit_code is not None:
        every["script_exit_code"] = summary.script_exit_code
    return tuple(
        (key.replace("_", " "), in_words(value))
        for key, value in every.items()
        if value not in (None, "", [], {})
    )


def _link(path: str) -> str | None:
    """A relative address; None for what is not below the page."""
    if path.startswith(("/", "..")) or "\\" in path:
        return None
    return "./" + quote(path)


def _step_table(summary: Summary) -> Table:
    steps = summary.steps[-charts.MOST_STEPS :]
    columns = (
        Column("step", [step.name for step in steps], right=False),
        Column("kind", [step.kind or "" for step in steps], right=False),
        Column("wall clock", words.column([step.wall_clock_ms for step in steps], "ms")),
        Column("device time", words.column([step.device_time_ms for step in steps], "ms")),
        Column("overhead", [words.share(step.overhead_percent) for step in steps]),
        Column("ops", [words.whole(step.op_count) for step in steps]),
    )
    return Table(columns)


def _unlocated(summary: Summary) -> CodeLine | None:
    """Of all ops that no line is known of; None when they took no time."""
    locations = summary.locations
    if locations is None or not locations.lines or not locations.unlocated_ms:
        return None
    return CodeLine(
        number=None,
        time=words.ms(locations.unlocated_ms),
        share=words.share(locations.unlocated_percent),
        ops=words.plural(locations.unlocated_count, "op"),
    )


def source_files(summary: Summary, sources: Mapping[str, str | None]) -> tuple[SourceFile, ...]:
    """The source lines by file, the file of most device time first."""
    if summary.locations is None:
        return ()
    by_file: dict[str, list[SourceLine]] = {}
    for each in summary.locations.lines:
        by_file.setdefault(each.file, []).append(each)
    most = max((each.device_time_ms for each in summary.locations.lines), default=0.0)
    found: list[SourceFile] = []
    for name, lines in by_file.items():
        text = sources.get(name)
        code = _code_lines(lines, text, most)
        found.append(SourceFile(name, code, text is not None, name in sources and text is None))
    return tuple(found)


def _code_lines(lines: list[SourceLine], text: str | None, most: float) -> tuple[CodeLine, ...]:
    known = text.splitlines() if text is not None else []
    shown: dict[int, list[CodeLine]] = {}
    for each in sorted(lines, key=lambda each: (each.line, each.const_eval)):
        near = range(each.line - CONTEXT_LINES, each.line + CONTEXT_LINES + 1)
        for number in near:
            if 1 <= number <= len(known):
                shown.setdefault(number, [])
        code = known[each.line - 1] if 1 <= each.line <= len(known) else ""
        shown.setdefault(each.line, []).append(_hot_line(each, code, most))
    found: list[CodeLine] = []
    for number in sorted(shown):
        if found and found[-1].number != number - 1 and known:
            found.append(CodeLine(None))
        found += shown[number] or [CodeLine(number, known[number - 1])]
    return tuple(found)


def _hot_line(each: SourceLine, code: str, most: float) -> CodeLine:
    once = ", evaluated once" if each.const_eval else ""
    return CodeLine(
        number=each.line,
        text=code,
        time=words.ms(each.device_time_ms),
        share=words.share(each.percent),
        percent=each.device_time_ms / most * 100 if most else 0.0,
        ops=f"{words.plural(each.op_count, 'op')}{once}: {', '.join(each.ops)}".rstrip(": "),
    )
