"""Documents as GitHub's Markdown, as a pull request shows them.

Names from traces are escaped, so that no op renders as markup.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence

from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.document import (
    NEXT,
    Column,
    Document,
    Figures,
    Section,
    Statement,
    Table,
)
from instrumentor_analysis.shared.caveats import by_weight

#: Characters of Markdown; an underscore within a word is not markup.
_MARKUP = re.compile(r"[\\`*{}\[\]<>#|~&]|(?<!\w)_|_(?!\w)")


def render(documents: Sequence[Document]) -> str:
    """The text, ending in a newline; charts, code and ops are left out."""
    return _joined(block for each in documents for block in _blocks(each)) + "\n"


def _joined(blocks: Iterable[str]) -> str:
    return "\n\n".join(block for block in blocks if block)


def _blocks(document: Document) -> Iterator[str]:
    yield f"## {escape(document.title)}"
    yield escape(document.subtitle)
    verdict = document.verdict
    if verdict is not None:
        yield f"**{verdict.name}**: {escape(verdict.reason)}."
        levers = enumerate(verdict.levers, start=1)
        lines = [f"{at}. **{escape(each.what)}**: {marked(each.said)}" for at, each in levers]
        yield _listed(NEXT, lines)
    yield "\n".join(map(_statement, document.statements))
    yield from map(_figures, document.figures)
    heavier = by_weight(document.warnings, notes=False)
    warnings = [escape(each.labelled) for each in heavier]
    notes = [f"- {escape(each.labelled)}" for each in document.warnings if each not in heavier]
    if document.folded:
        # In a pull request the discussion below must stay in reach, and what to doubt in sight.
        yield "\n".join(["> [!WARNING]", *(f"> {text}  " for text in warnings)]) if warnings else ""
        yield from map(_tables, document.sections[:1])
        yield from map(_folded, document.sections[1:])
    else:
        yield from map(_section, document.sections)
        yield _listed("Warnings", [f"- {text}" for text in warnings])
    yield _fold("Notes", "\n".join(notes)) if notes else ""
    yield _listed("Files", [f"- {escape(name)}: {code(path)}" for name, path in document.files])


def _listed(title: str, lines: Sequence[str]) -> str:
    return f"### {title}\n\n" + "\n".join(lines) if lines else ""


def _statement(one: Statement) -> str:
    word = f"**{one.word}**" if one.tone in ("good", "bad") else one.word
    said = escape(one.said.removeprefix(f"{one.word}: "))
    return f"- {word} · {escape(one.what)}: {said}" if one.what else f"- {said}"


def _figures(figures: Figures) -> str:
    lines = figures.lines
    columns = (
        Column("", [line.name for line in lines], right=False),
        Column("value", [line.value for line in lines]),
        Column("", [line.note for line in lines], right=False),
    )
    return _section(Section(figures.title, (Table(columns),)))


def _section(section: Section) -> str:
    return _joined([f"### {escape(section.title)}", _tables(section), escape(section.text)])


def _folded(section: Section) -> str:
    # <summary> is HTML, where a backslash would show and not stop a tag.
    summary = html.escape(formatting.visible(section.title), quote=False)
    return _fold(summary, _tables(section))


def _fold(summary: str, text: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def _tables(section: Section) -> str:
    return _joined(map(table, section.tables))


def escape(text: str) -> str:
    """Foreign text as plain text: markup characters escaped, control characters shown."""
    return _MARKUP.sub(r"\\\g<0>", formatting.visible(text))


def marked(text: str) -> str:
    """A text of ours with its commands as code: those in backticks, and one at the end."""
    head, colon, command = text.rpartition(": instrument ")
    if colon:
        return f"{marked(head)}: {code(f'instrument {command}')}"
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a single backtick
        return escape(text)
    return "".join(code(each) if at % 2 else escape(each) for at, each in enumerate(parts))


def code(text: str) -> str:
    """Foreign text as code, in a table cell too; safe for any number of backticks."""
    shown = formatting.visible(text).replace("|", "\\|")
    runs = [len(run) for run in re.findall("`+", shown)]
    # CommonMark: the fence is longer than any run of backticks inside, and one blank on both sides
    # of the text is taken off. A | ends a table cell even inside of code.
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
    return "\n\n".join(part for part in (rows, escape(one.said())) if part)


def _cell(column: Column, row: int) -> str:
    shown = code if column.is_foreign(row) else escape
    return shown(column.texts[row]) + column.tail(row)
