"""report.html: everything about one run on one page, opened offline.

One file without external resources. Charts are SVG and tables made here and drawn by the
template (autoescape on); a small script sorts, filters and scrolls the ops, which stand as JSON
in a script element.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from instrumentor_analysis.model import CONDITIONS, GAP_THRESHOLD_US, SourceLine, Summary
from instrumentor_analysis.reports import charts, words
from instrumentor_analysis.reports.detail import Detail
from instrumentor_analysis.reports.files import listed
from instrumentor_analysis.reports.headline import (
    DEVICE_HEADINGS,
    DEVICE_NOTE,
    SKEW_HEADINGS,
    WAIT_HEADINGS,
    Line,
    Section,
    category_shares,
    category_times,
    device_rows,
    devices_title,
    is_inference,
    op_id,
    sections,
    skew_rows,
    slow_share,
    step_section,
    subtitle,
    title,
    variation,
    varying,
    wait_rows,
    wall_clock_sections,
    warnings,
)
from instrumentor_analysis.reports.ops_data import OpsTable, ops_table, script_safe
from instrumentor_analysis.reports.roofline_chart import roofline_chart

_TEMPLATE = "report.html.j2"
_SCRIPT = "report.js.j2"
#: Widths of the op table's columns, pixels.
_WIDTHS = {
    "id": 70,
    "device": 78,
    "time": 122,
    "category": 92,
    "bound": 72,
    "share": 74,
    "gap": 122,
    "cores": 68,
    "dram": 78,
    "flops": 82,
    "saves": 94,
    "dram_gbs": 96,
    "fidelity": 190,
    "location": 320,
    "shapes": 220,
    "source": 260,
}
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
#: Lines shown around a line that ops come from.
CONTEXT_LINES = 3


@dataclass(frozen=True)
class CodeLine:
    """One line of a source file and the device time of its ops; a gap when ``number`` is None."""

    number: int | None
    text: str = ""
    time: str = ""
    share: str = ""
    percent: float = 0.0
    ops: str = ""


@dataclass(frozen=True)
class SourceFile:
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
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (Path(__file__).parent / _SCRIPT).read_text("utf-8").strip()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template(_TEMPLATE).render(
        context(summary, detail or Detail()),
        script=Markup(script),
        # The browser runs this script and no other, should a text ever get out of its place.
        script_source=f"'sha256-{digest}'",
    )


def context(summary: Summary, detail: Detail) -> dict[str, Any]:
    """What the template draws."""
    from markupsafe import Markup

    table = ops_table(detail)
    by_device = charts.on_device(summary)
    return {
        "title": title(summary),
        "subtitle": subtitle(summary),
        "verdict": summary.verdict,
        "evidence": _evidence(summary),
        "tiles": tiles(summary),
        "sections": [s for s in sections(summary) if any(e.tone != "absent" for e in s.lines)],
        "steps": charts.step_chart(summary),
        "step_rows": _step_rows(summary),
        "step_parts": charts.step_parts(summary),
        "category_parts": charts.category_parts(summary),
        "op_parts": charts.op_parts(summary),
        "categories": _category_rows(summary),
        "slow_ops": _slow_rows(summary, by_device),
        "bounds": any(op.bound for op in summary.slow_ops),
        "time_name": "device time" if by_device else "self time",
        "roofline": roofline_chart(detail),
        "gap_bins": charts.gap_bins(summary.gaps),
        "gaps": summary.gaps,
        "gap_threshold": GAP_THRESHOLD_US,
        "devices": _devices(summary),
        "savings": _saving_rows(summary),
        "varying": _varying_rows(summary),
        "varying_steps": max((each.steps for each in varying(summary)), default=0),
        "sources": source_files(summary, detail.sources),
        "modules": _module_rows(summary),
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


def tiles(summary: Summary) -> tuple[Section, ...]:
    """The few figures at the top: a row of all steady steps, and one of the step that is shown.

    Never two steps in one row: the device time of one says nothing of the median of all.
    """
    whole, step = wall_clock_sections(summary)[0], step_section(summary)
    rates = ("throughput", "token throughput")
    if is_inference(summary.wall_clock):
        told = {line.name for line in whole.lines if line.tone != "absent"}
        latency = [name for name in _LATENCIES if name in told][:1]
        names: tuple[str, ...] = (*rates, "median", *latency, "MFU")
    else:
        names = ("median", *rates, "MFU")
    steady = "" if summary.wall_clock is None else f"of {summary.wall_clock.label}"
    rows = (
        Section(whole.title, tuple(_tile(line, steady) for line in _named(whole, names))),
        Section(step.title, _named(step, _STEP_TILES)),
    )
    return tuple(row for row in rows if row.lines)


def _named(section: Section, names: Sequence[str]) -> tuple[Line, ...]:
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
        (key.replace("_", " "), _fact(value))
        for key, value in every.items()
        if value not in (None, "", [], {})
    )


def _fact(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " ".join(str(item) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


def _link(path: str) -> str | None:
    """A relative address; None for what is not below the page."""
    if path.startswith(("/", "..")) or "\\" in path:
        return None
    return "./" + quote(path)


def _evidence(summary: Summary) -> list[tuple[str, str, str]]:
    if summary.verdict is None:
        return []
    return [
        (
            each.what,
            words.with_unit(each.value, each.unit),
            "" if each.threshold is None else f"threshold {each.threshold:g}",
        )
        for each in summary.verdict.evidence
    ]


def _step_rows(summary: Summary) -> list[tuple[str, ...]]:
    steps = summary.steps[-charts.MOST_STEPS :]
    walls = words.column([step.wall_clock_ms for step in steps], "ms")
    devices = words.column([step.device_time_ms for step in steps], "ms")
    return [
        (
            step.name,
            step.kind or "",
            wall,
            device,
            words.share(step.overhead_percent),
            words.ABSENT if step.op_count is None else words.count(step.op_count),
        )
        for step, wall, device in zip(steps, walls, devices, strict=True)
    ]


def _category_rows(summary: Summary) -> list[tuple[str, ...]]:
    shares, times = category_shares(summary), category_times(summary)
    return [
        (each.name, share, time, words.count(each.op_count))
        for each, share, time in zip(summary.categories, shares, times, strict=True)
    ]


def _slow_rows(summary: Summary, by_device: bool) -> list[tuple[Any, ...]]:
    slow = summary.slow_ops
    times = words.column(
        [op.device_time_ms if by_device else op.op_self_time_ms for op in slow], "ms"
    )
    return [
        (op.op, op.category or "", op.bound or "", f"{op.count:,}", time, slow_share(op))
        for op, time in zip(slow, times, strict=True)
    ]


def _devices(summary: Summary) -> dict[str, Any] | None:
    devices = summary.devices
    if devices is None:
        return None
    longest = max((row.device_time_ms or 0.0 for row in devices.rows), default=0.0) or 1.0
    bars = [(row.device_time_ms or 0.0) / longest * 100 for row in devices.rows]
    tables = [
        ("Ops with the largest skew", SKEW_HEADINGS, skew_rows(devices), (0, 3, 5)),
        ("Who arrived last in collectives", WAIT_HEADINGS, wait_rows(devices), (0, 2)),
    ]
    return {
        "title": devices_title(devices),
        "headings": DEVICE_HEADINGS,
        "rows": list(zip(device_rows(devices), bars, strict=True)),
        "tables": [each for each in tables if each[2]],
        "note": f"{DEVICE_NOTE[:1].upper()}{DEVICE_NOTE[1:]}." if devices.collectives else "",
    }


def _module_rows(summary: Summary) -> list[tuple[str, ...]]:
    most = () if summary.locations is None else summary.locations.most_modules(MOST_MODULES)
    times = words.column([each.device_time_ms for each in most], "ms")
    return [
        (each.name, f"{each.op_count:,}", time, words.share(each.percent))
        for each, time in zip(most, times, strict=True)
    ]


def _saving_rows(summary: Summary) -> list[tuple[str, ...]]:
    return [
        (
            each.op,
            CONDITIONS[each.kind],
            f"{each.count:,}",
            words.readable_us(each.now_us),
            words.readable_us(each.saving_us),
            words.share(each.percent),
        )
        for each in summary.savings[:MOST_SAVINGS]
    ]


def _varying_rows(summary: Summary) -> list[tuple[str, ...]]:
    return [
        (
            each.op,
            op_id(each),
            words.readable_us(each.mean_us),
            words.readable_us(each.stdev_us),
            variation(each),
        )
        for each in varying(summary)
    ]


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
