"""summary.md: the summary as a pull request shows it.

Tables of GitHub's Markdown; names from traces are escaped, so that no op renders as markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from instrumentor_analysis.model import CONDITIONS, Summary
from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.files import listed
from instrumentor_analysis.reports.headline import (
    DEVICE_HEADINGS,
    DEVICE_NOTE,
    SKEW_HEADINGS,
    WAIT_HEADINGS,
    Place,
    Section,
    category_shares,
    category_times,
    device_rows,
    devices_title,
    module_places,
    op_id,
    sections,
    skew_rows,
    slow_share,
    source_places,
    subtitle,
    title,
    variation,
    varying,
    wait_rows,
    warnings,
)

#: An underscore within a word is no markup.
_MARKUP = re.compile(r"[\\`*{}\[\]<>#|~&]|(?<!\w)_|_(?!\w)")
MOST_OPS = 15
MOST_LINES = 10


def render(summary: Summary) -> str:
    """The document, ending in a newline."""
    blocks = [
        f"## {escape(title(summary))}",
        escape(subtitle(summary)),
        _verdict(summary),
        _levers(summary),
        *(_section(section) for section in sections(summary)),
        _categories(summary),
        _slow_ops(summary),
        _devices(summary),
        _sources(summary),
        _modules(summary),
        _savings(summary),
        _varying(summary),
        _warnings(summary),
        _files(summary),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def escape(text: str) -> str:
    """Foreign text as plain text: markup characters escaped, control characters shown."""
    return _MARKUP.sub(r"\\\g<0>", words.visible(text))


def code(text: str) -> str:
    """Foreign text as code, in a table cell too; safe for any number of backticks."""
    shown = words.visible(text).replace("|", "\\|")
    runs = [len(run) for run in re.findall("`+", shown)]
    fence = "`" * (max(runs, default=0) + 1)
    padding = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{padding}{shown}{padding}{fence}" if shown else ""


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]) -> str:
    """A table; columns are right-aligned but for those numbered in ``left``."""
    rule = ["---" if at in left else "---:" for at in range(len(heading))]
    lines = [heading, rule, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _verdict(summary: Summary) -> str:
    if summary.verdict is None:
        return ""
    return f"**{summary.verdict.name}**: {escape(summary.verdict.reason)}."


def _section(section: Section) -> str:
    rows = [[escape(line.name), line.value, escape(line.note)] for line in section.lines]
    return f"### {escape(section.title)}\n\n{table(('', 'value', ''), rows, (0, 2))}"


def _categories(summary: Summary) -> str:
    if not summary.categories:
        return ""
    shares, times = category_shares(summary), category_times(summary)
    rows = [
        [escape(each.name), share, time, words.count(each.op_count)]
        for each, share, time in zip(summary.categories, shares, times, strict=True)
    ]
    heading = ("category", "share", "device time", "ops")
    return f"### Where the device time goes\n\n{table(heading, rows, (0,))}"


def _slow_ops(summary: Summary) -> str:
    if not summary.slow_ops:
        return ""
    on_device = any(words.measured(op.device_time_ms) for op in summary.slow_ops)
    slow = summary.slow_ops[:MOST_OPS]
    times = words.column(
        [op.device_time_ms if on_device else op.op_self_time_ms for op in slow], "ms"
    )
    rows = [
        [
            code(op.op),
            words.count(op.count),
            time,
            slow_share(op),
            escape(op.bound or ""),
            escape(op.category or ""),
        ]
        for op, time in zip(slow, times, strict=True)
    ]
    which = "device time" if on_device else "self time"
    heading = ("op", "count", which, "share", "bound", "category")
    basis = which if on_device else "their own time on the CPU"
    return f"### Top ops by {basis}\n\n{table(heading, rows, (0, 4, 5))}"


def _devices(summary: Summary) -> str:
    devices = summary.devices
    if devices is None:
        return ""
    skews = [[code(row[0]), *row[1:]] for row in skew_rows(devices)]
    waits = [[code(row[0]), *row[1:]] for row in wait_rows(devices)]
    blocks = [
        f"### {devices_title(devices)}",
        table(DEVICE_HEADINGS, device_rows(devices), ()),
        table(SKEW_HEADINGS, skews, (0, 3, 5)) if skews else "",
        table(WAIT_HEADINGS, waits, (0, 2)) if waits else "",
        f"{DEVICE_NOTE[:1].upper()}{DEVICE_NOTE[1:]}." if waits else "",
    ]
    return "\n\n".join(block for block in blocks if block)


def _sources(summary: Summary) -> str:
    locations = summary.locations
    if locations is None or not (locations.lines or locations.note):
        return ""
    if not locations.lines:
        return f"### Device time by source line\n\n{escape(locations.note or '')}"
    return (
        f"### Device time by source line\n\n{_places('line', source_places(locations, MOST_LINES))}"
    )


def _modules(summary: Summary) -> str:
    most = module_places(summary.locations, MOST_LINES)
    return f"### Device time by module\n\n{_places('module', most)}" if most else ""


def _places(title: str, places: Sequence[Place]) -> str:
    times = words.column([place.device_time_ms for place in places], "ms")
    cells = [
        [
            (code(place.name) if place.foreign else escape(place.name)) + place.note,
            words.count(place.op_count),
            time,
            words.share(place.percent),
        ]
        for place, time in zip(places, times, strict=True)
    ]
    return table((title, "ops", "device time", "share"), cells, (0,))


def _savings(summary: Summary) -> str:
    if not summary.savings:
        return ""
    rows = [
        [
            code(each.op),
            words.count(each.count),
            words.readable_us(each.now_us),
            words.readable_us(each.saving_us),
            words.share(each.percent),
            CONDITIONS[each.kind],
        ]
        for each in summary.savings[:MOST_OPS]
    ]
    heading = ("op", "count", "now", "saves", "share", "if")
    return f"### Potential savings (upper bound)\n\n{table(heading, rows, (0, 5))}"


def _varying(summary: Summary) -> str:
    most = varying(summary)
    if not most:
        return ""
    rows = [
        [
            code(each.op),
            op_id(each),
            words.readable_us(each.mean_us),
            words.readable_us(each.stdev_us),
            variation(each),
        ]
        for each in most
    ]
    steps = max(each.steps for each in most)
    heading = ("op", "ID", "mean", "±", "of the mean")
    return f"### Ops that vary most over the {steps} steady steps\n\n{table(heading, rows, (0,))}"


def _levers(summary: Summary) -> str:
    if summary.verdict is None or not summary.verdict.levers:
        return ""
    lines = [
        f"{number}. **{escape(lever.what)}**: {escape(lever.how)}"
        for number, lever in enumerate(summary.verdict.levers, start=1)
    ]
    return "### Next, one at a time\n\n" + "\n".join(lines)


def _warnings(summary: Summary) -> str:
    found = warnings(summary)
    if not found:
        return ""
    return "### Warnings\n\n" + "\n".join(f"- {escape(warning)}" for warning in found)


def _files(summary: Summary) -> str:
    lines = [f"- {escape(name)}: {code(path)}" for name, path in listed(summary.artifacts)]
    return "### Files\n\n" + "\n".join(lines) if lines else ""
