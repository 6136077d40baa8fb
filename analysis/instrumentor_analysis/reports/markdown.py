"""summary.md: the summary as a pull request shows it.

Tables of GitHub's Markdown; names from traces are escaped, so that no op renders as markup.
"""

from __future__ import annotations

import re

from instrumentor_analysis.model import Summary
from instrumentor_analysis.reports import breakdown, words
from instrumentor_analysis.reports.document import Column, Section, Table
from instrumentor_analysis.reports.files import listed
from instrumentor_analysis.reports.headline import Figures, figures, subtitle, title, warnings

#: An underscore within a word is no markup.
_MARKUP = re.compile(r"[\\`*{}\[\]<>#|~&]|(?<!\w)_|_(?!\w)")
_MOST = breakdown.Most(ops=15, savings=15, places=10, rest=1000)


def render(summary: Summary) -> str:
    """The document, ending in a newline."""
    blocks = [
        f"## {escape(title(summary))}",
        escape(subtitle(summary)),
        _verdict(summary),
        _levers(summary),
        *(_figures(each) for each in figures(summary)),
        *(_section(each) for each in breakdown.sections(summary, _MOST)),
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


def table(one: Table) -> str:
    """A table and its note; bars are left out."""
    columns = [column for column in one.columns if not column.shares]
    lines = [
        [escape(column.title) for column in columns],
        ["---:" if column.right else "---" for column in columns],
        *([_cell(column, at) for column in columns] for at in range(one.rows)),
    ]
    rows = "\n".join("| " + " | ".join(line) + " |" for line in lines) if one.rows else ""
    return "\n\n".join(part for part in (rows, escape(one.note)) if part)


def _cell(column: Column, row: int) -> str:
    shown = code if column.is_foreign(row) else escape
    return shown(column.texts[row]) + column.tail(row)


def _verdict(summary: Summary) -> str:
    if summary.verdict is None:
        return ""
    return f"**{summary.verdict.name}**: {escape(summary.verdict.reason)}."


def _figures(figures: Figures) -> str:
    lines = figures.lines
    columns = (
        Column("", [line.name for line in lines], right=False),
        Column("value", [line.value for line in lines]),
        Column("", [line.note for line in lines], right=False),
    )
    return _section(Section(figures.title, (Table(columns),)))


def _section(section: Section) -> str:
    blocks = [f"### {escape(section.title)}", *(table(each) for each in section.tables)]
    return "\n\n".join(block for block in (*blocks, escape(section.text)) if block)


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
    return "### Warnings\n\n" + "\n".join(f"- {escape(str(warning))}" for warning in found)


def _files(summary: Summary) -> str:
    lines = [f"- {escape(name)}: {code(path)}" for name, path in listed(summary.artifacts)]
    return "### Files\n\n" + "\n".join(lines) if lines else ""
